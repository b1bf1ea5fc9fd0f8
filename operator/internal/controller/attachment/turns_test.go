package attachment

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func whoever(namespace string, i int) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: strconv.Itoa(i)}
}

// hazard 214: hosted clusters that do not answer hold up no other attachment, however
// many they are; and still only some are worked at.
func TestWhoWaitsForAHostedClusterHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		answers, finish := make(chan struct{}), make(chan struct{})
		var sitting, refused, atTurn, done atomic.Int32
		hung := turns.each(reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
			if !turns.Aside(r.NamespacedName, func() time.Duration {
				sitting.Add(1)
				<-answers
				sitting.Add(-1)
				return 0
			}) {
				refused.Add(1)
				return reconcile.Result{}, nil
			}
			atTurn.Add(1)
			<-finish
			atTurn.Add(-1)
			done.Add(1)
			return reconcile.Result{}, nil
		}))
		for i := range waiting + 10 {
			go func() {
				_, _ = hung.Reconcile(t.Context(), reconcile.Request{NamespacedName: whoever("tenant"+strconv.Itoa(i%4), i)})
			}()
		}
		synctest.Wait()
		require.Equal(t, int32(waiting), sitting.Load())
		require.Equal(t, int32(10), refused.Load(), "more would hold up the controller")

		healthy := turns.each(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}))
		_, err := healthy.Reconcile(t.Context(), reconcile.Request{})
		require.NoError(t, err)

		close(answers)
		synctest.Wait()
		require.Equal(t, int32(atWork), atTurn.Load(), "no more than these have a turn")
		close(finish)
		synctest.Wait()
		require.Equal(t, int32(waiting), done.Load())
		require.Empty(t, turns.turns)
		require.Empty(t, turns.tenants)
		require.Zero(t, turns.waiting)
	})
}

// hazard 214, behaviour G6: one tenant's clusters leave room for another's, and those
// that were slow for those of the same tenant that were not.
func TestOneTenantsClustersLeaveRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		var sitting atomic.Int32
		begin := func(from, to int, takes time.Duration) {
			for i := range to - from {
				go func() {
					turns.turns <- struct{}{}
					defer func() { <-turns.turns }()
					turns.Aside(whoever("evil", from+i), func() time.Duration {
						sitting.Add(1)
						<-time.After(takes)
						sitting.Add(-1)
						return takes
					})
				}()
			}
			synctest.Wait()
		}
		ask := func(who types.NamespacedName) bool {
			turns.turns <- struct{}{}
			defer func() { <-turns.turns }()
			return turns.Aside(who, func() time.Duration { return 0 })
		}
		begin(0, perTenant, answersWithin)
		begin(perTenant, 60, answersWithin)
		require.Equal(t, int32(perTenant), sitting.Load())
		require.False(t, ask(whoever("evil", 60)))
		require.True(t, ask(whoever("good", 0)))
		<-time.After(answersWithin)
		synctest.Wait()
		require.Zero(t, sitting.Load())

		begin(0, perTenant, answersWithin)
		require.Equal(t, int32(perTenantSlow), sitting.Load(), "all of them were slow")
		require.True(t, ask(whoever("evil", 60)), "this one was not")
		require.True(t, turns.Slow(whoever("evil", 0)))
		<-time.After(answersWithin)
		synctest.Wait()

		begin(0, perTenant, time.Second)
		<-time.After(time.Second)
		synctest.Wait()
		require.Len(t, turns.slow, perTenant-perTenantSlow, "who answers in time is as good as any")
	})
}
