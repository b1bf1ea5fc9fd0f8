package coalesce

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// behaviour H4: one reconcile a second for what leases change, and a single
// event of another kind does not wait for it.
func TestUnhurriedEventsAreGatheredAndSingleOnesPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := types.NamespacedName{Namespace: "ns", Name: "a"}
		request := reconcile.Request{NamespacedName: key}
		g := New(time.Now)
		require.Equal(t, burst, g.delay(request, Unhurried), "after a quiet time")
		g.Started(key)
		require.Equal(t, Interval, g.delay(request, Unhurried))
		require.Equal(t, burst, g.delay(request, Hurried), "a single event does not wait")
		<-time.After(700 * time.Millisecond)
		require.Equal(t, 300*time.Millisecond, g.delay(request, Unhurried))
		<-time.After(time.Hour)
		require.Equal(t, burst, g.delay(request, Unhurried))
	})
}

// Hurried events that keep coming are gathered, and each is followed by a reconcile within the longest interval.
func TestHurriedEventsThatKeepComingAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "a"}}
		g := New(time.Now)
		start := time.Now()
		due := map[time.Duration]bool{}
		for range 1000 {
			delay := g.delay(request, Hurried)
			require.LessOrEqual(t, delay, longest)
			due[time.Since(start)+delay] = true
			<-time.After(20 * time.Millisecond)
		}
		require.LessOrEqual(t, len(due), 10, "reconciles in 20 seconds of events")
		require.True(t, due[burst], "the first one does not wait")
		require.Equal(t, burst, g.delay(reconcile.Request{NamespacedName: types.NamespacedName{Name: "b"}}, Hurried), "another object is not held up")
		<-time.After((singles + 1) * longest)
		for range singles {
			require.Equal(t, burst, g.delay(request, Hurried), "it is quiet again")
			<-time.After(burst)
		}
		require.Equal(t, longest-singles*burst, g.delay(request, Hurried))
	})
}

// A change now and then does not wait, for as long as it goes on.
func TestHurriedEventsNowAndThenDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "a"}}
		g := New(time.Now)
		for range 100 {
			require.Equal(t, burst, g.delay(request, Hurried))
			<-time.After(longest)
		}
	})
}

// Unhurried events bring no reconcile of their own while hurried ones are gathered.
func TestUnhurriedEventsWaitForHurriedOnesThatKeepComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "a"}}
		g := New(time.Now)
		var due time.Duration
		for range singles + 1 {
			<-time.After(due)
			due = g.delay(request, Hurried)
		}
		require.Equal(t, due, g.delay(request, Unhurried), "the one that is on its way will do")
		<-time.After(due)
		g.Started(request.NamespacedName)
		require.Equal(t, longest, g.delay(request, Unhurried))
		<-time.After(singles * longest)
		g.Started(request.NamespacedName)
		require.Equal(t, Interval, g.delay(request, Unhurried), "it is quiet again")
	})
}

func TestObjectsThatAreGoneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(time.Now)
		for _, name := range []string{"a", "b", "c"} {
			g.Started(types.NamespacedName{Name: name})
		}
		<-time.After(time.Hour)
		g.Started(types.NamespacedName{Name: "d"})
		require.Len(t, g.objects, 1)
	})
}
