package plan_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// world makes an Infra with n attachments that collide in every way that rules
// know. Equal seeds give equal worlds.
func world(seed uint64, n int) plan.Inputs {
	r := rand.New(rand.NewPCG(seed, 1))
	pick := func(of int) int { return r.IntN(of) }
	in := plan.Inputs{
		Infra:    vlan(),
		Siblings: []plan.Infra{elsewhere("near", "vlan100", "198.51.100", noDHCP), elsewhere("far", "vlan200", "192.0.2")},
	}
	if pick(2) == 0 {
		in.Infra.Spec.ConflictPolicy = v1alpha1.ConflictPolicyKeepOldest
	}
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		a := cluster(name, i%40, created(1+pick(5)), domain([]string{name, "shared", "x.shared", name, name}[pick(5)]))
		if pick(6) == 0 {
			hosted(fmt.Sprintf("c%d", pick(n)))(&a)
		}
		if pick(6) == 0 {
			of([]string{"near", "far", "nowhere"}[pick(3)])(&a)
		}
		if pick(8) == 0 {
			a.HostedClusterUID = ""
		}
		if pick(3) == 0 {
			first := 200 + pick(40)
			apps(fmt.Sprintf("192.0.2.%d-192.0.2.%d", first, first+pick(5)), fmt.Sprintf("192.0.2.%d", first))(&a)
			ports([]v1alpha1.Port{80, 8080, 8443}[pick(3)], []v1alpha1.Port{443, 8443}[pick(2)])(&a)
		}
		for range pick(4) {
			workers(fmt.Sprintf("192.0.2.%d", 90+pick(60)))(&a)
		}
		for range pick(2) {
			held(fmt.Sprintf("192.0.2.%d", 90+pick(60)))(&a)
		}
		a.Spec.ExternalService.Enabled = pick(3) == 0
		a.Deleting = pick(15) == 0
		a.Machines = []string{"vm-" + name}
		in.Attachments = append(in.Attachments, a)
		if pick(2) == 0 {
			in.Bindings = append(in.Bindings, lease(fmt.Sprintf("192.0.2.%d", 90+pick(60)), "clusters-"+name, "vm-"+name))
		}
		if pick(6) == 0 {
			in.Listeners = append(in.Listeners, plan.HeldPort{Attachment: name, Port: uint16(20000 + pick(8))})
		}
		if pick(6) == 0 {
			in.Infra.InForce = append(in.Infra.InForce, v1alpha1.AttachmentInForce{
				Attachment: v1alpha1.ObjectName(name), Domain: "shared.clusters.example.com", HostedClusterUID: "uid-hc-" + name,
				Range: "192.0.2.220-192.0.2.225", ExternalPort: v1alpha1.Port(20000 + pick(8)),
			})
		}
	}
	return in
}

// shuffled is the same world in another order.
func shuffled(in plan.Inputs, seed uint64) plan.Inputs {
	r := rand.New(rand.NewPCG(seed, 2))
	mix := func(n int, swap func(i, j int)) { r.Shuffle(n, swap) }
	in.Siblings, in.Attachments, in.Bindings = slices.Clone(in.Siblings), slices.Clone(in.Attachments), slices.Clone(in.Bindings)
	in.Listeners, in.Infra.InForce = slices.Clone(in.Listeners), slices.Clone(in.Infra.InForce)
	mix(len(in.Siblings), func(i, j int) { in.Siblings[i], in.Siblings[j] = in.Siblings[j], in.Siblings[i] })
	mix(len(in.Attachments), func(i, j int) { in.Attachments[i], in.Attachments[j] = in.Attachments[j], in.Attachments[i] })
	mix(len(in.Bindings), func(i, j int) { in.Bindings[i], in.Bindings[j] = in.Bindings[j], in.Bindings[i] })
	mix(len(in.Listeners), func(i, j int) { in.Listeners[i], in.Listeners[j] = in.Listeners[j], in.Listeners[i] })
	mix(len(in.Infra.InForce), func(i, j int) {
		in.Infra.InForce[i], in.Infra.InForce[j] = in.Infra.InForce[j], in.Infra.InForce[i]
	})
	for i := range in.Attachments {
		a := &in.Attachments[i]
		a.Workers = slices.Clone(a.Workers)
		mix(len(a.Workers), func(i, j int) { a.Workers[i], a.Workers[j] = a.Workers[j], a.Workers[i] })
		a.Services = slices.Clone(a.Services)
		mix(len(a.Services), func(i, j int) { a.Services[i], a.Services[j] = a.Services[j], a.Services[i] })
	}
	return in
}

func text(t *testing.T, p plan.Plan) string {
	t.Helper()
	b, err := json.MarshalIndent(p, "", " ")
	require.NoError(t, err)
	return string(b)
}

// behaviours E8, F4; hazards 159, 205: the order of facts never matters.
func TestPlanIsBlindToOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		in := world(seed, 2+int(seed)%14)
		want := text(t, plan.For(in))
		for other := range uint64(4) {
			require.Equal(t, want, text(t, plan.For(shuffled(in, other))), "world %d in another order", seed)
		}
	}
}

// behaviour F4: names never decide between attachments of different ages.
func TestNamesDecideNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		in := world(seed, 8)
		in.Listeners, in.Infra.InForce = nil, nil
		for i := range in.Attachments {
			in.Attachments[i].Created = day(1 + i)
			in.Attachments[i].Spec.ExternalService.Enabled = false
		}
		rename := func(name string) string {
			if rest, found := strings.CutPrefix(name, "c"); found {
				return "z" + string('z'-rest[0]+'0') + "-" + rest
			}
			return name
		}
		renamed := in
		renamed.Attachments = slices.Clone(in.Attachments)
		for i := range renamed.Attachments {
			renamed.Attachments[i].Name = rename(in.Attachments[i].Name)
		}
		want := map[string]string{}
		for name, reason := range verdicts(plan.For(in)) {
			want[rename(name)] = reason
		}
		require.Equal(t, want, verdicts(plan.For(renamed)), "world %d with other names", seed)
	}
}

// checks are what holds in every plan.
func checkInvariants(t *testing.T, in plan.Inputs, p plan.Plan) {
	t.Helper()
	included := map[string]bool{}
	for _, v := range p.Attachments {
		included[v.Name] = v.Included
	}
	if p.Proxy.Spec == nil {
		return
	}
	names, sources, ports := map[string]string{}, map[string]string{}, map[int32]bool{}
	for _, b := range p.Proxy.Spec.Backends {
		owner, _, _ := strings.Cut(b.Name, "/")
		require.True(t, included[owner], "%s is a route of an attachment that is left out", b.Name)
		for _, h := range b.Hostnames {
			if len(b.SourcePrefixRanges) > 0 {
				continue
			}
			key := fmt.Sprintf("%s:%d", h, b.Port)
			require.Empty(t, names[key], "%s is routed twice", key)
			names[key] = owner
		}
		for _, s := range b.SourcePrefixRanges {
			require.Contains(t, []string{"", owner}, sources[s], "%s selects two clusters", s)
			sources[s] = owner
			a := netip.MustParsePrefix(s)
			require.True(t, a.IsSingleIP() && netip.MustParsePrefix(string(in.Infra.Spec.NetworkConfig.CIDR)).Contains(a.Addr()))
		}
		require.True(t, slices.IsSorted(b.SourcePrefixRanges) || len(b.SourcePrefixRanges) > 0)
	}
	for _, l := range p.Proxy.Spec.ExternalListeners {
		require.False(t, ports[l.Port], "port %d is given twice", l.Port)
		ports[l.Port] = true
		for _, b := range l.Backends {
			owner, _, _ := strings.Cut(b, "/")
			require.Equal(t, string(l.Name), owner, "an external listener reaches another cluster")
		}
	}
	require.True(t, slices.IsSortedFunc(p.Proxy.Spec.Backends, func(a, b v1alpha1.ProxyBackend) int { return strings.Compare(a.Name, b.Name) }))
}

// behaviours C32, E4, E9, F3, F4: no world makes two clusters share a name, a
// source or a port.
func TestNoPlanCrossesTenants(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		in := world(seed, 1+int(seed)%20)
		checkInvariants(t, in, plan.For(in))
	}
}

// behaviour F4: what one attachment does changes nothing of one that it does not
// collide with.
func TestAnAttachmentNeverTouchesAnother(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		in := world(seed, 6)
		in.Infra.Spec.InfraComponents.Proxy.LegacyKonnectivityFallback = v1alpha1.LegacyKonnectivityFallbackDisabled
		in.Attachments = append(in.Attachments, cluster("bystander", 30, workers("192.0.2.60"), apps("192.0.2.250", "192.0.2.250")))
		with := ofBystander(plan.For(in))
		in.Attachments = in.Attachments[len(in.Attachments)-1:]
		require.Equal(t, ofBystander(plan.For(in)), with, "world %d", seed)
	}
}

func ofBystander(p plan.Plan) []v1alpha1.ProxyBackend {
	return slices.DeleteFunc(slices.Clone(p.Proxy.Spec.Backends), func(b v1alpha1.ProxyBackend) bool {
		return !strings.HasPrefix(b.Name, "bystander/")
	})
}

// FuzzFor feeds what no schema has seen: the planner is total.
func FuzzFor(f *testing.F) {
	f.Add(uint64(1), "192.0.2.0/24", "192.0.2.1", "192.0.2.100", "1h", "example", "clusters.example.com", "192.0.2.200-192.0.2.209", "proxy.clusters.svc", "198.51.100.53", int32(80))
	f.Add(uint64(2), "", "", "", "", "", "", "", "", "", int32(0))
	f.Add(uint64(3), "255.255.255.255/32", "0.0.0.0", "256.1.1.1", "-1h", "*.x", ".", "-", "..", "resolv.conf", int32(-1))
	f.Add(uint64(4), "10.0.0.0/8", "10.0.0.1", "10.255.255.254", "720h", "a.b", "cluster.local", "10.1.0.0/16", "10.0.0.9", ":53", int32(70000))
	f.Fuzz(func(t *testing.T, seed uint64, cidr, gateway, start, lease, name, base, addressRange, service, upstream string, port int32) {
		in := world(seed%64, 5)
		s := &in.Infra.Spec
		s.NetworkConfig.CIDR, s.NetworkConfig.Gateway = v1alpha1.IPv4CIDR(cidr), v1alpha1.IPv4(gateway)
		s.NetworkConfig.DNSServers = append(s.NetworkConfig.DNSServers, v1alpha1.Upstream(upstream))
		s.InfraComponents.DHCP.RangeStart, s.InfraComponents.DHCP.LeaseTime = v1alpha1.IPv4(start), v1alpha1.LeaseTime(lease)
		s.InfraComponents.Proxy.InternalProxyService = service
		for i := range in.Attachments {
			a := &in.Attachments[i]
			if i%2 == 0 {
				a.Spec.DNS = v1alpha1.AttachmentDNS{ClusterName: v1alpha1.DomainName(name), BaseDomain: v1alpha1.DomainName(base)}
				apps(addressRange, "")(a)
				ports(v1alpha1.Port(port), 443)(a)
				a.AppsHostname = name
			}
		}
		p := plan.For(in)
		require.Equal(t, text(t, p), text(t, plan.For(shuffled(in, seed))))
		checkInvariants(t, in, p)
		for _, c := range p.Conditions() {
			require.NotEmpty(t, c.Reason)
			require.LessOrEqual(t, len(c.Message), 32768)
		}
		checkChildren(t, p)
	})
}

// checkChildren: what the planner makes its own checks accept.
func checkChildren(t *testing.T, p plan.Plan) {
	t.Helper()
	if p.DHCP.Spec != nil {
		require.Empty(t, plan.CheckDHCPServer(*p.DHCP.Spec))
	}
	if p.DNS.Spec != nil {
		require.Empty(t, plan.CheckDNSServer(*p.DNS.Spec))
	}
	if p.Proxy.Spec != nil {
		require.Empty(t, plan.CheckProxyServer(*p.Proxy.Spec))
	}
}

// behaviour A4: no plan makes a child that the agents could not serve.
func TestEveryPlannedChildIsValid(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		checkChildren(t, plan.For(world(seed, 12)))
	}
}

// full is an Infra with the most attachments that it serves, eight workers each.
func full() plan.Inputs {
	in := plan.Inputs{Infra: vlan(func(s *v1alpha1.InfraSpec) {
		s.NetworkConfig.CIDR, s.NetworkConfig.Gateway = "10.0.0.0/16", "10.0.0.1"
		c := &s.InfraComponents
		c.DHCP.ServerIP, c.DHCP.RangeStart, c.DHCP.RangeEnd = "10.0.0.2", "10.0.1.0", "10.0.99.255"
		c.DNS.ServerIP, c.Proxy.ServerIP = "10.0.0.3", "10.0.0.4"
	})}
	ip := addr("10.0.1.0")
	for n := range plan.MaxAttachments {
		name := fmt.Sprintf("c%03d", n)
		pool := fmt.Sprintf("10.0.%d.%d", 100+n/100, 100+n%100)
		a := cluster(name, n%200, external, apps(pool, pool))
		for w := range 8 {
			ip = ip.Next()
			vm := fmt.Sprintf("%s-%d", name, w)
			a.Workers = append(a.Workers, plan.Worker{Address: ip, Machine: vm})
			a.Machines = append(a.Machines, vm)
			in.Bindings = append(in.Bindings, lease(ip.String(), "clusters-"+name, vm))
		}
		in.Attachments = append(in.Attachments, a)
	}
	return in
}

// behaviour A9: the most that an Infra serves is all served.
func TestFullInfra(t *testing.T) {
	t.Parallel()
	p := plan.For(full())
	require.Empty(t, p.Problems)
	require.Len(t, p.Proxy.Spec.Backends, plan.MaxAttachments*9)
	require.Len(t, p.Proxy.Spec.ExternalListeners, plan.MaxAttachments)
	require.Len(t, p.DNS.Spec.Hosts, plan.MaxAttachments*8)
}

func BenchmarkFor(b *testing.B) {
	in := full()
	b.ReportAllocs()
	for b.Loop() {
		plan.For(in)
	}
}
