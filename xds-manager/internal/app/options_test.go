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
	served := func(args ...string) []string { return append([]string{"--snapshot", "f"}, args...) }
	hubbed := func(args ...string) []string {
		return append([]string{"--hub", "hub:8443", "--child", "ns/p"}, args...)
	}
	cases := []struct {
		name string
		args []string
		env  map[string]string
		want string
	}{
		{"nothing to serve", nil, nil, "nothing to serve: give --snapshot or --hub"},
		{"a stream without a child", []string{"--hub", "hub:8443"}, nil, "--hub needs --child"},
		{"a stream without a CA", hubbed("--hub-ca", ""), nil, "--hub needs --hub-ca"},
		{"a stream without a token", hubbed("--token", ""), nil, "--hub needs --token"},
		{"a hub without a port", hubbed("--hub", "foo"), nil, `invalid value "foo" for flag -hub: want HOST:PORT`},
		{"a hub's variable without a port", served(), map[string]string{"OOOI_HUB": "foo"}, `invalid value "foo" for $OOOI_HUB: want HOST:PORT`},
		{"a hub that is a colon", hubbed("--hub", ":"), nil, `invalid value ":" for flag -hub`},
		{"a hub without a host", hubbed("--hub", ":8443"), nil, "for flag -hub"},
		{"a hub with a scheme", hubbed("--hub", "https://hub:8443"), nil, "for flag -hub"},
		{"a hub on port 0", hubbed("--hub", "hub:0"), nil, "for flag -hub"},
		{"a hub at an address that is none", hubbed("--hub", "192.0.2.300:8443"), nil, "for flag -hub"},
		{"a child without a namespace", served("--child", "p"), nil, `invalid value "p" for flag -child: want NAMESPACE/NAME`},
		{"a child with too much", served("--child", "a/b/c"), nil, "for flag -child"},
		{"a child that no cluster has", served(), map[string]string{"OOOI_CHILD": "Ns/p"}, "for $OOOI_CHILD"},
		{"an address of the pod that is none", served("--pod-ip", "x"), nil, `invalid value "x" for flag -pod-ip: want the IPv4 address`},
		{"an IPv6 pod address", served("--pod-ip", "2001:db8::1"), nil, "for flag -pod-ip"},
		{"nobody's address", served(), map[string]string{"POD_IP": "0.0.0.0"}, "for $POD_IP"},
		{"a listen address that is none", served("--listen", "x"), nil, `invalid value "x" for flag -listen: want IP:PORT`},
		{"a listen address without an address", served("--listen", ":9090"), nil, "for flag -listen"},
		{"a fence that is neither", served(), map[string]string{"OOOI_FENCE": "auto"}, `invalid value "auto" for $OOOI_FENCE: want on or off`},
		{"a drain time without its unit", served(), map[string]string{"OOOI_DRAIN_TIME": "600"}, `invalid value "600" for $OOOI_DRAIN_TIME: want a time from 1s to 24h`},
		{"a drain time that Envoy cannot have", served("--drain-time", "10ms"), nil, `invalid value "10ms" for flag -drain-time`},
		{"a drain time of days", served("--drain-time", "48h"), nil, "for flag -drain-time"},
		{"a wait below zero", served("--drain-wait", "-1s"), nil, "for flag -drain-wait: want a time from 0s to 24h"},
		{"a socket that is nowhere", served("--xds-socket", ""), nil, "--xds-socket must not be empty"},
		{"a socket that Linux does not take", served("--admin-socket", "/"+strings.Repeat("x", 107)), nil, "want a path of at most 107 bytes"},
		{"an argument too many", served("x"), nil, `unknown argument "x"`},
		{"an unknown flag", []string{"--nope"}, nil, "-nope"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseOptions(c.args, envOf(c.env), io.Discard)
			require.ErrorContains(t, err, c.want)
			require.ErrorIs(t, err, ErrUsage)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestOptionsThatCanBe(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		env  map[string]string
	}{
		{"a hub by address", []string{"--hub", "192.0.2.9:8443", "--child", "ns/p"}, nil},
		{"a hub by IPv6 address", []string{"--hub", "[2001:db8::9]:8443", "--child", "ns/p"}, nil},
		{"no administration", []string{"--snapshot", "f", "--admin-socket", ""}, nil},
		{"a flag beats a variable that is wrong", []string{"--snapshot", "f", "--fence", "on"}, map[string]string{"OOOI_FENCE": "maybe"}},
		{"empty variables beside a hub", []string{"--hub", "hub:8443", "--child", "ns/p"}, map[string]string{"OOOI_HUB_CA": "", "OOOI_TOKEN": "", "OOOI_DRAIN_TIME": ""}},
		{"empty variables are none", []string{"--snapshot", "f"}, map[string]string{
			"OOOI_HUB": "", "OOOI_CHILD": "", "OOOI_LISTEN": "", "OOOI_FENCE": "", "POD_IP": "",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseOptions(c.args, envOf(c.env), io.Discard)
			require.NoError(t, err)
		})
	}
}

func TestABootstrapThatCannotBeIsNotWritten(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		env  map[string]string
		want string
	}{
		{"a child without a namespace", []string{"--child", "p"}, nil, `invalid value "p" for flag -child: want NAMESPACE/NAME`},
		{"an IPv6 pod address", nil, map[string]string{"POD_IP": "2001:db8::1"}, "for $POD_IP"},
		{"a memory limit with a unit", []string{"--envoy-memory", "1Gi"}, nil, `invalid value "1Gi" for flag -envoy-memory: want a number of bytes`},
		{"a memory limit in megabytes", nil, map[string]string{"OOOI_ENVOY_MEMORY": "1024"}, `invalid value "1024" for $OOOI_ENVOY_MEMORY`},
		{"no socket", []string{"--xds-socket", ""}, nil, "--xds-socket must not be empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "b.yaml")
			err := WriteBootstrap(append([]string{"--out", path}, c.args...), envOf(c.env), io.Discard)
			require.ErrorContains(t, err, c.want)
			require.ErrorIs(t, err, ErrUsage)
			require.NoFileExists(t, path)
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
