package plan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// behaviour A7; hazards 3, 260: a change is allowed, and what workers keep is said
// for one lease time.
func TestChangedNetworkIsShownUntilWorkersRenew(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	first := plan.For(plan.Inputs{Infra: vlan(), Now: noon})
	require.Nil(t, first.Network.Renewal, "a newcomer has no workers")

	moved := vlan(func(s *v1alpha1.InfraSpec) {
		s.InfraComponents.Proxy.ServerIP, s.InfraComponents.DHCP.LeaseTime = "192.0.2.5", "10m"
	})
	moved.Network = first.Network
	changed := plan.For(plan.Inputs{Infra: moved, Now: noon})
	reason, left := changed.Renewing(noon)
	require.Equal(t, plan.Reason{
		Reason:  v1alpha1.ReasonNetworkChanged,
		Message: "infraComponents.proxy.serverIP moved from 192.0.2.4 to 192.0.2.5; running workers keep what they had until they renew, at most 10m0s",
	}, reason)
	require.Equal(t, 10*time.Minute, left)
	require.Equal(t, v1alpha1.IPv4("192.0.2.5"), changed.Proxy.Spec.NetworkConfig.ServerIP, "the change is applied at once")

	moved.Network = changed.Network
	later := plan.For(plan.Inputs{Infra: moved, Now: noon.Add(9 * time.Minute)})
	require.Equal(t, changed.Network, later.Network, "nothing is written meanwhile")
	over := plan.For(plan.Inputs{Infra: moved, Now: noon.Add(10 * time.Minute)})
	require.Nil(t, over.Network.Renewal)
	reason, _ = over.Renewing(noon)
	require.Empty(t, reason.Reason)
}

// A renewal is no claim: it takes the network from nobody.
func TestRenewalIsNoClaim(t *testing.T) {
	t.Parallel()
	i := vlan()
	i.Created = day(9)
	i.Network = plan.For(plan.Inputs{Infra: i}).Network
	i.Network.Renewal = &v1alpha1.NetworkRenewal{Message: "x"}
	require.Empty(t, plan.For(plan.Inputs{Infra: i, Siblings: []plan.Infra{elsewhere("b", "vlan100", "192.0.2")}}).Refusal)
}
