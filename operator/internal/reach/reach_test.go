package reach_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/densityops/oooi/operator/internal/lead"
	"github.com/densityops/oooi/operator/internal/reach"
)

// pass lets time go by in a bubble of synctest, and what is due then happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

const infras = "/apis/hostedcluster.densityops.com/v1alpha1/infras"

var errNobody = syscall.ECONNREFUSED

// server behaves as an API server does that comes, goes and refuses.
type server struct {
	mu     sync.Mutex
	answer func(path string) (int, error) // guarded by mu
	asked  []string                       // guarded by mu
}

func (s *server) set(answer func(path string) (int, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *server) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	code, err := s.answer(r.URL.Path)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader("{}")), Request: r,
	}, nil
}

func always(code int, err error) func(string) (int, error) {
	return func(string) (int, error) { return code, err }
}

// onPath answers well but for one path.
func onPath(path string, code int) func(string) (int, error) {
	return func(asked string) (int, error) {
		if asked == path {
			return code, nil
		}
		return http.StatusOK, nil
	}
}

func connect(t *testing.T, s *server) (*reach.Server, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	config := &rest.Config{Host: "https://api.example.com", Transport: s}
	made, err := reach.New(config, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	return made, log
}

// What waiting heals is waited for however long it lasts, and said once.
func TestWhatWaitingHealsIsWaitedFor(t *testing.T) {
	for _, tc := range []struct {
		name string
		is   func(string) (int, error)
		says string
	}{
		{name: "nobody listens", is: always(0, errNobody), says: "the API server cannot be reached"},
		{name: "it is not ready", is: onPath("/readyz", 500), says: "the API server cannot be used now (500)"},
		{name: "a balancer has nobody behind it", is: always(503, nil), says: "the API server cannot be used now (503)"},
		{name: "it has too much to do", is: onPath(infras, 429), says: "the API server cannot be used now (429)"},
		{name: "the CRDs are yet to be installed", is: onPath(infras, 404), says: "are the CRDs installed?"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{answer: tc.is}
				r, log := connect(t, s)
				done := make(chan error, 1)
				go func() { done <- r.Wait(t.Context(), infras) }()
				pass(10 * time.Minute)
				require.Empty(t, done)
				s.set(always(200, nil))
				back := time.Now()
				require.NoError(t, <-done)
				require.Less(t, time.Since(back), 2*time.Second)
				require.Equal(t, 1, strings.Count(log.String(), "waiting for the API server"))
				require.Contains(t, log.String(), tc.says)
				require.Contains(t, log.String(), "the API server can be used")
			})
		})
	}
}

// What waiting does not heal ends the process, with a message that says what to do;
// but not the first moments of an API server that has just started.
func TestWhatWaitingDoesNotHealEndsTheWait(t *testing.T) {
	for _, tc := range []struct {
		name string
		is   func(string) (int, error)
		says string
	}{
		{name: "the credentials are unknown", is: onPath(infras, 401), says: "does not know the credentials (401), for more than 1m0s"},
		{name: "the rights are missing", is: onPath(infras, 403), says: "forbids to read oooi's resources (403); is the RBAC of the manifests installed?"},
		{
			name: "the certificate is another CA's", is: always(0, &tls.CertificateVerificationError{Err: errors.New("unknown authority")}),
			says: "the API server's certificate is not trusted",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{answer: tc.is}
				r, _ := connect(t, s)
				start := time.Now()
				require.ErrorContains(t, r.Wait(t.Context(), infras), tc.says)
				require.Greater(t, time.Since(start), time.Minute)

				// One that is only starting.
				done := make(chan error, 1)
				go func() { done <- r.Wait(t.Context(), infras) }()
				pass(50 * time.Second)
				s.set(always(0, errNobody))
				pass(30 * time.Second)
				s.set(tc.is)
				pass(50 * time.Second)
				s.set(always(200, nil))
				require.NoError(t, <-done, "it refused for a while, twice")
			})
		})
	}
}

func TestAWaitEndsWhenItIsToldTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := connect(t, &server{answer: always(0, errNobody)})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		require.ErrorIs(t, r.Wait(ctx, infras), context.DeadlineExceeded)
	})
}

func request(t *testing.T, method string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://api.example.com/x", http.NoBody)
	require.NoError(t, err)
	return r
}

// send gives what becomes of a request.
func send(t *testing.T, through http.RoundTripper, method string) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	r := request(t, method)
	go func() {
		resp, err := through.RoundTrip(r)
		if err == nil {
			err = resp.Body.Close()
		}
		done <- err
	}()
	return done
}

// While the API server is away requests wait instead of failing; a read is sent
// again, a write that may have been carried out is not.
func TestRequestsOutliveAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: always(200, nil)}
		r, log := connect(t, s)
		backs := 0
		r.OnBack(func() { backs++ })
		ctx, stop := context.WithCancel(t.Context())
		go r.Follow(ctx)
		through := r.Through(s)
		require.NoError(t, <-send(t, through, http.MethodGet))
		require.Equal(t, []string{"GET /x"}, s.requests(), "while it answers there is nothing else")

		s.set(always(0, errNobody))
		require.ErrorIs(t, <-send(t, through, http.MethodPatch), errNobody)
		read, write := send(t, through, http.MethodGet), send(t, through, http.MethodPatch)
		pass(90 * time.Second)
		require.Empty(t, read)
		require.Empty(t, write)
		require.Less(t, len(s.requests()), 100, "it is asked by one, now and then")
		require.Equal(t, 90*time.Second, r.Away())

		s.set(always(200, nil))
		back := time.Now()
		require.NoError(t, <-read)
		require.NoError(t, <-write)
		require.Less(t, time.Since(back), 2*time.Second)
		synctest.Wait()
		pass(time.Minute)
		require.GreaterOrEqual(t, r.Away(), 90*time.Second)
		require.Less(t, r.Away(), 92*time.Second, "it is back")
		require.Equal(t, 1, backs)
		require.Equal(t, 1, strings.Count(log.String(), "cannot be reached"), log.String())
		require.Equal(t, 1, strings.Count(log.String(), "is back"), log.String())

		// One broken connection is no outage.
		var once sync.Once
		s.set(func(path string) (code int, err error) {
			code = http.StatusOK
			if path == "/x" {
				once.Do(func() { err = syscall.ECONNRESET })
			}
			return code, err
		})
		require.NoError(t, <-send(t, through, http.MethodGet))
		synctest.Wait()
		require.Equal(t, 1, backs)

		// At the end nothing waits.
		s.set(always(0, errNobody))
		waits := send(t, through, http.MethodGet)
		pass(time.Minute)
		require.Empty(t, waits)
		stop()
		require.ErrorIs(t, <-waits, errNobody)
		require.ErrorIs(t, <-send(t, through, http.MethodGet), errNobody)
	})
}

// follow starts a Server that follows an API server.
func follow(t *testing.T, s *server) (*reach.Server, *atomic.Int32) {
	t.Helper()
	r, _ := connect(t, s)
	backs := &atomic.Int32{}
	r.OnBack(func() { backs.Add(1) })
	go r.Follow(t.Context())
	return r, backs
}

// An API server that says that it is not ready is asked: it may serve all the same.
func TestAnAnswerIsNoOutage(t *testing.T) {
	for _, code := range []int{http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{answer: always(0, errNobody)}
				r, backs := follow(t, s)
				through := r.Through(s)
				require.ErrorIs(t, <-send(t, through, http.MethodPatch), errNobody)
				waits := send(t, through, http.MethodPatch)
				pass(time.Minute)
				require.Empty(t, waits)
				s.set(onPath("/readyz", code))
				back := time.Now()
				require.NoError(t, <-waits)
				require.Less(t, time.Since(back), 2*time.Second)
				synctest.Wait()
				require.Equal(t, int32(1), backs.Load())

				var once sync.Once
				s.set(func(path string) (answer int, err error) {
					if path == "/readyz" {
						return code, nil
					}
					once.Do(func() { err = syscall.ECONNRESET })
					return http.StatusOK, err
				})
				start := time.Now()
				require.NoError(t, <-send(t, through, http.MethodGet))
				require.Zero(t, time.Since(start), "one broken connection holds up nothing")
			})
		})
	}
}

// A read that breaks each time although the API server answers ends with its error,
// after one more try; not so while outages follow each other.
func TestAReadIsNotRepeatedWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: func(path string) (int, error) {
			if path == "/x" {
				return 0, syscall.ECONNRESET
			}
			return http.StatusOK, nil
		}}
		r, backs := follow(t, s)
		require.ErrorIs(t, <-send(t, r.Through(s), http.MethodGet), syscall.ECONNRESET)
		sent := slices.DeleteFunc(s.requests(), func(line string) bool { return line != "GET /x" })
		require.Len(t, sent, 2)
		require.Zero(t, backs.Load())

		// Each time that it is sent, the API server is away for the next question.
		var tries, missed int
		s.set(func(path string) (int, error) {
			switch {
			case path == "/x" && tries < 5:
				tries++
				missed = 1
				return 0, syscall.ECONNRESET
			case path == "/readyz" && missed > 0:
				missed--
				return 0, errNobody
			}
			return http.StatusOK, nil
		})
		require.NoError(t, <-send(t, r.Through(s), http.MethodGet))
		synctest.Wait()
		require.Equal(t, int32(5), backs.Load())
	})
}

// What was never sent says nothing about the API server.
func TestWhatIsNotSentIsNoOutage(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
	}{
		{name: "this replica may not write", err: lead.ErrUnsure},
		{name: "its certificate is another CA's", err: &tls.CertificateVerificationError{Err: errors.New("unknown authority")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{answer: always(0, tc.err)}
				r, _ := follow(t, s)
				for _, method := range []string{http.MethodGet, http.MethodPatch} {
					require.ErrorIs(t, <-send(t, r.Through(s), method), tc.err)
				}
				synctest.Wait()
				require.Equal(t, []string{"GET /x", "PATCH /x"}, s.requests())
			})
		})
	}
}
