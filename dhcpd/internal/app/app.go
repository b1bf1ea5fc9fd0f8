package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/densityops/oooi/dhcpd/internal/agent"
	"github.com/densityops/oooi/dhcpd/internal/agentpb"
	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/journal"
	"github.com/densityops/oooi/dhcpd/internal/lease"
	"github.com/densityops/oooi/dhcpd/internal/metrics"
	"github.com/densityops/oooi/dhcpd/internal/server"
	"github.com/densityops/oooi/dhcpd/internal/version"
	"github.com/densityops/oooi/dhcpd/internal/vmi"
)

// App is the whole server.
type App struct {
	opts    Options
	log     *slog.Logger
	now     func() time.Time
	metrics *metrics.Metrics
	feed    *agent.Feed
	cluster *rest.Config // nil = none
	health  net.Listener
	holder  string

	first   chan struct{} // closed when there is a configuration
	once    sync.Once
	cfg     atomic.Pointer[config.Config]
	index   atomic.Pointer[vmi.Index]
	server  atomic.Pointer[server.Server]
	configs chan *config.Config // for the watcher of machines
	ticked  atomic.Int64
	claims  atomic.Bool // machines' own reports count
}

// steady is a clock that never steps: it starts with the wall clock and moves
// on with the monotonic one.
func steady() func() time.Time {
	start := time.Now()
	return func() time.Time { return start.Add(time.Since(start)) }
}

// New opens what must be open before anything runs.
func New(opts Options, log *slog.Logger) (*App, error) {
	a := &App{
		opts: opts, log: log, now: steady(),
		metrics: metrics.New(version.Module, version.Contract),
		first:   make(chan struct{}),
		configs: make(chan *config.Config, 1),
	}
	a.feed = agent.New(agent.Options{
		Log: log, File: opts.Snapshot, StateDir: opts.StateDir, Hub: opts.Hub, CAFile: opts.HubCA, Token: opts.Token,
		Component: "dhcpd", ModuleVersion: version.Module, Namespace: opts.Namespace, Name: opts.Name,
	})
	var err error
	if a.cluster, err = clusterConfig(opts); err != nil {
		return nil, err
	}
	if a.holder, err = holderID(opts); err != nil {
		return nil, err
	}
	if opts.Objects != "" {
		if err := (vmi.Files{Dir: opts.Objects}).Check(); err != nil {
			return nil, fmt.Errorf("--objects: %w", err)
		}
	}
	if opts.Listen != "" {
		if a.health, err = listenHealth(opts.Listen); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// clusterConfig is the access to the API server, nil where there is none.
func clusterConfig(opts Options) (*rest.Config, error) {
	if opts.Kubeconfig != "" {
		c, err := clientcmd.BuildConfigFromFlags("", opts.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("reading kubeconfig: %w", err)
		}
		return c, nil
	}
	c, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading in-cluster configuration: %w", err)
	}
	return c, nil
}

// Addr is where health and metrics are served.
func (a *App) Addr() net.Addr {
	if a.health == nil {
		return nil
	}
	return a.health.Addr()
}

// Run serves until ctx ends.
func (a *App) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if a.health != nil {
		g.Go(func() error { return a.serveHealth(ctx) })
	}
	g.Go(func() error { return a.feed.Run(ctx, a.take) })
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-a.first:
		}
		return a.serve(ctx)
	})
	return g.Wait()
}

// take puts a snapshot in force.
func (a *App) take(s *agentpb.Snapshot) error {
	cfg, err := config.From(s)
	if err != nil {
		return err
	}
	a.cfg.Store(cfg)
	a.metrics.Snapshot(cfg.Version, time.Now())
	if srv := a.server.Load(); srv != nil {
		srv.Configure(cfg)
	}
	select {
	case <-a.configs: // not taken yet: the newer replaces it
	default:
	}
	a.configs <- cfg
	a.log.Info("snapshot in force", "snapshot", cfg.Version, "generation", cfg.Child.Generation)
	a.once.Do(func() { close(a.first) })
	return nil
}

// serve runs the server once there is something to serve.
func (a *App) serve(ctx context.Context) error {
	so := server.Options{Log: a.log, Now: a.now, Observe: a.metrics.Message}
	var found journal.Found
	if a.opts.StateDir != "" {
		if err := os.MkdirAll(a.opts.StateDir, 0o700); err != nil {
			a.log.Error("state directory cannot be made", "err", err)
		}
		so.Journal, found = journal.Open(a.opts.StateDir)
		a.log.Info("lease journal read", "records", len(found.Records), "fresh", found.Fresh, "damaged", found.Damaged, "kept_as", found.KeptAs)
		defer func() { _ = so.Journal.Close() }() // what counts is on disk
	}
	srv := server.New(so, a.cfg.Load(), found.Records)
	a.server.Store(srv)
	srv.Configure(a.cfg.Load()) // it may have changed meanwhile
	g, ctx := errgroup.WithContext(ctx)
	if a.cluster != nil && a.opts.Name != "" {
		m, err := a.newMirror(srv, so.Journal != nil && !found.Fresh && !found.Damaged)
		if err != nil {
			return err
		}
		srv.Allow(lease.Mode{Blocks: true})
		g.Go(func() error { return m.run(ctx) })
	} else {
		a.claims.Store(true)
	}
	g.Go(func() error { return srv.Run(ctx) })
	g.Go(func() error { return a.tick(ctx, srv) })
	if err := a.watchMachines(ctx, g, srv); err != nil {
		return err
	}
	return g.Wait()
}

// tick does what is due by time.
func (a *App) tick(ctx context.Context, srv *server.Server) error {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		srv.Tick()
		a.ticked.Store(a.now().UnixNano())
		a.measure(srv)
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// watchMachines starts whatever knows the virtual machines.
func (a *App) watchMachines(ctx context.Context, g *errgroup.Group, srv *server.Server) error {
	set := func(x *vmi.Index) {
		a.index.Store(x)
		a.adopt(srv, x)
	}
	switch {
	case a.opts.Objects != "":
		f := vmi.Files{Dir: a.opts.Objects, Log: a.log}
		g.Go(func() error { return f.Run(ctx, a.configs, set) })
	case a.cluster != nil:
		c, err := vmi.NewCluster(a.cluster, a.log)
		if err != nil {
			return err
		}
		g.Go(func() error { return c.Run(ctx, a.configs, set) })
	}
	return nil
}

// serveHealth serves /live, /ready and /metrics.
func (a *App) serveHealth(ctx context.Context) error {
	h := &http.Server{Handler: a.handler(), ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = h.Close() }) // nothing here is worth draining
	defer stop()
	if err := h.Serve(a.health); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving health: %w", err)
	}
	return nil
}
