package lead

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// pass lets time go by in a bubble of synctest, and what is due then happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

var errAway = errors.New("connection refused")

// store is one Lease on an API server.
type store struct {
	mu      sync.Mutex
	record  *resourcelock.LeaderElectionRecord // guarded by mu
	version int                                // guarded by mu
}

// holder of the Lease.
func (s *store) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.HolderIdentity
}

// lock is a candidate's view of it, which may be cut off.
type lock struct {
	store    *store
	identity string
	seen     int   // guarded by store.mu
	cut      error // guarded by store.mu
}

// fail makes every call end so; nil: no longer.
func (l *lock) fail(err error) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.cut = err
}

// Get implements resourcelock.Interface.
func (l *lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if l.cut != nil {
		return nil, nil, l.cut
	}
	if l.store.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{}, "lease")
	}
	l.seen = l.store.version
	return l.store.record, []byte(l.store.record.HolderIdentity + l.store.record.RenewTime.String()), nil
}

// Create implements resourcelock.Interface.
func (l *lock) Create(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	return l.put(r)
}

// Update implements resourcelock.Interface.
func (l *lock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if l.cut == nil && l.seen != l.store.version {
		return apierrors.NewConflict(schema.GroupResource{}, "lease", errors.New("changed"))
	}
	return l.put(r)
}

// put writes the Lease. Caller must hold store.mu.
func (l *lock) put(r resourcelock.LeaderElectionRecord) error {
	if l.cut != nil {
		return l.cut
	}
	l.store.record, l.store.version = &r, l.store.version+1
	l.seen = l.store.version
	return nil
}

func (l *lock) RecordEvent(string) {}
func (l *lock) Identity() string   { return l.identity }
func (l *lock) Describe() string   { return "the lease" }

// candidate runs client-go's elector on a Lease.
type candidate struct {
	lock *lock
	term *Term
	log  *bytes.Buffer
	lost chan struct{}
	stop context.CancelFunc
}

func run(t *testing.T, s *store, identity string) *candidate {
	t.Helper()
	c := &candidate{lock: &lock{store: s, identity: identity}, term: NewTerm(), log: &bytes.Buffer{}, lost: make(chan struct{})}
	lease := &Lease{Interface: c.lock, term: c.term, log: slog.New(slog.NewTextHandler(c.log, nil))}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lease, LeaseDuration: Duration, RenewDeadline: Window, RetryPeriod: Retry, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	c.stop = stop
	go func() {
		elector.Run(ctx)
		close(c.lost)
	}()
	return c
}

func (c *candidate) mayWrite(t *testing.T) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	return c.term.Sure(ctx) == nil
}

func (c *candidate) ended() bool {
	select {
	case <-c.lost:
		return true
	default:
		return false
	}
}

// An outage of any length ends no leader, and nothing is written in doubt.
func TestALeaderOutlivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(t, &store{}, "a")
		resumed := 0
		c.term.OnResume(func() { resumed++ })
		pass(time.Minute)
		require.True(t, c.mayWrite(t))
		c.lock.fail(errAway)
		pass(Window + Retry)
		require.False(t, c.mayWrite(t))
		pass(time.Hour)
		require.False(t, c.mayWrite(t))
		require.False(t, c.ended())
		require.Equal(t, 1, strings.Count(c.log.String(), "cannot be renewed"), c.log.String())
		c.lock.fail(nil)
		pass(2 * Retry)
		require.True(t, c.mayWrite(t))
		require.Equal(t, 1, resumed)
		c.stop()
		<-c.lost
		require.Empty(t, c.lock.store.holder(), "it is released at the end")
		require.ErrorIs(t, c.term.Sure(t.Context()), errStopping, "and nothing is written after that")
	})
}

// At no moment may two write, whoever is cut off when; who has lost ends.
func TestThereAreNeverTwoLeaders(t *testing.T) {
	for _, away := range []time.Duration{time.Second, 9 * time.Second, 11 * time.Second, 14 * time.Second, 16 * time.Second, 20 * time.Second, 3 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{}
				a := run(t, s, "a")
				pass(time.Second)
				b := run(t, s, "b")
				pass(time.Minute)
				leads := func(c *candidate) bool { return s.holder() == c.lock.identity && c.mayWrite(t) }
				require.True(t, leads(a))
				a.lock.fail(errAway)
				start := time.Now()
				for time.Since(start) < away+time.Minute {
					if time.Since(start) >= away {
						a.lock.fail(nil)
					}
					// b has no term before it leads, and then nothing holds it up.
					require.False(t, a.mayWrite(t) && leads(b), "%s after the cut two may write", time.Since(start))
					pass(100 * time.Millisecond)
				}
				require.NotEqual(t, leads(a), leads(b), "one leads in the end")
				require.Equal(t, leads(b), a.ended(), "who has lost the lock ends, who has not does not")
				b.stop()
				<-b.lost
				a.stop()
				<-a.lost
			})
		})
	}
}

// What somebody else holds is not released by who ends.
func TestWhoEndsReleasesOnlyItsOwn(t *testing.T) {
	s := &store{record: &resourcelock.LeaderElectionRecord{HolderIdentity: "b"}}
	l := &Lease{Interface: &lock{store: s, identity: "a"}, term: NewTerm(), log: slog.New(slog.DiscardHandler)}
	_, _, err := l.Get(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Update(t.Context(), resourcelock.LeaderElectionRecord{}))
	require.Equal(t, "b", s.holder())
}

// What the API server has said is believed at once: only silence is waited out.
func TestARefusalIsNoOutage(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{name: "nobody answers", err: errAway},
		{name: "it takes too long", err: context.DeadlineExceeded},
		{name: "it cannot now", err: apierrors.NewServiceUnavailable("etcd")},
		{name: "it has too much to do", err: apierrors.NewTooManyRequestsError("later")},
		{name: "the rights are gone", err: apierrors.NewForbidden(schema.GroupResource{}, "lease", errAway), want: true},
		{name: "somebody else has changed it", err: apierrors.NewConflict(schema.GroupResource{}, "lease", errAway), want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &store{record: &resourcelock.LeaderElectionRecord{HolderIdentity: "a"}}
			inner := &lock{store: s, identity: "a"}
			l := &Lease{Interface: inner, term: NewTerm(), log: slog.New(slog.DiscardHandler)}
			_, _, err := l.Get(t.Context())
			require.NoError(t, err)
			require.NoError(t, l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "a"}))
			inner.fail(tc.err)
			err = l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "a"})
			require.Equal(t, tc.want, err != nil)
		})
	}
}

// A candidate is never told that it leads for want of an answer.
func TestACandidateDoesNotBecomeLeaderInAnOutage(t *testing.T) {
	for _, tc := range []struct{ name, holder string }{
		{name: "somebody else holds it", holder: "b"},
		{name: "nobody holds it"},
		{name: "holder is already us, never renewed: the answer was lost", holder: "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &store{record: &resourcelock.LeaderElectionRecord{HolderIdentity: tc.holder}}
			inner := &lock{store: s, identity: "a"}
			l := &Lease{Interface: inner, term: NewTerm(), log: slog.New(slog.DiscardHandler)}
			_, _, err := l.Get(t.Context())
			require.NoError(t, err)
			inner.fail(errAway)
			ours := resourcelock.LeaderElectionRecord{HolderIdentity: "a"}
			require.ErrorIs(t, l.Update(t.Context(), ours), errAway)
			inner.fail(nil)
			require.NoError(t, l.Update(t.Context(), ours), "it may lead once it is told so")
			require.True(t, l.term.hasBegun())
		})
	}
}

// That the Lease is another's closes the gate at once, for good, and makes the
// elector give up even if the Lease is free again before.
func TestALeaseThatIsAnothersIsLostForGood(t *testing.T) {
	for _, tc := range []struct{ name, holder string }{
		{name: "somebody else holds it", holder: "b"},
		{name: "somebody else has released it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &store{}
			l := &Lease{Interface: &lock{store: s, identity: "a"}, term: NewTerm(), log: slog.New(slog.DiscardHandler)}
			ours := resourcelock.LeaderElectionRecord{HolderIdentity: "a"}
			require.NoError(t, l.Create(t.Context(), ours))
			require.NoError(t, l.term.Sure(t.Context()))
			require.NoError(t, (&lock{store: s, identity: "b"}).Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: tc.holder}))
			_, _, err := l.Get(t.Context())
			require.NoError(t, err)
			require.ErrorIs(t, l.term.Sure(t.Context()), ErrUnsure)
			require.ErrorIs(t, l.Update(t.Context(), ours), errLost)
			require.ErrorIs(t, l.Create(t.Context(), ours), errLost)
			require.NoError(t, l.Update(t.Context(), resourcelock.LeaderElectionRecord{}), "nothing is released")
			require.Equal(t, tc.holder, s.holder())
		})
	}
}

// count answers every request, and counts.
type count struct{ n atomic.Int32 }

// RoundTrip implements http.RoundTripper.
func (c *count) RoundTrip(*http.Request) (*http.Response, error) {
	c.n.Add(1)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// Reads and questions pass in doubt, writes do not, and none is lost.
func TestOnlyWritesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, sent := NewTerm(), &count{}
		gate := term.Through(sent)
		send := func(method, path string) <-chan error {
			r, err := http.NewRequestWithContext(t.Context(), method, "https://api.example.com"+path, http.NoBody)
			require.NoError(t, err)
			done := make(chan error, 1)
			go func() {
				resp, err := gate.RoundTrip(r)
				if err == nil {
					err = resp.Body.Close()
				}
				done <- err
			}()
			return done
		}
		require.NoError(t, <-send(http.MethodPatch, "/x"), "before there is a term")
		term.Renewed(time.Now())
		require.NoError(t, <-send(http.MethodPatch, "/x"))
		pass(Window)
		require.NoError(t, <-send(http.MethodGet, "/x"))
		require.NoError(t, <-send(http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews"))
		waiting := map[string]<-chan error{}
		for _, tc := range []struct{ name, method, path string }{
			{"an object", http.MethodPatch, "/x"},
			{"an object that is called as a question is", http.MethodPatch, "/api/v1/namespaces/previews"},
			{"an Infra that is called as one", http.MethodPatch, "/apis/hostedcluster.densityops.com/v1alpha1/namespaces/a/infras/tokenreviews"},
			{"a new object of a kind that sounds like a question", http.MethodPost, "/apis/example.com/v1/namespaces/a/previews"},
		} {
			waiting[tc.name] = send(tc.method, tc.path)
		}
		pass(time.Hour)
		for name, waits := range waiting {
			require.Empty(t, waits, name)
		}
		term.Renewed(time.Now())
		for _, waits := range waiting {
			require.NoError(t, <-waits)
		}
		require.Equal(t, int32(8), sent.n.Load())
	})
}

// What goes to another API server does not wait: by the time that this replica is
// sure again, what it was made of may be out of date.
func TestWritesElsewhereFailInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, sent := NewTerm(), &count{}
		gate := term.Now(sent)
		send := func(method string) error {
			r, err := http.NewRequestWithContext(t.Context(), method, "https://hosted.example.com/x", http.NoBody)
			require.NoError(t, err)
			resp, err := gate.RoundTrip(r)
			if err == nil {
				err = resp.Body.Close()
			}
			return err
		}
		require.NoError(t, send(http.MethodPatch), "before there is a term")
		require.False(t, term.Leads())
		term.Renewed(time.Now())
		require.NoError(t, send(http.MethodPatch))
		require.True(t, term.Leads())
		pass(Window)
		require.False(t, term.Leads())
		require.NoError(t, send(http.MethodGet))
		require.ErrorIs(t, send(http.MethodPatch), ErrUnsure)
		term.Renewed(time.Now())
		require.NoError(t, send(http.MethodPatch))
		term.End()
		require.ErrorIs(t, send(http.MethodPatch), ErrUnsure)
		term.Renewed(time.Now())
		require.ErrorIs(t, send(http.MethodPatch), ErrUnsure, "an end is for good")
		require.Equal(t, int32(4), sent.n.Load())
	})
}

// A leader for life outlives an outage, and ends when its lock is taken away.
func TestALeaderForLifeLooksAfterItsLock(t *testing.T) {
	t.Setenv("POD_NAME", "operator-a")
	held := func(by string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "oooi-system", Name: "oooi-operator", OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: by}},
		}}
	}
	for _, tc := range []struct {
		name string
		then func(*testing.T, client.Client)
	}{
		{name: "the lock is deleted", then: func(t *testing.T, c client.Client) {
			t.Helper()
			require.NoError(t, c.Delete(t.Context(), held("operator-a")))
		}},
		{name: "another pod has it", then: func(t *testing.T, c client.Client) {
			t.Helper()
			require.NoError(t, c.Update(t.Context(), held("operator-b")))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cut atomic.Pointer[error]
				c := fake.NewClientBuilder().WithObjects(held("operator-a")).WithInterceptorFuncs(interceptor.Funcs{
					Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
						if err := cut.Load(); err != nil {
							return *err
						}
						return w.Get(ctx, key, o, opts...)
					},
				}).Build()
				term := NewTerm()
				l := NewLife(nil, "oooi-system", "oooi-operator", term, slog.New(slog.DiscardHandler))
				term.Renewed(time.Now())
				done := make(chan error, 1)
				go func() { done <- l.keep(t.Context(), c) }()
				sure := (&candidate{term: term}).mayWrite
				pass(time.Minute)
				require.True(t, sure(t))
				cut.Store(&errAway)
				pass(time.Hour)
				require.False(t, sure(t))
				require.Empty(t, done)
				cut.Store(nil)
				pass(2 * Retry)
				require.True(t, sure(t))
				tc.then(t, c)
				require.ErrorIs(t, <-done, ErrLockLost)
				require.False(t, sure(t))
			})
		})
	}
}
