package hosted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Bounds of one answer, and of how many that are longer than short ones are read at
// one time: of all hosted clusters, and of one tenant's. An object costs memory, an
// empty one of three bytes hundreds; they are counted by their opening braces.
const (
	maxAnswer   = 8 << 20
	maxObjects  = 100_000
	shortAnswer = 256 << 10
	fewObjects  = 5_000

	longOfAll    = 8
	longOfTenant = 4
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

// take waits for a place, and gives how to leave it.
func (l *longAnswers) take(ctx context.Context, tenant string) (leave func(), err error) {
	taken := make([]chan struct{}, 0, 2)
	leave = func() {
		for _, c := range taken {
			<-c
		}
	}
	for _, c := range []chan struct{}{l.of(tenant), l.all} {
		select {
		case c <- struct{}{}:
			taken = append(taken, c)
		case <-ctx.Done():
			leave()
			return nil, fmt.Errorf("waiting to read a long answer: %w", ctx.Err())
		}
	}
	return leave, nil
}

// bounded limits the length of an answer: a hosted API server is its tenant's.
type bounded struct {
	next   http.RoundTripper
	long   *longAnswers
	tenant string
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		resp.Body = &limited{
			body: resp.Body, left: maxAnswer, objects: maxObjects,
			long: func() (func(), error) { return b.long.take(r.Context(), b.tenant) },
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
	// long is asked for a place once the answer is no short one.
	long  func() (leave func(), err error)
	leave func()
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 || l.objects <= 0 {
		return 0, errTooLong
	}
	if l.leave == nil && (l.left <= maxAnswer-shortAnswer || l.objects <= maxObjects-fewObjects) {
		leave, err := l.long()
		if err != nil {
			return 0, err
		}
		l.leave = leave
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	n, err := l.body.Read(p)
	l.left -= int64(n)
	l.objects -= bytes.Count(p[:n], []byte("{"))
	return n, err
}

// Close implements io.Closer.
func (l *limited) Close() error {
	if l.leave != nil {
		l.leave()
		l.leave = func() {}
	}
	return l.body.Close()
}
