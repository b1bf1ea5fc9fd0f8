// Package coalesce spares a controller work. Events of a hurried kind are passed
// on at once as long as they come singly; when they keep coming, and for events
// of an unhurried kind (leases, other objects' claims), there is one reconcile a
// second (behaviour H4).
//
// It refuses to drop an event. Invariant: between an event and the start of a
// reconcile that has seen it lie at most the interval and the reconciles before.
package coalesce

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// Interval between two reconciles of one object that events bring about.
	Interval = time.Second
	// burst is waited for even after a quiet time: events seldom come alone.
	burst = 10 * time.Millisecond
	// single is how many reconciles within two intervals still count as single ones.
	single = 4
)

// Hurry of a kind of event.
type Hurry bool

// The hurries.
const (
	Hurried   Hurry = true
	Unhurried Hurry = false
)

// Gatherer remembers when each object was last reconciled.
type Gatherer struct {
	clock func() time.Time

	mu   sync.Mutex
	last map[reconcile.Request][]time.Time // guarded by mu; the starts of the last reconciles, oldest first
}

// New makes a Gatherer.
func New(clock func() time.Time) *Gatherer {
	return &Gatherer{clock: clock, last: map[reconcile.Request][]time.Time{}}
}

// Started records that a reconcile begins.
func (g *Gatherer) Started(key client.ObjectKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := reconcile.Request{NamespacedName: key}
	starts := append(g.last[r], g.clock())
	if len(starts) > single {
		starts = append([]time.Time(nil), starts[len(starts)-single:]...)
	}
	g.last[r] = starts
}

// Forget drops an object that is gone.
func (g *Gatherer) Forget(key client.ObjectKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.last, reconcile.Request{NamespacedName: key})
}

func (g *Gatherer) delay(r reconcile.Request, hurry Hurry) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	starts, now := g.last[r], g.clock()
	if len(starts) == 0 {
		return burst
	}
	singly := len(starts) < single || now.Sub(starts[0]) > 2*Interval
	if bool(hurry) && singly {
		return burst
	}
	return max(burst, starts[len(starts)-1].Add(Interval).Sub(now))
}

// Handler enqueues what mapped names, gathered.
func (g *Gatherer) Handler(hurry Hurry, mapped func(context.Context, client.Object) []reconcile.Request) handler.EventHandler {
	add := func(ctx context.Context, o client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		for _, r := range mapped(ctx, o) {
			q.AddAfter(r, g.delay(r, hurry))
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, e.ObjectNew, q)
			if e.ObjectOld != nil {
				add(ctx, e.ObjectOld, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, e.Object, q)
		},
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, e.Object, q)
		},
	}
}
