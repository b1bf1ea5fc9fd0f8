package app

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sync/errgroup"

	"github.com/densityops/oooi/xds-manager/internal/agent"
	"github.com/densityops/oooi/xds-manager/internal/metrics"
	"github.com/densityops/oooi/xds-manager/internal/report"
	"github.com/densityops/oooi/xds-manager/internal/xds"
)

// Component is the name that the operator knows this agent by.
const Component = "xds-manager"

// App is a manager, ready to run.
type App struct {
	o        Options
	metrics  *metrics.Metrics
	server   *xds.Server
	agent    *agent.Agent
	reporter *report.Reporter
	tuner    *tuner
	engine   *engine
	listener net.Listener
}

// New makes a manager. It opens the health listener and reads the state
// directory, and starts nothing.
func New(ctx context.Context, o Options) (*App, error) {
	a := &App{o: o, metrics: metrics.New(o.Module)}
	namespace, name, hasChild := o.child()
	if hasChild {
		client, err := report.NewClient(o.Kubeconfig, namespace, name)
		if err != nil {
			return nil, err
		}
		a.reporter = report.New(counted{client, a.metrics}, namespace, name, o.Logger)
	}
	if o.AdminSocket != "" {
		a.tuner = newTuner(o.AdminSocket, o.Logger)
	}
	a.engine = newEngine(a)
	a.server = xds.New(xds.Options{NodeID: o.NodeID(), Drain: o.DrainTime, Logger: o.Logger, Counters: a.metrics, Notify: a.engine.envoyIs})
	a.agent = agent.New(agent.Options{
		File: o.Snapshot, StateDir: o.StateDir, Logger: o.Logger,
		Observed: a.engine.observedVersion, Connected: a.metrics.HubConnected,
		Hub: agent.Hub{
			Address: o.Hub, CAFile: o.HubCA, TokenFile: o.Token, Namespace: namespace, Name: name,
			Module: o.Module, Component: Component,
		},
	})
	if o.Listen != "" {
		addr, err := netip.ParseAddrPort(o.Listen)
		if err != nil {
			return nil, fmt.Errorf("reading listen address: %w", err)
		}
		if a.listener, err = listenOn(ctx, addr); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// counted counts the writes of an applier.
type counted struct {
	report.Applier
	metrics *metrics.Metrics
}

func (c counted) Apply(ctx context.Context, body []byte) error {
	err := c.Applier.Apply(ctx, body)
	c.metrics.StatusWrite(err == nil)
	return err
}

// Addr is where health and metrics are served; empty where they are not.
func (a *App) Addr() string {
	if a.listener == nil {
		return ""
	}
	return a.listener.Addr().String()
}

// Run serves until ctx ends or a part of it fails. When ctx ends, Envoy is
// drained first, while everything still runs.
func (a *App) Run(ctx context.Context) error {
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, inner := errgroup.WithContext(inner)
	g.Go(func() error {
		defer stop()
		select {
		case <-ctx.Done():
			a.drain(inner)
		case <-inner.Done():
		}
		return nil
	})
	g.Go(func() error { return a.server.Serve(inner, a.o.XDSSocket) })
	g.Go(func() error { return a.agent.Run(inner, a.engine.snapshotIs) })
	g.Go(func() error { return a.engine.run(inner) })
	if a.tuner != nil {
		g.Go(func() error { return a.tuner.run(inner) })
	}
	if a.reporter != nil {
		g.Go(func() error { return a.reporter.Run(inner) })
	}
	if a.listener != nil {
		g.Go(func() error { return serveHealth(inner, a.listener, a.engine.health.handler(a.metrics.Registry)) })
	}
	return g.Wait()
}

// Run makes a manager and runs it.
func Run(ctx context.Context, o Options) error {
	a, err := New(ctx, o)
	if err != nil {
		return err
	}
	o.Logger.Info("starting", "version", o.Module, "contract", agent.Contract, "node", o.NodeID())
	return a.Run(ctx)
}
