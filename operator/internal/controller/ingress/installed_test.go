package ingress_test

import (
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/hosted"
)

const csvName = "metallb-operator.v4.21.0"

// installCSV is what OLM does with our Subscription.
func (c *cluster) installCSV(t *testing.T) {
	t.Helper()
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-operators", Name: csvName}}
	csv.Spec.DisplayName, csv.Spec.InstallStrategy.StrategyName = "MetalLB Operator", "deployment"
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{}
	c.Must(t, csv)
	s := &operatorsv1alpha1.Subscription{}
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Namespace: "openshift-operators", Name: "metallb-operator"}, s))
	s.Status.InstalledCSV, s.Status.LastUpdated = csvName, metav1.Now()
	require.NoError(t, c.Client.Status().Update(t.Context(), s))
}

// keepCSVs lets nobody delete one until what it gives is called.
func (c *cluster) keepCSVs(t *testing.T) (letGo func()) {
	t.Helper()
	fail := admissionregistrationv1.Fail
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "keep"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{"operators.coreos.com"}, APIVersions: []string{"*"}, Resources: []string{"clusterserviceversions"},
					},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "it stays"}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "keep"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "keep", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	c.Must(t, policy, binding)
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-operators", Name: csvName}}
	deletable := func() bool { return c.Client.Delete(t.Context(), csv.DeepCopy(), client.DryRunAll) == nil }
	require.Eventually(t, func() bool { return !deletable() }, time.Minute, 50*time.Millisecond)
	return func() {
		require.NoError(t, c.Client.Delete(t.Context(), binding))
		require.Eventually(t, deletable, time.Minute, 50*time.Millisecond)
	}
}

// behaviour G5, hazard 136: what OLM has made of our Subscription goes with it, also
// where the Subscription is gone and the rest of the removal failed.
func TestWhatOLMInstalledGoesWithTheSubscription(t *testing.T) {
	c, a := installed(t)
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForExternalIP)
	unrecorded := a.DeepCopy()
	c.installCSV(t)
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForExternalIP)
	csvs := func() []string { return c.names(t, &operatorsv1alpha1.ClusterServiceVersionList{}) }
	subscriptions := func() []string { return c.names(t, &operatorsv1alpha1.SubscriptionList{}) }

	// Nothing is removed that would make the CSV nobody's before it is recorded.
	require.ErrorIs(t, c.step.Remove(t.Context(), unrecorded), hosted.ErrNotAsked)
	require.NotEmpty(t, subscriptions())
	require.Equal(t, a.Status.AppsIngressStatus.Applied, unrecorded.Status.AppsIngressStatus.Applied)

	letGo := c.keepCSVs(t)
	require.ErrorContains(t, c.step.Remove(t.Context(), a), "it stays")
	require.Empty(t, subscriptions())
	require.Equal(t, []string{csvName}, csvs())
	letGo()
	require.NoError(t, c.step.Remove(t.Context(), a))
	require.Empty(t, csvs())
}
