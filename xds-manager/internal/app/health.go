package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// stalled is how long the loop may be silent: it turns every second.
const stalled = 30 * time.Second

// health answers the probes. Neither depends on the operator.
type health struct {
	ready atomic.Bool
	beat  atomic.Int64
}

func (h *health) turn(now time.Time) { h.beat.Store(now.UnixNano()) }

func (h *health) handler(reg *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, h.ready.Load(), "listeners are in force", "listeners are not yet in force")
	})
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, time.Since(time.Unix(0, h.beat.Load())) < stalled, "the loop turns", "the loop stands still")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	return mux
}

func answer(w http.ResponseWriter, ok bool, yes, no string) {
	if !ok {
		http.Error(w, no, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, yes)
}

// serveHealth answers on l until ctx ends.
func serveHealth(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving health: %w", err)
	}
	return nil
}
