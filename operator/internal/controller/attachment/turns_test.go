package attachment

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// hazard 214: hosted clusters that do not answer hold up no other attachment, however
// many they are; and still only some are worked at.
func TestWhoWaitsForAHostedClusterHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns()
		answers, finish := make(chan struct{}), make(chan struct{})
		var waiting, atTurn, done atomic.Int32
		hung := turns.each(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			turns.Aside(func() {
				waiting.Add(1)
				<-answers
				waiting.Add(-1)
			})
			atTurn.Add(1)
			<-finish
			atTurn.Add(-1)
			done.Add(1)
			return reconcile.Result{}, nil
		}))
		const many = 5 * atWork
		for range many {
			go func() { _, _ = hung.Reconcile(t.Context(), reconcile.Request{}) }()
		}
		synctest.Wait()
		require.Equal(t, int32(many), waiting.Load())

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
		require.Equal(t, int32(many), done.Load())
		require.Empty(t, turns)
	})
}
