package app

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/densityops/oooi/xds-manager/internal/agentpb"
	"github.com/densityops/oooi/xds-manager/internal/resolve"
	"github.com/densityops/oooi/xds-manager/internal/xds"
)

// nameServer answers every question with one address, until the end that it
// returns.
func nameServer(t *testing.T, answer string) (addr string, end func()) {
	t.Helper()
	pc, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = pc.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 5},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(answer).As4()},
			}}
			if out, err := m.Pack(); err == nil {
				_, _ = pc.WriteTo(out, from)
			}
		}
	}()
	return pc.LocalAddr().String(), func() { _ = pc.Close() }
}

// to is a snapshot's file whose one backend has that endpoint.
func to(t *testing.T, upstream string, endpoint *agentpb.ProxyEndpoint) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "s.json")
	s := snapshotOf("sha256:1", 1, "a")
	s.GetProxy().Upstreams = []string{upstream}
	s.GetProxy().Backends[0].Endpoints = []*agentpb.ProxyEndpoint{endpoint}
	writeFile(t, file, s)
	return file
}

func (e *fakeEnvoy) version(name string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.holds[name]
}

// versionOf is the version of the backend that leads to 127.9.9.9.
func versionOf(t *testing.T) string {
	t.Helper()
	file := to(t, "127.0.0.1", &agentpb.ProxyEndpoint{Ip: "127.9.9.9", Port: 443})
	e := connectEnvoy(t, start(t, func(o *Options) { o.Snapshot = file }).XDSSocket, xds.Standalone, "")
	eventually(t, 5*time.Second, "served", func() bool { return e.has("a") })
	return e.version("a")
}

// behaviours E6 and E11: the first that a manager sends that starts anew has the
// addresses that were in force, though nobody answers any more.
func TestARestartWithoutDNSKeepsTheAddressesOfEndpoints(t *testing.T) {
	state := t.TempDir()
	upstream, end := nameServer(t, "127.9.9.9")
	file := to(t, upstream, &agentpb.ProxyEndpoint{Hostname: "lb.tenant.example", Port: 443})
	withDisk := func(o *Options) { o.Snapshot, o.StateDir = file, state }
	want := versionOf(t)
	t.Run("with a name server", func(t *testing.T) {
		o := start(t, withDisk)
		e := connectEnvoy(t, o.XDSSocket, xds.Standalone, "")
		eventually(t, 5*time.Second, "the address is in force and kept", func() bool {
			_, err := os.Stat(filepath.Join(state, resolvedFile))
			return err == nil && e.version("a") == want
		})
	})
	end()
	t.Run("without one", func(t *testing.T) {
		o := start(t, withDisk)
		e := connectEnvoy(t, o.XDSSocket, xds.Standalone, "")
		eventually(t, 5*time.Second, "served", func() bool { return e.has("a") })
		require.Equal(t, want, e.version("a"), "the first that is sent")
		eventually(t, 5*time.Second, "the name is asked for", func() bool {
			_, m := get(t, o, "/metrics")
			return strings.Contains(m, `oooi_xds_lookups_total{result="error"} 1`)
		})
		require.Equal(t, want, e.version("a"), "a failed look-up keeps the last good answer")
	})
}

// behaviour E6: what lies on disk is believed no more than an answer.
func TestAddressesFromDiskAreSortedOut(t *testing.T) {
	p := resolve.Policy{CIDR: netip.MustParsePrefix("192.0.2.0/24"), Reserved: []netip.Addr{netip.MustParseAddr("192.0.2.4")}}
	for _, c := range []struct {
		name, content string
		want          map[string][]netip.Addr
	}{
		{"a free address of the VLAN", `{"lb.example":["192.0.2.200"]}`, map[string][]netip.Addr{"lb.example": {netip.MustParseAddr("192.0.2.200")}}},
		{"one of the hub beside it", `{"lb.example":["10.96.0.1","192.0.2.200"]}`, map[string][]netip.Addr{"lb.example": {netip.MustParseAddr("192.0.2.200")}}},
		{"our own", `{"lb.example":["192.0.2.4"]}`, nil},
		{"none", `{"lb.example":null}`, nil},
		{"nothing", `null`, nil},
		{"half a file", `{"lb.example":["192.0.2.2`, nil},
		{"no address", `{"lb.example":["lb"]}`, nil},
		{"an empty file", ``, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, resolvedFile), []byte(c.content), 0o600))
			got := usable(loadResolved(dir, slog.New(slog.DiscardHandler)), p)
			if c.want == nil {
				c.want = map[string][]netip.Addr{}
			}
			require.Equal(t, c.want, got)
		})
	}
}

// An address that a later snapshot reserves is no longer used, whether or not
// anybody answers.
func TestAnAddressThatIsReservedLaterIsNoLongerUsed(t *testing.T) {
	upstream, end := nameServer(t, "127.9.9.9")
	endpoint := &agentpb.ProxyEndpoint{Hostname: "lb.tenant.example", Port: 443}
	file := to(t, upstream, endpoint)
	o := start(t, func(o *Options) { o.Snapshot = file })
	e := connectEnvoy(t, o.XDSSocket, xds.Standalone, "")
	free := versionOf(t)
	eventually(t, 5*time.Second, "the name is resolved", func() bool { return e.version("a") == free })
	end()
	s := snapshotOf("sha256:2", 2, "a")
	s.GetProxy().Upstreams, s.GetProxy().ReservedIps = []string{upstream}, []string{"127.9.9.9"}
	s.GetProxy().Backends[0].Endpoints = []*agentpb.ProxyEndpoint{endpoint}
	writeFile(t, file, s)
	eventually(t, 5*time.Second, "the address is gone", func() bool { return e.version("a") != free })
}

// A disk that is away is named, and what was resolved is kept once it is back.
func TestAddressesAreKeptOnceTheDiskIsBack(t *testing.T) {
	state, api := filepath.Join(t.TempDir(), "away"), newAPIServer(t)
	upstream, _ := nameServer(t, "127.9.9.9")
	file := to(t, upstream, &agentpb.ProxyEndpoint{Hostname: "lb.tenant.example", Port: 443})
	start(t, func(o *Options) {
		o.Snapshot, o.StateDir, o.Child, o.Kubeconfig = file, state, "ns/p", api.kubeconfig(t)
	})
	eventually(t, 5*time.Second, "the problem", func() bool {
		return strings.Contains(fmt.Sprint(api.agentStatus()["problems"]), "keeping addresses of endpoints")
	})
	require.NoError(t, os.Mkdir(state, 0o700))
	eventually(t, 10*time.Second, "kept", func() bool {
		_, err := os.Stat(filepath.Join(state, resolvedFile))
		return err == nil
	})
	eventually(t, 5*time.Second, "the problem is gone", func() bool { return api.agentStatus()["problems"] == nil })
}
