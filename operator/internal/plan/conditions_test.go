package plan_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func conditionOf(t *testing.T, p plan.Plan, kind string) metav1.Condition {
	t.Helper()
	for _, c := range p.Conditions() {
		if c.Type == kind {
			return c
		}
	}
	require.Fail(t, "condition is missing", kind)
	return metav1.Condition{}
}

// behaviours H1, H2: every owned condition is set in every plan, with a reason.
func TestEveryConditionIsSet(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]plan.Inputs{
		"a good Infra": {Infra: vlan()}, "a wrong one": {}, "one that is disabled": {Infra: vlan(noDHCP)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var kinds []string
			for _, c := range plan.For(in).Conditions() {
				kinds = append(kinds, c.Type)
				require.NotEmpty(t, c.Reason)
				require.NotEmpty(t, c.Message)
			}
			require.Equal(t, []string{
				"DHCPProvisioned", "DNSProvisioned", "Degraded", "DuplicateSourceIP", "ProxyProvisioned", "Ready", "Retained",
			}, kinds)
		})
	}
}

// behaviour B7.
func TestDisabledComponentIsRetained(t *testing.T) {
	t.Parallel()
	p := plan.For(plan.Inputs{Infra: vlan(noDHCP)})
	require.Equal(t, plan.Keep, p.DHCP.Action)
	retained := conditionOf(t, p, v1alpha1.ConditionRetained)
	require.Equal(t, metav1.ConditionTrue, retained.Status)
	require.Contains(t, retained.Message, "dhcp")
	require.Equal(t, metav1.ConditionTrue, conditionOf(t, p, v1alpha1.ConditionReady).Status)
	require.False(t, p.ComponentStatus().DHCPReady)

	off := false
	p = plan.For(plan.Inputs{Infra: vlan(noDHCP, func(s *v1alpha1.InfraSpec) { s.RetainDisabled = &off })})
	require.Equal(t, v1alpha1.ReasonDisabled, conditionOf(t, p, v1alpha1.ConditionDHCPProvisioned).Reason)
	require.Equal(t, plan.Delete, p.DHCP.Action)
	require.Equal(t, metav1.ConditionFalse, conditionOf(t, p, v1alpha1.ConditionRetained).Status)
}

// behaviour A6: one component's fault is that component's alone.
func TestComponentWithoutAnAddressIsLeftOutAlone(t *testing.T) {
	t.Parallel()
	p := plan.For(plan.Inputs{Infra: vlan(func(s *v1alpha1.InfraSpec) { s.InfraComponents.DNS.ServerIP = "" })})
	require.Equal(t, []plan.Action{plan.Apply, plan.Keep, plan.Apply}, []plan.Action{p.DHCP.Action, p.DNS.Action, p.Proxy.Action})
	require.Equal(t, v1alpha1.ReasonInvalidConfiguration, conditionOf(t, p, v1alpha1.ConditionDNSProvisioned).Reason)
	require.Contains(t, conditionOf(t, p, v1alpha1.ConditionReady).Message, "infraComponents.dns.serverIP")
	require.Equal(t, []v1alpha1.IPv4{"198.51.100.53"}, p.DHCP.Spec.NetworkConfig.DNSServers, "without our DNS the upstreams are leased")
}

// behaviour F4: DuplicateSourceIP is a condition of its own name.
func TestDuplicateSourceLeavesReadyAlone(t *testing.T) {
	t.Parallel()
	p := plan.For(plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{
		cluster("a", 0, workers("192.0.2.101")), cluster("b", 1, workers("192.0.2.101")),
	}})
	c := conditionOf(t, p, v1alpha1.ConditionDuplicateSourceIP)
	require.Equal(t, metav1.ConditionTrue, c.Status)
	require.Equal(t, "192.0.2.101 is claimed by a, b and selects none of them", c.Message)
	require.Equal(t, metav1.ConditionTrue, conditionOf(t, p, v1alpha1.ConditionReady).Status)
	require.Empty(t, verdicts(p))
}

// behaviours F4, H2: what is wrong with an attachment alone shows on the Infra as
// well, under a reason of its own, and leaves it Ready.
func TestAnAttachmentThatIsLeftOutAloneDegradesTheInfra(t *testing.T) {
	t.Parallel()
	p := plan.For(plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1, domain("Not-A-Label"))}})
	c := conditionOf(t, p, v1alpha1.ConditionDegraded)
	require.Equal(t, []string{"True", v1alpha1.ReasonExcluded}, []string{string(c.Status), c.Reason})
	require.Contains(t, c.Message, "b: dns.clusterName")
	require.Equal(t, metav1.ConditionTrue, conditionOf(t, p, v1alpha1.ConditionReady).Status)
}
