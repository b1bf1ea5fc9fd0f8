package hosted

import (
	"bytes"
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
// it. A place is waited for no longer than placeWithin. An object costs memory, an
// empty one of three bytes hundreds; they are counted by their opening braces.
const (
	maxAnswer   = 8 << 20
	maxObjects  = 100_000
	shortAnswer = 256 << 10
	fewObjects  = 5_000

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
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		resp.Body = &limited{
			body: resp.Body, left: maxAnswer, objects: maxObjects, work: work, end: end,
			long: func() error { return work.take(r.Context()) },
		}
	}
	return resp, err
}

// WrappedRoundTripper lets client-go cancel a request.
func (b bounded) WrappedRoundTripper() http.RoundTripper { return b.next }

type limited struct {
	body    io.ReadCloser
	left    int64
	objects int
	// long takes a place for the work once the answer is no short one.
	long func() error
	work *Work
	end  func()
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 || l.objects <= 0 {
		return 0, errTooLong
	}
	if l.left <= maxAnswer-shortAnswer || l.objects <= maxObjects-fewObjects {
		if err := l.long(); err != nil {
			return 0, err
		}
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	n, err := l.read(p)
	l.left -= int64(n)
	l.objects -= bytes.Count(p[:n], []byte("{"))
	return n, err
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
