package attachment

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// How many attachments are worked at, and how many may wait for their hosted clusters
// beside them: in one namespace, which is one tenant's, and in all. Those whose
// cluster has let us wait before leave room for the others. The tries of sixty that
// are away, six seconds each, then still follow each other within thirty seconds.
const (
	atWork        = 8
	waiting       = 56
	waitingSlow   = 32
	perTenant     = 24
	perTenantSlow = 16
)

// forgotten is for how long it is known that a cluster was slow: by then its
// attachment is gone.
const forgotten = time.Hour

// Turns bound the work on attachments. Who waits for a hosted cluster has no turn:
// clusters that do not answer hold up no other one.
type Turns struct {
	turns chan struct{}

	mu      sync.Mutex
	waiting places            // guarded by mu
	tenants map[string]places // guarded by mu, by namespace
	// slow are the attachments whose hosted cluster was slow, and when.
	slow map[types.NamespacedName]time.Time // guarded by mu
}

// places that are taken.
type places struct{ all, slow int }

func (p places) free(slow bool, all, ofSlow int) bool {
	return p.all < all && (!slow || p.slow < ofSlow)
}

func (p places) add(slow bool, n int) places {
	p.all += n
	if slow {
		p.slow += n
	}
	return p
}

// NewTurns makes Turns.
func NewTurns() *Turns {
	return &Turns{turns: make(chan struct{}, atWork), tenants: map[string]places{}, slow: map[types.NamespacedName]time.Time{}}
}

// Aside does what is sent to the hosted cluster of an attachment: it may take long
// although it is no work. It does nothing, and says so, where too many do that
// already. f gives for how long the hosted cluster has let us wait.
func (t *Turns) Aside(who types.NamespacedName, f func() time.Duration) bool {
	slow, ok := t.sit(who)
	if !ok {
		return false
	}
	<-t.turns
	var waited time.Duration
	defer func() {
		t.rise(who, slow, waited >= answersWithin)
		t.turns <- struct{}{}
	}()
	waited = f()
	return true
}

// Slow says whether an attachment's hosted cluster let us wait the last time.
func (t *Turns) Slow(who types.NamespacedName) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, slow := t.slow[who]
	return slow
}

// NotAsked says that the hosted cluster of an attachment is not asked any more: that it
// was slow says nothing then.
func (t *Turns) NotAsked(who types.NamespacedName) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.slow, who)
}

func (t *Turns) sit(who types.NamespacedName) (slow, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, slow = t.slow[who]
	mine := t.tenants[who.Namespace]
	if !t.waiting.free(slow, waiting, waitingSlow) || !mine.free(slow, perTenant, perTenantSlow) {
		return slow, false
	}
	t.waiting, t.tenants[who.Namespace] = t.waiting.add(slow, 1), mine.add(slow, 1)
	return slow, true
}

func (t *Turns) rise(who types.NamespacedName, wasSlow, isSlow bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = t.waiting.add(wasSlow, -1)
	if left := t.tenants[who.Namespace].add(wasSlow, -1); left.all > 0 {
		t.tenants[who.Namespace] = left
	} else {
		delete(t.tenants, who.Namespace)
	}
	delete(t.slow, who)
	if isSlow {
		now := time.Now()
		maps.DeleteFunc(t.slow, func(_ types.NamespacedName, at time.Time) bool { return now.Sub(at) > forgotten })
		t.slow[who] = now
	}
}

// each gives each reconcile a turn.
func (t *Turns) each(next reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		t.turns <- struct{}{}
		defer func() { <-t.turns }()
		return next.Reconcile(ctx, r)
	})
}
