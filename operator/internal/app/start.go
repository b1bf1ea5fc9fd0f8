package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/lead"
	"github.com/densityops/oooi/operator/internal/reach"
)

// Run runs the operator until the context ends. A configuration that cannot be
// read ends it at once; an API server that cannot be used yet is waited for, with
// the probes answered meanwhile.
func Run(ctx context.Context, o Options) error {
	config, err := loadConfig(o)
	if err != nil {
		return err
	}
	h, err := listenHealth(ctx, o.HealthProbeBindAddress)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return h.serve(ctx) })
	group.Go(func() error {
		defer stop()
		return run(ctx, config, o, h)
	})
	return group.Wait()
}

// run waits for the API server, and then builds and runs the operator.
func run(ctx context.Context, config *rest.Config, o Options, h *health) error {
	api, err := reach.New(config, o.Logger)
	if err != nil {
		return err
	}
	if err := api.Wait(ctx, "/apis/"+v1alpha1.GroupVersion.String()+"/infras"); err != nil {
		if ctx.Err() != nil {
			return nil // told to stop
		}
		return fmt.Errorf("waiting for the API server: %w", err)
	}
	a, err := New(ctx, config, o)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	h.follow(a.ready)
	return a.Run(ctx)
}

// Client limits: priority and fairness of the API server is what really limits.
const (
	clientQPS   = 300
	clientBurst = 600
)

func loadConfig(o Options) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if o.Kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	} else {
		config, err = rest.InClusterConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	return config, nil
}

// connect makes what lies between the operator and its API server: requests wait
// while it is away, and writes until this replica is sure to lead (those to hosted
// clusters, which are none of its, are refused in doubt: a.term). The config that it
// gives is for everything but the leader's lock. wrote is called for each write that
// is sent with it; again is called when the API server is back, or this replica is
// sure again.
func (a *App) connect(ctx context.Context, config *rest.Config, wrote func(verb, resource string), again func()) (*rest.Config, error) {
	o := a.options
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = clientQPS, clientBurst
	config.UserAgent = "oooi-operator/" + Version
	var err error
	if a.api, err = reach.New(config, o.Logger); err != nil {
		return nil, err
	}
	term := lead.NewTerm()
	a.term = term
	switch o.LeaderElect {
	case LeaderLease:
		if a.lock, err = lead.NewLease(config, o.Namespace, leaderLock, term, o.Logger); err != nil {
			return nil, err
		}
	case LeaderLife:
		a.life = lead.NewLife(config, o.Namespace, leaderLock, term, o.Logger)
		a.lock = a.life
	case LeaderOff:
	}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counted{next, wrote} })
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return warnOnce{next, &sync.Map{}} })
	config.Wrap(term.Through)
	config.Wrap(a.api.Through)
	a.api.OnBack(again)
	term.OnResume(again)
	context.AfterFunc(ctx, term.End)
	go a.api.Follow(ctx)
	return config, nil
}

// health answers the probes from the process's first moment on.
type health struct {
	listener net.Listener // nil: nowhere

	mu    sync.Mutex
	ready func() error // guarded by mu
}

var errWaitingForAPI = errors.New("waiting for the API server")

func listenHealth(ctx context.Context, address string) (*health, error) {
	h := &health{ready: func() error { return errWaitingForAPI }}
	if address == "" || address == "0" {
		return h, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for probes: %w", err)
	}
	h.listener = listener
	return h, nil
}

// follow lets something else say whether the operator is ready.
func (h *health) follow(ready func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready = ready
}

// serve answers until the context ends: alive while the process answers, ready
// once agents can be served.
func (h *health) serve(ctx context.Context) error {
	if h.listener == nil {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		h.mu.Lock()
		ready := h.ready
		h.mu.Unlock()
		answer(w, ready())
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(h.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving probes: %w", err)
	}
	return nil
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "ok")
}
