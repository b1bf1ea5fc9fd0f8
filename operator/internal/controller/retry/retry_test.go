package retry_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/densityops/oooi/operator/internal/controller/retry"
)

// behaviour H4: the pauses do not grow with the time that something is away.
func TestThePausesStayShort(t *testing.T) {
	t.Parallel()
	limiter := retry.Limiter()
	r := reconcile.Request{NamespacedName: types.NamespacedName{Name: "x"}}
	require.Equal(t, retry.First, limiter.When(r))
	require.Equal(t, 2*retry.First, limiter.When(r))
	for range 1000 {
		require.LessOrEqual(t, limiter.When(r), retry.Longest)
	}
	require.Equal(t, retry.Longest, limiter.When(r))
	limiter.Forget(r)
	require.Equal(t, retry.First, limiter.When(r))
}
