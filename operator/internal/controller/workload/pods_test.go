package workload

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// behaviour B4, hazard 243: a pod that hangs on a dead node is force-deleted once its
// successor is Ready and its grace period is long over, and not before: the successor
// may wait for the address that it still has.
func TestAHangingPodGoesOnceItsSuccessorIsReady(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	pod := func(name string, isReady corev1.ConditionStatus, graceEnded time.Duration) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: name, UID: types.UID("uid-of-" + name)}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: isReady}}
		if graceEnded != 0 {
			p.DeletionTimestamp = &metav1.Time{Time: now.Add(-graceEnded)}
		}
		return p
	}
	const living = 0
	for _, tc := range []struct {
		name string
		pods []corev1.Pod
		gone []types.UID
	}{
		{name: "its successor is Ready", pods: []corev1.Pod{pod("old", corev1.ConditionFalse, hangsAfter), pod("new", corev1.ConditionTrue, living)}, gone: []types.UID{"uid-of-old"}},
		{name: "its successor is not Ready", pods: []corev1.Pod{pod("old", corev1.ConditionFalse, time.Hour), pod("new", corev1.ConditionFalse, living)}},
		{name: "its successor is Ready, and its grace period hardly over", pods: []corev1.Pod{pod("old", corev1.ConditionFalse, hangsAfter-time.Second), pod("new", corev1.ConditionTrue, living)}},
		{name: "it has no successor", pods: []corev1.Pod{pod("old", corev1.ConditionFalse, time.Hour)}},
		{name: "nobody has said that it is not Ready, and it has no successor", pods: []corev1.Pod{pod("old", corev1.ConditionTrue, time.Hour)}},
		{name: "two of them", pods: []corev1.Pod{pod("older", corev1.ConditionTrue, time.Hour), pod("new", corev1.ConditionTrue, living), pod("old", corev1.ConditionFalse, time.Minute)}, gone: []types.UID{"uid-of-older", "uid-of-old"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var gone []types.UID
			deletes := interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, o client.Object, options ...client.DeleteOption) error {
				given := (&client.DeleteOptions{}).ApplyOptions(options)
				require.NotNil(t, given.GracePeriodSeconds)
				require.Zero(t, *given.GracePeriodSeconds, "nobody ends it on a dead node")
				require.NotNil(t, given.Preconditions)
				require.Equal(t, o.GetUID(), *given.Preconditions.UID, "a namesake is another pod")
				gone = append(gone, o.GetUID())
				return nil
			}}
			c := &Controller[*v1alpha1.ProxyServer]{
				Clock: func() time.Time { return now }, Client: fake.NewClientBuilder().WithInterceptorFuncs(deletes).Build(),
			}
			require.NoError(t, c.clearHanging(t.Context(), tc.pods))
			require.Equal(t, tc.gone, gone)
		})
	}
}
