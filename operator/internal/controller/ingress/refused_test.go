package ingress

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/outcome"
)

// behaviours F5, G2: what the Infra has not recorded as this attachment's own is
// never written to a hosted cluster, which is not even dialled; the Infra's words
// are shown, and what was published stays.
func TestARefusedDeclarationReachesNoHostedCluster(t *testing.T) {
	for _, tc := range []struct {
		name, poolRange string
		programmed      metav1.Condition
		phase           v1alpha1.AppsPhase
		reason, message string
	}{
		{
			"a range that overlaps", "192.0.2.200-192.0.2.209",
			metav1.Condition{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonOverlappingRange, Message: "192.0.2.200-192.0.2.209 overlaps dhcp.rangeEnd 192.0.2.205"},
			v1alpha1.AppsPhaseDegraded, v1alpha1.ReasonOverlappingRange, "overlaps dhcp.rangeEnd 192.0.2.205",
		},
		{
			"a range that is none", "192.0.2.209-192.0.2.200",
			metav1.Condition{Status: metav1.ConditionTrue},
			v1alpha1.AppsPhaseDegraded, v1alpha1.ReasonInvalidConfiguration, "appsIngress.metallb.ipAddressPoolRange: ",
		},
		{
			"an Infra that has not spoken yet", "192.0.2.200-192.0.2.209",
			metav1.Condition{Status: metav1.ConditionTrue},
			v1alpha1.AppsPhasePending, v1alpha1.ReasonWaitingForInfra, "has not recorded the range",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := &v1alpha1.InfraClusterAttachment{}
			a.Generation = 1
			a.Spec.AppsIngress.Enabled = true
			a.Spec.AppsIngress.MetalLB.IPAddressPoolRange = v1alpha1.IPv4Range(tc.poolRange)
			a.Status.AppsIngressStatus = &v1alpha1.AppsIngressStatus{ExternalIP: "192.0.2.200"}
			tc.programmed.Type, tc.programmed.ObservedGeneration = v1alpha1.ConditionProgrammed, 1
			a.Status.Conditions = []metav1.Condition{tc.programmed}
			_, err := New(nil, nil, time.Now).Ensure(t.Context(), a, facts.Attachment{Admitted: true}, nil)
			var waiting outcome.Waiting
			require.ErrorAs(t, err, &waiting)
			require.Positive(t, waiting.After)
			st := a.Status.AppsIngressStatus
			require.Equal(t, tc.phase, st.Phase)
			require.Equal(t, tc.reason, st.Reason)
			require.Contains(t, st.Message, tc.message)
			require.Equal(t, v1alpha1.IPv4("192.0.2.200"), st.ExternalIP)
		})
	}
}
