package plan_test

import (
	"net/netip"
	"slices"
	"time"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// day is when the n-th object of a fixture was created.
func day(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// vlan is the Infra of the examples: 192.0.2.0/24 with all three components.
func vlan(change ...func(*v1alpha1.InfraSpec)) plan.Infra {
	i := plan.Infra{Key: plan.Key{Namespace: "clusters", Name: "tenant-vlan100"}, UID: "uid-vlan100", Created: day(1)}
	i.Spec.NetworkConfig = v1alpha1.InfraNetworkConfig{
		CIDR: "192.0.2.0/24", Gateway: "192.0.2.1", NetworkAttachmentDefinition: "vlan100", NetworkAttachmentNamespace: "default",
		DNSServers: []v1alpha1.Upstream{"198.51.100.53"},
	}
	c := &i.Spec.InfraComponents
	c.DHCP.ServerIP, c.DHCP.RangeStart, c.DHCP.RangeEnd = "192.0.2.2", "192.0.2.100", "192.0.2.199"
	c.DNS.ServerIP, c.Proxy.ServerIP = "192.0.2.3", "192.0.2.4"
	c.Proxy.InternalProxyService = "172.30.20.1"
	for _, f := range change {
		f(&i.Spec)
	}
	return i
}

// cluster is an attachment of the examples, admitted, with the n-th control
// plane's Services.
func cluster(name string, n int, change ...func(*plan.Attachment)) plan.Attachment {
	a := plan.Attachment{
		Key: plan.Key{Namespace: "clusters", Name: name}, UID: "uid-" + name, Created: day(10 + n), HostedClusterUID: "uid-hc-" + name,
		ControlPlaneNamespace: "clusters-" + name,
	}
	a.Spec.InfraRef.Name = "tenant-vlan100"
	a.Spec.HostedClusterRef = v1alpha1.HostedClusterRef{Name: v1alpha1.ObjectName(name), Namespace: "clusters"}
	a.Spec.DNS = v1alpha1.AttachmentDNS{ClusterName: v1alpha1.DomainName(name), BaseDomain: "clusters.example.com"}
	base := netip.AddrFrom4([4]byte{172, 30, byte(10 + n), 1})
	for _, s := range []struct {
		role v1alpha1.ServiceRole
		port uint16
	}{
		{v1alpha1.ServiceRoleAPIServer, 6443},
		{v1alpha1.ServiceRoleOAuth, 6443},
		{v1alpha1.ServiceRoleKonnectivity, 8091},
		{v1alpha1.ServiceRoleIgnition, 443},
	} {
		a.Services = append(a.Services, plan.Service{Role: s.role, IP: base, Port: s.port})
		base = base.Next()
	}
	for _, f := range change {
		f(&a)
	}
	return a
}

// domain sets an attachment's cluster name.
func domain(name string) func(*plan.Attachment) {
	return func(a *plan.Attachment) { a.Spec.DNS.ClusterName = v1alpha1.DomainName(name) }
}

// hosted names another HostedCluster.
func hosted(name string) func(*plan.Attachment) {
	return func(a *plan.Attachment) { a.Spec.HostedClusterRef.Name = v1alpha1.ObjectName(name) }
}

func created(n int) func(*plan.Attachment) {
	return func(a *plan.Attachment) { a.Created = day(n) }
}

// workers are addresses that a machine of the cluster claims.
func workers(addrs ...string) func(*plan.Attachment) {
	return func(a *plan.Attachment) {
		for _, s := range addrs {
			a.Workers = append(a.Workers, plan.Worker{Address: addr(s), Machine: "worker-" + s})
		}
	}
}

// held are addresses whose source lacks them by now.
func held(addrs ...string) func(*plan.Attachment) {
	return func(a *plan.Attachment) {
		for _, s := range addrs {
			a.Workers = append(a.Workers, plan.Worker{Address: addr(s), Machine: "worker-" + s, Held: true})
		}
	}
}

// apps enables *.apps on a range, with an endpoint once it has one.
func apps(addressRange, endpoint string) func(*plan.Attachment) {
	return func(a *plan.Attachment) {
		a.Spec.AppsIngress.Enabled = true
		a.Spec.AppsIngress.MetalLB = v1alpha1.AppsMetalLB{AddressPoolName: "apps", IPAddressPoolRange: v1alpha1.IPv4Range(addressRange)}
		if endpoint != "" {
			a.AppsIP = addr(endpoint)
		}
	}
}

func ports(http, https v1alpha1.Port) func(*plan.Attachment) {
	return func(a *plan.Attachment) { a.Spec.AppsIngress.Ports = v1alpha1.AppsPorts{HTTP: http, HTTPS: https} }
}

func external(a *plan.Attachment) { a.Spec.ExternalService.Enabled = true }

func deleting(a *plan.Attachment) { a.Deleting = true }

// lease is an address that the DHCP server gave to a VM.
func lease(ip, namespace, vm string) plan.Binding {
	return plan.Binding{Address: addr(ip), VM: plan.Key{Namespace: namespace, Name: vm}}
}

// verdicts are the attachments that are left out, or whose *.apps is, and why.
func verdicts(p plan.Plan) map[string]string {
	out := map[string]string{}
	for _, v := range p.Attachments {
		if v.Reason.Reason != "" {
			out[v.Name] = v.Reason.Reason
		}
	}
	return out
}

// backend by name; the zero one is none.
func backend(p plan.Plan, name string) v1alpha1.ProxyBackend {
	if p.Proxy.Spec == nil {
		return v1alpha1.ProxyBackend{}
	}
	for _, b := range p.Proxy.Spec.Backends {
		if b.Name == name {
			return b
		}
	}
	return v1alpha1.ProxyBackend{}
}

// record by name; the zero one is none.
func record(p plan.Plan, name string) v1alpha1.DNSRecord {
	for _, r := range p.DNS.Spec.Records {
		if slices.Contains(r.Names(), name) {
			return r
		}
	}
	return v1alpha1.DNSRecord{}
}
