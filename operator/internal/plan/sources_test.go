package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// behaviours F1, F4, E2; cases C32, C39, C42; hazards 5, 6, 7, 34, 237.
func TestSourcesThatSelectAControlPlane(t *testing.T) {
	t.Parallel()
	machine := func(vm string) func(*plan.Attachment) {
		return func(a *plan.Attachment) { a.Machines = append(a.Machines, vm) }
	}
	excluded := func(a *plan.Attachment) { a.Networks = prefixes("192.0.2.0/28") }
	tests := []struct {
		name  string
		input plan.Inputs
		want  map[string][]string
	}{
		{
			"a machine's address, sorted and once",
			plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, workers("192.0.2.110", "192.0.2.9", "192.0.2.110"))}},
			map[string][]string{"a": {"192.0.2.9/32", "192.0.2.110/32"}},
		},
		{
			"what is no worker's is ignored",
			plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200-192.0.2.209", "192.0.2.201"),
				workers("192.0.2.0", "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.255", "192.0.2.205", "10.132.0.2", "169.254.0.2"))}},
			map[string][]string{"a": nil},
		},
		{
			"another cluster's load balancer is no worker",
			plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, workers("192.0.2.205")), cluster("b", 1, apps("192.0.2.200-192.0.2.209", ""))}},
			map[string][]string{"a": nil, "b": nil},
		},
		{
			"nor is the address that it has, wherever that is",
			plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, workers("192.0.2.230")), cluster("b", 1, apps("192.0.2.200-192.0.2.209", "192.0.2.230"))}},
			map[string][]string{"a": nil, "b": nil},
		},
		{
			"two clusters claim one address: only that one is dropped",
			plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, workers("192.0.2.101", "192.0.2.102")), cluster("b", 1, workers("192.0.2.101", "192.0.2.150"))}},
			map[string][]string{"a": {"192.0.2.102/32"}, "b": {"192.0.2.150/32"}},
		},
		{
			"three claim one address",
			plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, workers("192.0.2.101")), cluster("b", 1, workers("192.0.2.101")), cluster("c", 2, workers("192.0.2.101"))}},
			map[string][]string{"a": nil, "b": nil, "c": nil},
		},
		{
			"a lease to a machine's VM counts before the machine says so",
			plan.Inputs{
				Attachments: []plan.Attachment{cluster("a", 0, machine("vm-1"))}, Bindings: []plan.Binding{lease("192.0.2.101", "clusters-a", "vm-1")},
			},
			map[string][]string{"a": {"192.0.2.101/32"}},
		},
		{
			"a lease to a VM that is no machine's does not",
			plan.Inputs{
				Attachments: []plan.Attachment{cluster("a", 0, machine("vm-1"))}, Bindings: []plan.Binding{lease("192.0.2.101", "clusters-a", "stray")},
			},
			map[string][]string{"a": nil},
		},
		{
			"the lease decides, whatever machines claim",
			plan.Inputs{
				Attachments: []plan.Attachment{cluster("a", 0, workers("192.0.2.101")), cluster("b", 1, workers("192.0.2.101"), machine("vm-2"))},
				Bindings:    []plan.Binding{lease("192.0.2.101", "clusters-b", "vm-2")},
			},
			map[string][]string{"a": nil, "b": {"192.0.2.101/32"}},
		},
		{
			"a lease to a VM of no cluster takes the address from all",
			plan.Inputs{
				Attachments: []plan.Attachment{cluster("a", 0, workers("192.0.2.101"))}, Bindings: []plan.Binding{lease("192.0.2.101", "elsewhere", "vm")},
			},
			map[string][]string{"a": nil},
		},
		{
			"a lease to an unknown client says nothing",
			plan.Inputs{
				Attachments: []plan.Attachment{cluster("a", 0, workers("192.0.2.101"))}, Bindings: []plan.Binding{{Address: addr("192.0.2.101")}},
			},
			map[string][]string{"a": {"192.0.2.101/32"}},
		},
		{
			"an address that is leased to two VMs is nobody's",
			plan.Inputs{
				Attachments: []plan.Attachment{cluster("a", 0, workers("192.0.2.101"), machine("vm-1"))},
				Bindings:    []plan.Binding{lease("192.0.2.101", "clusters-a", "vm-1"), lease("192.0.2.101", "clusters-b", "vm-2")},
			},
			map[string][]string{"a": nil},
		},
		{
			"a held address stays",
			plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, held("192.0.2.101"))}},
			map[string][]string{"a": {"192.0.2.101/32"}},
		},
		{
			"a held address gives way to a live claim",
			plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, held("192.0.2.101")), cluster("b", 1, workers("192.0.2.101"))}},
			map[string][]string{"a": nil, "b": {"192.0.2.101/32"}},
		},
		{
			"two hold one address",
			plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, held("192.0.2.101")), cluster("b", 1, held("192.0.2.101"))}},
			map[string][]string{"a": nil, "b": nil},
		},
		{
			"an excluded cluster's worker is on the VLAN all the same",
			plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, workers("192.0.2.101", "192.0.2.102")), cluster("b", 1, workers("192.0.2.101"), excluded)}},
			map[string][]string{"a": {"192.0.2.102/32"}},
		},
		{
			"one that may not attach claims nothing",
			plan.Inputs{Attachments: []plan.Attachment{
				cluster("a", 0, workers("192.0.2.101")), cluster("b", 1, workers("192.0.2.101"), func(a *plan.Attachment) { a.HostedClusterUID = "" }),
			}},
			map[string][]string{"a": {"192.0.2.101/32"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.input.Infra = vlan()
			p := plan.For(tt.input)
			got := map[string][]string{}
			for _, v := range p.Attachments {
				if v.Included {
					got[v.Name] = backend(p, v.Name+"/alias-api").SourcePrefixRanges
					require.Equal(t, got[v.Name], backend(p, v.Name+"/alias-tls").SourcePrefixRanges)
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// behaviour D8.
func TestWorkersHaveNames(t *testing.T) {
	t.Parallel()
	p := plan.For(plan.Inputs{
		Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1, domain("a.b")), cluster("c", 2, networks("192.0.2.0/28"))},
		Bindings: []plan.Binding{
			lease("192.0.2.102", "clusters-a", "vm-2"), lease("192.0.2.101", "clusters-a", "vm-1"), lease("192.0.2.103", "clusters-a", "api"),
			lease("192.0.2.104", "clusters-a", "two.labels"), lease("192.0.2.105", "elsewhere", "vm-9"), lease("198.51.100.9", "clusters-a", "vm-8"),
			lease("192.0.2.106", "clusters-c", "vm-7"), lease("192.0.2.150", "clusters-b", "vm-1"),
			{Address: addr("192.0.2.160")},
		},
	})
	require.Equal(t, []v1alpha1.DNSHost{
		{Name: "vm-1.a.b.clusters.example.com", Address: "192.0.2.150"},
		{Name: "vm-1.a.clusters.example.com", Address: "192.0.2.101"},
		{Name: "vm-2.a.clusters.example.com", Address: "192.0.2.102"},
	}, p.DNS.Spec.Hosts, "one label, inside the CIDR, of an included cluster; an owned name wins")
	require.Equal(t, []string{"clusters", "clusters-a", "clusters-b"}, p.DHCP.Spec.VMINamespaces, "behaviour B12")
}
