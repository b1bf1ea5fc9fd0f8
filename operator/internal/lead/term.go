package lead

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"sync"
	"time"
)

// A Lease expires for others after Duration; a leader trusts it for Window after
// it began to renew it; it renews it every Retry. The values are those that
// client-go recommends.
const (
	Duration = 15 * time.Second
	Window   = 10 * time.Second
	Retry    = 2 * time.Second
)

// ErrUnsure is what a write ends with that this replica may not send.
var ErrUnsure = errors.New("this replica is not sure to be the leader")

var errStopping = fmt.Errorf("the operator stops: %w", ErrUnsure)

// Term is the time that this replica may write as the leader.
type Term struct {
	mu      sync.Mutex
	begun   bool          // guarded by mu
	ended   bool          // guarded by mu; for good
	until   time.Time     // guarded by mu
	renewed chan struct{} // guarded by mu; closed by the next renewal
	resumed []func()      // guarded by mu
}

// NewTerm makes a Term that has not begun: who does not lead writes nothing that
// needs a leader, and is not held up.
func NewTerm() *Term { return &Term{renewed: make(chan struct{})} }

// OnResume calls f when writes may go on that had to wait.
func (t *Term) OnResume(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resumed = append(t.resumed, f)
}

// Renewed says that the lock was ours at that time.
func (t *Term) Renewed(at time.Time) {
	for _, f := range t.renew(at) {
		f()
	}
}

// renew gives what is to be called: nothing, as long as no write had to wait.
func (t *Term) renew(at time.Time) []func() {
	t.mu.Lock()
	defer t.mu.Unlock()
	lapsed := t.begun && !time.Now().Before(t.until)
	t.begun = true
	if t.ended {
		return nil
	}
	t.until = at.Add(Window)
	close(t.renewed)
	t.renewed = make(chan struct{})
	if lapsed {
		return t.resumed
	}
	return nil
}

// hasBegun tells whether the lock was ever ours.
func (t *Term) hasBegun() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun
}

// End lets nothing through any more, but before a term has begun. No renewal
// undoes it: what began as the leader then does not know who led meanwhile.
func (t *Term) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.until = true, time.Time{}
	close(t.renewed)
	t.renewed = make(chan struct{})
}

// state gives whether this replica is sure to lead now, whether its term has
// ended, and what is closed when that may have changed.
func (t *Term) state() (sure, ended bool, renewed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.begun || time.Now().Before(t.until), t.ended, t.renewed
}

// Leads tells whether this replica is sure to lead now.
func (t *Term) Leads() bool {
	sure, _, _ := t.state()
	return sure && t.hasBegun()
}

// Sure waits until this replica is sure to lead.
func (t *Term) Sure(ctx context.Context) error {
	for {
		sure, ended, renewed := t.state()
		if sure {
			return nil
		}
		if ended {
			return errStopping
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting to be sure to lead: %w", ctx.Err())
		case <-renewed:
		}
	}
}

// sureNow is Sure for those who cannot wait.
func (t *Term) sureNow(context.Context) error {
	if sure, _, _ := t.state(); !sure {
		return ErrUnsure
	}
	return nil
}

// Through makes requests that write wait until the replica is sure to lead. It is
// for the API server that keeps the lock.
func (t *Term) Through(next http.RoundTripper) http.RoundTripper { return gate{t.Sure, next} }

// Now makes requests that write fail while the replica is not sure to lead. It is
// for other API servers: what a write to them is made of was read from the one that
// keeps the lock, which may say something else by the time that it can be asked.
func (t *Term) Now(next http.RoundTripper) http.RoundTripper { return gate{t.sureNow, next} }

type gate struct {
	open func(context.Context) error
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if Stores(r) {
		if err := g.open(r.Context()); err != nil {
			if r.Body != nil {
				err = errors.Join(err, r.Body.Close())
			}
			return nil, err
		}
	}
	return g.next.RoundTrip(r)
}

// WrappedRoundTripper lets client-go cancel a request.
func (g gate) WrappedRoundTripper() http.RoundTripper { return g.next }

// Stores tells whether a request writes: a review is a question.
func Stores(r *http.Request) bool {
	switch r.Method {
	case http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	case http.MethodPost:
		return !slices.Contains(reviews(), path.Base(r.URL.Path))
	}
	return false
}

// reviews are the resources that only answer.
func reviews() []string {
	return []string{
		"tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews", "localsubjectaccessreviews", "selfsubjectrulesreviews",
	}
}
