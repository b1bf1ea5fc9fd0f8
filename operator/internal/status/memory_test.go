package status_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/status"
)

// laggard is an API server with one attachment, and what a cache had of it at first.
type laggard struct {
	client.Client
	status.Memory
	first  *v1alpha1.InfraClusterAttachment
	writes int
	// fails is what a write ends with although it comes through.
	fails error
}

func newLaggard(t *testing.T) *laggard {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	l := &laggard{}
	l.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(attachment()).WithStatusSubresource(attachment()).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			l.writes++
			if err := c.SubResource(sub).Apply(ctx, o, opts...); err != nil {
				return err
			}
			return l.fails
		},
	}).Build()
	// The condition is the writer's own from the start.
	require.NoError(t, l.write(t.Context(), attachment(), ready(attachment(), metav1.ConditionFalse, time.Unix(1, 0))))
	l.first, l.writes = l.read(t), 0
	l.Memory = status.Memory{}
	return l
}

func (l *laggard) read(t *testing.T) *v1alpha1.InfraClusterAttachment {
	t.Helper()
	a := attachment()
	require.NoError(t, l.Get(t.Context(), client.ObjectKeyFromObject(a), a))
	return a
}

func (l *laggard) writer() *status.Writer {
	return status.Everything(l.Client, status.OwnerController, nil, []string{v1alpha1.ConditionProgrammed}).Knowing(&l.Memory)
}

func (l *laggard) write(ctx context.Context, before, after *v1alpha1.InfraClusterAttachment) error {
	return l.writer().Patch(ctx, before, after)
}

func (l *laggard) says(t *testing.T) metav1.ConditionStatus {
	t.Helper()
	return meta.FindStatusCondition(l.read(t).Status.Conditions, v1alpha1.ConditionReady).Status
}

// ready is an attachment with another word on Ready, said at a time.
func ready(a *v1alpha1.InfraClusterAttachment, is metav1.ConditionStatus, at time.Time) *v1alpha1.InfraClusterAttachment {
	a = a.DeepCopy()
	meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: is, Reason: "R", LastTransitionTime: metav1.NewTime(at),
	})
	return a
}

// behaviours B8, H4: nobody is woken by a status of its own, so the last pass has the
// last word, whatever its cache has seen by then of the pass before.
func TestTheLastPassHasTheLastWord(t *testing.T) {
	t.Parallel()
	soon, later := time.Unix(1000, 0), time.Unix(2000, 0)
	for _, c := range []struct {
		name string
		// caught: the cache has seen the first pass's write when the second begins.
		caught bool
		fails  error
		second metav1.ConditionStatus
		writes int
	}{
		{"back again, behind its own write", false, nil, metav1.ConditionFalse, 2},
		{"the same again, behind its own write", false, nil, metav1.ConditionTrue, 1},
		{"back again", true, nil, metav1.ConditionFalse, 2},
		{"the same again", true, nil, metav1.ConditionTrue, 1},
		{"back again after a write that failed and came through", false, errors.New("timeout"), metav1.ConditionFalse, 2},
		{"the same again after a write that failed and came through", false, errors.New("timeout"), metav1.ConditionTrue, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLaggard(t)
			l.fails = c.fails
			require.ErrorIs(t, l.write(t.Context(), l.first, ready(l.first, metav1.ConditionTrue, soon)), c.fails)
			l.fails = nil
			before := l.first
			if c.caught {
				before = l.read(t)
			}
			require.Equal(t, !c.caught, l.writer().Behind(before))
			after := ready(before, c.second, later)
			require.NoError(t, l.write(t.Context(), before, after))
			require.Equal(t, c.second, l.says(t))
			require.Equal(t, c.writes, l.writes)

			// At rest there is nothing to write, and nothing is remembered.
			before = l.read(t)
			require.NoError(t, l.write(t.Context(), before, before.DeepCopy()))
			require.Equal(t, c.writes, l.writes)
			require.False(t, l.writer().Behind(l.first))
		})
	}
}

// What a status records is read back as it was written, by one whose cache lags behind too.
func TestAStatusIsRecalled(t *testing.T) {
	t.Parallel()
	l := newLaggard(t)
	changed := ready(l.first, metav1.ConditionTrue, time.Unix(1000, 0))
	changed.Status.Domain = "d.example.com"
	require.NoError(t, l.write(t.Context(), l.first, changed))
	seen := l.first.DeepCopy()
	meta.SetStatusCondition(&seen.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionTrue, Reason: "R", Message: "newer",
	})
	require.NoError(t, l.writer().Recall(seen))
	require.Equal(t, v1alpha1.DomainName("d.example.com"), seen.Status.Domain)
	require.Equal(t, metav1.ConditionTrue, meta.FindStatusCondition(seen.Status.Conditions, v1alpha1.ConditionReady).Status)
	require.Equal(t, "newer", meta.FindStatusCondition(seen.Status.Conditions, v1alpha1.ConditionProgrammed).Message)
	require.Equal(t, l.first.Spec, seen.Spec)
	now := l.read(t)
	require.NoError(t, l.writer().Recall(now))
	require.Equal(t, l.read(t), now)
}
