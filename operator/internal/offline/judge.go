package offline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/plan"
	"github.com/densityops/oooi/operator/internal/render"
)

func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// review says what an agent would leave out of a snapshot that it serves.
func (r *Result) review(child render.Object) {
	var faults []string
	switch c := child.(type) {
	case *v1alpha1.DHCPServer:
		faults = plan.ReviewDHCPServer(c.Spec)
	case *v1alpha1.DNSServer:
		faults = plan.ReviewDNSServer(c.Spec)
	case *v1alpha1.ProxyServer:
		faults = plan.ReviewProxyServer(c.Spec)
	}
	for _, f := range faults {
		r.problem(child.GetObjectKind().GroupVersionKind().Kind, plan.Key{Namespace: child.GetNamespace(), Name: child.GetName()},
			plan.Reason{Reason: v1alpha1.ReasonInvalidConfiguration, Message: f})
	}
}

// supposed judges the attachments alone, and then as if the HostedClusters that
// were not given existed: what speaks against such an attachment all the same
// is not hidden behind the first thing that it lacks.
func (r *Result) supposed(o *Objects, now time.Time) {
	w := o.World
	w.Attachments = slices.Clone(w.Attachments)
	judged := false
	for i := range w.Attachments {
		a := w.Attachments[i].DeepCopy()
		key := plan.Key{Namespace: a.Namespace, Name: a.Name}
		for _, fault := range []string{plan.CheckAttachment(a.Spec), plan.CheckApps(a.Spec.AppsIngress)} {
			if fault != "" {
				r.problem("InfraClusterAttachment", key, plan.Reason{Reason: v1alpha1.ReasonInvalidConfiguration, Message: fault})
			}
		}
		admitted := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionAdmitted)
		if admitted != nil && admitted.Reason == v1alpha1.ReasonHostedClusterNotFound {
			a.Status.Observed.HostedClusterUID = "supposed " + facts.ClusterOf(a).String()
			w.Attachments[i], judged = *a, true
			r.note("InfraClusterAttachment %s is judged as if HostedCluster %s existed", key, facts.ClusterOf(a))
		}
	}
	if !judged {
		return
	}
	for i := range w.Infras {
		in := facts.Inputs(w, &w.Infras[i])
		in.Now = now
		for _, problem := range plan.For(in).Problems {
			r.problem(problem.Kind, problem.Key, problem.Reason)
		}
	}
}

// networks judges the NetworkAttachmentDefinitions that our pods stand in: each
// must be there and give the address that a pod asks for (behaviour B3).
func (r *Result) networks(o *Objects) {
	given := map[plan.Key]*nadv1.NetworkAttachmentDefinition{}
	var names []string
	for i := range o.World.NetworkAttachments {
		n := &o.World.NetworkAttachments[i]
		key := plan.Key{Namespace: n.Namespace, Name: n.Name}
		given[key], names = n, append(names, key.String())
	}
	slices.Sort(names)
	for _, p := range o.places() {
		r.network(p, given, names)
	}
	r.ownProxies(o)
}

// place is an object and the field that names a NetworkAttachmentDefinition.
type place struct {
	kind, namespace, name, field string
	// network is what it names; its namespace may be empty.
	network plan.Key
}

// places of all objects that were read.
func (o *Objects) places() []place {
	const field = "networkConfig.networkAttachmentName"
	var out []place
	add := func(kind string, m metav1.ObjectMeta, field, namespace, name string) {
		out = append(out, place{kind, m.Namespace, m.Name, field, plan.Key{Namespace: namespace, Name: name}})
	}
	for _, i := range o.World.Infras {
		n := i.Spec.NetworkConfig
		add("Infra", i.ObjectMeta, "networkConfig.networkAttachmentDefinition", string(n.NetworkAttachmentNamespace), string(n.NetworkAttachmentDefinition))
	}
	for _, c := range o.World.DHCPServers {
		n := c.Spec.NetworkConfig
		add("DHCPServer", c.ObjectMeta, field, string(n.NetworkAttachmentNamespace), string(n.NetworkAttachmentName))
	}
	for _, c := range o.DNSServers {
		n := c.Spec.NetworkConfig
		add("DNSServer", c.ObjectMeta, field, string(n.NetworkAttachmentNamespace), string(n.NetworkAttachmentName))
	}
	for _, c := range o.World.ProxyServers {
		n := c.Spec.NetworkConfig
		add("ProxyServer", c.ObjectMeta, field, string(n.NetworkAttachmentNamespace), string(n.NetworkAttachmentName))
	}
	return out
}

func (r *Result) network(p place, given map[plan.Key]*nadv1.NetworkAttachmentDefinition, names []string) {
	key, at := p.network, plan.Key{Namespace: p.namespace, Name: p.name}
	if key.Name == "" {
		return
	}
	if key.Namespace == "" {
		key.Namespace = p.namespace
	}
	n, found := given[key]
	switch {
	case len(given) == 0:
		r.note("%s %s: %s %s: no NetworkAttachmentDefinition was given, so that it exists and gives addresses is not judged", p.kind, at, p.field, key)
	case !found:
		r.problem(p.kind, at, plan.Reason{Reason: v1alpha1.ReasonNetworkAttachmentNotFound, Message: fmt.Sprintf(
			"%s %s is not among the NetworkAttachmentDefinitions that were given: %s", p.field, key, strings.Join(names, ", "))})
	default:
		if fault := addressFault(n.Spec.Config); fault != "" {
			r.problem(p.kind, at, plan.Reason{Reason: v1alpha1.ReasonAddressNotAssigned, Message: fmt.Sprintf("%s: NetworkAttachmentDefinition %s %s", p.field, key, fault)})
		}
	}
}

// plugin is what we read of a CNI configuration.
type plugin struct {
	Type         string `json:"type"`
	Capabilities struct {
		IPs bool `json:"ips"`
	} `json:"capabilities"`
	IPAM struct {
		Type string `json:"type"`
	} `json:"ipam"`
	Plugins []plugin `json:"plugins"`
}

// addressFault says why no pod would get the address that it asks for. OVN-Kubernetes
// manages addresses itself.
func addressFault(config string) string {
	var c plugin
	if config == "" {
		return ""
	}
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return fmt.Sprintf("has a config that is no JSON: %v", err)
	}
	all := append(c.Plugins, c)
	gives := func(p plugin) bool {
		return p.Capabilities.IPs || p.IPAM.Type == "static" || strings.HasPrefix(p.Type, "ovn-k8s-cni")
	}
	if slices.ContainsFunc(all, gives) {
		return ""
	}
	return `gives no pod the address that it asks for: its config needs "ipam": {"type": "static"}, or the capability ips`
}

// ownProxies notes where the pods' view needs an address that only a cluster gives.
func (r *Result) ownProxies(o *Objects) {
	for i := range o.World.Infras {
		infra := &o.World.Infras[i]
		in := facts.Inputs(o.World, infra)
		if !plan.NamesOwnProxy(in.Infra) || in.ClusterIPs[plan.Key{Namespace: infra.Namespace, Name: infra.Name + "-proxy"}].IsValid() {
			continue
		}
		r.note("Infra %s/%s: infraComponents.proxy.internalProxyService %s is the Service that the operator makes; pods' names have no address before it has one: add that Service to see them",
			infra.Namespace, infra.Name, infra.Spec.InfraComponents.Proxy.InternalProxyService)
	}
}
