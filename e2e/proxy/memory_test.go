package proxy

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deaf opens connections whose clients do not read, as many of n as are let in.
func (w *world) deaf(n int) []*net.TCPConn {
	w.t.Helper()
	var crowd []*net.TCPConn
	var wg sync.WaitGroup
	for range n {
		c, name := Open(w.t.Context(), w.VMs, WorkerA, netip.AddrPortFrom(VLANIP, 443), Named(fqdn("oauth", "a")), 0)
		if name != "a-oauth" {
			break
		}
		w.t.Cleanup(func() { _ = c.Close() })
		crowd = append(crowd, c)
		wg.Go(func() { fill(c) })
	}
	wg.Wait()
	return crowd
}

// fill first reads so fast that every buffer on the way may grow, and then writes
// without reading: the answers fill the way back, and it the way there.
func fill(c *net.TCPConn) {
	data, warm := make([]byte, 256<<10), make(chan struct{})
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	go func() {
		defer close(warm)
		_, _ = io.CopyN(io.Discard, c, 16*int64(len(data)))
	}()
	for range 16 {
		_, _ = c.Write(data)
	}
	<-warm
	for err := error(nil); err == nil; {
		_ = c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		_, err = c.Write(data)
	}
}

// resident is what Envoy has in memory, in KB.
func (w *world) resident() int {
	w.t.Helper()
	pid, err := w.Envoy.PID()
	require.NoError(w.t, err)
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	require.NoError(w.t, err)
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(after)[0])
	require.NoError(w.t, err)
	return kb
}

// behaviour E7: what Envoy holds of a connection whose client does not read is
// bounded by the buffers of both sides, in both directions.
func TestAClientThatDoesNotReadHoldsLittleOfEnvoy(t *testing.T) {
	const n, buffers = 30, 2 * (256 + 128)
	w := newWorld(t).start()
	before := w.resident()
	w.deaf(n)
	held := (w.resident() - before) / n
	t.Logf("a connection holds %d KB", held)
	require.Less(t, held, buffers+256)
}

// behaviour E7: where the pod's memory ends nobody new is let in, nobody is cut,
// the probes are answered, and all is as before when the memory is back.
func TestWhereMemoryEndsNobodyNewIsLetInAndNobodyIsCut(t *testing.T) {
	const limit = 128 << 20
	w := newWorld(t)
	w.EnvoyMemory = strconv.Itoa(limit)
	w.start()
	door := func() int {
		n, err := w.Stat(t.Context(), "overload.envoy.overload_actions.stop_accepting_connections.active")
		if err != nil {
			return -1
		}
		return n
	}
	closed := func() bool { return door() == 1 }
	held := w.open(20, WorkerA, 443, Named(fqdn("konnectivity", "a")), "a-konnectivity")
	var crowd []*net.TCPConn
	for !closed() && len(crowd) < 400 {
		crowd = append(crowd, w.deaf(30)...)
	}
	t.Logf("%d connections that do not read", len(crowd))
	w.until(2*time.Second, "the door is closed", closed)
	require.Equal(t, "silent", w.from(WorkerB, 443, Named(fqdn("oauth", "b")), 0))
	require.Equal(t, "silent", w.from(WorkerB, 6443, Named(""), 0))
	require.Equal(t, len(held), alive(held))
	for port, path := range map[uint16]string{9901: "/stats?filter=server.live", 9090: "/ready"} {
		code, _, err := w.Get(t.Context(), w.Hub, netip.AddrPortFrom(PodIP, port), path, "")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, code, path)
	}
	for _, c := range crowd {
		_ = c.Close()
	}
	w.until(15*time.Second, "the door is open", func() bool { return door() == 0 })
	require.Equal(t, "b-oauth", w.from(WorkerB, 443, Named(fqdn("oauth", "b")), 0))
	require.Equal(t, len(held), alive(held))
}
