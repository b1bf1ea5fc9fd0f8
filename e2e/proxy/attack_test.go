package proxy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// silent opens connections that say data and no more.
func (w *world) silent(n int, source netip.Addr, port uint16, data []byte) []*net.TCPConn {
	w.t.Helper()
	out := make([]*net.TCPConn, 0, n)
	for range n {
		c, err := Dial(w.t.Context(), w.VMs, source, netip.AddrPortFrom(VLANIP, port))
		require.NoError(w.t, err)
		w.t.Cleanup(func() { _ = c.Close() })
		_, err = c.Write(data)
		require.NoError(w.t, err)
		out = append(out, c)
	}
	return out
}

// ended counts the connections that the proxy has closed.
func ended(cs []*net.TCPConn) int {
	n := 0
	for _, c := range cs {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			n++
		}
	}
	return n
}

// behaviour E5, E7; hazard 160: clients that say nothing, half a hello, half a
// request or what matches nothing cost their own connections and nobody else's,
// and go after 15 seconds, on port 80 after two minutes if they never began.
func TestASilentCrowdIsInNobodysWay(t *testing.T) {
	w := newWorld(t).start()
	held := w.open(5, WorkerA, 6443, Named(""), "a-api")
	crowd := w.silent(1000, Stranger, 443, nil)
	crowd = append(crowd, w.silent(1000, Stranger, 6443, Named(fqdn("api", "a"))[:40])...)
	crowd = append(crowd, w.silent(500, Stranger, 80, []byte("GET / HTTP/1.1\r\nHost: x.apps.exa"))...)
	mute := w.silent(500, Stranger, 80, nil)
	began := time.Now()
	for range 500 {
		require.Equal(t, "closed", w.from(Stranger, 443, Named(""), 0))
		require.Equal(t, "closed", w.from(Stranger, 6443, Named("kubernetes"), 0))
	}
	require.Equal(t, "a-oauth", w.from(WorkerA, 443, Named(fqdn("oauth", "a")), 0), "others are served meanwhile")
	w.until(30*time.Second, "the crowd is gone", func() bool { return ended(crowd) == len(crowd) })
	w.until(40*time.Second, "those that never began are gone", func() bool { return ended(mute) == len(mute) })
	require.Greater(t, time.Since(began), 110*time.Second)
	require.Equal(t, len(held), alive(held))
	n, err := w.Stat(t.Context(), "listener.192.0.2.4_443.no_filter_chain_match")
	require.NoError(t, err)
	require.Equal(t, 500, n, "what matches nothing is counted")
}

// behaviour E7; hazard 157: as many connections of one backend as this machine's
// descriptors allow (each takes two of Envoy's and two of ours), far beyond
// Envoy's default limit of 1,024, while the others go on changing.
func TestManyConnectionsOfOneBackend(t *testing.T) {
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	descriptors := int(min(limit.Max, 1<<20))
	n := min(20_000, (descriptors-1000)/2)
	w := newWorld(t)
	w.Drain = 2 * time.Second
	// What some container runtimes start a program with; Envoy takes what it may.
	w.EnvoyLimit = fmt.Sprintf("1024:%d", descriptors)
	w.start()
	t.Logf("%d connections", n)
	held := w.open(n, WorkerA, 443, Named(fqdn("konnectivity", "a")), "a-konnectivity")
	require.Equal(t, "b-oauth", w.from(WorkerB, 443, Named(fqdn("oauth", "b")), 0))
	for i := 1; i <= 8; i++ {
		require.NoError(t, w.WriteSnapshot(variant(t, i)))
		w.inForce(fmt.Sprintf("v%d", i))
	}
	began := time.Now()
	w.until(w.Drain+15*time.Second, "every drain has ended", func() bool {
		n, err := w.Stat(t.Context(), "listener_manager.total_filter_chains_draining")
		return err == nil && n == 0 && time.Since(began) > w.Drain+3*time.Second
	})
	require.Equal(t, n, alive(held))
}

// Where descriptors run out Envoy takes no more connections, keeps those that it
// has, and goes on once some are free again.
func TestEnvoyOutlivesTheEndOfItsDescriptors(t *testing.T) {
	w := newWorld(t)
	w.EnvoyLimit = "300:300"
	w.start()
	held := w.open(5, WorkerA, 6443, Named(""), "a-api")
	crowd := w.silent(400, Stranger, 443, nil)
	require.Equal(t, "silent", w.from(WorkerA, 443, Named(fqdn("oauth", "a")), 0), "the kernel takes it, and Envoy has no descriptor left for it")
	require.Equal(t, len(held), alive(held))
	for _, c := range crowd {
		_ = c.Close()
	}
	w.until(30*time.Second, "it takes connections again", func() bool { return w.from(WorkerA, 443, Named(fqdn("oauth", "a")), 0) == "a-oauth" })
	require.NoError(t, w.Envoy.Running())
	require.Equal(t, len(held), alive(held))
}

// behaviour E8, E11; hazards 187, 194: the manager is killed at any moment of a
// change, thirty times, and then Envoy too. What is in force at the end is the
// newest snapshot, and no connection of the attachment that did not change was
// cut by the manager's end.
func TestKillsAtAnyMomentOfAChange(t *testing.T) {
	w := newWorld(t)
	w.Drain = 2 * time.Second
	w.start()
	held := w.open(50, WorkerA, 443, Named(fqdn("konnectivity", "a")), "a-konnectivity")
	moment := rand.New(rand.NewPCG(1, 2))
	for i := 1; i <= 30; i++ {
		require.NoError(t, w.WriteSnapshot(variant(t, i)))
		<-time.After(time.Duration(moment.IntN(40)) * time.Millisecond)
		require.NoError(t, w.Manager.Kill())
		require.NoError(t, w.StartManager())
	}
	w.inForce("v30")
	require.Equal(t, len(held), alive(held))
	for i := 31; i <= 36; i++ {
		require.NoError(t, w.WriteSnapshot(variant(t, i)))
		<-time.After(time.Duration(moment.IntN(40)) * time.Millisecond)
		require.NoError(t, w.Envoy.Kill())
		require.NoError(t, w.StartEnvoy(t.Context()))
	}
	w.inForce("v36")
	require.NoError(t, w.Ready(t.Context()))
	require.Equal(t, "a-api", w.from(WorkerA, 6443, Named(""), 0))
	require.Equal(t, "b-oauth", w.from(WorkerB, 443, Named(fqdn("oauth", "b")), 0))
}
