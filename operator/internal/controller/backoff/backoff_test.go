package backoff_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/densityops/oooi/operator/internal/controller/backoff"
)

// behaviour H4: the pauses do not grow with the time that something is away.
func TestThePausesStayShort(t *testing.T) {
	t.Parallel()
	limiter := backoff.Limiter()
	r := reconcile.Request{NamespacedName: types.NamespacedName{Name: "x"}}
	require.Equal(t, backoff.First, limiter.When(r))
	require.Equal(t, 2*backoff.First, limiter.When(r))
	for range 1000 {
		require.LessOrEqual(t, limiter.When(r), backoff.Longest)
	}
	require.Equal(t, backoff.Longest, limiter.When(r))
	limiter.Forget(r)
	require.Equal(t, backoff.First, limiter.When(r))
}
