package hosted

import (
	"context"
	"sync"
	"time"
)

// Work is what one pass does with a hosted cluster. It has a place from its first
// long answer until its end, since an answer is decoded and looked at only after it
// was read and closed.
type Work struct {
	long   *longAnswers
	tenant string
	// done lets the next one begin; may be nil.
	done func()

	mu      sync.Mutex
	leave   func()        // guarded by mu
	ended   bool          // guarded by mu
	crowded bool          // guarded by mu
	waited  time.Duration // guarded by mu
}

// Begin begins work with a hosted cluster, all of whose answers belong to it; to be
// ended. It is nil while somebody else is at work there.
func (c *Clients) Begin(t Target) *Work {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.works[t] != nil {
		return nil
	}
	w := &Work{long: c.long, tenant: t.Tenant, done: func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.works, t)
	}}
	c.works[t] = w
	return w
}

func (c *Clients) work(t Target) *Work {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.works[t]
}

// End leaves the place. Nothing that was read is to be in use any more.
func (w *Work) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	w.ended = true
	if w.leave != nil {
		w.leave()
	}
	if w.done != nil {
		w.done()
	}
}

// Crowded says whether something was not read because there was no place: whatever
// came of it says nothing of the hosted cluster.
func (w *Work) Crowded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.crowded
}

// Waited is for how long the hosted cluster itself has let us wait so far.
func (w *Work) Waited() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waited
}

// take gives the work a place unless it has one.
func (w *Work) take(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return ErrNotAsked
	}
	if w.leave != nil {
		return nil
	}
	leave, err := w.long.take(ctx, w.tenant)
	w.leave, w.crowded = leave, err != nil
	return err
}

// waits counts until what it gives is called. A nil Work counts nothing.
func (w *Work) waits() func() {
	if w == nil {
		return func() {}
	}
	began := time.Now()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waited += time.Since(began)
	}
}
