// Package coalesce spares a controller work. Events of a hurried kind are passed
// on at once as long as they come singly; when they keep coming they are
// gathered, the longer the busier it gets. For events of an unhurried kind
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
	// Interval between two reconciles of one object that events bring about.
	Interval = time.Second
	// longest is the interval where hurried events have kept coming.
	longest = 3 * Interval
	// burst is waited for even after a quiet time: events seldom come alone.
	burst = 10 * time.Millisecond
	// single is how many hurried reconciles close together still count as single ones.
	single = 2
	// calm is how long no hurried event has come when it is quiet again.
	calm = longest + Interval
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
	// hurried counts the reconciles that hurried events have brought about since
	// it was calm; last is when the last of them was due.
	hurried int
	last    time.Time
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
			if now.Sub(o.started) > time.Minute && now.Sub(o.last) > time.Minute {
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
	at := now.Add(burst)
	if now.Sub(o.last) > calm {
		o.hurried = 0
	}
	if o.last.After(now) {
		return o.last.Sub(now) // one is on its way already
	}
	if hurry == Unhurried {
		interval := Interval
		if o.hurried > single {
			interval = longest // they keep coming, and the next one brings a reconcile with it
		}
		if next := o.started.Add(interval); next.After(at) {
			at = next
		}
		return at.Sub(now)
	}
	if o.hurried >= single {
		interval := min(longest, time.Duration(o.hurried-single+1)*Interval)
		if next := o.last.Add(interval); next.After(at) {
			at = next
		}
	}
	o.hurried++
	o.last = at
	return at.Sub(now)
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
