// Package coalesce spares a controller work: the first event after a quiet time
// is passed on at once, the ones that follow are gathered to one reconcile a
// second (behaviour H4).
//
// It refuses to drop an event. Invariant: between an event and the end of a
// reconcile that has seen it lie at most the interval and the reconcile itself.
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
)

// Gatherer remembers when each object was last reconciled.
type Gatherer struct {
	clock func() time.Time

	mu   sync.Mutex
	last map[reconcile.Request]time.Time // guarded by mu
}

// New makes a Gatherer.
func New(clock func() time.Time) *Gatherer {
	return &Gatherer{clock: clock, last: map[reconcile.Request]time.Time{}}
}

// Started records that a reconcile begins.
func (g *Gatherer) Started(key client.ObjectKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last[reconcile.Request{NamespacedName: key}] = g.clock()
}

// Forget drops an object that is gone.
func (g *Gatherer) Forget(key client.ObjectKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.last, reconcile.Request{NamespacedName: key})
}

func (g *Gatherer) delay(r reconcile.Request) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	last, ok := g.last[r]
	if !ok {
		return burst
	}
	return max(burst, last.Add(Interval).Sub(g.clock()))
}

// Handler enqueues what mapped names, gathered.
func (g *Gatherer) Handler(mapped func(context.Context, client.Object) []reconcile.Request) handler.EventHandler {
	add := func(ctx context.Context, o client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		for _, r := range mapped(ctx, o) {
			q.AddAfter(r, g.delay(r))
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
