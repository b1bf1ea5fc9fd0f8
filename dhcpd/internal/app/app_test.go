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
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"nothing to serve", nil, "nothing to serve"},
		{"a hub without a resource", []string{"--hub", "h:1"}, "--hub needs --child"},
		{"a resource without a namespace", []string{"--snapshot", "x", "--child", "n"}, "want NAMESPACE/NAME"},
		{"a fence that is neither on nor off", []string{"--snapshot", "x", "--fence", "maybe"}, "want on or off"},
		{"an unknown level", []string{"--snapshot", "x", "--log-level", "loud"}, "--log-level"},
		{"an argument too many", []string{"--snapshot", "x", "y"}, "unexpected argument"},
		{"an unknown flag", []string{"--nope"}, "flag provided but not defined: -nope"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var said bytes.Buffer
			_, code := ParseOptions(c.args, env(nil), io.Discard, &said)
			require.Equal(t, misused, code)
			require.Contains(t, said.String(), c.want)
		})
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
