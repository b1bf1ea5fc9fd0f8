package app

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	agentv1 "github.com/densityops/oooi/operator/api/agent/v1"
	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/agent"
	"github.com/densityops/oooi/operator/internal/apply"
	"github.com/densityops/oooi/operator/internal/controller/attachment"
	"github.com/densityops/oooi/operator/internal/controller/coalesce"
	"github.com/densityops/oooi/operator/internal/controller/infra"
	"github.com/densityops/oooi/operator/internal/controller/ingress"
	"github.com/densityops/oooi/operator/internal/controller/kinds"
	"github.com/densityops/oooi/operator/internal/controller/notify"
	"github.com/densityops/oooi/operator/internal/controller/policy"
	"github.com/densityops/oooi/operator/internal/controller/workload"
	"github.com/densityops/oooi/operator/internal/controller/world"
	"github.com/densityops/oooi/operator/internal/hosted"
	"github.com/densityops/oooi/operator/internal/lead"
	oooimetrics "github.com/densityops/oooi/operator/internal/metrics"
	"github.com/densityops/oooi/operator/internal/reach"
	"github.com/densityops/oooi/operator/internal/render"
)

// App is the operator.
type App struct {
	options  Options
	manager  ctrl.Manager
	hub      *agent.Hub
	server   *agent.Server
	keeper   *agent.Keeper
	kinds    *kinds.Registry
	rollouts *workload.Rollouts
	api      *reach.Server
	term     *lead.Term
	lock     resourcelock.Interface // nil: nobody is asked who leads
	life     *lead.Life
}

// New wires the operator.
func New(ctx context.Context, config *rest.Config, o Options) (*App, error) {
	o.setDefaults()
	log := logr.FromSlogHandler(o.Logger.Handler())
	ctrl.SetLogger(log)
	a := &App{options: o}
	again := newBroadcast(5)
	var set *oooimetrics.Set
	wrote := func(verb, resource string) {
		if set != nil {
			set.Wrote(verb, resource)
		}
	}
	config, err := a.connect(ctx, config, wrote, func() { again.send(0, 1, 2, 3, 4) })
	if err != nil {
		return nil, err
	}
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	a.manager, err = ctrl.NewManager(config, a.managerOptions(scheme, log))
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	mgr := a.manager
	if err := world.AddIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(config, mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making the discovery client: %w", err)
	}
	a.kinds = kinds.New(disco, mgr.GetCache(), o.Logger, o.followed()...)
	a.kinds.WatchAs(mgr.Elected())
	a.kinds.OnChange(func() { again.send(0, 1, 2, 3, 4) })
	if err := a.serveAgents(ctx, again); err != nil {
		return nil, err
	}
	set = oooimetrics.New(o.Registry, Version, a.hub.Streams, a.kinds.Missing, a.keeper.Ends, a.mayWrite)
	if err := a.controllers(set, again); err != nil {
		return nil, err
	}
	if err := a.followChildren(ctx); err != nil {
		return nil, err
	}
	return a, a.complete(again)
}

// complete adds what runs beside the controllers.
func (a *App) complete(again *broadcast) error {
	parts := []manager.Runnable{a.kinds, a.keeper, a.server, again, a.upgradeable(), a.constraints()}
	if a.life != nil {
		parts = append(parts, a.life)
	}
	for _, r := range parts {
		if err := a.manager.Add(r); err != nil {
			return fmt.Errorf("adding a part: %w", err)
		}
	}
	return nil
}

// serveAgents opens the hub: its certificate, its snapshots and its port.
func (a *App) serveAgents(ctx context.Context, again *broadcast) error {
	mgr, o := a.manager, a.options
	host, _, err := net.SplitHostPort(o.HubAddress)
	if err != nil {
		return fmt.Errorf("reading the hub's address: %w", err)
	}
	a.keeper = agent.NewKeeper(mgr.GetAPIReader(), mgr.GetClient(), o.Namespace, hubNames(host, o.Namespace), mgr.Elected(), time.Now, o.Logger,
		func() { again.send(0, 1, 2) })
	a.hub = agent.NewHub(mgr.GetClient(), encode)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.HubBindAddress)
	if err != nil {
		return fmt.Errorf("listening for agents: %w", err)
	}
	a.server = agent.NewServer(a.hub, agent.Reviews{Client: mgr.GetClient()}, serviceAccount, listener, a.keeper.Certificate)
	return nil
}

// controllers wires the five controllers.
func (a *App) controllers(set *oooimetrics.Set, again *broadcast) error {
	mgr, o := a.manager, a.options
	c := mgr.GetClient()
	applier := apply.New(c, mgr.GetAPIReader(), typedKinds()...)
	hub := world.NewHubNetworks(mgr.GetAPIReader(), time.Now)
	a.kinds.OnChange(hub.Forget)
	reader := world.New(c, a.kinds, hub, world.NewBoard(time.Now))
	policies := &policy.Policies{Applier: applier, World: reader}
	if err := (&policy.Sweeper{Policies: policies}).Setup(mgr); err != nil {
		return err
	}
	tell := notify.Notifier{Recorder: mgr.GetEventRecorder("oooi-operator"), Count: set.Changed}
	a.rollouts = workload.NewRollouts(time.Now)
	if err := setUpChild(a, workload.DHCP(), applier, reader, tell, again.channel(0)); err != nil {
		return err
	}
	if err := setUpChild(a, workload.DNS(), applier, reader, tell, again.channel(1)); err != nil {
		return err
	}
	if err := setUpChild(a, workload.Proxy(), applier, reader, tell, again.channel(2)); err != nil {
		return err
	}
	infras := &infra.Controller{
		Client: c, Applier: applier, World: reader, Policies: policies, LabelNamespaces: o.LabelNamespaces, Gatherer: coalesce.New(time.Now), Planned: set.Planned,
		Events: func(before, after *v1alpha1.Infra) {
			tell.Transitions(after, v1alpha1.KindInfra, before.Status.Conditions, after.Status.Conditions)
		},
	}
	if err := infras.Setup(mgr, a.kinds, again.channel(3)); err != nil {
		return fmt.Errorf("setting up the Infra controller: %w", err)
	}
	clusters := hosted.New(mgr.GetAPIReader(), mgr.GetScheme(), o.DialHosted).Through(a.term.Now)
	turns := attachment.NewTurns()
	attachments := &attachment.Controller{
		Client: c, Applier: applier, World: reader, Policies: policies, Gatherer: coalesce.New(time.Now), Clock: time.Now, Away: a.api.Away,
		Turns: turns, Apps: ingress.New(clusters, mgr.GetAPIReader(), time.Now).Aside(turns.Aside),
		Events: func(before, after *v1alpha1.InfraClusterAttachment) {
			tell.Transitions(after, v1alpha1.KindInfraClusterAttachment, before.Status.Conditions, after.Status.Conditions)
		},
	}
	if err := attachments.Setup(mgr, a.kinds, again.channel(4)); err != nil {
		return fmt.Errorf("setting up the attachment controller: %w", err)
	}
	return nil
}

func setUpChild[T client.Object](a *App, kind workload.Kind[T], applier *apply.Applier, reader *world.Reader,
	tell notify.Notifier, again <-chan event.GenericEvent,
) error {
	c := &workload.Controller[T]{
		Kind: kind, Client: a.manager.GetClient(), Live: a.manager.GetAPIReader(), Applier: applier, Networks: reader,
		Rollouts: a.rollouts, Base: a, Fence: a.options.Fence, Clock: time.Now,
		Events: func(o client.Object, before, after *v1alpha1.ComponentStatus) {
			tell.Transitions(o, kind.Component, before.Conditions, after.Conditions)
		},
	}
	if err := c.Setup(a.manager, a.kinds, again); err != nil {
		return fmt.Errorf("setting up the %s controller: %w", kind.Component, err)
	}
	return nil
}

// Options implements workload.Base.
func (a *App) Options(ctx context.Context) (render.Options, bool) {
	if a.kinds.Known(ctx) != nil {
		return render.Options{}, false
	}
	bundle := a.keeper.Bundle()
	return render.Options{
		OpenShift: a.openShift(), SCC: a.options.SCC, Hub: a.options.HubAddress, HubIP: a.hubIP(ctx), HubCA: bundle, Images: a.options.Images,
	}, len(bundle) > 0
}

// followChildren lets the hub's streams know of changes, on every replica, and
// caches what is pruned by its metadata.
func (a *App) followChildren(ctx context.Context) error {
	for _, o := range []client.Object{&v1alpha1.DHCPServer{}, &v1alpha1.DNSServer{}, &v1alpha1.ProxyServer{}} {
		informer, err := a.manager.GetCache().GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %T: %w", o, err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: a.changed, UpdateFunc: func(_, o any) { a.changed(o) }, DeleteFunc: a.changed,
		})
		if err != nil {
			return fmt.Errorf("watching %T: %w", o, err)
		}
	}
	for _, o := range metadataKinds() {
		gvk, err := apiutil.GVKForObject(o, a.manager.GetScheme())
		if err != nil {
			return fmt.Errorf("finding the kind of %T: %w", o, err)
		}
		if _, err := a.manager.GetCache().GetInformer(ctx, kinds.Metadata(gvk), cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watching %s: %w", gvk.Kind, err)
		}
	}
	return nil
}

func (a *App) changed(o any) {
	if tomb, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = tomb.Obj
	}
	if child, ok := o.(client.Object); ok {
		a.hub.Changed(child)
	}
}

// Run runs the operator until the context ends.
func (a *App) Run(ctx context.Context) error {
	a.options.Logger.Info("starting", "version", Version, "hub", a.server.Addr().String(), "contract", agent.Contract)
	if err := a.manager.Start(ctx); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	return nil
}

// mayWrite tells whether writes are sent now.
func (a *App) mayWrite() bool { return a.options.LeaderElect == LeaderOff || a.term.Leads() }

// HubAddr is where agents are served, for tests.
func (a *App) HubAddr() net.Addr { return a.server.Addr() }

// HubBundle is what agents have to trust, for tests.
func (a *App) HubBundle() []byte { return a.keeper.Bundle() }

func encode(o client.Object) (*agentv1.Snapshot, error) {
	switch o := o.(type) {
	case *v1alpha1.DHCPServer:
		return agent.EncodeDHCP(o)
	case *v1alpha1.DNSServer:
		return agent.EncodeDNS(o)
	case *v1alpha1.ProxyServer:
		return agent.EncodeProxy(o)
	}
	return nil, fmt.Errorf("a %T has no snapshot", o)
}

// serviceAccount of a child's pod.
func serviceAccount(component, name string) string {
	of := map[string]string{
		agent.ComponentDHCP: render.ComponentDHCP, agent.ComponentDNS: render.ComponentDNS, agent.ComponentProxy: render.ComponentProxy,
	}
	return render.WorkloadName(name, of[component])
}

func typedKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		v1alpha1.GroupVersion.WithKind(v1alpha1.KindDHCPServer), v1alpha1.GroupVersion.WithKind(v1alpha1.KindDNSServer),
		v1alpha1.GroupVersion.WithKind(v1alpha1.KindProxyServer),
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Version: "v1", Kind: "Service"},
	}
}

func hubNames(host, namespace string) []string {
	names := []string{host}
	for _, n := range []string{"oooi-hub." + namespace + ".svc", "oooi-hub." + namespace + ".svc.cluster.local", "oooi-hub"} {
		if n != host {
			names = append(names, n)
		}
	}
	return names
}
