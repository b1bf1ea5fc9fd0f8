package app

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// admin is Envoy's administration: it notes what is posted, and has no
// connection open.
type admin struct {
	mu     sync.Mutex // guards posted
	posted []string
}

func newAdmin(t *testing.T, socket string) *admin {
	t.Helper()
	a := &admin{}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	s := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if r.Method == http.MethodPost {
			a.posted = append(a.posted, r.URL.Path)
		}
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return a
}

func (a *admin) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.posted
}

// ending is a manager beside an Envoy, and how to tell it to end.
func ending(t *testing.T) (envoy *admin, o Options, end func()) {
	t.Helper()
	dir := t.TempDir()
	envoy = newAdmin(t, filepath.Join(dir, "a"))
	o = Options{
		Snapshot: filepath.Join(dir, "absent"), XDSSocket: filepath.Join(dir, "x"), AdminSocket: filepath.Join(dir, "a"), Listen: "127.0.0.1:0",
		Fence: "on", DrainTime: time.Minute, DrainWait: time.Minute, Logger: slog.New(slog.DiscardHandler),
	}
	a, err := New(t.Context(), o)
	require.NoError(t, err)
	o.Listen = a.Addr()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return envoy, o, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// behaviour E11: the pod ends, so the hook asks and the manager is told to end.
func TestEnvoyIsDrainedWhereItEndsToo(t *testing.T) {
	envoy, o, end := ending(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+o.Listen+"/drained", nil)
	require.NoError(t, err)
	answer := make(chan string, 1)
	go func() {
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			answer <- err.Error()
			return
		}
		_ = resp.Body.Close()
		answer <- resp.Status
	}()
	end()
	require.Equal(t, "200 OK", <-answer)
	require.Equal(t, []string{"/drain_listeners", "/quitquitquit"}, envoy.asked())
}

// behaviour E11.
func TestTheManagersEndAloneDrainsNothing(t *testing.T) {
	envoy, _, end := ending(t)
	end()
	require.Empty(t, envoy.asked())
}

func TestAQuestionWithoutAnEndDrainsNothing(t *testing.T) {
	envoy, o, end := ending(t)
	code, _ := get(t, o, "/drained")
	require.Equal(t, http.StatusServiceUnavailable, code)
	end()
	require.Empty(t, envoy.asked())
}
