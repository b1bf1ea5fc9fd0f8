package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind is an optional kind.
type Kind struct {
	Group, Name, Plural string
	// Versions that can be read, the preferred one first; none: any.
	Versions []string
	// New makes an empty object of a served version; nil: that the kind exists is
	// all that counts, and no object of it is read.
	New func(schema.GroupVersionKind) client.Object
	// Indexes of its objects in the cache, by name; may be nil.
	Indexes map[string]func(client.Object) string
}

// String is how people call it.
func (k Kind) String() string { return k.Name + "." + k.Group }

// crd is the name of the CustomResourceDefinition.
func (k Kind) crd() string { return k.Plural + "." + k.Group }

// Metadata makes objects of which only the metadata is cached.
func Metadata(gvk schema.GroupVersionKind) client.Object {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(gvk)
	return o
}

// Unstructured makes objects that can be of several versions.
func Unstructured(gvk schema.GroupVersionKind) client.Object {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	return o
}

// Typed makes objects of one Go type.
func Typed[T any, P interface {
	*T
	client.Object
}](schema.GroupVersionKind) client.Object {
	return P(new(T))
}

// Registry knows which kinds are served.
type Registry struct {
	discovery discovery.DiscoveryInterface
	cache     cache.Cache
	kinds     []Kind
	log       *slog.Logger
	known     chan struct{}   // closed when it is known what is served
	elected   <-chan struct{} // closed when this replica leads; nil: it always does
	leads     bool            // the loop's own, as is since
	since     time.Time       // of the first look around

	mu      sync.Mutex
	served  map[string]schema.GroupVersionKind // guarded by mu, by Kind.String
	missed  map[string]time.Time               // since when a kind that was served is not
	now     func() time.Time
	watches map[string][]func(client.Object) error
	changed []func()
}

// New makes a registry of the kinds.
func New(d discovery.DiscoveryInterface, c cache.Cache, log *slog.Logger, list ...Kind) *Registry {
	return &Registry{
		discovery: d, cache: c, kinds: list, log: log, known: make(chan struct{}), leads: true,
		served: map[string]schema.GroupVersionKind{}, missed: map[string]time.Time{}, now: time.Now, watches: map[string][]func(client.Object) error{},
	}
}

// Served gives the version of the kind that is in use.
func (r *Registry) Served(k Kind) (schema.GroupVersionKind, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gvk, ok := r.served[k.String()]
	return gvk, ok
}

// Known waits until it is known of every kind whether it is served: before that,
// kinds seem to be missing, and a restart would tell people so, or change what is
// made from them. An API server that has just started is waited for, for a while.
func (r *Registry) Known(ctx context.Context) error {
	select {
	case <-r.known:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the cluster's kinds: %w", ctx.Err())
	}
}

// Missing lists the kinds that are not served.
func (r *Registry) Missing() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, k := range r.kinds {
		if _, ok := r.served[k.String()]; !ok {
			out = append(out, k.String())
		}
	}
	slices.Sort(out)
	return out
}

// Watch calls add with an empty object each time that the kind appears; add
// starts a watch. Caller must call it before Start.
func (r *Registry) Watch(k Kind, add func(client.Object) error) {
	r.watches[k.String()] = append(r.watches[k.String()], add)
}

// WatchAs lets watches start when elected is closed, and not before: a controller
// that does not run yet would keep the watch of a kind that goes meanwhile, and wait
// for it in vain when it starts. Caller must call it before Start.
func (r *Registry) WatchAs(elected <-chan struct{}) { r.elected, r.leads = elected, false }

// OnChange calls f after the set of served kinds has changed. Caller must call
// it before Start.
func (r *Registry) OnChange(f func()) { r.changed = append(r.changed, f) }

// NeedLeaderElection says that every replica follows the kinds.
func (r *Registry) NeedLeaderElection() bool { return false }

// A kind is taken up when its CRD changes, and at the latest with the next
// look-around.
const (
	lookAround  = 20 * time.Second
	settle      = time.Second
	settleTries = 8
	syncTimeout = 20 * time.Second
	readTimeout = 5 * time.Second
	// startTimeout is for how long a kind that is defined may not be served, and for
	// how long what is served may not be known at the start.
	startTimeout = 40 * time.Second
)

var crds = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch

// Start follows the kinds until the context ends.
func (r *Registry) Start(ctx context.Context) error {
	wake, err := r.followCRDs(ctx)
	if err != nil {
		return err
	}
	tries, known, elected := 0, false, r.elected
	for {
		known = r.look(ctx, known)
		wait := lookAround
		if tries > 0 || !known {
			// A CRD is served a moment after it was made.
			tries = max(0, tries-1)
			wait = settle
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-elected:
			elected = nil
			r.lead(ctx)
		case <-wake:
			tries = settleTries
		case <-timer.C:
		}
		timer.Stop()
	}
}

// look looks around, and says whether it is known by now what is served.
func (r *Registry) look(ctx context.Context, known bool) bool {
	looked, sure := r.probe(ctx)
	if known || !looked {
		return known
	}
	r.since = cmp.Or(r.since, r.now())
	if !sure && r.now().Sub(r.since) < startTimeout {
		return false
	}
	close(r.known)
	return true
}

// lead starts the watches of what is served by now.
func (r *Registry) lead(ctx context.Context) {
	r.leads = true
	for _, k := range r.kinds {
		if gvk, served := r.Served(k); served {
			r.watch(ctx, k, gvk)
		}
	}
}

// followCRDs wakes the loop when a CRD of one of the kinds changes.
func (r *Registry) followCRDs(ctx context.Context) (<-chan struct{}, error) {
	informer, err := r.cache.GetInformer(ctx, Metadata(crds), cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching CustomResourceDefinitions: %w", err)
	}
	wake := make(chan struct{}, 1)
	poke := func(o any) {
		if tomb, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = tomb.Obj
		}
		m, ok := o.(*metav1.PartialObjectMetadata)
		if !ok || !slices.ContainsFunc(r.kinds, func(k Kind) bool { return k.crd() == m.GetName() }) {
			return
		}
		select {
		case wake <- struct{}{}:
		default: // the loop is about to look around already
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: poke, DeleteFunc: poke, UpdateFunc: func(_, o any) { poke(o) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching CustomResourceDefinitions: %w", err)
	}
	return wake, nil
}

// probe looks around once. It says whether it could, and whether it is sure of
// every kind.
func (r *Registry) probe(ctx context.Context) (looked, sure bool) {
	groups, err := r.discovery.ServerGroups()
	if err != nil {
		r.log.Warn("looking for kinds", "err", err)
		return false, false
	}
	changed, sure := false, true
	for _, k := range r.kinds {
		gvk, served, err := r.find(ctx, groups, k)
		if err != nil {
			r.log.Warn("looking for a kind", "kind", k.String(), "err", err)
			sure = false
			continue // not known: leave it as it is
		}
		news, certain := r.settle(ctx, k, gvk, served)
		changed, sure = changed || news, sure && certain
	}
	if changed {
		for _, f := range r.changed {
			f()
		}
	}
	return true, sure
}

// settle follows what was found of a kind. It says whether that is news, and
// whether it is sure: what is defined and not served may be about to be.
func (r *Registry) settle(ctx context.Context, k Kind, gvk schema.GroupVersionKind, served bool) (news, sure bool) {
	was, had := r.Served(k)
	switch {
	case !served && !had:
		return false, !r.defined(ctx, k)
	case !served && r.starting(ctx, k):
		return false, false
	}
	delete(r.missed, k.String()) // it is served, or gone
	if had && served && was == gvk {
		return false, true
	}
	if had {
		r.drop(ctx, k, was)
	}
	if !served {
		return true, true
	}
	taken := r.take(ctx, k, gvk)
	return had || taken, taken
}

// defined says whether a kind has a CRD; in doubt it has.
func (r *Registry) defined(ctx context.Context, k Kind) bool {
	return !apierrors.IsNotFound(r.definition(ctx, k))
}

// definition looks for a kind's CRD. They may not be readable: that is no reason to
// wait for ever.
func (r *Registry) definition(ctx context.Context, k Kind) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return r.cache.Get(ctx, client.ObjectKey{Name: k.crd()}, Metadata(crds))
}

// starting says whether a kind may be missing only because the API server has just
// started: it answers for seconds without serving what is defined.
func (r *Registry) starting(ctx context.Context, k Kind) bool {
	if !r.defined(ctx, k) {
		return false
	}
	since, missed := r.missed[k.String()]
	if !missed {
		since = r.now()
		r.missed[k.String()] = since
	}
	return r.now().Sub(since) < startTimeout
}

// find looks for the best served version of a kind. Where no object is read the
// definition alone says that it exists, whoever serves it now.
func (r *Registry) find(ctx context.Context, groups *metav1.APIGroupList, k Kind) (schema.GroupVersionKind, bool, error) {
	anyVersion := schema.GroupVersionKind{Group: k.Group, Kind: k.Name}
	if k.New == nil && r.definition(ctx, k) == nil {
		return anyVersion, true, nil
	}
	for _, version := range candidates(groups, k) {
		gvk := schema.GroupVersionKind{Group: k.Group, Version: version, Kind: k.Name}
		list, err := r.discovery.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return gvk, false, fmt.Errorf("listing the resources of %s: %w", gvk.GroupVersion(), err)
		}
		if slices.ContainsFunc(list.APIResources, func(res metav1.APIResource) bool {
			return res.Kind == k.Name && !strings.Contains(res.Name, "/")
		}) {
			if k.New == nil {
				return anyVersion, true, nil
			}
			return gvk, true, nil
		}
	}
	return schema.GroupVersionKind{}, false, nil
}

func candidates(groups *metav1.APIGroupList, k Kind) []string {
	for _, g := range groups.Groups {
		if g.Name != k.Group {
			continue
		}
		out := []string{g.PreferredVersion.Version}
		for _, v := range g.Versions {
			if v.Version != g.PreferredVersion.Version {
				out = append(out, v.Version)
			}
		}
		if len(k.Versions) == 0 {
			return out
		}
		return slices.DeleteFunc(slices.Clone(k.Versions), func(v string) bool { return !slices.Contains(out, v) })
	}
	return nil
}

// take starts the informer and the watches of a kind that has appeared.
func (r *Registry) take(ctx context.Context, k Kind, gvk schema.GroupVersionKind) bool {
	if k.New != nil {
		if err := r.inform(ctx, k, gvk); err != nil {
			r.log.Warn("taking up a kind", "kind", k.String(), "err", err)
			r.forget(ctx, k, gvk)
			return false
		}
	}
	// What a watch brings is looked at at once: the kind counts as served by then.
	r.serve(k, gvk, true)
	if r.leads && !r.watch(ctx, k, gvk) {
		return false
	}
	r.log.Info("a kind is served", "kind", k.String(), "version", gvk.Version)
	return true
}

// inform starts the informer of a kind, waits for it, and adds the indexes; they go
// with the informer.
func (r *Registry) inform(ctx context.Context, k Kind, gvk schema.GroupVersionKind) error {
	syncCtx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	informer, err := r.cache.GetInformer(syncCtx, k.New(gvk), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("starting the informer: %w", err)
	}
	if !toolscache.WaitForCacheSync(syncCtx.Done(), informer.HasSynced) {
		return errors.New("the informer did not sync in time")
	}
	for name, value := range k.Indexes {
		if err := r.cache.IndexField(ctx, k.New(gvk), name, func(o client.Object) []string { return []string{value(o)} }); err != nil {
			return fmt.Errorf("adding the index %s: %w", name, err)
		}
	}
	return nil
}

// watch starts the watches of a kind; one without its watches is not served.
func (r *Registry) watch(ctx context.Context, k Kind, gvk schema.GroupVersionKind) bool {
	for _, add := range r.watches[k.String()] {
		if err := add(k.New(gvk)); err != nil {
			r.log.Warn("watching a kind", "kind", k.String(), "err", err)
			r.serve(k, gvk, false)
			r.forget(ctx, k, gvk)
			return false
		}
	}
	return true
}

func (r *Registry) serve(k Kind, gvk schema.GroupVersionKind, served bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if served {
		r.served[k.String()] = gvk
	} else {
		delete(r.served, k.String())
	}
}

func (r *Registry) drop(ctx context.Context, k Kind, gvk schema.GroupVersionKind) {
	r.serve(k, gvk, false)
	r.forget(ctx, k, gvk)
	r.log.Info("a kind is no longer served", "kind", k.String())
}

func (r *Registry) forget(ctx context.Context, k Kind, gvk schema.GroupVersionKind) {
	if k.New == nil {
		return
	}
	if err := r.cache.RemoveInformer(ctx, k.New(gvk)); err != nil {
		r.log.Warn("letting a kind go", "kind", k.String(), "err", err)
	}
}
