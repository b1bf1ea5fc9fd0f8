package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

// behaviour E1, E2, E3, E4, E5; hazards 4, 152, 154, 162, 165, 166, 167, 170, 237, 253.
func TestEveryHelloGoesWhereItsNameAndSourceSay(t *testing.T) {
	w := newWorld(t)
	w.webServers(t)
	w.start().everywhere(t)
}

// The same on the newest Envoy: the matcher's field is still marked as work in
// progress, so a new release must not change what it does unnoticed.
func TestTheNewestEnvoyDecidesAlike(t *testing.T) {
	envoy, err := Newest(t.Context(), "testdata/newest.txt")
	require.NoError(t, err)
	w := newWorld(t)
	w.webServers(t)
	w.UseEnvoy(envoy)
	w.start().everywhere(t)
	held := w.open(20, WorkerA, 6443, Named(""), "a-api")
	for i := 1; i <= 20; i++ {
		require.NoError(t, w.WriteSnapshot(variant(t, i)))
		w.inForce(fmt.Sprintf("v%d", i))
	}
	require.Equal(t, len(held), alive(held))
}

// everywhere asks on both addresses and on all ports.
func (w *world) everywhere(t *testing.T) {
	t.Helper()
	w.matrix(t)
	w.podMatrix(t)
	w.hostMatrix(t)
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

// podMatrix asks on the pod IP, which knows names and never sources: what arrives
// there went through address translation (behaviour E1, E2; hazard 170). The hub
// stands for every pod, also for one whose address a worker has on the VLAN.
func (w *world) podMatrix(t *testing.T) {
	t.Helper()
	const closed = "closed"
	table := map[uint16][]struct {
		hello string
		data  []byte
		want  string
	}{
		6443: {
			{"own API name of A", Named(fqdn("api", "a")), "a-api"},
			{"internal API name of B", Named(fqdn("api-int", "b")), "b-api"},
			{"upper case", Named(upper(fqdn("api", "a"))), "a-api"},
			{"15,000 bytes of hello", Hello{Name: []byte(fqdn("api", "b")), Pad: 15000}.Bytes(), "b-api"},
			{"one byte in each record", Hello{Name: []byte(fqdn("api", "a")), Record: 1}.Bytes(), "a-api"},
			{"no name", Named(""), closed},
			{"an alias", Named("kubernetes.default.svc"), closed},
			{"junk", Named("www.example.net"), closed},
			{"a name of port 443", Named(fqdn("oauth", "b")), closed},
			{"trailing dot", Named(fqdn("api", "b") + "."), closed},
			{"an address as name", Named(PodIP.String()), closed},
			{"plain HTTP", []byte("GET /version HTTP/1.1\r\nHost: x\r\n\r\n"), closed},
			{"more than 16 KiB of hello", oversized(), closed},
		},
		443: {
			{"oauth of A", Named(fqdn("oauth", "a")), "a-oauth"},
			{"oauth of B", Named(fqdn("oauth", "b")), "b-oauth"},
			{"ignition of A", Named(fqdn("ignition", "a")), "a-ignition"},
			{"konnectivity of B", Named(fqdn("konnectivity", "b")), "b-konnectivity"},
			{"apps of A", Named("console.apps.example-hcp-a.clusters.example.com"), "a-apps"},
			{"the apps domain itself", Named("apps.example-hcp-a.clusters.example.com"), closed},
			{"upper case", Named(upper(fqdn("oauth", "a"))), "a-oauth"},
			{"an alias", Named("kubernetes"), closed},
			{"no name", Named(""), closed},
			{"junk", Named("www.example.net"), closed},
			{"an API name of port 6443", Named(fqdn("api", "a")), closed},
			{"plain HTTP", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), closed},
			{"more than 16 KiB of hello", oversized(), closed},
		},
	}
	for port, rows := range table {
		for _, r := range rows {
			require.Equal(t, r.want, Probe(t.Context(), w.Hub, netip.Addr{}, netip.AddrPortFrom(PodIP, port), r.data, 0), "pod port %d, %s", port, r.hello)
		}
	}
}

// hostMatrix asks for every kind of Host on port 80, from both sides.
func (w *world) hostMatrix(t *testing.T) {
	t.Helper()
	const appsA, appsB, lost = ".apps.example-hcp-a.clusters.example.com", ".apps.example-hcp-b.clusters.example.com", "404"
	rows := []struct{ host, want string }{
		{"console" + appsA, "a-web"},
		{"x.y" + appsA, "a-web"},
		{"console" + appsA + ":80", "a-web"},
		{upper("console" + appsA), "a-web"},
		{"console" + appsB, "b-web"},
		{appsA[1:], lost},
		{"x" + appsA[1:], lost},
		{fqdn("oauth", "a"), lost},
		{"kubernetes.default.svc", lost},
		{"www.example.net", lost},
		{"192.0.2.4", lost},
	}
	ask := func(from *lab.Host, source netip.Addr, to netip.Addr, host string) string {
		c, err := Dial(t.Context(), from, source, netip.AddrPortFrom(to, 80))
		require.NoError(t, err)
		got := speak(t, c, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		if got.code != http.StatusOK {
			return strconv.Itoa(got.code)
		}
		var seen struct{ Name string }
		require.NoError(t, json.Unmarshal([]byte(got.body), &seen))
		return seen.Name
	}
	for _, r := range rows {
		for _, source := range []netip.Addr{WorkerA, WorkerB, Stranger} {
			require.Equal(t, r.want, ask(w.VMs, source, VLANIP, r.host), "Host %s from %s", r.host, source)
		}
		require.Equal(t, r.want, ask(w.Hub, netip.Addr{}, PodIP, r.host), "Host %s on the pod side", r.host)
	}
	require.Contains(t, w.from(WorkerA, 80, Named("console"+appsA), 0), "400 Bad Request", "a hello is no request")
}

// webServers gives both attachments a router that speaks HTTP.
func (w *world) webServers(t *testing.T) {
	t.Helper()
	webServer(t, w, "a-web", netip.AddrPortFrom(VIPA, 80))
	webServer(t, w, "b-web", netip.AddrPortFrom(VIPB, 80))
	w.edit(func(p map[string]any) {
		p["backends"] = append(p["backends"].([]any), map[string]any{
			"name": "example-hcp-b/apps-http", "hostnames": []any{"*.apps.example-hcp-b.clusters.example.com"}, "port": 80,
			"protocol": "PROXY_PROTOCOL_HTTP", "endpoints": []any{map[string]any{"ip": VIPB.String(), "port": 80}}, "podSide": true,
		})
	})
}

// oversized is a hello that no inspector reads to its end.
func oversized() []byte {
	return Hello{Name: []byte(fqdn("api", "b")), Pad: 20000, Record: 16000}.Bytes()
}
