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
	away chan struct{} // guarded by mu; closed when it is back, nil while it answers
	done bool          // guarded by mu; Follow has ended, nothing waits any more
	back []func()      // guarded by mu
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
		for _, f := range s.returned() {
			if missed {
				f()
			}
		}
	}
}

// untilBack asks until there is an answer, and says whether one was missed.
func (s *Server) untilBack(ctx context.Context) bool {
	since, missed := time.Now(), false
	for {
		err := s.ready(ctx)
		if err == nil || ctx.Err() != nil {
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
func (s *Server) returned() []func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.away)
	s.away = nil
	return s.back
}

func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	if s.away != nil {
		close(s.away)
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
	s.away = make(chan struct{})
	s.suspect <- struct{}{} // room for one, and one is away at a time
}

// here waits while the API server is away.
func (s *Server) here(ctx context.Context) error {
	for {
		s.mu.Lock()
		away := s.away
		s.mu.Unlock()
		if away == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the API server: %w", ctx.Err())
		case <-away:
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
// connection breaks is sent again; a write may have been carried out, so its
// caller has to know.
func (s *Server) Through(next http.RoundTripper) http.RoundTripper { return held{s, next} }

type held struct {
	server *Server
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (h held) RoundTrip(r *http.Request) (*http.Response, error) {
	for {
		if err := h.server.here(r.Context()); err != nil {
			if r.Body != nil {
				err = errors.Join(err, r.Body.Close())
			}
			return nil, err
		}
		resp, err := h.next.RoundTrip(r)
		if err == nil || r.Context().Err() != nil || untrusted(err) {
			return resp, err
		}
		h.server.lost()
		if r.Method != http.MethodGet || h.server.ended() {
			return resp, err
		}
	}
}

func (s *Server) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}
