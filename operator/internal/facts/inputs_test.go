package facts_test

import (
	"net/netip"
	"strings"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/plan"
	"github.com/densityops/oooi/operator/internal/render"
)

// behaviour C3; hazards 16, 17, 19: one network in the words of several plugins.
func TestNetworkOfANetworkAttachmentDefinition(t *testing.T) {
	t.Parallel()
	key := plan.Key{Namespace: "default", Name: "vlan100"}
	tests := []struct {
		name, config string
		want         plan.NetworkAttachment
	}{
		{"bridge", `{"name":"vlan100","type":"bridge","bridge":"br1","vlan":100,"mtu":1500}`, plan.NetworkAttachment{Key: key, Network: "vlan100", Type: "bridge", Master: "br1", VLAN: 100, MTU: 1500}},
		{"macvlan", `{"type":"macvlan","master":"ens4.100"}`, plan.NetworkAttachment{Key: key, Type: "macvlan", Master: "ens4.100"}},
		{"vlan", `{"type":"vlan","master":"ens4","vlanId":100}`, plan.NetworkAttachment{Key: key, Type: "vlan", Master: "ens4", VLAN: 100}},
		{"localnet of OVN-Kubernetes", `{"name":"tenant","type":"ovn-k8s-cni-overlay","topology":"localnet","physicalNetworkName":"localnet1","vlanID":2003,"mtu":8900}`, plan.NetworkAttachment{Key: key, Network: "tenant", Type: "ovn-k8s-cni-overlay", Master: "localnet1", VLAN: 2003, MTU: 8900}},
		{"a list of plugins", `{"name":"vlan100","plugins":[{"type":"bridge","bridge":"br1"},{"type":"tuning"}]}`, plan.NetworkAttachment{Key: key, Network: "vlan100", Type: "bridge", Master: "br1"}},
		{"a list whose last plugin changes the MTU", `{"name":"vlan100","plugins":[{"type":"bridge","bridge":"br1","mtu":9000},{"type":"portmap"},{"type":"tuning","mtu":1400}]}`, plan.NetworkAttachment{Key: key, Network: "vlan100", Type: "bridge", Master: "br1", MTU: 1400}},
		{"a plugin that asks an address manager", `{"name":"vlan100","type":"bridge","bridge":"br1","ipam":{"type":"whereabouts","range":"192.0.2.0/24"}}`, plan.NetworkAttachment{Key: key, Network: "vlan100", Type: "bridge", Master: "br1", IPAM: "whereabouts"}},
		{"a list whose first plugin asks one", `{"name":"vlan100","plugins":[{"type":"bridge","bridge":"br1","ipam":{"type":"whereabouts"}},{"type":"tuning"}]}`, plan.NetworkAttachment{Key: key, Network: "vlan100", Type: "bridge", Master: "br1", IPAM: "whereabouts"}},
		{"no JSON", `vlan100`, plan.NetworkAttachment{Key: key}},
		{"nothing", ``, plan.NetworkAttachment{Key: key}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := world(func(w *facts.World) {
				w.NetworkAttachments = []nadv1.NetworkAttachmentDefinition{{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "vlan100"}, Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: tt.config},
				}}
			})
			require.Equal(t, []plan.NetworkAttachment{tt.want}, facts.Inputs(w, &w.Infras[0]).NetworkAttachments)
			link := tt.want.MTU
			if strings.Contains(tt.config, `"tuning","mtu"`) {
				link = 0 // Multus may report what was before
			}
			require.Equal(t, link, facts.LinkMTU(&w.NetworkAttachments[0]))
		})
	}
}

// behaviours F3, F5: what is in force is read back.
func TestInputsReadBackWhatIsInForce(t *testing.T) {
	t.Parallel()
	yes := true
	owned := func(infra string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: "Infra", Name: infra, Controller: &yes}}
	}
	proxy := func(infra string) v1alpha1.ProxyServer {
		p := v1alpha1.ProxyServer{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "tenant-vlan100-proxy", OwnerReferences: owned(infra)}}
		p.Spec.ExternalListeners = []v1alpha1.ProxyExternalListener{{Name: "a", Port: 20003}}
		return p
	}
	dhcp := v1alpha1.DHCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "tenant-vlan100-dhcp"}}
	dhcp.Status.Agent = &v1alpha1.DHCPAgentStatus{Bindings: []v1alpha1.DHCPBinding{
		{IP: "192.0.2.101", VMNamespace: "clusters-a", VMName: "vm"}, {IP: "192.0.2.102"}, {IP: "nonsense", VMName: "vm"},
	}, Pool: v1alpha1.DHCPPoolStatus{Total: 100, Free: 98}}
	service := func(infra string, port int) corev1.Service {
		s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "b-proxy-external", Labels: map[string]string{
			render.LabelComponent: render.ComponentExternal, render.LabelManagedBy: render.ManagedBy, render.LabelInfra: infra, render.LabelAttachment: "b",
		}}}
		s.Spec.ClusterIP = "172.30.20.9"
		s.Spec.Ports = []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(int32(port))}}
		return s
	}
	w := world(func(w *facts.World) {
		// Others' of the same shape, before and after ours, count nothing.
		elsewhere, another, impostors := dhcp, dhcp, dhcp
		elsewhere.Namespace, another.Name, impostors.OwnerReferences = "elsewhere", "other-dhcp", owned("impostor")
		silent := v1alpha1.DHCPServer{ObjectMeta: dhcp.ObjectMeta}
		w.DHCPServers = []v1alpha1.DHCPServer{elsewhere, dhcp, another, impostors, silent}
		w.ProxyServers = []v1alpha1.ProxyServer{proxy("tenant-vlan100"), proxy("impostor")}
		foreign := service("tenant-vlan100", 20004)
		foreign.Namespace, foreign.Spec.ClusterIP = "elsewhere", "None"
		byHand := service("tenant-vlan100", 20005)
		byHand.Labels[render.LabelManagedBy], byHand.Spec.ClusterIP = "kubectl", "None"
		portless := service("tenant-vlan100", 20006)
		portless.Spec.Ports, portless.Spec.ClusterIP = nil, "None"
		other := service("other", 20002)
		other.Name = "c-proxy-external"
		w.Services = []corev1.Service{service("tenant-vlan100", 20001), other, foreign, byHand, portless}
		for _, key := range []string{"clusters/other", "elsewhere/tenant-vlan100"} {
			sibling := w.Infras[0].DeepCopy()
			sibling.Namespace, sibling.Name, _ = strings.Cut(key, "/")
			w.Infras = append(w.Infras, *sibling)
		}
	})
	in := facts.Inputs(w, &w.Infras[0])
	require.Equal(t, []plan.HeldPort{{Attachment: "a", Port: 20003}}, in.Listeners)
	require.Equal(t, []plan.HeldPort{{Attachment: "b", Port: 20001}}, in.HeldPorts)
	require.Equal(t, []plan.Binding{
		{Address: netip.MustParseAddr("192.0.2.101"), VM: plan.Key{Namespace: "clusters-a", Name: "vm"}}, {Address: netip.MustParseAddr("192.0.2.102")},
	}, in.Bindings)
	require.Equal(t, plan.Pool{Total: 100, Free: 98}, in.Pool)
	require.Equal(t, map[plan.Key]netip.Addr{
		{Namespace: "clusters", Name: "b-proxy-external"}: netip.MustParseAddr("172.30.20.9"), {Namespace: "clusters", Name: "c-proxy-external"}: netip.MustParseAddr("172.30.20.9"),
	}, in.ClusterIPs)
	var siblings []plan.Key
	for _, s := range in.Siblings {
		siblings = append(siblings, s.Key)
	}
	require.Equal(t, []plan.Key{{Namespace: "clusters", Name: "other"}, {Namespace: "elsewhere", Name: "tenant-vlan100"}}, siblings)
}

// behaviour H4: the plan is made from what the attachment controller recorded.
func TestRecordedFactsBecomeInputs(t *testing.T) {
	t.Parallel()
	a := attachment(inForce, func(a *v1alpha1.InfraClusterAttachment) {
		a.Status.ControlPlaneNamespace = "clusters-example-hcp-a"
		o := &a.Status.Observed
		o.Services = []v1alpha1.ObservedService{{Role: v1alpha1.ServiceRoleOAuth, ClusterIP: "172.30.10.2", Port: 6443}, {Role: v1alpha1.ServiceRoleIgnition, ClusterIP: "None"}}
		o.Workers = []v1alpha1.ObservedWorker{{Address: "192.0.2.101", Machine: "m"}, {Address: "x"}, {Address: "192.0.2.102", Machine: "m", LastSeen: &metav1.Time{Time: noon}}}
		o.Ranges = []string{"10.132.0.0/14", "fd01::/48", "x"}
		o.Machines = []string{"m"}
		a.Status.AppsIngressStatus = &v1alpha1.AppsIngressStatus{ExternalIP: "192.0.2.200", Applied: []v1alpha1.AppliedObject{{Kind: "Service"}}}
		a.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: "R", Message: "m"}}
	})
	w := world(func(w *facts.World) { w.Attachments = []v1alpha1.InfraClusterAttachment{*a} })
	got := facts.Inputs(w, &w.Infras[0]).Attachments[0]
	require.Equal(t, []plan.Service{{Role: v1alpha1.ServiceRoleOAuth, IP: netip.MustParseAddr("172.30.10.2"), Port: 6443}}, got.Services)
	require.Equal(t, []plan.Worker{
		{Address: netip.MustParseAddr("192.0.2.101"), Machine: "m"}, {Address: netip.MustParseAddr("192.0.2.102"), Machine: "m", Held: true},
	}, got.Workers)
	require.Equal(t, []netip.Prefix{netip.MustParsePrefix("10.132.0.0/14")}, got.Networks)
	require.Equal(t, plan.Reason{Reason: "R", Message: "m"}, got.Refusal)
	a.Status.Conditions[0].Status = metav1.ConditionTrue
	w.Attachments[0] = *a
	require.Empty(t, facts.Inputs(w, &w.Infras[0]).Attachments[0].Refusal, "who is admitted is not refused")
	require.True(t, got.AppsApplied)
	require.Equal(t, netip.MustParseAddr("192.0.2.200"), got.AppsIP)
}

// behaviour H3: Ready is aggregation and the apps state.
func TestReadySumsUp(t *testing.T) {
	t.Parallel()
	set := func(kind string, status metav1.ConditionStatus, reason string) func(*v1alpha1.InfraClusterAttachment) {
		return func(a *v1alpha1.InfraClusterAttachment) {
			a.Status.Conditions = append(a.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "m"})
		}
	}
	admitted := set(v1alpha1.ConditionAdmitted, "True", "x")
	available := set(v1alpha1.ConditionControlPlaneAvailable, "True", "x")
	programmed := set(v1alpha1.ConditionProgrammed, "True", "x")
	apps := func(st *v1alpha1.AppsIngressStatus) func(*v1alpha1.InfraClusterAttachment) {
		return func(a *v1alpha1.InfraClusterAttachment) {
			a.Spec.AppsIngress.Enabled, a.Status.AppsIngressStatus = true, st
		}
	}
	external := func(a *v1alpha1.InfraClusterAttachment) { a.Spec.ExternalService.Enabled = true }
	type change = func(*v1alpha1.InfraClusterAttachment)
	tests := []struct {
		name   string
		change []change
		want   string
	}{
		{"all is well", []change{admitted, available, programmed}, "ReconciliationSucceeded"},
		{"not admitted", []change{set(v1alpha1.ConditionAdmitted, "False", "HostedClusterNotFound"), available, programmed}, "HostedClusterNotFound"},
		{"no Services", []change{admitted, set(v1alpha1.ConditionControlPlaneAvailable, "False", "ServicesNotFound"), programmed}, "ServicesNotFound"},
		{"not taken up yet", []change{admitted, available}, "WaitingForInfra"},
		{"excluded", []change{admitted, available, set(v1alpha1.ConditionProgrammed, "False", "DuplicateHostname")}, "DuplicateHostname"},
		{"apps not looked at", []change{admitted, available, programmed, apps(nil)}, "WaitingForHostedClusterNodes"},
		{"apps pending", []change{admitted, available, programmed, apps(&v1alpha1.AppsIngressStatus{Phase: v1alpha1.AppsPhasePending, Reason: "WaitingForExternalIP"})}, "WaitingForExternalIP"},
		{"apps ready", []change{admitted, available, programmed, apps(&v1alpha1.AppsIngressStatus{Phase: v1alpha1.AppsPhaseReady, Reason: "x"})}, "ReconciliationSucceeded"},
		{"the external Service as declared", []change{admitted, available, programmed, set(v1alpha1.ConditionExternalServiceReady, "True", "x"), external}, "ReconciliationSucceeded"},
		{"the external Service not looked at yet", []change{admitted, available, programmed, external}, "ReconciliationSucceeded"},
		{"the external Service refused", []change{admitted, available, programmed, set(v1alpha1.ConditionExternalServiceReady, "False", "NameTaken"), external}, "NameTaken"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, facts.Ready(attachment(tt.change...)).Reason)
		})
	}
}
