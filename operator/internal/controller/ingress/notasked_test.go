package ingress_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/controller/ingress"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/hosted"
	"github.com/densityops/oooi/operator/internal/outcome"
)

// hazard 214, behaviour G4: a hosted cluster that was not asked, because too many
// others are, keeps what is known of it, and is asked soon.
func TestAHostedClusterThatWasNotAskedIsAsBefore(t *testing.T) {
	hub := fake.NewClientBuilder().WithScheme(hostedScheme(t)).Build()
	var asked []types.NamespacedName
	step := ingress.New(hosted.New(hub, hub.Scheme(), nil), hub, time.Now).Aside(func(who types.NamespacedName, _ func() time.Duration) bool {
		asked = append(asked, who)
		return false
	})
	f := facts.Attachment{ControlPlaneNamespace: controlPlane, Admitted: true, Observed: v1alpha1.ObservedFacts{Services: apiServices()}}
	served := v1alpha1.AppliedObject{APIVersion: "v1", Kind: "Service", Namespace: "openshift-ingress", Name: "oooi-ingress", UID: "u"}
	for _, tt := range []struct {
		name   string
		stored int64
		before *v1alpha1.AppsIngressStatus
		want   v1alpha1.AppsIngressStatus
		reason string
	}{
		{
			"it serves", 1, &v1alpha1.AppsIngressStatus{
				Phase: v1alpha1.AppsPhaseReady, Reason: v1alpha1.ReasonReconciliationSucceeded, ExternalIP: "192.0.2.200", Applied: []v1alpha1.AppliedObject{served},
			}, v1alpha1.AppsIngressStatus{
				Phase: v1alpha1.AppsPhaseReady, Reason: v1alpha1.ReasonReconciliationSucceeded, ExternalIP: "192.0.2.200", Applied: []v1alpha1.AppliedObject{served},
			}, "",
		},
		{
			"it did not answer", 1, &v1alpha1.AppsIngressStatus{Phase: v1alpha1.AppsPhaseDegraded, Reason: v1alpha1.ReasonHostedClusterAccessFailed, Message: "away"},
			v1alpha1.AppsIngressStatus{Phase: v1alpha1.AppsPhaseDegraded, Reason: v1alpha1.ReasonHostedClusterAccessFailed, Message: "away"},
			v1alpha1.ReasonHostedClusterAccessFailed,
		},
		{
			"it served another generation", 0, &v1alpha1.AppsIngressStatus{
				Phase: v1alpha1.AppsPhaseReady, Reason: v1alpha1.ReasonReconciliationSucceeded, ExternalIP: "192.0.2.200", Applied: []v1alpha1.AppliedObject{served},
			}, v1alpha1.AppsIngressStatus{
				Phase: v1alpha1.AppsPhasePending, Reason: v1alpha1.ReasonWaitingForHostedClusterNodes, Message: hosted.NotAskedYet,
				ExternalIP: "192.0.2.200", Applied: []v1alpha1.AppliedObject{served},
			}, v1alpha1.ReasonWaitingForHostedClusterNodes,
		},
		{
			"it was never asked", 1, nil, v1alpha1.AppsIngressStatus{
				Phase: v1alpha1.AppsPhasePending, Reason: v1alpha1.ReasonWaitingForHostedClusterNodes, Message: hosted.NotAskedYet,
			}, v1alpha1.ReasonWaitingForHostedClusterNodes,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := attachment()
			a.Status.AppsIngressStatus, a.Status.ObservedGeneration = tt.before, tt.stored
			after, err := step.Ensure(t.Context(), a, f, recorded())
			require.Equal(t, tt.want, *a.Status.AppsIngressStatus)
			require.Equal(t, types.NamespacedName{Namespace: a.Namespace, Name: a.Name}, asked[len(asked)-1])
			if tt.reason != "" {
				var w outcome.Waiting
				require.ErrorAs(t, err, &w)
				require.Equal(t, tt.reason, w.Reason)
				after = w.After
			} else {
				require.NoError(t, err)
			}
			require.Positive(t, after)
			require.LessOrEqual(t, after, 5*time.Second)
		})
	}
	a := attachment()
	a.Status.AppsIngressStatus = &v1alpha1.AppsIngressStatus{Applied: []v1alpha1.AppliedObject{served}}
	require.ErrorIs(t, step.Remove(t.Context(), a), hosted.ErrNotAsked)
	require.Len(t, a.Status.AppsIngressStatus.Applied, 1)
}
