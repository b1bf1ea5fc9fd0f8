package plan_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

func keepOldest(s *v1alpha1.InfraSpec) { s.ConflictPolicy = v1alpha1.ConflictPolicyKeepOldest }

// behaviours F0, F4, A9; hazards 144, 206.
func TestAttachmentsThatCollide(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		input plan.Inputs
		want  map[string]string
	}{
		{
			"attachments that differ in everything are all in",
			plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1)}},
			map[string]string{},
		},
		{
			"two attachments claim one domain",
			plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1, domain("a")), cluster("c", 2)}},
			map[string]string{"a": "DuplicateHostname", "b": "DuplicateHostname"},
		},
		{
			"one domain lies inside the other",
			plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1, domain("apps.a"))}},
			map[string]string{"a": "DuplicateHostname", "b": "DuplicateHostname"},
		},
		{
			"a domain that only ends in the same letters is another",
			plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1, domain("xa"))}},
			map[string]string{},
		},
		{
			"three collide, two of them only through the third",
			plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1, domain("x.a")), cluster("c", 2, domain("y.a"))}},
			map[string]string{"a": "DuplicateHostname", "b": "DuplicateHostname", "c": "DuplicateHostname"},
		},
		{
			"two attachments name one HostedCluster",
			plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1, hosted("a")), cluster("c", 2)}},
			map[string]string{"a": "DuplicateHostedCluster", "b": "DuplicateHostedCluster"},
		},
		{
			"KeepOldest keeps the oldest of a domain",
			plan.Inputs{Infra: vlan(keepOldest), Attachments: []plan.Attachment{cluster("a", 5), cluster("b", 1, domain("a"))}},
			map[string]string{"a": "DuplicateHostname"},
		},
		{
			"KeepOldest keeps the one in force before the oldest",
			plan.Inputs{
				Infra:       serving(vlan(keepOldest), "a"),
				Attachments: []plan.Attachment{cluster("a", 5), cluster("b", 1, domain("a"))},
			},
			map[string]string{"b": "DuplicateHostname"},
		},
		{
			"KeepOldest keeps the oldest of a HostedCluster",
			plan.Inputs{Infra: vlan(keepOldest), Attachments: []plan.Attachment{cluster("a", 5), cluster("b", 1, hosted("a"))}},
			map[string]string{"a": "DuplicateHostedCluster"},
		},
		{
			"KeepOldest with equal ages goes by name",
			plan.Inputs{Infra: vlan(keepOldest), Attachments: []plan.Attachment{cluster("b", 1, domain("a")), cluster("a", 1)}},
			map[string]string{"b": "DuplicateHostname"},
		},
		{
			"one that is not admitted counts against nobody",
			plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{
				cluster("a", 0), cluster("b", 1, domain("a"), func(a *plan.Attachment) {
					a.HostedClusterUID, a.Refusal = "", plan.Reason{Reason: v1alpha1.ReasonHostedClusterRefNotPermitted, Message: "not yours"}
				}),
			}},
			map[string]string{"b": "HostedClusterRefNotPermitted"},
		},
		{
			"one whose spec is wrong counts against nobody",
			plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1, domain("A"))}},
			map[string]string{"b": "InvalidConfiguration"},
		},
		{
			"one that is being deleted counts against nobody and is no verdict's",
			plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1, domain("a"), deleting)}},
			map[string]string{},
		},
		{
			"one whose hosted cluster overlaps the VLAN is excluded alone",
			plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1, domain("a"), networks("192.0.2.128/25"))}},
			map[string]string{"b": "NetworkOverlap"},
		},
		{
			"an attachment of another Infra elsewhere with the same domain is no conflict",
			plan.Inputs{
				Infra: vlan(), Siblings: []plan.Infra{elsewhere("other", "vlan200", "198.51.100")},
				Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1, domain("a"), of("other"))},
			},
			map[string]string{},
		},
		{
			"an attachment of another Infra elsewhere with the same HostedCluster is one",
			plan.Inputs{
				Infra: vlan(), Siblings: []plan.Infra{elsewhere("other", "vlan200", "198.51.100")},
				Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1, hosted("a"), of("other"))},
			},
			map[string]string{"a": "DuplicateHostedCluster"},
		},
		{
			"an attachment of another Infra of this network with the same domain is one",
			plan.Inputs{
				Infra: vlan(), Siblings: []plan.Infra{elsewhere("other", "vlan100", "198.51.100", noDHCP)},
				Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1, domain("a"), of("other"))},
			},
			map[string]string{"a": "DuplicateHostname"},
		},
		{
			"one in another namespace with the same domain takes nothing away",
			plan.Inputs{
				Infra: vlan(), Siblings: []plan.Infra{strange(elsewhere("other", "vlan100", "198.51.100", noDHCP))},
				Attachments: []plan.Attachment{cluster("a", 0, created(2)), cluster("b", 1, domain("a"), created(3), of("other"), stranger)},
			},
			map[string]string{},
		},
		{
			"one in another namespace that was there before stays",
			plan.Inputs{
				Infra: vlan(), Siblings: []plan.Infra{strange(elsewhere("other", "vlan100", "198.51.100", noDHCP))},
				Attachments: []plan.Attachment{cluster("a", 0, created(2)), cluster("b", 1, domain("a"), created(1), of("other"), stranger)},
			},
			map[string]string{"a": "DuplicateHostname"},
		},
		{
			"the one in force stays, whatever is older in another namespace",
			plan.Inputs{
				Infra:    serving(vlan(), "a"),
				Siblings: []plan.Infra{strange(elsewhere("other", "vlan100", "198.51.100", noDHCP))},
				Attachments: []plan.Attachment{
					cluster("a", 0, created(2)), cluster("b", 1, domain("a"), created(1), of("other"), stranger),
				},
			},
			map[string]string{},
		},
		{
			"one of an Infra that may not move to this network, and still serves, is one",
			plan.Inputs{
				Infra:       vlan(),
				Siblings:    []plan.Infra{stillOn("198.51.100.0/24", elsewhere("other", "vlan100", "192.0.2"))},
				Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1, domain("a"), of("other"))},
			},
			map[string]string{"a": "DuplicateHostname"},
		},
		{
			"an attachment of an Infra that may not have the network counts against nobody",
			plan.Inputs{
				Infra: vlan(), Siblings: []plan.Infra{elsewhere("other", "vlan100", "192.0.2")},
				Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1, domain("a"), of("other"))},
			},
			map[string]string{},
		},
		{
			"an attachment of an Infra that does not exist counts against nobody",
			plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1, domain("a"), of("nowhere"))}},
			map[string]string{},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, verdicts(plan.For(tt.input)))
		})
	}
}

func networks(cidrs ...string) func(*plan.Attachment) {
	return func(a *plan.Attachment) {
		for _, c := range cidrs {
			a.Networks = append(a.Networks, prefix(c))
		}
	}
}

// serving records an attachment as in force.
func serving(i plan.Infra, name string) plan.Infra {
	i.InForce = append(i.InForce, v1alpha1.AttachmentInForce{
		Attachment: v1alpha1.ObjectName(name), Domain: v1alpha1.DomainName(name + ".clusters.example.com"), HostedClusterUID: "uid-hc-" + name,
	})
	return i
}

// strange moves an Infra to another namespace, stranger an attachment.
func strange(i plan.Infra) plan.Infra {
	i.Namespace = "strangers"
	return i
}

func stranger(a *plan.Attachment) { a.Namespace = "strangers" }

// of names another Infra.
func of(infra string) func(*plan.Attachment) {
	return func(a *plan.Attachment) { a.Spec.InfraRef.Name = v1alpha1.ObjectName(infra) }
}

func noDHCP(s *v1alpha1.InfraSpec) {
	off := false
	s.InfraComponents.DHCP.Enabled = &off
}

// elsewhere is a younger Infra.
func elsewhere(name, nad, net string, change ...func(*v1alpha1.InfraSpec)) plan.Infra {
	i := vlan(func(s *v1alpha1.InfraSpec) {
		s.NetworkConfig.NetworkAttachmentDefinition = v1alpha1.ObjectName(nad)
		s.NetworkConfig.CIDR, s.NetworkConfig.Gateway = v1alpha1.IPv4CIDR(net+".0/24"), v1alpha1.IPv4(net+".1")
		c := &s.InfraComponents
		c.DHCP.ServerIP, c.DHCP.RangeStart, c.DHCP.RangeEnd = v1alpha1.IPv4(net+".2"), v1alpha1.IPv4(net+".100"), v1alpha1.IPv4(net+".199")
		c.DNS.ServerIP, c.Proxy.ServerIP = v1alpha1.IPv4(net+".3"), v1alpha1.IPv4(net+".4")
		for _, f := range change {
			f(s)
		}
	})
	i.Name, i.UID, i.Created = name, "uid-"+name, day(5)
	return i
}

// stillOn has another CIDR in force than the one that it asks for.
func stillOn(cidr v1alpha1.IPv4CIDR, i plan.Infra) plan.Infra {
	i.Network = &v1alpha1.NetworkInForce{CIDR: cidr}
	return i
}

// behaviour F4: the message lists each group, sorted.
func TestConflictMessageNamesEachGroup(t *testing.T) {
	t.Parallel()
	p := plan.For(plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{
		cluster("d", 3, domain("c")), cluster("b", 1, domain("a")), cluster("c", 2), cluster("a", 0),
	}})
	ready := conditionOf(t, p, v1alpha1.ConditionReady)
	require.Equal(t, "DuplicateHostname", ready.Reason)
	require.Equal(t, "domain a.clusters.example.com: a, b; domain c.clusters.example.com: c, d", ready.Message)
	require.Empty(t, p.Proxy.Spec.Backends, "with none left the routes are emptied")
	require.False(t, p.ComponentStatus().ProxyReady)
	require.Equal(t, plan.Apply, p.DNS.Action, "DNS goes on")
	require.Equal(t, plan.Apply, p.DHCP.Action, "DHCP goes on")
}

// behaviour F4: who loses in another namespace is no trouble of this Infra.
func TestAStrangersLossIsTheirs(t *testing.T) {
	t.Parallel()
	p := plan.For(plan.Inputs{
		Infra: vlan(), Siblings: []plan.Infra{strange(elsewhere("other", "vlan100", "198.51.100", noDHCP))},
		Attachments: []plan.Attachment{cluster("a", 0, created(2)), cluster("b", 1, domain("a"), created(3), of("other"), stranger)},
	})
	require.Equal(t, "True", string(conditionOf(t, p, v1alpha1.ConditionReady).Status))
	require.NotEmpty(t, p.Proxy.Spec.Backends)
}

// behaviour F4: with none at all the Infra is Ready.
func TestNoAttachmentIsReady(t *testing.T) {
	t.Parallel()
	p := plan.For(plan.Inputs{Infra: vlan()})
	require.Equal(t, "True", string(conditionOf(t, p, v1alpha1.ConditionReady).Status))
	require.False(t, p.ComponentStatus().ProxyReady)
}

// behaviour A9.
func TestNewestBeyondTheLimitAreLeftOut(t *testing.T) {
	t.Parallel()
	in := plan.Inputs{Infra: vlan()}
	for n := range plan.MaxAttachments + 2 {
		in.Attachments = append(in.Attachments, cluster(fmt.Sprintf("c%03d", n), 0, created(1+n%5)))
	}
	in.Attachments[7].Created = day(20)
	in.Infra.InForce = []v1alpha1.AttachmentInForce{{Attachment: "c009", HostedClusterUID: "uid-hc-c009"}}
	in.Attachments[9].Created = day(21)
	p := plan.For(in)
	require.Equal(t, map[string]string{"c007": "TooManyAttachments", "c249": "TooManyAttachments"}, verdicts(p))
	require.Equal(t, "TooManyAttachments", conditionOf(t, p, v1alpha1.ConditionReady).Reason)
}
