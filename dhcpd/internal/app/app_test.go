package app

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/lease"
	"github.com/densityops/oooi/dhcpd/internal/netns"
	"github.com/densityops/oooi/dhcpd/internal/report"
)

func env(m map[string]string) func(string) (string, bool) {
	return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
}

func TestFlagsBeatTheEnvironment(t *testing.T) {
	e := env(map[string]string{
		"OOOI_SNAPSHOT": "/env", "OOOI_CHILD": "ns/infra-dhcp", "OOOI_HUB": "hub:8443", "OOOI_FENCE": "off", "POD_UID": "uid",
	})
	o, code := ParseOptions([]string{"--snapshot", "/flag", "--log-level", "debug"}, e, io.Discard, io.Discard)
	require.Equal(t, -1, code)
	require.Equal(t, Options{
		Snapshot: "/flag", Hub: "hub:8443", HubCA: "/etc/oooi/ca.crt", Token: "/var/run/secrets/oooi/token",
		Namespace: "ns", Name: "infra-dhcp", Lease: "infra-dhcp", PodUID: "uid", LogLevel: slog.LevelDebug,
	}, o)
	o, code = ParseOptions([]string{"--snapshot", "x", "--child", "ns/alone"}, env(nil), io.Discard, io.Discard)
	require.Equal(t, -1, code)
	require.Equal(t, "alone-dhcp", o.Lease)
	require.True(t, o.Fence)
}

func TestOptionsThatCannotBe(t *testing.T) {
	served := func(args ...string) []string { return append([]string{"--snapshot", "x"}, args...) }
	hubbed := func(args ...string) []string {
		return append([]string{"--hub", "hub:8443", "--child", "ns/n"}, args...)
	}
	for _, c := range []struct {
		name string
		args []string
		env  map[string]string
		want string
	}{
		{"nothing to serve", nil, nil, "nothing to serve: give --snapshot or --hub"},
		{"a hub without a resource", []string{"--hub", "h:1"}, nil, "--hub needs --child"},
		{"a hub without a CA", hubbed("--hub-ca", ""), nil, "--hub needs --hub-ca"},
		{"a hub without a token", hubbed("--token", ""), nil, "--hub needs --token"},
		{"a hub without a port", hubbed("--hub", "foo"), nil, `invalid value "foo" for flag -hub: want HOST:PORT`},
		{"a hub's variable without a port", served(), map[string]string{"OOOI_HUB": "foo"}, `invalid value "foo" for $OOOI_HUB: want HOST:PORT`},
		{"a hub that is a colon", hubbed("--hub", ":"), nil, `invalid value ":" for flag -hub`},
		{"a hub without a host", hubbed("--hub", ":8443"), nil, "for flag -hub"},
		{"a hub with a scheme", hubbed("--hub", "https://hub:8443"), nil, "for flag -hub"},
		{"a hub with a path", hubbed("--hub", "hub/x:8443"), nil, "for flag -hub"},
		{"a hub on port 0", hubbed("--hub", "hub:0"), nil, "for flag -hub"},
		{"a hub on a port that is none", hubbed("--hub", "hub:70000"), nil, "for flag -hub"},
		{"a hub at an address that is none", hubbed("--hub", "192.0.2.300:8443"), nil, "for flag -hub"},
		{"a hub at no one's address", hubbed("--hub", "0.0.0.0:8443"), nil, "for flag -hub"},
		{"a resource without a namespace", served("--child", "n"), nil, `invalid value "n" for flag -child: want NAMESPACE/NAME`},
		{"a resource without a name", served("--child", "n/"), nil, "for flag -child"},
		{"a resource with too much", served("--child", "a/b/c"), nil, "for flag -child"},
		{"a resource that no cluster has", served(), map[string]string{"OOOI_CHILD": "Ns/n"}, `invalid value "Ns/n" for $OOOI_CHILD`},
		{"a pod's address that is none", served("--pod-ip", "x"), nil, `invalid value "x" for flag -pod-ip: want the IPv4 address`},
		{"a pod's address of IPv6", served(), map[string]string{"POD_IP": "2001:db8::1"}, "for $POD_IP"},
		{"a pod's address that is nobody's", served("--pod-ip", "0.0.0.0"), nil, "for flag -pod-ip"},
		{"a listener without a port", served("--listen", "x"), nil, `invalid value "x" for flag -listen: want IP:PORT`},
		{"a listener on a port that is none", served("--listen", "127.0.0.1:70000"), nil, "for flag -listen"},
		{"a listener of a pod without an address", served(), map[string]string{"OOOI_LISTEN": "$(POD_IP):9091"}, "for $OOOI_LISTEN"},
		{"a Lease with a slash", served("--lease", "a/b"), nil, `invalid value "a/b" for flag -lease: want a name`},
		{"a fence that is neither on nor off", served("--fence", "maybe"), nil, `invalid value "maybe" for flag -fence: want on or off`},
		{"a fence that is true", served(), map[string]string{"OOOI_FENCE": "true"}, `invalid value "true" for $OOOI_FENCE`},
		{"an unknown level", served("--log-level", "loud"), nil, `invalid value "loud" for flag -log-level: want debug, info, warn or error`},
		{"a level between two", served(), map[string]string{"OOOI_LOG_LEVEL": "info+1"}, "for $OOOI_LOG_LEVEL: want debug"},
		{"an argument too many", served("y"), nil, `unexpected argument "y"`},
		{"an unknown flag", []string{"--nope"}, nil, "flag provided but not defined: -nope"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var said bytes.Buffer
			_, code := ParseOptions(c.args, env(c.env), io.Discard, &said)
			require.Equal(t, misused, code)
			require.Contains(t, said.String(), c.want)
			require.Equal(t, 1, strings.Count(said.String(), "\n"), "one line")
		})
	}
}

func TestOptionsThatCanBe(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		env  map[string]string
	}{
		{"a hub by address", []string{"--hub", "192.0.2.9:8443", "--child", "ns/n"}, nil},
		{"a hub by IPv6 address", []string{"--hub", "[2001:db8::9]:8443", "--child", "ns/n"}, nil},
		{"a hub by a name with its final dot", []string{"--hub", "hub.example.com.:8443", "--child", "ns/a.b"}, nil},
		{"a listener on any address", []string{"--snapshot", "x", "--listen", ":9091"}, nil},
		{"a listener on any port", []string{"--snapshot", "x", "--listen", "127.0.0.1:0"}, nil},
		{"a level in capitals", []string{"--snapshot", "x", "--log-level", "WARN"}, nil},
		{"a flag beats a variable that is wrong", []string{"--snapshot", "x", "--fence", "off"}, map[string]string{"OOOI_FENCE": "maybe"}},
		{"empty variables beside a hub", []string{"--hub", "hub:8443", "--child", "ns/n"}, map[string]string{"OOOI_HUB_CA": "", "OOOI_TOKEN": ""}},
		{"empty variables are none", []string{"--snapshot", "x"}, map[string]string{
			"OOOI_HUB": "", "OOOI_CHILD": "", "OOOI_LISTEN": "", "OOOI_LEASE": "", "OOOI_FENCE": "", "OOOI_LOG_LEVEL": "", "POD_IP": "",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var said bytes.Buffer
			_, code := ParseOptions(c.args, env(c.env), io.Discard, &said)
			require.Equal(t, -1, code, said.String())
		})
	}
}

func TestMachinesThatAreNowhereAreAnErrorAtTheStart(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, objects := range []string{filepath.Join(dir, "none"), file} {
		_, err := New(Options{Snapshot: "x", Objects: objects}, slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, "--objects")
		require.ErrorContains(t, err, objects)
	}
}

const snapshotJSON = `{"version": "v1", "dhcp": {"cidr": "192.0.2.0/24", "gateway": "192.0.2.1", "serverIp": "192.0.2.2",
 "range": {"start": "192.0.2.100", "end": "192.0.2.199"}, "leaseSeconds": 3600, "options": [{"code": 54}]}}`

// behaviour C8 and the whole: a process on a device, with files alone.
func TestTheWholeServer(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "s.json")
	a, err := New(Options{Snapshot: file, StateDir: filepath.Join(dir, "state"), Listen: "127.0.0.1:0"}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	get := func(path string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.Addr().String()+path, nil)
		require.NoError(t, err)
		r, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		return r.StatusCode, string(b)
	}
	code, body := get("/ready")
	require.Equal(t, 503, code)
	require.Contains(t, body, "no snapshot yet")
	require.NoError(t, os.WriteFile(file, []byte(snapshotJSON), 0o600))
	require.Eventually(t, func() bool { _, body := get("/ready"); return strings.Contains(body, "no device has 192.0.2.2") }, time.Minute, 10*time.Millisecond)
	netns.Run(t, "ip", "link", "add", "vlan", "type", "veth", "peer", "name", "far")
	netns.Run(t, "ip", "addr", "add", "192.0.2.2/24", "dev", "vlan")
	netns.Run(t, "ip", "link", "set", "vlan", "up")
	// Both ends are in one namespace: the far one must not answer for ours.
	netns.Run(t, "sh", "-c", "echo 8 >/proc/sys/net/ipv4/conf/far/arp_ignore")
	netns.Run(t, "ip", "link", "set", "far", "up")
	require.Eventually(t, func() bool { code, _ := get("/ready"); return code == 200 }, time.Minute, 10*time.Millisecond)
	code, _ = get("/live")
	require.Equal(t, 200, code)
	_, body = get("/metrics")
	require.Contains(t, body, `oooi_dhcpd_snapshot_info{version="v1"} 1`)
	netns.Run(t, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/conf/vlan/forwarding")
	var reasons []string
	for _, p := range a.problems(a.server.Load()) {
		reasons = append(reasons, p.Reason)
	}
	require.Equal(t, []string{"ForwardingEnabled", "InvalidOption"}, reasons, "behaviour B5: without the fence, forwarding is reported")
	stop()
	require.NoError(t, <-done)
}

// The status' schema has limits; too many ranges are joined, which is safe.
func TestRangesAreJoinedToFitTheStatus(t *testing.T) {
	var in []lease.Range
	for i := range 300 {
		a := netip.AddrFrom4([4]byte{10, 0, byte(i / 50), byte(i % 50 * 3)})
		in = append(in, lease.Range{First: a, Last: a})
	}
	out := toBlocks(in)
	require.Len(t, out, maxBlocks)
	covered := ranges(out)
	for _, r := range in {
		found := false
		for _, c := range covered {
			found = found || c.First.Compare(r.First) <= 0 && r.Last.Compare(c.Last) <= 0
		}
		require.True(t, found, r.First.String())
	}
	require.Empty(t, ranges([]report.Block{{Start: "x", End: "192.0.2.1"}, {Start: "192.0.2.9", End: "192.0.2.1"}}))
}
