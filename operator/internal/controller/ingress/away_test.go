package ingress_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// way is the operator's network to a hosted cluster.
type way struct {
	address string
	done    <-chan struct{}

	mu    sync.Mutex
	state wayState // guarded by mu
	open  []*wire  // guarded by mu
}

type wayState int

const (
	wayOpen wayState = iota
	// wayRefuses: nobody listens.
	wayRefuses
	// wayLost: packets vanish, those of open connections too, which nobody ends.
	wayLost
)

func (w *way) set(s wayState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = s
	for _, o := range w.open {
		switch s {
		case wayOpen:
		case wayRefuses:
			_ = o.Close()
		case wayLost:
			o.lost.Store(true)
		}
	}
	w.open = nil
}

func (w *way) now() wayState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

func (w *way) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	switch w.now() {
	case wayRefuses:
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	case wayLost:
		select {
		case <-ctx.Done():
		case <-w.done:
		}
		return nil, &net.OpError{Op: "dial", Err: syscall.ETIMEDOUT}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, w.address)
	if err != nil {
		return nil, err
	}
	made := &wire{Conn: conn, closed: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = append(w.open, made)
	return made, nil
}

// wire is a connection that can be lost without an end.
type wire struct {
	net.Conn
	lost   atomic.Bool
	once   sync.Once
	closed chan struct{}
}

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if !w.lost.Load() {
		return n, err
	}
	<-w.closed
	return 0, net.ErrClosed
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	if w.lost.Load() {
		return len(p), nil
	}
	return w.Conn.Write(p)
}

// Close implements net.Conn.
func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return w.Conn.Close()
}

// behaviours G2, G7, hazard 214: a hosted cluster that was away is seen within 30
// seconds after it can be reached again, also where the last try began right before
// that, and where the connections from before are dead and nobody has said so. The
// tries do not become rarer while it is away.
func TestAHostedClusterThatIsBackIsSeenWithin30Seconds(t *testing.T) {
	const soon = 30 * time.Second
	c, a := newCluster(t), attachment()
	for _, tc := range []struct {
		name  string
		state wayState
		tries int
	}{
		{"it refuses", wayRefuses, 20},
		{"it is lost", wayLost, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForHostedClusterNodes)
			c.way.set(tc.state)
			var longest, pause time.Duration
			for range tc.tries {
				began := time.Now()
				pause = max(pause, c.ensure(t, a, "Degraded", v1alpha1.ReasonHostedClusterAccessFailed))
				longest = max(longest, time.Since(began))
			}
			c.way.set(wayOpen)
			back := time.Now()
			c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForHostedClusterNodes)
			t.Logf("a try took %s, the pause is %s, the answer took %s", longest, pause, time.Since(back))
			require.Less(t, longest+pause+time.Since(back), soon)
		})
	}
}
