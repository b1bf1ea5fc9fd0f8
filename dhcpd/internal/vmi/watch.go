package vmi

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	kubevirtv1 "kubevirt.io/api/core/v1"
	kubevirtclient "kubevirt.io/client-go/kubevirt/typed/core/v1"

	"github.com/densityops/oooi/dhcpd/internal/config"
)

// settle joins the changes of a moment into one index.
const settle = 20 * time.Millisecond

// Cluster watches the machines of a cluster. What it has read stays known
// while the API is away.
type Cluster struct {
	client  kubevirtclient.KubevirtV1Interface
	log     *slog.Logger
	changed chan struct{}
}

// NewCluster makes a watcher with the given access.
func NewCluster(c *rest.Config, log *slog.Logger) (*Cluster, error) {
	client, err := kubevirtclient.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("making KubeVirt client: %w", err)
	}
	return newCluster(client, log), nil
}

func newCluster(client kubevirtclient.KubevirtV1Interface, log *slog.Logger) *Cluster {
	return &Cluster{client: client, log: log, changed: make(chan struct{}, 1)}
}

// space is the two informers of one namespace.
type space struct {
	vms, vmis cache.SharedIndexInformer
	absent    *absence
	stop      context.CancelFunc
}

// Run calls set with an index whenever machines or the configuration change,
// until ctx ends.
func (c *Cluster) Run(ctx context.Context, configs <-chan *config.Config, set func(*Index)) error {
	spaces := map[string]*space{}
	var cfg *config.Config
	var due <-chan time.Time
	// A namespace that could not be read yet raises no event when it can.
	again := time.NewTicker(time.Second)
	defer again.Stop()
	read := 0
	for {
		select {
		case <-ctx.Done():
			for _, s := range spaces {
				s.stop()
			}
			return nil
		case cfg = <-configs:
			c.follow(ctx, spaces, cfg.Namespaces)
			due = time.After(settle)
		case <-c.changed:
			if due == nil {
				due = time.After(settle)
			}
		case <-again.C:
			if n := len(complete(spaces)); n != read {
				read, due = n, time.After(0)
			}
		case <-due:
			due = nil
			if cfg != nil {
				x := indexOf(spaces, cfg)
				read = len(x.read)
				set(x)
			}
		}
	}
}

// follow starts and stops informers so that exactly namespaces are watched.
func (c *Cluster) follow(ctx context.Context, spaces map[string]*space, namespaces []string) {
	for ns, s := range spaces {
		if !slices.Contains(namespaces, ns) {
			s.stop()
			delete(spaces, ns)
		}
	}
	for _, ns := range namespaces {
		if spaces[ns] == nil {
			spaces[ns] = c.watch(ctx, ns)
		}
	}
}

func (c *Cluster) watch(ctx context.Context, ns string) *space {
	ctx, stop := context.WithCancel(ctx)
	scope := ns
	if ns == "*" {
		scope = metav1.NamespaceAll
	}
	s := &space{stop: stop, absent: &absence{}}
	vms, vmis := c.client.VirtualMachines(scope), c.client.VirtualMachineInstances(scope)
	s.vms = c.informer(ctx, s.absent, &kubevirtv1.VirtualMachine{}, &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return vms.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return vms.Watch(ctx, o) },
	})
	s.vmis = c.informer(ctx, s.absent, &kubevirtv1.VirtualMachineInstance{}, &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return vmis.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return vmis.Watch(ctx, o) },
	})
	return s
}

func (c *Cluster) informer(ctx context.Context, gone *absence, kind runtime.Object, lw *cache.ListWatch) cache.SharedIndexInformer {
	i := cache.NewSharedIndexInformer(plainList{lw}, kind, 0, cache.Indexers{})
	_ = i.SetTransform(slim) // it has not been started
	_ = i.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		gone.note(err)
		c.log.Debug("watching machines", "err", err)
	})
	poke := func() {
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}
	// It can only fail once the informer was stopped.
	_, _ = i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { poke() },
		UpdateFunc: func(before, after any) {
			if news(before, after) {
				poke()
			}
		},
		DeleteFunc: func(any) { poke() },
	})
	go i.RunWithContext(ctx)
	return i
}

// news says whether an update changes what is kept of a machine.
func news(before, after any) bool {
	x, ok := before.(runtime.Object)
	y, also := after.(runtime.Object)
	if !ok || !also {
		return true
	}
	for _, o := range []*runtime.Object{&x, &y} {
		c := (*o).DeepCopyObject()
		if m, err := meta.Accessor(c); err == nil {
			m.SetResourceVersion("")
		}
		*o = c
	}
	return !reflect.DeepEqual(x, y)
}

// plainList has the informer list before it watches. A streamed list would
// wait for a bookmark that older API servers, and fakes, never send.
type plainList struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is what client-go looks for.
func (plainList) IsWatchListSemanticsUnSupported() bool { return true }

// slim drops what is never looked at; a VirtualMachineInstance is 20 KiB.
func slim(o any) (any, error) {
	switch v := o.(type) {
	case *kubevirtv1.VirtualMachineInstance:
		out := &kubevirtv1.VirtualMachineInstance{TypeMeta: v.TypeMeta, ObjectMeta: slimMeta(v.ObjectMeta)}
		out.Spec = slimSpec(v.Spec)
		out.Status.Phase = v.Status.Phase
		out.Status.Interfaces = v.Status.Interfaces
		return out, nil
	case *kubevirtv1.VirtualMachine:
		out := &kubevirtv1.VirtualMachine{TypeMeta: v.TypeMeta, ObjectMeta: slimMeta(v.ObjectMeta)}
		if v.Spec.Template != nil {
			out.Spec.Template = &kubevirtv1.VirtualMachineInstanceTemplateSpec{Spec: slimSpec(v.Spec.Template.Spec)}
		}
		return out, nil
	}
	return o, nil
}

func slimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, CreationTimestamp: m.CreationTimestamp,
	}
}

func slimSpec(s kubevirtv1.VirtualMachineInstanceSpec) kubevirtv1.VirtualMachineInstanceSpec {
	var out kubevirtv1.VirtualMachineInstanceSpec
	out.Networks = s.Networks
	out.Domain.Devices.Interfaces = s.Domain.Devices.Interfaces
	return out
}

// absence notes that KubeVirt is not installed: then there are no machines,
// and that is known.
type absence struct{ flag atomic.Bool }

func (a *absence) note(err error) {
	a.flag.Store(apierrors.IsNotFound(err) || meta.IsNoMatchError(err))
}

// complete lists the namespaces that were read.
func complete(spaces map[string]*space) map[string]bool {
	out := map[string]bool{}
	for ns, s := range spaces {
		if (s.vms.HasSynced() && s.vmis.HasSynced()) || s.absent.flag.Load() {
			out[ns] = true
		}
	}
	return out
}

func indexOf(spaces map[string]*space, cfg *config.Config) *Index {
	read, f := complete(spaces), newFilter(cfg)
	var machines []machine
	for _, s := range spaces {
		for _, o := range s.vms.GetStore().List() {
			machines = append(machines, f.fromVM(o.(*kubevirtv1.VirtualMachine)))
		}
		for _, o := range s.vmis.GetStore().List() {
			machines = append(machines, f.fromVMI(o.(*kubevirtv1.VirtualMachineInstance)))
		}
	}
	return build(machines, read, cfg.Namespaces)
}

// Complete says whether every namespace of cfg was read.
func (x *Index) Complete(cfg *config.Config) bool {
	if x.read["*"] {
		return true
	}
	return !slices.ContainsFunc(cfg.Namespaces, func(ns string) bool { return !x.read[ns] })
}
