package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// change is a change of the example's spec.
type change = func(*v1alpha1.InfraSpec)

// behaviours A5, A6; hazards 217, 70, 242; case C47: what CEL refuses the planner
// refuses too, and the message holds the values that collide.
func TestWhatAnInfraMayNotDeclare(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		input change
		want  string
	}{
		{"host bits in the CIDR", func(s *v1alpha1.InfraSpec) { s.NetworkConfig.CIDR = "192.0.2.5/24" }, `networkConfig.cidr "192.0.2.5/24" must be an IPv4 network without host bits`},
		{"an IPv6 CIDR", func(s *v1alpha1.InfraSpec) { s.NetworkConfig.CIDR = "2001:db8::/64" }, "must be an IPv4 network"},
		{"a CIDR with spaces", func(s *v1alpha1.InfraSpec) { s.NetworkConfig.CIDR = " 192.0.2.0/24" }, "must be an IPv4 network"},
		{"too small a CIDR", func(s *v1alpha1.InfraSpec) { s.NetworkConfig.CIDR = "192.0.2.0/31" }, "must be between /8 and /30"},
		{"too big a CIDR", func(s *v1alpha1.InfraSpec) { s.NetworkConfig.CIDR = "0.0.0.0/0" }, "must be between /8 and /30"},
		{"a leading zero", func(s *v1alpha1.InfraSpec) { s.NetworkConfig.Gateway = "192.0.2.001" }, `networkConfig.gateway "192.0.2.001" must be an IPv4 address without leading zeros`},
		{"a gateway outside", func(s *v1alpha1.InfraSpec) { s.NetworkConfig.Gateway = "192.0.3.1" }, "networkConfig.gateway 192.0.3.1 must be a host address inside networkConfig.cidr 192.0.2.0/24"},
		{"a gateway that is the network", func(s *v1alpha1.InfraSpec) { s.NetworkConfig.Gateway = "192.0.2.0" }, "networkConfig.gateway 192.0.2.0 must be a host address"},
		{"no NetworkAttachmentDefinition", func(s *v1alpha1.InfraSpec) { s.NetworkConfig.NetworkAttachmentDefinition = "" }, "networkConfig.networkAttachmentDefinition must be set"},
		{"dhcp without an address", func(s *v1alpha1.InfraSpec) { s.InfraComponents.DHCP.ServerIP = "" }, "infraComponents.dhcp.serverIP must be set"},
		{"dns at the broadcast address", func(s *v1alpha1.InfraSpec) { s.InfraComponents.DNS.ServerIP = "192.0.2.255" }, "infraComponents.dns.serverIP 192.0.2.255 must be a host address inside networkConfig.cidr 192.0.2.0/24"},
		{"dns at the gateway", func(s *v1alpha1.InfraSpec) { s.InfraComponents.DNS.ServerIP = "192.0.2.1" }, "infraComponents.dns.serverIP 192.0.2.1 must differ from networkConfig.gateway"},
		{"proxy at dns", func(s *v1alpha1.InfraSpec) { s.InfraComponents.Proxy.ServerIP = "192.0.2.3" }, "infraComponents.proxy.serverIP 192.0.2.3 must differ from infraComponents.dns.serverIP"},
		{"proxy with an IPv6 address", func(s *v1alpha1.InfraSpec) { s.InfraComponents.Proxy.ServerIP = "2001:db8::4" }, "infraComponents.proxy.serverIP"},
		{"no range", func(s *v1alpha1.InfraSpec) { s.InfraComponents.DHCP.RangeEnd = "" }, "infraComponents.dhcp.rangeStart and rangeEnd must be set"},
		{"a range that is reversed", func(s *v1alpha1.InfraSpec) {
			s.InfraComponents.DHCP.RangeStart, s.InfraComponents.DHCP.RangeEnd = "192.0.2.199", "192.0.2.100"
		}, "infraComponents.dhcp.rangeStart 192.0.2.199 must not be after infraComponents.dhcp.rangeEnd 192.0.2.100"},
		{"a range that holds the broadcast address", func(s *v1alpha1.InfraSpec) {
			s.InfraComponents.DHCP.RangeStart, s.InfraComponents.DHCP.RangeEnd = "192.0.2.200", "192.0.2.255"
		}, "infraComponents.dhcp.rangeEnd 192.0.2.255 must be a host address"},
		{"a range that holds its own server", func(s *v1alpha1.InfraSpec) { s.InfraComponents.DHCP.RangeStart = "192.0.2.2" }, "infraComponents.dhcp.serverIP 192.0.2.2 must not lie in the range 192.0.2.2-192.0.2.199"},
		{"a range that holds the proxy", func(s *v1alpha1.InfraSpec) { s.InfraComponents.Proxy.ServerIP = "192.0.2.150" }, "infraComponents.proxy.serverIP 192.0.2.150 must not lie in the range 192.0.2.100-192.0.2.199"},
		{"a range start that is no address", func(s *v1alpha1.InfraSpec) { s.InfraComponents.DHCP.RangeStart = "hundred" }, "infraComponents.dhcp.rangeStart"},
		{"too short a lease", func(s *v1alpha1.InfraSpec) { s.InfraComponents.DHCP.LeaseTime = "59s" }, `infraComponents.dhcp.leaseTime "59s" must be a duration between 60s and 720h`},
		{"too long a lease", func(s *v1alpha1.InfraSpec) { s.InfraComponents.DHCP.LeaseTime = "721h" }, "must be a duration between 60s and 720h"},
		{"a lease that is no duration", func(s *v1alpha1.InfraSpec) { s.InfraComponents.DHCP.LeaseTime = "1 hour" }, "must be a duration between 60s and 720h"},
		{"an option beyond 254", func(s *v1alpha1.InfraSpec) {
			s.InfraComponents.DHCP.Options = []v1alpha1.DHCPOption{{Code: 255, Value: "x"}}
		}, "infraComponents.dhcp.options code 255 must be between 1 and 254"},
		{"an option of half a byte", func(s *v1alpha1.InfraSpec) {
			s.InfraComponents.DHCP.Options = []v1alpha1.DHCPOption{{Code: 43, Value: "0x123"}}
		}, "infraComponents.dhcp.options code 43"},
		{"a reservation outside", func(s *v1alpha1.InfraSpec) {
			s.InfraComponents.DHCP.Reservations = []v1alpha1.DHCPReservation{{MACAddress: "02:00:5e:10:00:0a", IP: "192.0.3.9"}}
		}, "infraComponents.dhcp.reservations 192.0.3.9 must be a host address inside networkConfig.cidr 192.0.2.0/24"},
		{"a reservation for no MAC", func(s *v1alpha1.InfraSpec) {
			s.InfraComponents.DHCP.Reservations = []v1alpha1.DHCPReservation{{MACAddress: "0200.5e10.000a", IP: "192.0.2.9"}}
		}, "infraComponents.dhcp.reservations"},
		{"an excluded range that is none", func(s *v1alpha1.InfraSpec) {
			s.InfraComponents.DHCP.ExcludedRanges = []v1alpha1.IPv4Range{"192.0.2.9-"}
		}, "infraComponents.dhcp.excludedRanges"},
		{"a relay that is none", func(s *v1alpha1.InfraSpec) { s.InfraComponents.DHCP.Relays = []v1alpha1.IPv4{"relay"} }, "infraComponents.dhcp.relays"},
		{"an additional source with host bits", func(s *v1alpha1.InfraSpec) {
			s.InfraComponents.DNS.AdditionalSourceCIDRs = []v1alpha1.IPv4CIDR{"203.0.113.1/24"}
		}, "infraComponents.dns.additionalSourceCIDRs"},
		{"a resolver that is a name", func(s *v1alpha1.InfraSpec) { s.NetworkConfig.DNSServers = []v1alpha1.Upstream{"resolver.example.com"} }, "networkConfig.dnsServers"},
		{"a resolver with a port beyond 65535", func(s *v1alpha1.InfraSpec) { s.NetworkConfig.DNSServers = []v1alpha1.Upstream{"198.51.100.53:70000"} }, "networkConfig.dnsServers"},
		{"a resolver that is ourselves", func(s *v1alpha1.InfraSpec) { s.NetworkConfig.DNSServers = []v1alpha1.Upstream{"192.0.2.3"} }, "networkConfig.dnsServers 192.0.2.3 is this stack itself"},
		{"a resolver that is our own Service", func(s *v1alpha1.InfraSpec) { s.NetworkConfig.DNSServers = []v1alpha1.Upstream{"172.30.20.2:53"} }, "networkConfig.dnsServers 172.30.20.2:53 is this stack itself"},
		{"a resolver at loopback", func(s *v1alpha1.InfraSpec) { s.NetworkConfig.DNSServers = []v1alpha1.Upstream{"127.0.0.1"} }, "networkConfig.dnsServers 127.0.0.1 is this stack itself"},
		{"an internalProxyService that is no Service", func(s *v1alpha1.InfraSpec) { s.InfraComponents.Proxy.InternalProxyService = "nowhere.clusters.svc" }, "infraComponents.proxy.internalProxyService nowhere.clusters.svc names no Service"},
		{"a CIDR that hides the hub's Services", func(s *v1alpha1.InfraSpec) {
			s.NetworkConfig.CIDR, s.NetworkConfig.Gateway = "172.16.0.0/12", "172.16.0.1"
		}, "networkConfig.cidr 172.16.0.0/12 overlaps 172.30.0.0/16"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := plan.For(example(vlan(tt.input)))
			require.Contains(t, messages(p), tt.want)
		})
	}
}

// example is an Infra on a hub whose networks are known.
func example(i plan.Infra) plan.Inputs {
	return plan.Inputs{
		Infra: i, HubNetworks: prefixes("10.128.0.0/14", "172.30.0.0/16"),
		ClusterIPs: clusterIPs(map[string]string{"tenant-vlan100-dns": "172.30.20.2", "tenant-vlan100-proxy": "172.30.20.1"}),
	}
}

// messages of a plan, one after the other.
func messages(p plan.Plan) string {
	var all string
	for _, problem := range p.Problems {
		all += problem.Message + "\n"
	}
	return all
}

// behaviours A5, F5; hazards 33, 218, 242: refused before any child exists, and
// what exists stays.
func TestNetworkThatIsTaken(t *testing.T) {
	t.Parallel()
	twin := plan.NetworkAttachment{Key: plan.Key{Namespace: "tenant", Name: "same-wire"}, Type: "bridge", Master: "br1", VLAN: 100}
	own := plan.NetworkAttachment{Key: plan.Key{Namespace: "default", Name: "vlan100"}, Type: "bridge", Master: "br1", VLAN: 100}
	inForce := &v1alpha1.NetworkInForce{CIDR: "192.0.2.0/24", DHCPServerIP: "192.0.2.2", DNSServerIP: "192.0.2.3", ProxyServerIP: "192.0.2.4"}
	onTwin := func(i plan.Infra) plan.Infra {
		i.Spec.NetworkConfig.NetworkAttachmentDefinition, i.Spec.NetworkConfig.NetworkAttachmentNamespace = "same-wire", "tenant"
		return i
	}
	recorded := func(i plan.Infra) plan.Infra { i.Network = inForce; return i }
	born := func(i plan.Infra, n int) plan.Infra { i.Created = day(n); return i }
	tests := []struct {
		name  string
		input plan.Inputs
		want  string
	}{
		{"the older of two keeps the network", plan.Inputs{Infra: vlan(), Siblings: []plan.Infra{elsewhere("b", "vlan100", "192.0.2")}}, ""},
		{"the younger does not get it", plan.Inputs{Infra: born(vlan(), 9), Siblings: []plan.Infra{elsewhere("b", "vlan100", "192.0.2")}}, "DuplicateNetwork"},
		{"the one in force keeps it though it is younger", plan.Inputs{Infra: recorded(born(vlan(), 9)), Siblings: []plan.Infra{elsewhere("b", "vlan100", "192.0.2")}}, ""},
		{"an edit does not take it from the one in force", plan.Inputs{Infra: vlan(), Siblings: []plan.Infra{recorded(elsewhere("b", "vlan100", "192.0.2"))}}, "DuplicateNetwork"},
		{"who leaves a network holds it until then", plan.Inputs{Infra: vlan(), Siblings: []plan.Infra{recorded(elsewhere("b", "vlan100", "198.51.100", noDHCP))}}, "DuplicateNetwork"},
		{"another CIDR on the same network, both with DHCP", plan.Inputs{Infra: born(vlan(), 9), Siblings: []plan.Infra{elsewhere("b", "vlan100", "198.51.100")}}, "DuplicateNetwork"},
		{"another CIDR on the same network, one without DHCP", plan.Inputs{Infra: born(vlan(), 9), Siblings: []plan.Infra{elsewhere("b", "vlan100", "198.51.100", noDHCP)}}, ""},
		{"the same CIDR on another network", plan.Inputs{Infra: born(vlan(), 9), Siblings: []plan.Infra{elsewhere("b", "vlan200", "192.0.2")}}, ""},
		{"the same network by another NetworkAttachmentDefinition", plan.Inputs{
			Infra: born(vlan(), 9), Siblings: []plan.Infra{onTwin(elsewhere("b", "vlan100", "192.0.2"))}, NetworkAttachments: []plan.NetworkAttachment{own, twin},
		}, "DuplicateNetwork"},
		{"one whose spec is wrong holds nothing", plan.Inputs{Infra: born(vlan(), 9), Siblings: []plan.Infra{elsewhere("b", "vlan100", "192.0.2", func(s *v1alpha1.InfraSpec) { s.NetworkConfig.Gateway = "" })}}, ""},
		{"the hub's pod network", plan.Inputs{Infra: vlan(), HubNetworks: prefixes("192.0.0.0/16")}, "NetworkOverlap"},
		{"a part of the hub's Service network", plan.Inputs{Infra: vlan(), HubNetworks: prefixes("192.0.2.64/26")}, "NetworkOverlap"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.input.Attachments = []plan.Attachment{cluster("a", 0)}
			p := plan.For(tt.input)
			require.Equal(t, tt.want, p.Refusal.Reason)
			refused := tt.want != ""
			require.Equal(t, refused, p.DHCP.Action == plan.Keep, "a refused Infra's children stay as they are")
			require.Equal(t, refused, verdicts(p)["a"] == v1alpha1.ReasonWaitingForInfra)
		})
	}
}

// behaviours F0, F5: who may write an Infra's status, its servers and the
// NetworkAttachmentDefinition that it names takes nothing from what another namespace
// has in force; and no honest Infra comes onto a network by what it holds of another.
func TestARecordTakesNothingFromAnotherNamespace(t *testing.T) {
	t.Parallel()
	vlan100, vlan200 := plan.Key{Namespace: "default", Name: "vlan100"}, plan.Key{Namespace: "default", Name: "vlan200"}
	record := func(net string) *v1alpha1.NetworkInForce {
		return &v1alpha1.NetworkInForce{
			CIDR: v1alpha1.IPv4CIDR(net + ".0/24"), DHCPServerIP: v1alpha1.IPv4(net + ".2"), DNSServerIP: v1alpha1.IPv4(net + ".3"), ProxyServerIP: v1alpha1.IPv4(net + ".4"),
		}
	}
	holding := func(i plan.Infra, net string, on ...plan.Key) plan.Infra {
		i.Network, i.On, i.DHCP = record(net), on, i.Spec.InfraComponents.DHCP.Enabled == nil
		return i
	}
	born := func(i plan.Infra, n int) plan.Infra { i.Created = day(n); return i }
	victim := func(change ...change) plan.Infra { return holding(born(vlan(change...), 9), "192.0.2", vlan100) }
	// All of them are older than the victim.
	other := func(net string, change ...change) plan.Infra {
		return strange(elsewhere("other", "vlan100", net, change...))
	}
	bare := func(net string) plan.Infra { i := other("203.0.113"); i.Network = record(net); return i }
	faulty := func(i plan.Infra) plan.Infra { i.Spec.NetworkConfig.Gateway = ""; return i }
	movedOnto := holding(other("192.0.2"), "192.0.2", vlan100)
	movedOnto.Network.ProxyServerIP = "192.0.2.14"
	movedProxy := func(s *v1alpha1.InfraSpec) { s.InfraComponents.Proxy.ServerIP = "192.0.2.14" }
	movedNetwork := func(s *v1alpha1.InfraSpec) { *s = elsewhere("x", "vlan100", "198.51.100").Spec }
	for _, tt := range []struct {
		name  string
		infra plan.Infra
		by    plan.Infra
		want  string
		told  bool
	}{
		{"a forged record of our network", victim(), bare("192.0.2"), "", true},
		{"with a spec that says the same", victim(), holding(other("192.0.2"), "192.0.2"), "", true},
		{"with servers that name our network", victim(), holding(other("192.0.2"), "192.0.2", vlan100), "", true},
		{"with a spec that is refused", victim(), faulty(bare("192.0.2")), "", true},
		{"of another network of the VLAN, with DHCP", victim(), holding(other("198.51.100"), "198.51.100", vlan100), "", true},
		{"while one of our addresses is being changed", victim(movedProxy), holding(other("192.0.2"), "192.0.2", vlan100), "", true},
		{"a younger one's is told to the younger one", victim(), born(holding(other("192.0.2"), "192.0.2", vlan100), 10), "", false},
		{"and the younger one goes on", born(holding(other("192.0.2"), "192.0.2", vlan100), 10), victim(), "", true},
		{"a record does not keep a newcomer out for longer than a spec", born(vlan(), 9), other("192.0.2"), "DuplicateNetwork", false},

		{"an older one that asks for our network does not get it", other("192.0.2"), victim(), "DuplicateNetwork", false},
		{"one that holds the same addresses on another VLAN does not bring them here", holding(other("192.0.2"), "192.0.2", vlan200), victim(), "DuplicateNetwork", false},
		{"and does not take them from us", victim(), holding(other("192.0.2"), "192.0.2", vlan200), "", false},
		{"one that is beside us without DHCP does not move onto us", holding(other("192.0.2", noDHCP), "198.51.100", vlan100), victim(), "DuplicateNetwork", false},
		{"nor onto one of our addresses", movedOnto, victim(), "DuplicateNetwork", false},
		{"nor does it switch DHCP on", with(holding(other("198.51.100", noDHCP), "198.51.100", vlan100), yesDHCP), victim(), "DuplicateNetwork", false},
		{"we do not move onto one that is beside us", victim(movedNetwork), holding(other("198.51.100", noDHCP), "198.51.100", vlan100), "DuplicateNetwork", false},
		{"nor onto one that wants something else by now, and serves as it did", victim(movedNetwork), holding(other("203.0.113", noDHCP), "198.51.100", vlan100), "DuplicateNetwork", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := plan.For(plan.Inputs{Infra: tt.infra, Siblings: []plan.Infra{tt.by}, Attachments: []plan.Attachment{own(tt.infra)}})
			require.Equal(t, tt.want, p.Refusal.Reason)
			if tt.want != "" {
				return
			}
			require.Equal(t, plan.Apply, p.DHCP.Action)
			require.True(t, p.Attachments[0].Included)
			require.Equal(t, "True", string(conditionOf(t, p, v1alpha1.ConditionReady).Status))
			degraded := conditionOf(t, p, v1alpha1.ConditionDegraded)
			require.Equal(t, tt.told, degraded.Reason == v1alpha1.ReasonDuplicateNetwork, degraded.Message)
		})
	}
}

// own is an attachment of an Infra.
func own(i plan.Infra) plan.Attachment {
	return cluster("a", 0, of(i.Name), func(a *plan.Attachment) { a.Namespace = i.Namespace })
}

func with(i plan.Infra, c change) plan.Infra { c(&i.Spec); return i }

func yesDHCP(s *v1alpha1.InfraSpec) { s.InfraComponents.DHCP.Enabled = nil }

// behaviour C3; hazard 16: a CUDN makes one NetworkAttachmentDefinition a namespace.
func TestEveryNetworkAttachmentOfTheNetworkIsNamed(t *testing.T) {
	t.Parallel()
	in := plan.Inputs{Infra: vlan(), NetworkAttachments: []plan.NetworkAttachment{
		{Key: plan.Key{Namespace: "default", Name: "vlan100"}, Network: "tenant", Type: "ovn-k8s-cni-overlay", Master: "localnet1", VLAN: 100, MTU: 1400},
		{Key: plan.Key{Namespace: "clusters-b", Name: "vlan100"}, Network: "tenant"},
		{Key: plan.Key{Namespace: "clusters-a", Name: "other-name"}, Type: "ovn-k8s-cni-overlay", Master: "localnet1", VLAN: 100},
		{Key: plan.Key{Namespace: "clusters-c", Name: "vlan100"}, Type: "ovn-k8s-cni-overlay", Master: "localnet1", VLAN: 200},
		{Key: plan.Key{Namespace: "clusters-d", Name: "vlan100"}},
	}}
	p := plan.For(in)
	require.Equal(t, []v1alpha1.NetworkAttachment{
		{Namespace: "clusters-a", Name: "other-name"}, {Namespace: "clusters-b", Name: "vlan100"}, {Namespace: "default", Name: "vlan100"},
	}, p.DHCP.Spec.NetworkAttachments)
	require.Equal(t, int32(1400), p.DHCP.Spec.NetworkConfig.MTU, "hazard 19: the MTU is the NetworkAttachmentDefinition's")
}

// behaviour C7: what the pool never gives.
func TestPoolExcludesWhatIsTaken(t *testing.T) {
	t.Parallel()
	p := plan.For(plan.Inputs{
		Infra: vlan(func(s *v1alpha1.InfraSpec) {
			s.InfraComponents.DHCP.ExcludedRanges = []v1alpha1.IPv4Range{"192.0.2.120 - 192.0.2.130", "192.0.2.64/30"}
		}),
		Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200-192.0.2.209", "")), cluster("b", 1, apps("192.0.2.198-192.0.2.199", ""))},
	})
	require.Equal(t, []v1alpha1.IPv4Range{
		"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.64-192.0.2.67", "192.0.2.120-192.0.2.130", "192.0.2.200-192.0.2.209",
	}, p.DHCP.Spec.ExcludedRanges)
}

// behaviour C2.
func TestLeasedResolvers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		input change
		want  []v1alpha1.IPv4
	}{
		{"our own DNS server", func(*v1alpha1.InfraSpec) {}, []v1alpha1.IPv4{"192.0.2.3"}},
		{"the upstreams that have an address and the usual port", func(s *v1alpha1.InfraSpec) {
			off := false
			s.InfraComponents.DNS.Enabled = &off
			s.NetworkConfig.DNSServers = []v1alpha1.Upstream{"198.51.100.53", "resolv.conf", "198.51.100.54:5353", "198.51.100.55:53", "198.51.100.53:53"}
		}, []v1alpha1.IPv4{"198.51.100.53", "198.51.100.55"}},
		{"none, where there is none", func(s *v1alpha1.InfraSpec) {
			off := false
			s.InfraComponents.DNS.Enabled = &off
			s.NetworkConfig.DNSServers = []v1alpha1.Upstream{"resolv.conf"}
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, plan.For(plan.Inputs{Infra: vlan(tt.input)}).DHCP.Spec.NetworkConfig.DNSServers)
		})
	}
}
