package hosted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Bounds of one answer, and of how many that are longer than short ones are read at
// one time: of all hosted clusters, and of one tenant's, which is less than half of
// it. A place is waited for no longer than placeWithin. Two bytes of an answer may cost
// hundreds in memory: what decoding costs is bounded as well.
const (
	maxAnswer   = 8 << 20
	maxCost     = 48 << 20
	shortAnswer = 256 << 10
	shortCost   = 6 << 20

	longOfAll    = 8
	longOfTenant = 2
	placeWithin  = 2 * time.Second
)

var errTooLong = errors.New("the hosted API server's answer is too long")

// longAnswers are the places of those who read one.
type longAnswers struct {
	all chan struct{}

	mu      sync.Mutex
	tenants map[string]chan struct{} // guarded by mu
}

func newLongAnswers() *longAnswers {
	return &longAnswers{all: make(chan struct{}, longOfAll), tenants: map[string]chan struct{}{}}
}

func (l *longAnswers) of(tenant string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tenants[tenant] == nil {
		l.tenants[tenant] = make(chan struct{}, longOfTenant)
	}
	return l.tenants[tenant]
}

// take waits for a place, and gives how to leave it. That there is none is no fault of
// who answers.
func (l *longAnswers) take(ctx context.Context, tenant string) (leave func(), err error) {
	taken := make([]chan struct{}, 0, 2)
	leave = func() {
		for _, c := range taken {
			<-c
		}
	}
	ctx, cancel := context.WithTimeout(ctx, placeWithin)
	defer cancel()
	for _, c := range []chan struct{}{l.of(tenant), l.all} {
		select {
		case c <- struct{}{}:
			taken = append(taken, c)
		case <-ctx.Done():
			leave()
			return nil, fmt.Errorf("waiting to read a long answer: %w", ErrNotAsked)
		}
	}
	return leave, nil
}

// bounded limits the length of an answer: a hosted API server is its tenant's.
type bounded struct {
	next   http.RoundTripper
	long   *longAnswers
	tenant string
	// work gives what the request belongs to; nil is nothing but itself.
	work func() *Work
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	work, end := b.work(), func() {}
	if work == nil {
		work = &Work{long: b.long, tenant: b.tenant}
		end = work.End
	}
	defer work.waits()()
	resp, err := b.next.RoundTrip(asksJSON(r))
	if err != nil {
		end()
		return nil, err
	}
	resp.Body = &limited{
		body: resp.Body, left: maxAnswer, cost: maxCost, work: work, end: end,
		long: func() error { return work.take(r.Context()) },
	}
	if err := legible(resp); err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	return resp, nil
}

// WrappedRoundTripper lets client-go cancel a request.
func (b bounded) WrappedRoundTripper() http.RoundTripper { return b.next }

type limited struct {
	body io.ReadCloser
	left int64
	cost int64
	reckoner
	// long takes a place for the work once the answer is no short one.
	long func() error
	work *Work
	end  func()
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if err := l.allowed(); err != nil {
		return 0, err
	}
	n, err := l.read(p[:min(int64(len(p)), l.left, shortAnswer)])
	l.left -= int64(n)
	l.cost -= l.reckon(p[:n])
	// The last of it may be what is too much.
	if err := l.allowed(); err != nil {
		return n, err
	}
	return n, err
}

// allowed says whether as much as was read may be.
func (l *limited) allowed() error {
	if l.left <= 0 || l.cost <= 0 {
		return errTooLong
	}
	if l.left <= maxAnswer-shortAnswer || l.cost <= maxCost-shortCost {
		return l.long()
	}
	return nil
}

func (l *limited) read(p []byte) (int, error) {
	defer l.work.waits()()
	return l.body.Read(p)
}

// Close implements io.Closer.
func (l *limited) Close() error {
	l.end()
	return l.body.Close()
}
