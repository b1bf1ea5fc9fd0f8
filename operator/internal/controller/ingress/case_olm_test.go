package ingress_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// olmStates are the four objects of the case's file, in its order.
type olmStates struct {
	unpack, resolution, catalog operatorsv1alpha1.Subscription
	plan                        operatorsv1alpha1.InstallPlan
}

func readOLMStates(t *testing.T) *olmStates {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "cases", "olm-states.yaml"))
	require.NoError(t, err)
	documents, s := bytes.Split(text, []byte("\n---\n")), &olmStates{}
	require.Len(t, documents, 4)
	for i, into := range []any{&s.unpack, &s.plan, &s.resolution, &s.catalog} {
		require.NoError(t, yaml.Unmarshal(documents[i], into))
	}
	return s
}

// show gives our Subscription the status of a state's, which must be the same one.
func (c *cluster) show(t *testing.T, state *operatorsv1alpha1.Subscription) {
	t.Helper()
	ours := &operatorsv1alpha1.Subscription{}
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(state), ours), "the Subscription of the state is the one that we make")
	want := state.Spec.DeepCopy()
	want.InstallPlanApproval = operatorsv1alpha1.ApprovalAutomatic
	require.Equal(t, want, ours.Spec)
	ours.Status = *state.Status.DeepCopy()
	ours.Status.LastUpdated = metav1.Now()
	require.NoError(t, c.Client.Status().Update(t.Context(), ours))
}

// case C49, hazards 120 to 123: each state of OLM has a phase and a reason of its
// own and is told in OLM's words; nothing is approved, and no second Subscription
// made.
func TestCaseOLMIsStuck(t *testing.T) {
	states := readOLMStates(t)
	c, a := serving(t), attachment()
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForMetalLBCRDs)
	first := &operatorsv1alpha1.Subscription{}
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(&states.unpack), first))
	key := client.ObjectKeyFromObject(&states.plan)
	require.False(t, states.plan.Spec.Approved)
	reasons := map[string]bool{}
	for _, tc := range []struct {
		name            string
		arrange         func(*testing.T)
		phase           v1alpha1.AppsPhase
		reason, message string
	}{
		{
			"s1: unpack failed", func(t *testing.T) { c.show(t, &states.unpack) },
			"Degraded", v1alpha1.ReasonBundleUnpackFailed,
			"Bundle unpacking failed - DeadlineExceeded: Job was active longer than specified deadline",
		},
		{
			"s3: resolution failed", func(t *testing.T) { c.show(t, &states.resolution) },
			"Degraded", v1alpha1.ReasonResolutionFailed,
			"constraints not satisfiable: @existing/openshift-operators//metallb-operator.v4.20.0 exists and is not referenced by a subscription",
		},
		{
			"s4: catalog missing", func(t *testing.T) {
				c.show(t, &states.catalog)
				source := &operatorsv1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-marketplace", Name: "redhat-operators"}}
				require.NoError(t, c.Client.Delete(t.Context(), source))
			},
			"Degraded", v1alpha1.ReasonCatalogSourceMissing,
			"targeted catalogsource openshift-marketplace/redhat-operators missing",
		},
		{
			"s2: plan forced to manual", func(t *testing.T) {
				healthy := states.unpack.DeepCopy()
				healthy.Status.Conditions = nil
				c.show(t, healthy)
				plan := states.plan.DeepCopy()
				require.NoError(t, c.Client.Create(t.Context(), plan))
				plan.Status = states.plan.Status
				plan.Status.CatalogSources = []string{}
				require.NoError(t, c.Client.Status().Update(t.Context(), plan))
			},
			"Pending", v1alpha1.ReasonInstallPlanNeedsApproval,
			"an InstallPlan in namespace openshift-operators of the hosted cluster waits for approval of metallb-operator.v4.21.0-202608010000, foreign-operator.v1.4.2",
		},
	} {
		require.True(t, t.Run(tc.name, func(t *testing.T) {
			tc.arrange(t)
			for range 3 {
				c.ensure(t, a, tc.phase, tc.reason)
				require.Equal(t, tc.message, a.Status.AppsIngressStatus.Message)
			}
			require.False(t, reasons[tc.reason], "each state has a reason of its own")
			reasons[tc.reason] = true
			subscriptions := &operatorsv1alpha1.SubscriptionList{}
			require.NoError(t, c.Client.List(t.Context(), subscriptions))
			require.Len(t, subscriptions.Items, 1, "no second Subscription is made")
			require.Equal(t, first.UID, subscriptions.Items[0].UID, "nor the first one made again")
		}))
	}
	before := &operatorsv1alpha1.InstallPlan{}
	require.NoError(t, c.Client.Get(t.Context(), key, before))
	require.Equal(t, states.plan.Spec, before.Spec, "the plan of two owners is not touched")
	require.Equal(t, operatorsv1alpha1.InstallPlanPhaseRequiresApproval, before.Status.Phase)
}
