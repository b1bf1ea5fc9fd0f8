package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// hazard 17: address management in a NetworkAttachmentDefinition of the network
// makes virt-launcher answer before us.
func TestAddressManagementOnTheNetworkIsNamed(t *testing.T) {
	t.Parallel()
	nad := func(name, network, ipam string) plan.NetworkAttachment {
		return plan.NetworkAttachment{Key: plan.Key{Namespace: string(vlan().Spec.NetworkConfig.NetworkAttachmentNamespace), Name: name}, Network: network, Type: "bridge", Master: "br-" + network, VLAN: 100, IPAM: ipam}
	}
	own := string(vlan().Spec.NetworkConfig.NetworkAttachmentDefinition)
	for _, tt := range []struct {
		name string
		nads []plan.NetworkAttachment
		want string
	}{
		{"none", []plan.NetworkAttachment{nad(own, "tenant", "")}, ""},
		{"static addresses for our pods", []plan.NetworkAttachment{nad(own, "tenant", "static")}, ""},
		{"in our own", []plan.NetworkAttachment{nad(own, "tenant", "whereabouts")}, own + " (whereabouts)"},
		{"in the machines' own of the same network", []plan.NetworkAttachment{nad(own, "tenant", "static"), nad("vms", "tenant", "host-local")}, "vms (host-local)"},
		{"in one of another network", []plan.NetworkAttachment{nad(own, "tenant", "static"), nad("other", "other", "host-local")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := meta.FindStatusCondition(plan.For(plan.Inputs{Infra: vlan(), NetworkAttachments: tt.nads}).Conditions(), v1alpha1.ConditionDegraded)
			require.Equal(t, tt.want != "", c.Reason == v1alpha1.ReasonNADHasIPAM, c.Message)
			require.Contains(t, c.Message, tt.want)
		})
	}
}
