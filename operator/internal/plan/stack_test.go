package plan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// view is a record's two views in short: an address, or the policy.
func view(r v1alpha1.DNSRecord) [2]string {
	short := func(v v1alpha1.DNSView) string {
		if len(v.Addresses) > 0 {
			return string(v.Addresses[0])
		}
		return string(v.Policy)
	}
	return [2]string{short(r.VLAN), short(r.Pod)}
}

func noService(s *v1alpha1.InfraSpec) { s.InfraComponents.Proxy.InternalProxyService = "" }

func hostnameOnly(name string) func(*plan.Attachment) {
	return func(a *plan.Attachment) { a.AppsHostname = name }
}

// behaviours D1, D2, D3; hazards 146, 148.
func TestNamesInBothViews(t *testing.T) {
	t.Parallel()
	known := workers("192.0.2.101")
	unresolved := func(s *v1alpha1.InfraSpec) { s.InfraComponents.Proxy.InternalProxyService = "later" }
	tests := []struct {
		name       string
		infra      []change
		attachment plan.Attachment
		want       map[string][2]string
	}{
		{"the names of a control plane", nil, cluster("a", 0), map[string][2]string{
			"api.a.clusters.example.com": {"192.0.2.4", "172.30.20.1"}, "api-int.a.clusters.example.com": {"192.0.2.4", "172.30.20.1"},
			"oauth.a.clusters.example.com": {"192.0.2.4", "172.30.20.1"}, "ignition.a.clusters.example.com": {"192.0.2.4", "172.30.20.1"},
			"konnectivity.a.clusters.example.com": {"192.0.2.4", "172.30.20.1"},
		}},
		{"without internalProxyService pods are forwarded", []change{noService}, cluster("a", 0, known, apps("192.0.2.200", "192.0.2.200")), map[string][2]string{
			"api.a.clusters.example.com": {"192.0.2.4", "Forward"}, "*.apps.a.clusters.example.com": {"192.0.2.200", "Forward"}, "kubernetes": {"192.0.2.4", "Forward"},
		}},
		{"an internalProxyService that is not known yet", []change{unresolved}, cluster("a", 0, known), map[string][2]string{
			"api.a.clusters.example.com": {"192.0.2.4", "NoData"}, "kubernetes": {"192.0.2.4", "NoData"},
		}},
		{"aliases without a known worker are nobody's, and never forwarded", []change{noService}, cluster("a", 0), map[string][2]string{
			"kubernetes": {"NoData", "NoData"}, "kubernetes.default": {"NoData", "NoData"},
			"kubernetes.default.svc": {"NoData", "NoData"}, "kubernetes.default.svc.cluster.local": {"NoData", "NoData"},
		}},
		{"aliases with one", nil, cluster("a", 0, known), map[string][2]string{
			"kubernetes": {"192.0.2.4", "172.30.20.1"}, "kubernetes.default.svc.cluster.local": {"192.0.2.4", "172.30.20.1"},
		}},
		{"apps with an address", nil, cluster("a", 0, apps("192.0.2.200-192.0.2.209", "192.0.2.200")), map[string][2]string{
			"*.apps.a.clusters.example.com": {"192.0.2.200", "172.30.20.1"},
		}},
		{"apps without one yet", nil, cluster("a", 0, apps("192.0.2.200-192.0.2.209", "")), map[string][2]string{
			"*.apps.a.clusters.example.com": {"NoData", "NoData"},
		}},
		{"apps with a host name alone are not owned", nil, cluster("a", 0, apps("192.0.2.200", ""), hostnameOnly("lb.example.com")), map[string][2]string{
			"*.apps.a.clusters.example.com": {"", ""},
		}},
		{"apps that are off are not owned", nil, cluster("a", 0), map[string][2]string{"*.apps.a.clusters.example.com": {"", ""}}},
		{"apps whose range is refused have no address", nil, cluster("a", 0, apps("192.0.2.190", "192.0.2.190")), map[string][2]string{
			"*.apps.a.clusters.example.com": {"NoData", "NoData"},
		}},
		{"an endpoint outside the VLAN is never published", nil, cluster("a", 0, apps("192.0.2.200", "198.51.100.41")), map[string][2]string{
			"*.apps.a.clusters.example.com": {"NoData", "NoData"},
		}},
		{"without a proxy there is nothing to lead to", []change{func(s *v1alpha1.InfraSpec) { s.InfraComponents.Proxy.ServerIP = "" }}, cluster("a", 0, known), map[string][2]string{
			"api.a.clusters.example.com": {"", ""}, "kubernetes": {"", ""},
		}},
		{"a proxy that is disabled and kept still serves", []change{func(s *v1alpha1.InfraSpec) {
			off := false
			s.InfraComponents.Proxy.Enabled = &off
		}}, cluster("a", 0), map[string][2]string{"api.a.clusters.example.com": {"192.0.2.4", "172.30.20.1"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := plan.For(plan.Inputs{Infra: vlan(tt.infra...), Attachments: []plan.Attachment{tt.attachment}})
			for name, want := range tt.want {
				require.Equal(t, want, view(record(p, name)), name)
			}
			require.Equal(t, []v1alpha1.DomainName{"a.clusters.example.com"}, p.DNS.Spec.Zones)
		})
	}
}

// behaviour D9; hazards 149, 150.
func TestInternalProxyService(t *testing.T) {
	t.Parallel()
	services := clusterIPs(map[string]string{"proxy": "172.30.20.1"})
	services[plan.Key{Namespace: "infra", Name: "front"}] = addr("172.30.20.9")
	tests := []struct {
		name, input, last, want string
	}{
		{"an address", "172.30.20.7", "", "172.30.20.7"},
		{"a Service of the Infra's namespace", "proxy", "", "172.30.20.1"},
		{"a Service by its namespace", "front.infra", "", "172.30.20.9"},
		{"a Service by its full name", "front.infra.svc.cluster.local", "172.30.20.1", "172.30.20.9"},
		{"a Service in another cluster domain", "front.infra.svc.example.com", "", "172.30.20.9"},
		{"a name that is no Service's", "proxy.clusters.example.com", "", "NoData"},
		{"one that is missing keeps the last good address", "gone", "172.30.20.1", "172.30.20.1"},
		{"one that never was has none", "gone", "", "NoData"},
		{"an IPv6 address", "2001:db8::1", "", "NoData"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			i := vlan(func(s *v1alpha1.InfraSpec) { s.InfraComponents.Proxy.InternalProxyService = tt.input })
			if tt.last != "" {
				i.InternalProxyIP = addr(tt.last)
			}
			p := plan.For(plan.Inputs{Infra: i, Attachments: []plan.Attachment{cluster("a", 0)}, ClusterIPs: services})
			require.Equal(t, tt.want, view(record(p, "api.a.clusters.example.com"))[1])
		})
	}
}

// behaviour D9: our own Service, which is made from this very plan, is no fault while it
// has no address yet; without a proxy it never will have one.
func TestOurOwnProxyServiceIsMadeFromThePlan(t *testing.T) {
	t.Parallel()
	off := false
	for _, tt := range []struct {
		name   string
		change func(*v1alpha1.InfraProxy)
		want   bool
	}{
		{"a proxy that is made", func(*v1alpha1.InfraProxy) {}, false},
		{"a proxy that is switched off", func(p *v1alpha1.InfraProxy) { p.Enabled = &off }, true},
		{"a proxy that cannot be made", func(p *v1alpha1.InfraProxy) { p.ServerIP = "" }, true},
		{"another Infra's", func(p *v1alpha1.InfraProxy) { p.InternalProxyService = "other-proxy" }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := plan.For(plan.Inputs{Infra: vlan(func(s *v1alpha1.InfraSpec) {
				s.InfraComponents.Proxy.InternalProxyService = "tenant-vlan100-proxy"
				tt.change(&s.InfraComponents.Proxy)
			})})
			unresolved := false
			for _, problem := range p.Problems {
				unresolved = unresolved || problem.Reason.Reason == v1alpha1.ReasonInternalProxyServiceUnresolved
			}
			require.Equal(t, tt.want, unresolved)
		})
	}
}

// behaviours E1, E2, E3; hazards 26, 27, 170; case C43.
func TestRoutesOfOneCluster(t *testing.T) {
	t.Parallel()
	p := plan.For(plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{
		cluster("a", 0, workers("192.0.2.101"), apps("192.0.2.200", "192.0.2.200"), ports(8080, 8443)), cluster("b", 1),
	}})
	to := func(ip v1alpha1.ListedIPv4, port v1alpha1.Port) []v1alpha1.ProxyEndpoint {
		return []v1alpha1.ProxyEndpoint{{IP: ip, Port: port}}
	}
	source := []string{"192.0.2.101/32"}
	wild := []string{"*.apps.a.clusters.example.com"}
	want := []v1alpha1.ProxyBackend{
		{Name: "a/alias-api", Port: 6443, Protocol: "TCP", SourcePrefixRanges: source, Endpoints: to("172.30.10.1", 6443)},
		{Name: "a/alias-tls", Hostnames: plan.Aliases, Port: 443, Protocol: "TLS", SourcePrefixRanges: source, Endpoints: to("172.30.10.1", 6443)},
		{Name: "a/api", Hostnames: []string{"api.a.clusters.example.com", "api-int.a.clusters.example.com"}, Port: 6443, Protocol: "TLS", Endpoints: to("172.30.10.1", 6443), PodSide: true},
		{Name: "a/apps-http", Hostnames: wild, Port: 8080, Protocol: "HTTP", Endpoints: to("192.0.2.200", 8080), PodSide: true},
		{Name: "a/apps-https", Hostnames: wild, Port: 8443, Protocol: "TLS", Endpoints: to("192.0.2.200", 8443), PodSide: true},
		{Name: "a/ignition", Hostnames: []string{"ignition.a.clusters.example.com"}, Port: 443, Protocol: "TLS", Endpoints: to("172.30.10.4", 443), PodSide: true},
		{Name: "a/konnectivity", Hostnames: []string{"konnectivity.a.clusters.example.com"}, Port: 443, Protocol: "TLS", Endpoints: to("172.30.10.3", 8091), PodSide: true},
		{Name: "a/konnectivity-fallback", Port: 443, Protocol: "TLS", SourcePrefixRanges: source, Endpoints: to("172.30.10.3", 8091)},
		{Name: "a/oauth", Hostnames: []string{"oauth.a.clusters.example.com"}, Port: 443, Protocol: "TLS", Endpoints: to("172.30.10.2", 6443), PodSide: true},
	}
	require.Equal(t, want, p.Proxy.Spec.Backends[:len(want)])
	require.True(t, p.ComponentStatus().ProxyReady)
	require.Equal(t, []v1alpha1.IPv4{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}, p.Proxy.Spec.NetworkConfig.ReservedIPs, "behaviour E6")
}

// behaviour E3: *.apps is on the VLAN side only without internalProxyService.
func TestAppsOnThePodSide(t *testing.T) {
	t.Parallel()
	p := plan.For(plan.Inputs{Infra: vlan(noService), Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200", ""), hostnameOnly("LB.Example.com."))}})
	b := backend(p, "a/apps-https")
	require.False(t, b.PodSide)
	require.Equal(t, []v1alpha1.ProxyEndpoint{{Hostname: "lb.example.com", Port: 443}}, b.Endpoints)
}

// A Service that is missing takes its own route away and no other.
func TestMissingServiceTakesOneRoute(t *testing.T) {
	t.Parallel()
	p := plan.For(plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0, workers("192.0.2.101"), func(a *plan.Attachment) {
		a.Services = a.Services[1:2]
	})}})
	var names []string
	for _, b := range p.Proxy.Spec.Backends {
		names = append(names, b.Name)
	}
	require.Equal(t, []string{"a/oauth"}, names)
}

// behaviour E4; hazard 166.
func TestLegacyKonnectivityFallback(t *testing.T) {
	t.Parallel()
	off := func(s *v1alpha1.InfraSpec) {
		s.InfraComponents.Proxy.LegacyKonnectivityFallback = v1alpha1.LegacyKonnectivityFallbackDisabled
	}
	tests := []struct {
		name  string
		input plan.Inputs
		want  map[string][]string
	}{
		{"one attachment takes any source", plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0, workers("192.0.2.101"))}}, map[string][]string{"a": nil}},
		{"several take their own workers alone", plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0, workers("192.0.2.101")), cluster("b", 1)}}, map[string][]string{"a": {"192.0.2.101/32"}}},
		{"one beside another that is excluded too", plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0), cluster("b", 1, networks("192.0.2.0/28"))}}, map[string][]string{}},
		{"one beside another that is not admitted takes any source", plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{
			cluster("a", 0), cluster("b", 1, func(a *plan.Attachment) { a.HostedClusterUID = "" }),
		}}, map[string][]string{"a": nil}},
		{"none where it is disabled", plan.Inputs{Infra: vlan(off), Attachments: []plan.Attachment{cluster("a", 0)}}, map[string][]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := plan.For(tt.input)
			got := map[string][]string{}
			for _, name := range []string{"a", "b"} {
				if b := backend(p, name+"/konnectivity-fallback"); b.Name != "" {
					got[name] = b.SourcePrefixRanges
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// behaviour F3.
func TestExternalListenersKeepTheirPorts(t *testing.T) {
	t.Parallel()
	full := func(name string) []string {
		return []string{name + "/ignition", name + "/konnectivity", name + "/oauth"}
	}
	recorded := func(i plan.Infra, name string, port v1alpha1.Port) plan.Infra {
		i.InForce = append(i.InForce, v1alpha1.AttachmentInForce{Attachment: v1alpha1.ObjectName(name), ExternalPort: port})
		return i
	}
	tests := []struct {
		name  string
		input plan.Inputs
		want  []v1alpha1.ProxyExternalListener
	}{
		{
			"new ones take the lowest free ports, by name",
			plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("b", 0, external), cluster("a", 1, external), cluster("c", 2)}},
			[]v1alpha1.ProxyExternalListener{{Name: "a", Port: 20000, Backends: full("a")}, {Name: "b", Port: 20001, Backends: full("b")}},
		},
		{
			"one that the proxy has stays",
			plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0, external), cluster("b", 1, external)}, Listeners: []plan.HeldPort{{Attachment: "b", Port: 20000}}},
			[]v1alpha1.ProxyExternalListener{{Name: "a", Port: 20001, Backends: full("a")}, {Name: "b", Port: 20000, Backends: full("b")}},
		},
		{
			"one that the status records stays when the proxy was made anew",
			plan.Inputs{Infra: recorded(vlan(), "b", 20005), Attachments: []plan.Attachment{cluster("b", 1, external)}},
			[]v1alpha1.ProxyExternalListener{{Name: "b", Port: 20005, Backends: full("b")}},
		},
		{
			"a Service that still leads to a port keeps others off it",
			plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0, external)}, HeldPorts: []plan.HeldPort{{Attachment: "gone", Port: 20000}}},
			[]v1alpha1.ProxyExternalListener{{Name: "a", Port: 20001, Backends: full("a")}},
		},
		{
			"one that is excluded keeps its port and leads nowhere",
			plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0, external), cluster("b", 1, external, networks("192.0.2.0/28"))}, Listeners: []plan.HeldPort{{Attachment: "b", Port: 20000}}},
			[]v1alpha1.ProxyExternalListener{{Name: "a", Port: 20001, Backends: full("a")}, {Name: "b", Port: 20000}},
		},
		{
			"two that claim one port do not share it",
			plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0, external), cluster("b", 1, external)}, Listeners: []plan.HeldPort{{Attachment: "b", Port: 20000}, {Attachment: "a", Port: 20000}}},
			[]v1alpha1.ProxyExternalListener{{Name: "a", Port: 20000, Backends: full("a")}, {Name: "b", Port: 20001, Backends: full("b")}},
		},
		{
			"a port that is not ours to give is not kept",
			plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0, external)}, Listeners: []plan.HeldPort{{Attachment: "a", Port: 443}}},
			[]v1alpha1.ProxyExternalListener{{Name: "a", Port: 20000, Backends: full("a")}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, plan.For(tt.input).Proxy.Spec.ExternalListeners)
		})
	}
}

// behaviours A2, F5; hazards 70, 129; case C47.
func TestRangesAndPortsOfApps(t *testing.T) {
	t.Parallel()
	inForce := func(name, r string, http, https v1alpha1.Port) plan.Infra {
		i := vlan()
		i.InForce = []v1alpha1.AttachmentInForce{{
			Attachment: v1alpha1.ObjectName(name), Range: v1alpha1.IPv4Range(r), HTTPPort: http, HTTPSPort: https,
		}}
		return i
	}
	tests := []struct {
		name  string
		input plan.Inputs
		want  map[string]string
	}{
		{"ranges side by side", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200-192.0.2.209", "")), cluster("b", 1, apps("192.0.2.210-192.0.2.219", ""))}}, map[string]string{}},
		{"ranges that overlap by one: the newcomer", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 5, apps("192.0.2.200-192.0.2.209", "")), cluster("b", 1, apps("192.0.2.209-192.0.2.219", ""))}}, map[string]string{"a": "OverlappingRange"}},
		{"a network against a range", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.208/28", "")), cluster("b", 1, apps("192.0.2.215 - 192.0.2.230", ""))}}, map[string]string{"b": "OverlappingRange"}},
		{"the one in force stays though it is younger", plan.Inputs{Infra: inForce("b", "192.0.2.209-192.0.2.219", 80, 443), Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200-192.0.2.209", "")), cluster("b", 5, apps("192.0.2.209-192.0.2.219", ""))}}, map[string]string{"a": "OverlappingRange"}},
		{"outside the CIDR", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.3.200-192.0.3.209", ""))}}, map[string]string{"a": "OverlappingRange"}},
		{"over the gateway", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.0/31", ""))}}, map[string]string{"a": "OverlappingRange"}},
		{"over a server", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.4-192.0.2.9", ""))}}, map[string]string{"a": "OverlappingRange"}},
		{"over the pool", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.199-192.0.2.210", ""))}}, map[string]string{"a": "OverlappingRange"}},
		{"a pool that was moved onto one in force gives way", plan.Inputs{Infra: inForce("a", "192.0.2.199-192.0.2.210", 80, 443), Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.199-192.0.2.210", ""))}}, map[string]string{}},
		{"no range", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("", ""))}}, map[string]string{"a": "InvalidConfiguration"}},
		{"a range that is none", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.209-192.0.2.200", ""))}}, map[string]string{"a": "InvalidConfiguration"}},
		{"one that is being deleted holds its range until it is gone", plan.Inputs{Infra: inForce("b", "192.0.2.209-192.0.2.219", 80, 443), Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200-192.0.2.209", "")), cluster("b", 5, deleting)}}, map[string]string{"a": "OverlappingRange"}},
		{"one whose objects are still there holds it too", plan.Inputs{Infra: inForce("b", "192.0.2.209-192.0.2.219", 80, 443), Attachments: []plan.Attachment{
			cluster("a", 0, apps("192.0.2.200-192.0.2.209", "")), cluster("b", 5, func(a *plan.Attachment) { a.AppsApplied = true }),
		}}, map[string]string{"a": "OverlappingRange"}},
		{"a range of another Infra on this network", plan.Inputs{
			Siblings:    []plan.Infra{elsewhere("other", "vlan100", "198.51.100", noDHCP)},
			Attachments: []plan.Attachment{cluster("a", 5, apps("192.0.2.200-192.0.2.209", "")), cluster("b", 1, of("other"), apps("192.0.2.200-192.0.2.209", ""))},
		}, map[string]string{"a": "OverlappingRange"}},
		{"one whose objects were never made holds none", plan.Inputs{Infra: inForce("b", "192.0.2.209-192.0.2.219", 80, 443), Attachments: []plan.Attachment{
			cluster("a", 0, apps("192.0.2.200-192.0.2.209", "")), cluster("b", 5),
		}}, map[string]string{}},
		{"one that has moved no longer holds the range that it had", plan.Inputs{Infra: inForce("b", "192.0.2.209-192.0.2.219", 80, 443), Attachments: []plan.Attachment{
			cluster("a", 0, apps("192.0.2.200-192.0.2.209", "")), cluster("b", 5, apps("192.0.2.220-192.0.2.229", ""), func(a *plan.Attachment) { a.AppsApplied = true }),
		}}, map[string]string{}},
		{"ports that another Infra on this network uses the other way round", plan.Inputs{
			Siblings:    []plan.Infra{elsewhere("other", "vlan100", "198.51.100", noDHCP)},
			Attachments: []plan.Attachment{cluster("a", 5, apps("192.0.2.200", ""), ports(8080, 8443)), cluster("b", 1, of("other"), apps("198.51.100.200", ""), ports(8443, 9443))},
		}, map[string]string{}},
		{"http on 443", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200", ""), ports(443, 8443))}}, map[string]string{"a": "InvalidConfiguration"}},
		{"https on 6443", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200", ""), ports(80, 6443))}}, map[string]string{"a": "InvalidConfiguration"}},
		{"both on one port", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200", ""), ports(8443, 8443))}}, map[string]string{"a": "InvalidConfiguration"}},
		{"a port of the proxy's own", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200", ""), ports(20100, 443))}}, map[string]string{"a": "InvalidConfiguration"}},
		{"a port that is none", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200", ""), ports(65616, 443))}}, map[string]string{"a": "InvalidConfiguration"}},
		{"a port that another uses for the other protocol", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 5, apps("192.0.2.200", ""), ports(8080, 8443)), cluster("b", 1, apps("192.0.2.210", ""), ports(8443, 9443))}}, map[string]string{"a": "InvalidConfiguration"}},
		{"the same, with the younger one in force", plan.Inputs{Infra: inForce("a", "192.0.2.200", 8080, 8443), Attachments: []plan.Attachment{cluster("a", 5, apps("192.0.2.200", ""), ports(8080, 8443)), cluster("b", 1, apps("192.0.2.210", ""), ports(8443, 9443))}}, map[string]string{"b": "InvalidConfiguration"}},
		{"ports that several share", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200", ""), ports(8080, 8443)), cluster("b", 1, apps("192.0.2.210", ""), ports(8080, 8443))}}, map[string]string{}},
		{"our own annotation", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200", ""), func(a *plan.Attachment) {
			a.Spec.AppsIngress.Service.Annotations = map[string]string{"metallb.universe.tf/address-pool": "x"}
		})}}, map[string]string{"a": "InvalidConfiguration"}},
		{"an endpoint in another's range", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200", "192.0.2.210")), cluster("b", 1, apps("192.0.2.210", ""))}}, map[string]string{"a": "ExternalIPNotInPool"}},
		{"two whose endpoints lie in each other's range", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200", "192.0.2.210")), cluster("b", 1, apps("192.0.2.210", "192.0.2.200"))}}, map[string]string{"a": "ExternalIPNotInPool", "b": "ExternalIPNotInPool"}},
		{"an endpoint that DHCP may give", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200", "192.0.2.150"))}}, map[string]string{"a": "ExternalIPNotInPool"}},
		{"an endpoint in the pool that was moved onto its range", plan.Inputs{Infra: inForce("a", "192.0.2.199-192.0.2.210", 80, 443), Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.199-192.0.2.210", "192.0.2.199"))}}, map[string]string{}},
		{"an endpoint that is a server", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200", "192.0.2.4"))}}, map[string]string{"a": "ExternalIPNotInPool"}},
		{"an endpoint whose name is none", plan.Inputs{Attachments: []plan.Attachment{cluster("a", 0, apps("192.0.2.200", ""), hostnameOnly("lb_1.example.com"))}}, map[string]string{"a": "ExternalIPNotInPool"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.input.Infra.Name == "" {
				tt.input.Infra = vlan()
			}
			p := plan.For(tt.input)
			require.Equal(t, tt.want, verdicts(p))
			for _, v := range p.Attachments {
				require.True(t, v.Included, "the control plane's names are served all the same")
				refused := tt.want[v.Name] != "" && tt.want[v.Name] != v1alpha1.ReasonExternalIPNotInPool
				require.Equal(t, !refused && appsWanted(tt.input, v.Name), v.Apps, "what may be provisioned")
			}
			require.Equal(t, v1alpha1.ReasonReconciliationSucceeded, conditionOf(t, p, v1alpha1.ConditionReady).Reason)
		})
	}
}

// behaviour F0: what may not be attached takes neither a range nor a port from others,
// whatever its age, and gets no listener of its own.
func TestWhoMayNotAttachTakesNothing(t *testing.T) {
	t.Parallel()
	refused := func(a *plan.Attachment) {
		a.HostedClusterUID, a.Refusal = "", plan.Reason{Reason: v1alpha1.ReasonHostedClusterRefNotPermitted, Message: "not yours"}
	}
	p := plan.For(plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{
		cluster("a", 0, refused, external, apps("192.0.2.200-192.0.2.209", "192.0.2.201"), ports(8080, 8443), workers("192.0.2.150")),
		cluster("b", 5, external, apps("192.0.2.200-192.0.2.209", "192.0.2.201"), ports(8443, 9443), workers("192.0.2.150")),
	}})
	require.Equal(t, map[string]string{"a": "HostedClusterRefNotPermitted"}, verdicts(p))
	require.Equal(t, []string{"192.0.2.150/32"}, backend(p, "b/alias-api").SourcePrefixRanges)
	require.Len(t, p.Proxy.Spec.ExternalListeners, 1)
	require.Equal(t, v1alpha1.ObjectName("b"), p.Proxy.Spec.ExternalListeners[0].Name)
	for _, b := range p.Proxy.Spec.Backends {
		require.False(t, strings.HasPrefix(b.Name, "a/"), "%s", b.Name)
	}
}

func appsWanted(in plan.Inputs, name string) bool {
	for _, a := range in.Attachments {
		if a.Name == name {
			return a.Spec.AppsIngress.Enabled
		}
	}
	return false
}

// behaviour F5: a plan that is made again from what it recorded is the same.
func TestRecordedPlanIsStable(t *testing.T) {
	t.Parallel()
	in := plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{
		cluster("a", 5, external, apps("192.0.2.200-192.0.2.209", "192.0.2.200")), cluster("b", 1, apps("192.0.2.205", "")), cluster("c", 3, external),
	}}
	first := plan.For(in)
	in.Infra.InForce, in.Infra.Network, in.Infra.InternalProxyIP = first.InForce, first.Network, first.InternalProxyIP
	for _, l := range first.Proxy.Spec.ExternalListeners {
		in.Listeners = append(in.Listeners, plan.HeldPort{Attachment: string(l.Name), Port: uint16(l.Port)})
	}
	require.Equal(t, first, plan.For(in))
}

// behaviour A5: what CEL refuses of an attachment the planner refuses too.
func TestWhatAnAttachmentMayNotDeclare(t *testing.T) {
	t.Parallel()
	set := func(name, base v1alpha1.DomainName) func(*plan.Attachment) {
		return func(a *plan.Attachment) { a.Spec.DNS = v1alpha1.AttachmentDNS{ClusterName: name, BaseDomain: base} }
	}
	long := v1alpha1.DomainName("a123456789a123456789a123456789a123456789.b123456789b123456789b123456789b123456789.c123456789c123456789c123456789c123456789.d123456789d123456789d123456789d123456789.e123456789e123456789e123456789e123456789.f123456789f123456789f12345678")
	tests := []struct {
		name  string
		input func(*plan.Attachment)
		want  string
	}{
		{"upper case", set("Example", "clusters.example.com"), "dns.clusterName"},
		{"a trailing dot", set("a", "clusters.example.com."), "dns.baseDomain"},
		{"an underscore", set("a", "clusters_1.example.com"), "dns.baseDomain"},
		{"nothing", set("", "example.com"), "dns.clusterName"},
		{"an alias", set("kubernetes", "default"), "shadows a service alias"},
		{"what an alias lies in", set("default", "svc"), "shadows a service alias"},
		{"cluster.local", set("a", "cluster.local"), "lies in cluster.local"},
		{"below cluster.local", set("a", "svc.cluster.local"), "lies in cluster.local"},
		{"too long a domain", set("cluster", long), "at most 241 characters"},
		{"no HostedCluster", hosted(""), "hostedClusterRef.name must be set"},
		{"a control-plane namespace that is none", func(a *plan.Attachment) { a.Spec.ControlPlaneNamespace = "No" }, "controlPlaneNamespace"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := plan.For(plan.Inputs{Infra: vlan(), Attachments: []plan.Attachment{cluster("a", 0, tt.input), cluster("b", 1)}})
			require.Equal(t, map[string]string{"a": v1alpha1.ReasonInvalidConfiguration}, verdicts(p))
			require.Contains(t, p.Attachments[0].Reason.Message, tt.want)
			require.NotEmpty(t, backend(p, "b/api").Name, "one tenant's fault never stops the shared stack")
		})
	}
}
