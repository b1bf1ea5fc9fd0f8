package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

// services are the endpoints of the fixture, by the name that they answer with.
var services = map[string]string{
	"a-api": "172.30.10.1:6443", "a-oauth": "172.30.10.2:6443", "a-konnectivity": "172.30.10.3:8091", "a-ignition": "172.30.10.4:443",
	"b-api": "172.30.11.1:6443", "b-oauth": "172.30.11.2:6443", "b-konnectivity": "172.30.11.3:8091",
}

// world is a rig with its backends.
type world struct {
	*Rig
	t        *testing.T
	backends map[string]*Backend
}

// newWorld lays out a rig with the fixture's snapshot and services; nothing of
// the product runs yet.
func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "oooi-proxy-") //nolint:usetesting // TempDir's parent is closed to the programs' user
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r, err := NewRig(t.Context(), lab.ForTest(t), dir)
	require.NoError(t, err)
	w := &world{Rig: r, t: t, backends: map[string]*Backend{}}
	for name, addr := range services {
		w.backend(r.Hub, name, addr)
	}
	w.backend(r.VMs, "a-apps", netip.AddrPortFrom(VIPA, 443).String())
	snapshot, err := os.ReadFile("../snapshots/proxy.json")
	require.NoError(t, err)
	require.NoError(t, r.WriteSnapshot(snapshot))
	t.Cleanup(func() {
		if t.Failed() {
			w.dump()
		}
	})
	return w
}

func (w *world) backend(h *lab.Host, name, addr string) {
	w.t.Helper()
	b, err := NewBackend(h, name, netip.MustParseAddrPort(addr))
	require.NoError(w.t, err)
	w.t.Cleanup(b.Close)
	w.backends[name] = b
}

func (w *world) dump() {
	for name, p := range map[string]*lab.Process{"manager": w.Manager, "envoy": w.Envoy} {
		if p != nil {
			out := p.Output()
			w.t.Logf("%s said:\n%s", name, out[max(0, len(out)-6000):])
		}
	}
}

// start starts manager and Envoy and waits for ready.
func (w *world) start() *world {
	w.t.Helper()
	require.NoError(w.t, w.Start(w.t.Context()))
	return w
}

// from opens a connection from a VM to a port of the VLAN address and says who
// answers.
func (w *world) from(source netip.Addr, port uint16, data []byte, chunk int) string {
	w.t.Helper()
	return Probe(w.t.Context(), w.VMs, source, netip.AddrPortFrom(VLANIP, port), data, chunk)
}

// until waits for a condition. A busy machine gets four times the limit, and a
// minute at least.
func (w *world) until(limit time.Duration, what string, ok func() bool) {
	w.t.Helper()
	w.within(max(4*limit, time.Minute), what, ok)
}

// within waits for a condition no longer than the limit. It asks in the test's
// own goroutine; what cannot be asked yet is a false, and no end of the test.
func (w *world) within(limit time.Duration, what string, ok func() bool) {
	w.t.Helper()
	require.NoError(w.t, lab.Until(w.t.Context(), limit, what, func(context.Context) error {
		if !ok() {
			return errors.New("not yet")
		}
		return nil
	}))
}

// fqdn names a service of an attachment.
func fqdn(service, attachment string) string {
	return fmt.Sprintf("%s.example-hcp-%s.clusters.example.com", service, attachment)
}

func upper(s string) string { return strings.ToUpper(s) }
