// Package coalesce spares a controller work. Events of a hurried kind are passed
// on at once as long as they come singly, a few of them close together too; when
// they keep coming they are gathered. For events of an unhurried kind
// (leases, other objects' claims) there is one reconcile a second (behaviour H4),
// and while hurried ones are gathered none beside theirs.
//
// It refuses to drop an event. Invariant: between an event and the start of a
// reconcile that has seen it lie at most the longest interval and the reconciles
// before.
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
	// Interval between two reconciles of one object that unhurried events bring about.
	Interval = time.Second
	// longest is the interval where hurried events keep coming.
	longest = 3 * Interval
	// burst is waited for even after a quiet time: events seldom come alone.
	burst = 10 * time.Millisecond
	// singles is how many hurried reconciles may follow each other at once; one of
	// them comes back with each longest interval.
	singles = 3
)

// Hurry of a kind of event.
type Hurry bool

// The hurries.
const (
	Hurried   Hurry = true
	Unhurried Hurry = false
)

// Gatherer knows for each object when it was reconciled and when it hurries.
type Gatherer struct {
	clock func() time.Time

	mu      sync.Mutex
	objects map[reconcile.Request]*object // guarded by mu
	swept   time.Time                     // guarded by mu
}

type object struct {
	// started is when the last reconcile began.
	started time.Time
	// due is when the last reconcile that hurried events have brought about was
	// due; spent is when all that were allowed at once will be again.
	due, spent time.Time
}

// next is the earliest time of one more hurried reconcile.
func (o *object) next(now time.Time) time.Time {
	if free := o.spent.Add(-(singles - 1) * longest); free.After(now) {
		return free
	}
	return now
}

// New makes a Gatherer.
func New(clock func() time.Time) *Gatherer {
	return &Gatherer{clock: clock, objects: map[reconcile.Request]*object{}}
}

// Started records that a reconcile begins.
func (g *Gatherer) Started(key client.ObjectKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.of(reconcile.Request{NamespacedName: key}).started = g.clock()
}

// of gives the object's record; those that say nothing any more are swept.
func (g *Gatherer) of(r reconcile.Request) *object {
	if now := g.clock(); now.Sub(g.swept) > time.Minute {
		g.swept = now
		for k, o := range g.objects {
			if now.Sub(o.started) > time.Minute && now.Sub(o.due) > time.Minute {
				delete(g.objects, k)
			}
		}
	}
	o := g.objects[r]
	if o == nil {
		o = &object{}
		g.objects[r] = o
	}
	return o
}

func (g *Gatherer) delay(r reconcile.Request, hurry Hurry) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	o, now := g.of(r), g.clock()
	if o.due.After(now) {
		return o.due.Sub(now) // one is on its way already
	}
	at, next := now.Add(burst), o.next(now)
	if hurry == Unhurried {
		interval := Interval
		if next.After(now) {
			interval = longest // hurried ones keep coming, and bring a reconcile with them
		}
		return later(at, o.started.Add(interval)).Sub(now)
	}
	o.due = later(at, next)
	o.spent = later(now, o.spent).Add(longest)
	return o.due.Sub(now)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
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
