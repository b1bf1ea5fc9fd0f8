package attachment_test

import (
	"context"
	"errors"
	"testing"
	"time"

	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/apply"
	"github.com/densityops/oooi/operator/internal/controller/attachment"
	"github.com/densityops/oooi/operator/internal/controller/coalesce"
	"github.com/densityops/oooi/operator/internal/controller/kinds"
	"github.com/densityops/oooi/operator/internal/controller/policy"
	"github.com/densityops/oooi/operator/internal/controller/world"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/outcome"
)

// unreachable is a hosted cluster whose calls take some time and end in nothing.
type unreachable struct {
	tries int
	takes time.Duration
	now   *time.Time
}

func (u *unreachable) Ensure(context.Context, *v1alpha1.InfraClusterAttachment, facts.Attachment, []v1alpha1.Infra) (time.Duration, error) {
	return 0, errors.New("not asked here")
}

func (u *unreachable) Remove(context.Context, *v1alpha1.InfraClusterAttachment) error {
	u.tries++
	*u.now = u.now.Add(u.takes)
	return outcome.Failed{Reason: v1alpha1.ReasonHostedClusterAccessFailed, Message: "reaching the hosted cluster", Err: errors.New("context deadline exceeded")}
}

// everything is served.
type everything struct{}

func (everything) Served(k kinds.Kind) (schema.GroupVersionKind, bool) {
	return schema.GroupVersionKind{Group: k.Group, Version: "v1beta1", Kind: k.Name}, k.Group == "hypershift.openshift.io"
}

func (everything) Known(context.Context) error { return nil }

// behaviour B6, case C45 (b): a hosted cluster that hangs holds up a deletion for
// at most ten minutes, one that refuses for less than two, and the attachment says
// so; one that is gone does not hold it up at all.
func TestAnUnreachableHostedClusterIsGivenUp(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, hyperv1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	deleted := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name     string
		cluster  bool
		takes    time.Duration
		after    time.Duration
		released bool
	}{
		{"it hangs for nine minutes", true, 10 * time.Second, 9 * time.Minute, false},
		{"it hangs for eleven minutes", true, 10 * time.Second, 11 * time.Minute, true},
		{"it refuses for a minute", true, time.Millisecond, time.Minute, false},
		{"it refuses for a minute and a half", true, time.Millisecond, 90 * time.Second, true},
		{"the HostedCluster is gone", false, time.Millisecond, time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &v1alpha1.InfraClusterAttachment{ObjectMeta: metav1.ObjectMeta{
				Namespace: "clusters", Name: "a", UID: "u", Finalizers: []string{attachment.Finalizer}, DeletionTimestamp: &metav1.Time{Time: deleted},
			}}
			a.Spec.HostedClusterRef = v1alpha1.HostedClusterRef{Namespace: "clusters", Name: "a"}
			a.Status.Observed.HostedClusterUID = "hc"
			a.Status.AppsIngressStatus = &v1alpha1.AppsIngressStatus{Applied: []v1alpha1.AppliedObject{{APIVersion: "v1", Kind: "Service", Name: "oooi-ingress"}}}
			allow := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters-a", Name: "allow-infrastructure", Labels: map[string]string{
				"app.kubernetes.io/managed-by": "oooi-operator", "app.kubernetes.io/component": "control-plane",
			}}}
			objects := []client.Object{a, allow}
			if c.cluster {
				objects = append(objects, &hyperv1.HostedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "a", UID: "hc"}})
			}
			builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(a)
			for _, index := range []string{world.IndexControlPlane} {
				builder = builder.WithIndex(a, index, func(o client.Object) []string {
					return []string{facts.ControlPlaneOf(o.(*v1alpha1.InfraClusterAttachment))}
				})
			}
			k := builder.Build()
			now := deleted.Add(c.after)
			apps := &unreachable{takes: c.takes, now: &now}
			clock := func() time.Time { return now }
			applier, reader := apply.New(k, k), world.New(k, everything{}, world.NewHubNetworks(k, clock), world.NewBoard(clock))
			controller := &attachment.Controller{
				Client: k, Applier: applier, World: reader, Policies: &policy.Policies{Applier: applier, World: reader}, Apps: apps,
				Gatherer: coalesce.New(clock), Clock: clock,
			}
			require.NoError(t, k.Get(t.Context(), client.ObjectKeyFromObject(a), a))
			res, err := controller.Reconcile(t.Context(), a)
			require.NoError(t, err)
			require.Equal(t, 1, apps.tries)
			// What the management cluster holds is taken back in any case.
			require.Error(t, k.Get(t.Context(), client.ObjectKeyFromObject(allow), allow))
			err = k.Get(t.Context(), client.ObjectKeyFromObject(a), a)
			require.Equal(t, c.released, err != nil)
			if !c.released {
				require.Positive(t, res.RequeueAfter)
				cond := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionDegraded)
				require.NotNil(t, cond, "the deletion says what holds it up")
				require.Equal(t, v1alpha1.ReasonHostedClusterAccessFailed, cond.Reason)
			}
		})
	}
}
