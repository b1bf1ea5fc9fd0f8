package coalesce

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// behaviour H4: one reconcile a second for events that keep coming, none late.
func TestSingleEventsArePassedOnAndFloodsAreGathered(t *testing.T) {
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
		for range 3 {
			g.Started(key)
			<-time.After(100 * time.Millisecond)
		}
		require.Equal(t, Interval-100*time.Millisecond, g.delay(request, Hurried), "events that keep coming are gathered")
		require.Equal(t, burst, g.delay(reconcile.Request{NamespacedName: types.NamespacedName{Name: "b"}}, Hurried), "another object is not held up")
		<-time.After(time.Hour)
		require.Equal(t, burst, g.delay(request, Hurried))
		require.Equal(t, burst, g.delay(request, Unhurried))
		g.Started(key)
		g.Forget(key)
		require.Equal(t, burst, g.delay(request, Unhurried))
	})
}
