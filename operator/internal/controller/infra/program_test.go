package infra

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/outcome"
	"github.com/densityops/oooi/operator/internal/plan"
)

// attached is an attachment that its own controller has looked at.
func attached(name string) *v1alpha1.InfraClusterAttachment {
	a := &v1alpha1.InfraClusterAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Generation: 2}}
	a.Status.ObservedGeneration = 2
	return a
}

// programmed is an attachment of which something was said of a generation.
func programmed(name string, is metav1.ConditionStatus, generation int64) *v1alpha1.InfraClusterAttachment {
	a := attached(name)
	meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionProgrammed, Status: is, Reason: "Before", ObservedGeneration: generation,
	})
	return a
}

// newController has the attachments in its world.
func newController(t *testing.T, faults interceptor.Funcs, list ...*v1alpha1.InfraClusterAttachment) (*Controller, facts.World) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.InfraClusterAttachment{}).WithInterceptorFuncs(faults)
	w := facts.World{}
	for _, a := range list {
		b = b.WithObjects(a.DeepCopy())
	}
	c := &Controller{Client: b.Build()}
	for _, a := range list {
		have := &v1alpha1.InfraClusterAttachment{}
		require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(a), have))
		w.Attachments = append(w.Attachments, *have)
	}
	return c, w
}

// says gives what is written of an attachment.
func (c *Controller) says(t *testing.T, name string) string {
	t.Helper()
	a := &v1alpha1.InfraClusterAttachment{}
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, a))
	cond := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionProgrammed)
	if cond == nil {
		return ""
	}
	return fmt.Sprintf("%s %s", cond.Status, cond.Reason)
}

// behaviour H3: an attachment is part of a stack that could be written. What lasts is
// said with its reason; what passes flips nothing that is in force.
func TestWhatIsSaidOfAttachmentsWhoseStackCannotBeWritten(t *testing.T) {
	t.Parallel()
	proxies := schema.GroupResource{Group: "hostedcluster.densityops.com", Resource: "proxyservers"}
	applying := func(err error) error {
		return errors.Join(outcome.Failed{Reason: v1alpha1.ReasonReconciliationFailed, Message: "applying ProxyServer", Err: err})
	}
	taken := outcome.Invalid{Reason: v1alpha1.ReasonNameTaken, Message: "ProxyServer ns/vlan-proxy exists"}
	forbidden := applying(apierrors.NewForbidden(proxies, "vlan-proxy", errors.New("exceeded quota")))
	const is, waits, before = "True ReconciliationSucceeded", "", "True Before"
	const failed = "False ReconciliationFailed"
	for _, c := range []struct {
		name    string
		applied error
		// refused is for how long it was before.
		refused time.Duration
		// What is said of one of which nothing was said yet, of one that is in force as it
		// is declared, and of one that was in force as it was declared before.
		unsaid, inForce, changed string
	}{
		{"it is written", nil, 0, is, is, is},
		{"a timeout", applying(context.DeadlineExceeded), 0, waits, before, before},
		{"a conflict", applying(apierrors.NewConflict(proxies, "vlan-proxy", errors.New("changed"))), 0, waits, before, before},
		{"an API server that is away", applying(errors.New("connection refused")), 0, waits, before, before},
		{"a webhook that is away", applying(apierrors.NewInternalError(errors.New("failed calling webhook"))), time.Hour, waits, before, before},
		{"an API server that has too much to do", applying(apierrors.NewTooManyRequestsError("later")), 0, waits, before, before},
		{"one that is removed first", errors.Join(outcome.Waiting{Reason: v1alpha1.ReasonReconciliationFailed}), 0, waits, before, before},
		{"a name that somebody else has", errors.Join(taken), 0, "False NameTaken", "False NameTaken", "False NameTaken"},
		{"the same beside a timeout", errors.Join(applying(context.DeadlineExceeded), taken), 0, "False NameTaken", "False NameTaken", "False NameTaken"},
		{"a refusal", forbidden, 0, failed, before, failed},
		{"a refusal that lasts", forbidden, lasting, failed, failed, failed},
		{"a declaration that the API server does not take", applying(apierrors.NewInvalid(schema.GroupKind{Kind: "ProxyServer"}, "vlan-proxy", nil)), lasting, failed, failed, failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			list := []*v1alpha1.InfraClusterAttachment{
				attached("unsaid"), programmed("in-force", metav1.ConditionTrue, 2), programmed("changed", metav1.ConditionTrue, 1), attached("left-out"),
			}
			infra := &v1alpha1.Infra{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "vlan", UID: "i"}}
			controller, w := newController(t, interceptor.Funcs{}, list...)
			if c.refused > 0 {
				controller.refused.since = map[types.UID]time.Time{"i": time.Now().Add(-c.refused)}
			}
			var verdicts []plan.Verdict
			for _, a := range list {
				verdicts = append(verdicts, plan.Verdict{Key: plan.Key{Namespace: "ns", Name: a.Name}})
			}
			verdicts[3].Reason = plan.Reason{Reason: v1alpha1.ReasonDuplicateHostname}
			require.NoError(t, controller.program(t.Context(), infra, w, verdicts, c.applied))
			require.Equal(t, []string{c.unsaid, c.inForce, c.changed, "False DuplicateHostname"},
				[]string{controller.says(t, "unsaid"), controller.says(t, "in-force"), controller.says(t, "changed"), controller.says(t, "left-out")})
		})
	}
}

// A refusal that was over begins anew.
func TestARefusalThatIsOverIsForgotten(t *testing.T) {
	t.Parallel()
	var r refusals
	refusal := apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	require.False(t, r.last("i", refusal))
	r.since["i"] = time.Now().Add(-lasting)
	require.True(t, r.last("i", refusal))
	require.False(t, r.last("other", refusal))
	require.False(t, r.last("i", nil))
	require.False(t, r.last("i", refusal))
	r.last("i", nil)
	r.last("other", nil)
	require.Empty(t, r.since)
}

// behaviour H4: an attachment whose status cannot be written holds up no other's.
func TestAStatusThatCannotBeWrittenStopsNoOther(t *testing.T) {
	t.Parallel()
	errRefused := errors.New("refused")
	failed := make(chan struct{})
	c, w := newController(t, interceptor.Funcs{
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			if err != nil {
				return err
			}
			if name, _, _ := unstructured.NestedString(content, "metadata", "name"); name == "a0" {
				defer close(failed)
				return errRefused
			}
			<-failed
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return c.SubResource(sub).Apply(ctx, o, opts...)
		},
	}, many(20)...)
	infra := &v1alpha1.Infra{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "vlan", UID: "i"}}
	var verdicts []plan.Verdict
	for _, a := range w.Attachments {
		verdicts = append(verdicts, plan.Verdict{Key: plan.Key{Namespace: "ns", Name: a.Name}})
	}
	require.ErrorIs(t, c.program(t.Context(), infra, w, verdicts, nil), errRefused)
	require.Empty(t, c.says(t, "a0"))
	for i := 1; i < 20; i++ {
		require.Equal(t, "True ReconciliationSucceeded", c.says(t, fmt.Sprintf("a%d", i)))
	}
}

func many(n int) []*v1alpha1.InfraClusterAttachment {
	var out []*v1alpha1.InfraClusterAttachment
	for i := range n {
		out = append(out, attached(fmt.Sprintf("a%d", i)))
	}
	return out
}
