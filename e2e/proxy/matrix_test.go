package proxy

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// behaviour E1, E2, E3, E4, E5; hazards 4, 152, 154, 162, 165, 166, 167, 170, 237, 253.
func TestEveryHelloGoesWhereItsNameAndSourceSay(t *testing.T) {
	newWorld(t).start().matrix(t)
}

// The same on the newest Envoy: the matcher's field is still marked as work in
// progress, so a new release must not change what it does unnoticed.
func TestTheNewestEnvoyDecidesAlike(t *testing.T) {
	envoy, err := Newest(t.Context(), "testdata/newest.txt")
	require.NoError(t, err)
	w := newWorld(t)
	w.UseEnvoy(envoy)
	w.start().matrix(t)
	held := w.open(20, WorkerA, 6443, Named(""), "a-api")
	for i := 1; i <= 20; i++ {
		require.NoError(t, w.WriteSnapshot(variant(t, i)))
		w.inForce(fmt.Sprintf("v%d", i))
	}
	require.Equal(t, len(held), alive(held))
}

// matrix asks for every kind of hello, on both ports, from a worker of A, a
// worker of B and a stranger.
func (w *world) matrix(t *testing.T) {
	t.Helper()
	const closed = "closed"
	type row struct {
		hello         string
		data          []byte
		a, b, unknown string
	}
	same := func(hello string, data []byte, want string) row { return row{hello, data, want, want, want} }
	table := map[uint16][]row{
		6443: {
			same("own API name of A", Named(fqdn("api", "a")), "a-api"),
			same("internal API name of B", Named(fqdn("api-int", "b")), "b-api"),
			same("upper case", Named(upper(fqdn("api", "a"))), "a-api"),
			{"no name", Named(""), "a-api", "b-api", closed},
			{"kubernetes", Named("kubernetes"), "a-api", "b-api", closed},
			{"kubernetes.default.svc", Named("kubernetes.default.svc"), "a-api", "b-api", closed},
			{"openshift.default.svc", Named("openshift.default.svc"), "a-api", "b-api", closed},
			{"junk", Named("www.example.net"), "a-api", "b-api", closed},
			{"a name of port 443", Named(fqdn("oauth", "b")), "a-api", "b-api", closed},
			{"trailing dot", Named(fqdn("api", "b") + "."), "a-api", "b-api", closed},
			{"an address as name", Named("192.0.2.4"), "a-api", "b-api", closed},
			{"plain HTTP", []byte("GET /version HTTP/1.1\r\nHost: x\r\n\r\n"), "a-api", "b-api", closed},
			same("15,000 bytes of hello", Hello{Name: []byte(fqdn("api", "b")), Pad: 15000}.Bytes(), "b-api"),
			{"more than 16 KiB of hello", oversized(), "a-api", "b-api", closed},
		},
		443: {
			same("oauth of A", Named(fqdn("oauth", "a")), "a-oauth"),
			same("oauth of B", Named(fqdn("oauth", "b")), "b-oauth"),
			same("ignition of A", Named(fqdn("ignition", "a")), "a-ignition"),
			same("konnectivity of B", Named(fqdn("konnectivity", "b")), "b-konnectivity"),
			same("upper case", Named(upper(fqdn("oauth", "a"))), "a-oauth"),
			same("apps of A", Named("console.apps.example-hcp-a.clusters.example.com"), "a-apps"),
			same("apps of A, deeper", Named("x.y.apps.example-hcp-a.clusters.example.com"), "a-apps"),
			same("the apps domain itself", Named("apps.example-hcp-a.clusters.example.com"), closed),
			same("almost the apps domain", Named("xapps.example-hcp-a.clusters.example.com"), closed),
			{"kubernetes", Named("kubernetes"), "a-api", "b-api", closed},
			{"kubernetes.default", Named("kubernetes.default"), "a-api", "b-api", closed},
			{"kubernetes.default.svc", Named("kubernetes.default.svc"), "a-api", "b-api", closed},
			{"kubernetes.default.svc.cluster.local", Named("kubernetes.default.svc.cluster.local"), "a-api", "b-api", closed},
			{"no name", Named(""), "a-konnectivity", "b-konnectivity", closed},
			same("junk", Named("www.example.net"), closed),
			same("an API name of port 6443", Named(fqdn("api", "a")), closed),
			same("trailing dot", Named(fqdn("oauth", "a")+"."), closed),
			same("an address as name", Named("192.0.2.4"), closed),
			same("empty name", Hello{Name: []byte{}}.Bytes(), closed),
			same("a NUL in the name", Named("oauth\x00.example-hcp-a.clusters.example.com"), closed),
			same("plain HTTP", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), closed),
			same("more than 16 KiB of hello", oversized(), closed),
		},
	}
	for port, rows := range table {
		for _, r := range rows {
			for source, want := range map[netip.Addr]string{WorkerA: r.a, WorkerB: r.b, Stranger: r.unknown} {
				require.Equal(t, want, w.from(source, port, r.data, 0), "port %d, %s, from %s", port, r.hello, source)
			}
		}
	}
}

// oversized is a hello that no inspector reads to its end.
func oversized() []byte {
	return Hello{Name: []byte(fqdn("api", "b")), Pad: 20000, Record: 16000}.Bytes()
}
