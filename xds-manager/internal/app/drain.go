package app

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/densityops/oooi/xds-manager/internal/bootstrap"
)

const (
	// drainBegin is how long the preStop hook and the end of our own container
	// wait for each other: the kubelet stops a pod's containers at one moment.
	drainBegin = 3 * time.Second
	drainPoll  = 100 * time.Millisecond
	// openGauges are live; server.total_connections is five seconds old.
	openGauges = "/stats?usedonly&filter=%5C.upstream_cx_active$"
)

// drain makes Envoy take no new connection and waits, for a while, until those
// that are open have ended by themselves: a client whose connection is refused
// tries again, one that is cut off may have had half its request done.
//
// It does so only where Envoy ends too, which its preStop hook tells. Listeners
// that were drained never come back, so the end of the manager alone (a liveness
// probe, an image that changes in place) must not touch them.
func (a *App) drain(ctx context.Context) {
	h := &a.engine.health
	if a.tuner == nil || a.listener == nil {
		return
	}
	if !h.hooked() {
		a.o.Logger.Info("ending alone, envoy goes on")
		return
	}
	close(h.draining)
	defer close(h.drained)
	a.o.Logger.Info("draining", "wait", a.o.DrainWait.String())
	if err := a.tuner.post(ctx, "/drain_listeners"); err != nil {
		a.o.Logger.Warn("envoy not drained", "err", err)
		return
	}
	a.awaitClients(ctx)
	// An Envoy without listeners is of no use to anybody: whoever started it
	// starts a new one, unless the pod ends.
	if err := a.tuner.post(ctx, "/quitquitquit"); err != nil {
		a.o.Logger.Warn("envoy not ended", "err", err)
	}
}

// awaitClients waits until no connection is open, for a while.
func (a *App) awaitClients(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, a.o.DrainWait)
	defer cancel()
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for {
		open, err := a.open(ctx)
		if ctx.Err() == nil && (err != nil || open == 0) {
			a.o.Logger.Info("drained", "err", err)
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			a.o.Logger.Info("draining ended with connections open", "open", open)
			return
		}
	}
}

// open counts the connections to backends. Envoy's own clusters are none.
func (a *App) open(ctx context.Context) (int, error) {
	text, err := a.tuner.ask(ctx, http.MethodGet, openGauges)
	if err != nil {
		return 0, err
	}
	return sumGauges(text, "cluster."+bootstrap.XDSCluster+".", "cluster."+bootstrap.AdminCluster+"."), nil
}

// sumGauges adds up lines of "name: value", but for names with these beginnings.
func sumGauges(text string, but ...string) int {
	sum := 0
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if slices.ContainsFunc(but, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		if n, err := strconv.Atoi(value); err == nil {
			sum += n
		}
	}
	return sum
}
