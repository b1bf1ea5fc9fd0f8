package reach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/densityops/oooi/operator/internal/lead"
)

// How long one question may take, and how soon the next one follows: every
// replica of every operator asks, so they spread.
const (
	askTimeout = 5 * time.Second
	askEvery   = time.Second
	askSpread  = time.Second
)

// Server is what is known of the API server.
type Server struct {
	rest rest.Interface
	log  *slog.Logger
	// suspect wakes Follow.
	suspect chan struct{}

	mu   sync.Mutex
	away *absence // guarded by mu; nil while it answers
	done bool     // guarded by mu; Follow has ended, nothing waits any more
	back []func() // guarded by mu
	// total of the absences that are over.
	total time.Duration // guarded by mu
}

// absence is a time in which the API server counts as away.
type absence struct {
	since time.Time
	over  chan struct{} // closed when it is back
	real  bool          // an answer was missed; to be read when it is over
}

// New makes a Server that is asked as config says. Nothing waits before Follow
// runs.
func New(config *rest.Config, log *slog.Logger) (*Server, error) {
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.Timeout = askTimeout
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the API server: %w", err)
	}
	return &Server{rest: client, log: log, suspect: make(chan struct{}, 1)}, nil
}

// OnBack calls f each time that the API server has come back.
func (s *Server) OnBack(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back = append(s.back, f)
}

// Follow asks for the API server's return while it is away, until the context
// ends.
func (s *Server) Follow(ctx context.Context) {
	defer s.end()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.suspect:
		}
		missed := s.untilBack(ctx)
		if ctx.Err() != nil {
			return
		}
		for _, f := range s.returned(missed) {
			if missed {
				f()
			}
		}
	}
}

// untilBack asks until there is an answer, whatever it says, and tells whether one
// was missed. An API server that says that it is not ready may serve all the same:
// who asks it for something else then hears whether it does.
func (s *Server) untilBack(ctx context.Context) bool {
	since, missed := time.Now(), false
	for {
		err := s.ready(ctx)
		if _, answered := status(err); err == nil || answered || ctx.Err() != nil {
			break
		}
		if !missed {
			missed = true
			s.log.Warn("the API server cannot be reached; requests wait for it", "err", err)
		}
		if !pause(ctx) {
			break
		}
	}
	if missed && ctx.Err() == nil {
		s.log.Info("the API server is back", "away", time.Since(since).Round(time.Second).String())
	}
	return missed
}

// returned lets go on what waits, and gives what is to be called.
func (s *Server) returned(missed bool) []func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away.real = missed
	s.total += time.Since(s.away.since)
	close(s.away.over)
	s.away = nil
	return s.back
}

func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	if s.away != nil {
		close(s.away.over)
		s.away = nil
	}
}

// lost notes that a request found nobody.
func (s *Server) lost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done || s.away != nil {
		return
	}
	s.away = &absence{since: time.Now(), over: make(chan struct{})}
	s.suspect <- struct{}{} // room for one, and one is away at a time
}

// Away is for how long it was away so far, all absences together.
func (s *Server) Away() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away == nil {
		return s.total
	}
	return s.total + time.Since(s.away.since)
}

// here waits while the API server is away, and tells whether it really was.
func (s *Server) here(ctx context.Context) (waited bool, err error) {
	for {
		s.mu.Lock()
		away := s.away
		s.mu.Unlock()
		if away == nil {
			return waited, nil
		}
		select {
		case <-ctx.Done():
			return waited, fmt.Errorf("waiting for the API server: %w", ctx.Err())
		case <-away.over:
			waited = waited || away.real
		}
	}
}

// ready asks whether it serves.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := s.rest.Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error()
	if code, answered := status(err); answered && code < http.StatusInternalServerError {
		return nil // some do not let everybody ask
	}
	return err
}

// pause waits for the next question; false means that there is none.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(askEvery + rand.N(askSpread))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Through makes requests wait while the API server is away. A read whose
// connection breaks is sent again, once, and once more after each outage; a write
// may have been carried out, so its caller has to know.
func (s *Server) Through(next http.RoundTripper) http.RoundTripper { return held{s, next} }

type held struct {
	server *Server
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (h held) RoundTrip(r *http.Request) (*http.Response, error) {
	var broken error
	for sent := 0; ; sent++ {
		waited, err := h.server.here(r.Context())
		if err != nil {
			if r.Body != nil {
				err = errors.Join(err, r.Body.Close())
			}
			return nil, err
		}
		if sent > 1 && !waited {
			return nil, broken
		}
		resp, err := h.next.RoundTrip(r)
		if err == nil || r.Context().Err() != nil || unasked(err) {
			return resp, err
		}
		h.server.lost()
		if r.Method != http.MethodGet || h.server.ended() {
			return resp, err
		}
		broken = err
	}
}

// WrappedRoundTripper lets client-go cancel a request.
func (h held) WrappedRoundTripper() http.RoundTripper { return h.next }

// unasked tells whether an error says nothing about the API server: its
// certificate is not believed, or the request was never sent.
func unasked(err error) bool { return untrusted(err) || errors.Is(err, lead.ErrUnsure) }

func (s *Server) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}
