package holder

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// api is an API server with one Lease, and optimistic locking.
type api struct {
	lease   coordinationv1.Lease
	version int
	away    bool
}

var errAway = errors.New("connection refused")

func (a *api) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	if a.away {
		return nil, errAway
	}
	l := a.lease.DeepCopy()
	l.ResourceVersion = strconv.Itoa(a.version)
	return l, nil
}

func (a *api) Update(_ context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	switch {
	case a.away:
		return nil, errAway
	case l.ResourceVersion != strconv.Itoa(a.version):
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, l.Name, errors.New("changed"))
	}
	a.version++
	a.lease = *l.DeepCopy()
	return l, nil
}

// behaviour C6, hazards 50, 244: one holder at a time.
func TestOneHolderAtATime(t *testing.T) {
	a := &api{}
	one, two := &Lease{Client: a, Name: "l", Identity: "one"}, &Lease{Client: a, Name: "l", Identity: "two"}
	require.NoError(t, one.Try(t.Context(), start))
	require.True(t, one.Holds())
	for i := range 30 {
		now := start.Add(time.Duration(i) * Every)
		require.NoError(t, one.Try(t.Context(), now))
		require.NoError(t, two.Try(t.Context(), now))
		require.True(t, one.Holds())
		require.False(t, two.Holds())
	}
	// The first is cut off: it goes on, and the second takes over in time.
	last := start.Add(29 * Every)
	require.NoError(t, two.Try(t.Context(), last.Add(Duration)))
	require.False(t, two.Holds())
	require.NoError(t, two.Try(t.Context(), last.Add(Duration+time.Second)))
	require.True(t, two.Holds())
	require.True(t, one.Holds(), "nobody has told it yet")
	require.NoError(t, one.Try(t.Context(), last.Add(Duration+2*time.Second)))
	require.False(t, one.Holds())
	require.Equal(t, int32(2), *a.lease.Spec.LeaseTransitions)
}

// behaviour C6: a holder that cannot renew goes on; nobody else becomes one.
func TestWithoutTheAPINothingChanges(t *testing.T) {
	a := &api{}
	one, two := &Lease{Client: a, Identity: "one"}, &Lease{Client: a, Identity: "two"}
	require.NoError(t, one.Try(t.Context(), start))
	a.away = true
	require.ErrorIs(t, one.Try(t.Context(), start.Add(time.Hour)), errAway)
	require.ErrorIs(t, two.Try(t.Context(), start.Add(time.Hour)), errAway)
	require.True(t, one.Holds())
	require.False(t, two.Holds())
	require.ErrorIs(t, one.Release(t.Context()), errAway)
}

func TestAReleasedLeaseIsTakenAtOnce(t *testing.T) {
	a := &api{}
	one, two := &Lease{Client: a, Identity: "one"}, &Lease{Client: a, Identity: "two"}
	require.NoError(t, two.Release(t.Context()), "who has nothing gives up nothing")
	require.NoError(t, one.Try(t.Context(), start))
	require.NoError(t, one.Release(t.Context()))
	require.False(t, one.Holds())
	require.NoError(t, two.Try(t.Context(), start))
	require.True(t, two.Holds())
	one.Assume()
	require.NoError(t, one.Release(t.Context()), "another's Lease is left alone")
	require.Equal(t, "two", *a.lease.Spec.HolderIdentity)
}

// Two that take it at once: one of them fails, by optimistic locking.
func TestARaceHasOneWinner(t *testing.T) {
	a := &api{}
	stale, err := a.Get(t.Context(), "", metav1.GetOptions{})
	require.NoError(t, err)
	one := &Lease{Client: a, Identity: "one"}
	require.NoError(t, one.Try(t.Context(), start))
	two := &Lease{Client: &behind{a, stale}, Identity: "two"}
	require.True(t, apierrors.IsConflict(errors.Unwrap(two.Try(t.Context(), start))))
	require.False(t, two.Holds())
}

// behind sees an old version.
type behind struct {
	*api
	stale *coordinationv1.Lease
}

func (b *behind) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	return b.stale, nil
}
