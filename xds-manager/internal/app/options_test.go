package app

import (
	"bytes"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func envOf(m map[string]string) Lookup {
	return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
}

func TestAFlagBeatsTheEnvironment(t *testing.T) {
	o, err := ParseOptions([]string{"--snapshot", "/flag", "--drain-time", "7s"}, envOf(map[string]string{
		"OOOI_SNAPSHOT": "/env", "POD_IP": "10.128.0.4", "OOOI_CHILD": "ns/p", "OOOI_DRAIN_TIME": "9s", "OOOI_DRAIN_WAIT": "3s",
	}), io.Discard)
	require.NoError(t, err)
	require.Equal(t, "/flag", o.Snapshot)
	require.Equal(t, "10.128.0.4", o.PodIP)
	require.Equal(t, 7*time.Second, o.DrainTime)
	require.Equal(t, 3*time.Second, o.DrainWait)
	require.Equal(t, "ns/p", o.NodeID())
}

func TestWrongOptionsAreRefusedInWords(t *testing.T) {
	cases := []struct {
		name string
		args []string
		env  map[string]string
		want string
	}{
		{"nothing to serve", nil, nil, "one of --snapshot and --hub"},
		{"a stream without a child", []string{"--hub", "hub:8443"}, nil, "--hub needs --child"},
		{"a child without a namespace", []string{"--snapshot", "f", "--child", "p"}, nil, "NAMESPACE/NAME"},
		{"a hub without a port", []string{"--hub", "hub", "--child", "ns/p"}, nil, "--hub"},
		{"an IPv6 pod address", []string{"--snapshot", "f", "--pod-ip", "2001:db8::1"}, nil, "--pod-ip"},
		{"a listen address without an address", []string{"--snapshot", "f", "--listen", ":9090"}, nil, "--listen"},
		{"a fence that is neither", []string{"--snapshot", "f"}, map[string]string{"OOOI_FENCE": "auto"}, "--fence"},
		{"an unreadable drain time", []string{"--snapshot", "f"}, map[string]string{"OOOI_DRAIN_TIME": "600"}, "--drain-time"},
		{"an argument too many", []string{"--snapshot", "f", "x"}, nil, `unknown argument "x"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseOptions(c.args, envOf(c.env), io.Discard)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// behaviour B5: an announcement goes where nobody is.
func TestAnnouncementsGoToTheHighestAddressThatNobodyHas(t *testing.T) {
	p := netip.MustParsePrefix("192.0.2.0/29")
	avoid := map[netip.Addr]bool{netip.MustParseAddr("192.0.2.6"): true}
	got, ok := quietAddress(p, avoid)
	require.True(t, ok)
	require.Equal(t, netip.MustParseAddr("192.0.2.5"), got)
	for a := p.Addr(); p.Contains(a); a = a.Next() {
		avoid[a] = true
	}
	_, ok = quietAddress(p, avoid)
	require.False(t, ok)
}

func TestTheBootstrapIsWrittenWholeInTheFormOfItsName(t *testing.T) {
	dir := t.TempDir()
	for name, begins := range map[string]string{"b.yaml": "admin:", "b.json": "{"} {
		path := filepath.Join(dir, "new", name)
		require.NoError(t, WriteBootstrap([]string{"--out", path}, envOf(map[string]string{"OOOI_CHILD": "ns/p", "POD_IP": "127.0.0.1"}), io.Discard))
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(b, []byte(begins)), "%s", b[:20])
		require.Contains(t, string(b), "ns/p")
	}
}

func TestTheBootstrapTakesEnvoysMemoryLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.yaml")
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"a flag":                        {args: []string{"--envoy-memory", "1073741824"}, want: `maxHeapSizeBytes: "536870912"`},
		"the environment":               {env: map[string]string{"OOOI_ENVOY_MEMORY": "2147483648"}, want: `maxHeapSizeBytes: "1073741824"`},
		"a flag beats it":               {args: []string{"--envoy-memory", "1073741824"}, env: map[string]string{"OOOI_ENVOY_MEMORY": "7"}, want: `maxHeapSizeBytes: "536870912"`},
		"0 is what no limit looks like": {env: map[string]string{"OOOI_ENVOY_MEMORY": "0"}},
		"nothing":                       {},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, WriteBootstrap(append([]string{"--out", path}, c.args...), envOf(c.env), io.Discard))
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Contains(t, string(b), c.want)
			require.Equal(t, c.want != "", strings.Contains(string(b), "fixed_heap"))
		})
	}
	require.ErrorContains(t, WriteBootstrap([]string{"--out", path, "--envoy-memory", "1Gi"}, envOf(nil), io.Discard), "no number of bytes")
}

func TestCheckNamesEveryProblem(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Check([]string{"../translate/testdata/two-attachments/in.json"}, &out, io.Discard))
	require.Contains(t, out.String(), "15 backends, 3 listeners (and 4 of the pod side with --pod-ip), 0 problems")
	out.Reset()
	require.ErrorIs(t, Check([]string{"../translate/testdata/bad-backends/in.json"}, &out, io.Discard), ErrFound)
	require.Contains(t, out.String(), `InvalidBackend: backend "x/none": it has no endpoint`)
	require.ErrorContains(t, Check([]string{"absent"}, &out, io.Discard), "reading snapshot")
}

func TestRoutesExplainsWhichChainWinsAndWhy(t *testing.T) {
	const file = "../translate/testdata/two-attachments/in.json"
	cases := []struct {
		name string
		args []string
		want string
		err  error
	}{
		{"an alias", []string{"--port", "443", "--sni", "kubernetes", "--source", "192.0.2.150"}, `the name "kubernetes" from source 192.0.2.150 leads to "example-hcp-b/alias-tls"`, nil},
		{"a stranger with an alias", []string{"--port", "443", "--sni", "kubernetes", "--source", "192.0.2.50"}, "is for 2 known sources, and 192.0.2.50 is none of them", ErrFound},
		{"an unknown name on 6443", []string{"--port", "6443", "--sni", "x", "--source", "192.0.2.101"}, `backend example-hcp-a/alias-api`, nil},
		{"the chain that the access log shows", []string{"--port", "6443", "--source", "192.0.2.101"}, `by the filter chain of example-hcp-a/api`, nil},
		{"plain bytes", []string{"--port", "443", "--plain", "--source", "192.0.2.101"}, "port 443 takes nothing else", ErrFound},
		{"a Host with a port", []string{"--port", "80", "--sni", "X.apps.example-hcp-a.clusters.example.com:80", "--source", "192.0.2.101"}, "endpoint 192.0.2.200:80", nil},
		{"the pod side", []string{"--port", "443", "--pod", "--sni", "kubernetes"}, "unknown on port 443", ErrFound},
		{"a port that is not there", []string{"--port", "22", "--source", "192.0.2.101"}, "nothing listens", ErrFound},
		{"everything", nil, "vlan-192.0.2.4-6443", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			require.ErrorIs(t, Routes(append([]string{"--snapshot", file}, c.args...), &out, io.Discard), c.err)
			require.Contains(t, out.String(), c.want)
		})
	}
}

func TestOnlyConnectionsToBackendsCount(t *testing.T) {
	text := "cluster.a/api.upstream_cx_active: 3\ncluster.admin.upstream_cx_active: 1\ncluster.xds.upstream_cx_active: 1\ncluster.b.upstream_cx_active: 2\n"
	require.Equal(t, 5, sumGauges(text, "cluster.xds.", "cluster.admin."))
}
