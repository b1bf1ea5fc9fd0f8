package lead

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
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

var errStopping = errors.New("the operator stops and is not sure to be the leader")

// Term is the time that this replica may write as the leader.
type Term struct {
	mu      sync.Mutex
	begun   bool          // guarded by mu
	ended   bool          // guarded by mu
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
	t.begun, t.until = true, at.Add(Window)
	close(t.renewed)
	t.renewed = make(chan struct{})
	if lapsed {
		return t.resumed
	}
	return nil
}

// End lets nothing through any more, but before a term has begun.
func (t *Term) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.until = true, time.Time{}
	close(t.renewed)
	t.renewed = make(chan struct{})
}

// Sure waits until this replica is sure to lead.
func (t *Term) Sure(ctx context.Context) error {
	for {
		t.mu.Lock()
		sure, ended, renewed := !t.begun || time.Now().Before(t.until), t.ended, t.renewed
		t.mu.Unlock()
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

// Through makes requests that write wait until the replica is sure to lead.
func (t *Term) Through(next http.RoundTripper) http.RoundTripper { return gate{t, next} }

type gate struct {
	term *Term
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if Stores(r) {
		if err := g.term.Sure(r.Context()); err != nil {
			if r.Body != nil {
				err = errors.Join(err, r.Body.Close())
			}
			return nil, err
		}
	}
	return g.next.RoundTrip(r)
}

// Stores tells whether a request writes: a review is a question.
func Stores(r *http.Request) bool {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return !strings.HasSuffix(r.URL.Path, "reviews")
	}
	return false
}
