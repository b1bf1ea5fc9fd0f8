package facts

import (
	"cmp"
	"net/netip"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
	"github.com/densityops/oooi/operator/internal/render"
)

// Inputs for the plan of one Infra.
func Inputs(w World, infra *v1alpha1.Infra) plan.Inputs {
	in := networkInputs(w, infra)
	in.HubNetworks, in.ClusterIPs = w.HubNetworks, map[plan.Key]netip.Addr{}
	if w.HubProxy != nil {
		st := w.HubProxy.Status
		in.HubProxy = plan.HubProxy{Used: st.HTTPSProxy != "" || st.HTTPProxy != "", NoProxy: strings.Split(st.NoProxy, ",")}
	}
	readChildren(w, infra, &in)
	in.Attachments = attachmentsFor(w, in)
	for i := range w.Services {
		s := &w.Services[i]
		if ip, err := plan.ParseIPv4(s.Spec.ClusterIP); err == nil {
			in.ClusterIPs[plan.Key{Namespace: s.Namespace, Name: s.Name}] = ip
		}
		if held, found := heldPort(s, infra); found {
			in.HeldPorts = append(in.HeldPorts, held)
		}
	}
	return in
}

// Neighbours are the Infras on the network of infra, itself among them. Of the
// world Infras and NetworkAttachments are read.
func Neighbours(w World, infra *v1alpha1.Infra) map[plan.Key]bool {
	return plan.Neighbours(networkInputs(w, infra))
}

// networkInputs are an Infra, its siblings, and the networks that they name.
func networkInputs(w World, infra *v1alpha1.Infra) plan.Inputs {
	in := plan.Inputs{Infra: infraOf(infra)}
	for i := range w.Infras {
		if s := &w.Infras[i]; s.Namespace != infra.Namespace || s.Name != infra.Name {
			in.Siblings = append(in.Siblings, infraOf(s))
		}
	}
	serversOf(w, &in)
	for i := range w.NetworkAttachments {
		in.NetworkAttachments = append(in.NetworkAttachments, networkOf(&w.NetworkAttachments[i]))
	}
	return in
}

// serversOf finds out on which networks the Infras' servers are.
func serversOf(w World, in *plan.Inputs) {
	infras := map[string]*plan.Infra{in.Infra.UID: &in.Infra}
	for i := range in.Siblings {
		infras[in.Siblings[i].UID] = &in.Siblings[i]
	}
	on := func(o metav1.Object, namespace v1alpha1.NamespaceName, name v1alpha1.ObjectName) *plan.Infra {
		owner := metav1.GetControllerOf(o)
		if owner == nil || owner.UID == "" || infras[string(owner.UID)] == nil || infras[string(owner.UID)].Namespace != o.GetNamespace() {
			return &plan.Infra{}
		}
		infra := infras[string(owner.UID)]
		infra.On = append(infra.On, plan.Key{Namespace: cmp.Or(string(namespace), o.GetNamespace()), Name: string(name)})
		return infra
	}
	for i := range w.DHCPServers {
		n := &w.DHCPServers[i].Spec.NetworkConfig
		on(&w.DHCPServers[i], n.NetworkAttachmentNamespace, n.NetworkAttachmentName).DHCP = true
	}
	for i := range w.DNSServers {
		n := &w.DNSServers[i].Spec.NetworkConfig
		on(&w.DNSServers[i], n.NetworkAttachmentNamespace, n.NetworkAttachmentName)
	}
	for i := range w.ProxyServers {
		n := &w.ProxyServers[i].Spec.NetworkConfig
		on(&w.ProxyServers[i], n.NetworkAttachmentNamespace, n.NetworkAttachmentName)
	}
}

// attachmentsFor are the attachments that count for the plan.
func attachmentsFor(w World, in plan.Inputs) []plan.Attachment {
	refs := make([]plan.Ref, len(w.Attachments))
	for i := range w.Attachments {
		a := &w.Attachments[i]
		refs[i] = plan.Ref{
			Attachment: plan.Key{Namespace: a.Namespace, Name: a.Name},
			Infra:      plan.Key{Namespace: a.Namespace, Name: string(a.Spec.InfraRef.Name)}, HostedCluster: ClusterOf(a),
		}
	}
	var out []plan.Attachment
	for i, counts := range plan.Counting(in, refs) {
		if counts {
			out = append(out, attachmentOf(&w.Attachments[i]))
		}
	}
	return out
}

// readChildren reads back what the Infra's own children hold.
func readChildren(w World, infra *v1alpha1.Infra, in *plan.Inputs) {
	for i := range w.DHCPServers {
		if d := &w.DHCPServers[i]; isChild(d, infra, render.ComponentDHCP) && d.Status.Agent != nil {
			in.Bindings = append(in.Bindings, bindingsOf(d.Status.Agent.Bindings)...)
			in.Pool = plan.Pool{Total: int(d.Status.Agent.Pool.Total), Free: int(d.Status.Agent.Pool.Free)}
		}
	}
	for i := range w.ProxyServers {
		if p := &w.ProxyServers[i]; isChild(p, infra, render.ComponentProxy) {
			for _, l := range p.Spec.ExternalListeners {
				in.Listeners = append(in.Listeners, plan.HeldPort{Attachment: string(l.Name), Port: uint16(l.Port)})
			}
		}
	}
}

// isChild says whether o is an Infra's own child: a user may have made one of
// that name before.
func isChild(o metav1.Object, infra *v1alpha1.Infra, component string) bool {
	if o.GetNamespace() != infra.Namespace || o.GetName() != render.ChildName(infra.Name, component) {
		return false
	}
	owner := metav1.GetControllerOf(o)
	return owner == nil || owner.Kind == "Infra" && owner.Name == infra.Name
}

// heldPort is the pod port that an external Service of the Infra leads to.
func heldPort(s *corev1.Service, infra *v1alpha1.Infra) (plan.HeldPort, bool) {
	ours := s.Namespace == infra.Namespace && s.Labels[render.LabelComponent] == render.ComponentExternal &&
		s.Labels[render.LabelManagedBy] == render.ManagedBy && s.Labels[render.LabelInfra] == infra.Name
	if !ours || len(s.Spec.Ports) == 0 || s.Spec.Ports[0].TargetPort.Type != intstr.Int {
		return plan.HeldPort{}, false
	}
	return plan.HeldPort{Attachment: s.Labels[render.LabelAttachment], Port: uint16(s.Spec.Ports[0].TargetPort.IntValue())}, true
}

func infraOf(i *v1alpha1.Infra) plan.Infra {
	out := plan.Infra{
		Key: plan.Key{Namespace: i.Namespace, Name: i.Name}, UID: string(i.UID), Created: i.CreationTimestamp.Time,
		Spec: i.Spec, Network: i.Status.Network, DHCP: i.Status.ComponentStatus.DHCPReady, InForce: i.Status.InForce,
	}
	out.InternalProxyIP, _ = plan.ParseIPv4(string(i.Status.InternalProxyIP))
	return out
}

// attachmentOf reads what the attachment controller has recorded. A value that
// cannot be read is left out.
func attachmentOf(a *v1alpha1.InfraClusterAttachment) plan.Attachment {
	out := plan.Attachment{
		Key: plan.Key{Namespace: a.Namespace, Name: a.Name}, UID: string(a.UID), Created: a.CreationTimestamp.Time,
		Deleting: a.DeletionTimestamp != nil, Spec: a.Spec,
		HostedClusterUID:      a.Status.Observed.HostedClusterUID,
		ControlPlaneNamespace: string(a.Status.ControlPlaneNamespace), Machines: a.Status.Observed.Machines,
	}
	if c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionAdmitted); c != nil && c.Status == metav1.ConditionFalse {
		out.Refusal = plan.Reason{Reason: c.Reason, Message: c.Message}
	}
	for _, s := range a.Status.Observed.Services {
		if ip, err := plan.ParseIPv4(string(s.ClusterIP)); err == nil {
			out.Services = append(out.Services, plan.Service{Role: s.Role, IP: ip, Port: uint16(s.Port)})
		}
	}
	for _, w := range a.Status.Observed.Workers {
		if ip, err := plan.ParseIPv4(string(w.Address)); err == nil {
			out.Workers = append(out.Workers, plan.Worker{Address: ip, Machine: w.Machine, Held: w.LastSeen != nil})
		}
	}
	for _, r := range a.Status.Observed.Ranges {
		if p, err := netip.ParsePrefix(r); err == nil && p.Addr().Is4() {
			out.Networks = append(out.Networks, p.Masked())
		}
	}
	if apps := a.Status.AppsIngressStatus; apps != nil {
		out.AppsIP, _ = plan.ParseIPv4(string(apps.ExternalIP))
		out.AppsHostname, out.AppsApplied = apps.ExternalHostname, len(apps.Applied) > 0
	}
	return out
}

func bindingsOf(list []v1alpha1.DHCPBinding) []plan.Binding {
	var out []plan.Binding
	for _, b := range list {
		ip, err := plan.ParseIPv4(string(b.IP))
		if err != nil {
			continue
		}
		binding := plan.Binding{Address: ip}
		if b.VMName != "" {
			binding.VM = plan.Key{Namespace: b.VMNamespace, Name: b.VMName}
		}
		out = append(out, binding)
	}
	return out
}

// networkOf reads what identifies a NetworkAttachmentDefinition's network. A
// configuration that is no JSON identifies nothing.
func networkOf(n *nadv1.NetworkAttachmentDefinition) plan.NetworkAttachment {
	out := plan.NetworkAttachment{Key: plan.Key{Namespace: n.Namespace, Name: n.Name}}
	config, err := parseNetConf(n.Spec.Config)
	if err != nil {
		return out
	}
	out.Network, out.Type, out.VLAN, out.MTU = strings.TrimSpace(config.Name), config.Type, config.vlan(), config.MTU
	out.Master, out.IPAM = config.master(), config.IPAM.Type
	return out
}

// LinkMTU is what a NetworkAttachmentDefinition's configuration names for the link
// that Multus reports, 0 for none. Where a later plugin changes the link ("tuning"),
// the report may be of before.
func LinkMTU(n *nadv1.NetworkAttachmentDefinition) int {
	config, err := parseNetConf(n.Spec.Config)
	if err != nil || config.retuned {
		return 0
	}
	return config.MTU
}
