package testenv

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/densityops/oooi/operator/internal/app"
	"github.com/densityops/oooi/operator/internal/controller/workload"
	"github.com/densityops/oooi/operator/internal/images"
	"github.com/densityops/oooi/operator/internal/render"
)

// Operator is an operator that runs, with the rights of its ServiceAccount.
type Operator struct {
	*app.App
	Registry *prometheus.Registry
	Writes   *Writes

	stop context.CancelFunc
	done chan error
	once sync.Once
}

// Writes records the requests of an operator that write.
type Writes struct {
	mu   sync.Mutex
	list []string
}

// Taken gives what was written since the last call, as "VERB path".
func (w *Writes) Taken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.list
	w.list = nil
	return out
}

type recording struct {
	next   http.RoundTripper
	writes *Writes
}

// RoundTrip implements http.RoundTripper.
func (r recording) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		r.writes.mu.Lock()
		r.writes.list = append(r.writes.list, req.Method+" "+req.URL.Path)
		r.writes.mu.Unlock()
	}
	return r.next.RoundTrip(req)
}

// DefaultOptions are what tests start the operator with.
func DefaultOptions() app.Options {
	out := io.Discard
	if os.Getenv("OOOI_TEST_LOG") != "" {
		out = os.Stderr
	}
	return app.Options{
		Namespace: Namespace, SCC: render.SCCReference, Fence: workload.FenceAuto, LabelNamespaces: true,
		HubBindAddress: "127.0.0.1:0", MetricsBindAddress: "0", HealthProbeBindAddress: "0", LeaderElect: app.LeaderOff,
		Images: images.For(func(string) (string, bool) { return "", false }),
		Logger: slog.New(slog.NewJSONHandler(out, nil)),
	}
}

// Operator starts an operator; it ends with the test, or by Stop.
func (e *Env) Operator(t testing.TB, options app.Options) *Operator {
	t.Helper()
	config, err := e.As(t.Context(), Namespace, ServiceAccount)
	require.NoError(t, err)
	return StartOperator(t, config, options)
}

// StartOperator starts an operator with a config.
func StartOperator(t testing.TB, config *rest.Config, options app.Options) *Operator {
	t.Helper()
	o := &Operator{Registry: prometheus.NewRegistry(), Writes: &Writes{}, done: make(chan error, 1)}
	options.Registry = o.Registry
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recording{next: next, writes: o.Writes} })
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	o.stop = stop
	var err error
	o.App, err = app.New(ctx, config, options)
	require.NoError(t, err, "the operator must start with the rights of its manifests")
	go func() { o.done <- o.Run(ctx) }()
	t.Cleanup(func() { require.NoError(t, o.Stop()) })
	return o
}

// Stop ends the operator and gives what it ended with.
func (o *Operator) Stop() error {
	o.stop()
	return o.Wait()
}

// Wait gives what the operator has ended with, once.
func (o *Operator) Wait() error {
	var err error
	o.once.Do(func() {
		select {
		case err = <-o.done:
		case <-time.After(30 * time.Second):
			err = context.DeadlineExceeded
		}
	})
	return err
}
