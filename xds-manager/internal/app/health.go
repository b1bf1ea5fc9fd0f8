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

// lastAnswers is how long the end waits for answers that are on their way.
const lastAnswers = time.Second

// health answers the probes. Neither depends on the operator.
type health struct {
	ready atomic.Bool
	beat  atomic.Int64
	// hook is where the question for the drain and our own end meet.
	hook chan struct{}
	// draining and drained are closed when the drain has begun and when it is done.
	draining chan struct{}
	drained  chan struct{}
}

func newHealth() health {
	return health{hook: make(chan struct{}), draining: make(chan struct{}), drained: make(chan struct{})}
}

func (h *health) turn(now time.Time) { h.beat.Store(now.UnixNano()) }

func (h *health) handler(reg *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, h.ready.Load() && !closed(h.draining), "listeners are in force", "listeners are not yet in force")
	})
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, time.Since(time.Unix(0, h.beat.Load())) < stalled, "the loop turns", "the loop stands still")
	})
	mux.HandleFunc("GET /drained", h.awaitDrained)
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	return mux
}

// awaitDrained is for the preStop hook of Envoy's container: it answers when
// Envoy may be ended. It starts nothing as long as we are not asked to end too,
// so whoever can reach it can do nothing with it.
func (h *health) awaitDrained(w http.ResponseWriter, r *http.Request) {
	begin := time.NewTimer(drainBegin)
	defer begin.Stop()
	select {
	case h.hook <- struct{}{}:
	case <-h.draining:
	case <-begin.C:
		http.Error(w, "nothing is being drained", http.StatusServiceUnavailable)
		return
	case <-r.Context().Done():
		return
	}
	select {
	case <-h.drained:
		fmt.Fprintln(w, "drained")
	case <-r.Context().Done():
	}
}

// hooked waits for a while for the hook: without it Envoy does not end with us.
func (h *health) hooked() bool {
	begin := time.NewTimer(drainBegin)
	defer begin.Stop()
	select {
	case <-h.hook:
		return true
	case <-begin.C:
		return false
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
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
	gone := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(gone)
		// A preStop hook that waits here gets its answer before we leave.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
		defer cancel()
		if s.Shutdown(ctx) != nil {
			_ = s.Close()
		}
	})
	defer stop()
	if err := s.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving health: %w", err)
	}
	<-gone
	return nil
}
