package offline_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/agent"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/plan"
	"github.com/densityops/oooi/operator/internal/render"
)

// full is an Infra with the most attachments that it serves, in the longest words
// that are usual, each with eight workers.
func full() (facts.World, *v1alpha1.Infra) {
	infra := v1alpha1.Infra{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "tenant-vlan100"}}
	infra.Spec.NetworkConfig = v1alpha1.InfraNetworkConfig{CIDR: "10.0.0.0/16", Gateway: "10.0.0.1", NetworkAttachmentDefinition: "vlan100"}
	c := &infra.Spec.InfraComponents
	c.DHCP.ServerIP, c.DHCP.RangeStart, c.DHCP.RangeEnd = "10.0.0.2", "10.0.1.0", "10.0.99.255"
	c.DNS.ServerIP, c.Proxy.ServerIP, c.Proxy.InternalProxyService = "10.0.0.3", "10.0.0.4", "172.30.20.1"
	w := facts.World{Infras: []v1alpha1.Infra{infra}}
	leases := v1alpha1.DHCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "tenant-vlan100-dhcp"}}
	leases.Status.Agent = &v1alpha1.DHCPAgentStatus{}
	ip := netip.MustParseAddr("10.0.1.0")
	for n := range plan.MaxAttachments {
		name := fmt.Sprintf("customer-production-cluster-%03d", n)
		a := v1alpha1.InfraClusterAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: name}}
		a.Spec.InfraRef.Name = "tenant-vlan100"
		a.Spec.HostedClusterRef = v1alpha1.HostedClusterRef{Namespace: "clusters", Name: v1alpha1.ObjectName(name)}
		a.Spec.DNS = v1alpha1.AttachmentDNS{ClusterName: v1alpha1.DomainName(name), BaseDomain: "clusters.datacenter-east.example.com"}
		a.Spec.ExternalService.Enabled = true
		pool := v1alpha1.IPv4(fmt.Sprintf("10.0.%d.%d", 100+n/100, 100+n%100))
		a.Spec.AppsIngress = v1alpha1.AppsIngress{Enabled: true, MetalLB: v1alpha1.AppsMetalLB{AddressPoolName: "apps", IPAddressPoolRange: v1alpha1.IPv4Range(pool)}}
		a.Status.ControlPlaneNamespace = v1alpha1.NamespaceName("clusters-" + name)
		a.Status.AppsIngressStatus = &v1alpha1.AppsIngressStatus{ExternalIP: pool}
		a.Status.Observed.HostedClusterUID = "uid-" + name
		for i, role := range []v1alpha1.ServiceRole{v1alpha1.ServiceRoleAPIServer, v1alpha1.ServiceRoleOAuth, v1alpha1.ServiceRoleIgnition, v1alpha1.ServiceRoleKonnectivity} {
			a.Status.Observed.Services = append(a.Status.Observed.Services, v1alpha1.ObservedService{
				Role: role, Name: "service", ClusterIP: v1alpha1.IPv4(fmt.Sprintf("172.30.%d.%d", n, i+1)), Port: 6443,
			})
		}
		for worker := range 8 {
			ip = ip.Next()
			vm := fmt.Sprintf("%s-7k2lq-%05d", name, worker)
			a.Status.Observed.Machines = append(a.Status.Observed.Machines, vm)
			a.Status.Observed.Workers = append(a.Status.Observed.Workers, v1alpha1.ObservedWorker{Address: v1alpha1.IPv4(ip.String()), Machine: vm})
			leases.Status.Agent.Bindings = append(leases.Status.Agent.Bindings, v1alpha1.DHCPBinding{
				MACAddress: "02:00:5e:10:00:0a", IP: v1alpha1.IPv4(ip.String()), VMNamespace: "clusters-" + name, VMName: vm,
			})
		}
		w.Attachments = append(w.Attachments, a)
	}
	w.DHCPServers = []v1alpha1.DHCPServer{leases}
	return w, &w.Infras[0]
}

// everything that one change costs: inputs, plan, children, snapshots, workloads.
func everything(tb testing.TB, w facts.World, infra *v1alpha1.Infra) (children []render.Object, files map[string][]byte) {
	tb.Helper()
	children = render.Children(infra, plan.For(facts.Inputs(w, infra)))
	files = map[string][]byte{}
	for _, child := range children {
		snapshot, err := agent.Encode(child)
		require.NoError(tb, err)
		file, err := agent.File(snapshot)
		require.NoError(tb, err)
		files[child.GetName()] = file
		o := render.Options{Snapshot: file}
		switch c := child.(type) {
		case *v1alpha1.DHCPServer:
			render.DHCP(c, o)
		case *v1alpha1.DNSServer:
			render.DNS(c, o)
		case *v1alpha1.ProxyServer:
			render.Proxy(c, o)
		}
	}
	return children, files
}

// behaviour A9: a child of a full Infra stays below the limit of an object in
// etcd (1.5 MiB), and its snapshot far below that of a ConfigMap (1 MiB).
func TestFullInfraFitsIntoEtcd(t *testing.T) {
	t.Parallel()
	w, infra := full()
	children, files := everything(t, w, infra)
	require.Len(t, children, 3)
	for _, child := range children {
		text, err := json.Marshal(child)
		require.NoError(t, err)
		t.Logf("%s: %d bytes, its snapshot file %d", child.GetName(), len(text), len(files[child.GetName()]))
		require.Less(t, len(text), 1200<<10, child.GetName())
		require.Less(t, len(files[child.GetName()]), 128<<10, child.GetName())
	}
}

func BenchmarkEverything(b *testing.B) {
	w, infra := full()
	b.ReportAllocs()
	for b.Loop() {
		everything(b, w, infra)
	}
}
