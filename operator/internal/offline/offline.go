package offline

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentpb "github.com/densityops/oooi/operator/api/agent/v1"
	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/agent"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/plan"
	"github.com/densityops/oooi/operator/internal/render"
)

// Fence is a value of --fence.
type Fence string

// The values of --fence: auto decides by the namespace's Pod Security label and
// the SCC.
const (
	FenceAuto Fence = "auto"
	FenceOn   Fence = "on"
	FenceOff  Fence = "off"
)

// Options are the operator's.
type Options struct {
	Render render.Options
	Fence  Fence
	Now    time.Time
}

// Result is what the operator would make and report.
type Result struct {
	Children  []render.Object
	Workloads []render.Object
	// Snapshots by their child's name.
	Snapshots []Snapshot
	// Status are the Infras and attachments with the status that they would get.
	Status []render.Object
	// Problems in words, sorted.
	Problems []string
	// Notes are what could not be judged, in words, sorted.
	Notes []string
}

// Snapshot of a child.
type Snapshot struct {
	Child plan.Key
	*agentpb.Snapshot
}

// Component is dhcp, dns or proxy.
func (s Snapshot) Component() string {
	switch s.GetConfig().(type) {
	case *agentpb.Snapshot_Dhcp:
		return "dhcp"
	case *agentpb.Snapshot_Dns:
		return "dns"
	}
	return "proxy"
}

// Render plans and renders everything that was read.
func Render(o *Objects, options Options) (Result, error) {
	o.Default()
	var r Result
	r.attachments(o, options.Now)
	for i := range o.World.Infras {
		r.infra(o, &o.World.Infras[i], options.Now)
	}
	r.orphans(o)
	r.supposed(o, options.Now)
	r.standalone(o)
	r.networks(o)
	for _, child := range r.Children {
		if err := r.workload(o, child, options); err != nil {
			return r, err
		}
	}
	r.policies(o)
	if options.Render.OpenShift && options.Render.SCC == render.SCCMinimal {
		r.Workloads = append(r.Workloads, render.DHCPConstraints())
	}
	r.status(o)
	slices.Sort(r.Problems)
	r.Problems = slices.Compact(r.Problems)
	slices.Sort(r.Notes)
	return r, nil
}

// attachments are what the attachment controller records.
func (r *Result) attachments(o *Objects, now time.Time) {
	for i := range o.World.Attachments {
		a := &o.World.Attachments[i]
		f := facts.ForAttachment(o.World, a, now)
		a.Status.Domain, a.Status.ControlPlaneNamespace = v1alpha1.DomainName(f.Domain), v1alpha1.NamespaceName(f.ControlPlaneNamespace)
		a.Status.Observed, a.Status.ObservedGeneration = f.Observed, a.Generation
		for _, c := range f.Conditions {
			meta.SetStatusCondition(&a.Status.Conditions, c)
			if c.Status == metav1.ConditionTrue && (c.Type == v1alpha1.ConditionEndpointMismatch || c.Type == v1alpha1.ConditionClusterProxyBypassesVLAN) ||
				c.Status == metav1.ConditionFalse && c.Type == v1alpha1.ConditionControlPlaneAvailable {
				r.problem("InfraClusterAttachment", plan.Key{Namespace: a.Namespace, Name: a.Name}, plan.Reason{Reason: c.Reason, Message: c.Message})
			}
		}
	}
}

func (r *Result) problem(kind string, key plan.Key, reason plan.Reason) {
	r.Problems = append(r.Problems, fmt.Sprintf("%s %s: %s: %s", kind, key, reason.Reason, reason.Message))
}

// infra plans one Infra.
func (r *Result) infra(o *Objects, infra *v1alpha1.Infra, now time.Time) {
	in := facts.Inputs(o.World, infra)
	in.Now = now
	p := plan.For(in)
	r.Children = append(r.Children, render.Children(infra, p)...)
	for _, problem := range p.Problems {
		r.problem(problem.Kind, problem.Key, problem.Reason)
	}
	s := &infra.Status
	s.Network, s.InForce, s.ComponentStatus, s.ObservedGeneration = p.Network, p.InForce, p.ComponentStatus(), infra.Generation
	if p.InternalProxyIP.IsValid() {
		s.InternalProxyIP = v1alpha1.IPv4(p.InternalProxyIP.String())
	}
	for _, c := range p.Conditions() {
		meta.SetStatusCondition(&s.Conditions, c)
	}
	for i := range o.World.Attachments {
		a := &o.World.Attachments[i]
		at := slices.IndexFunc(p.Attachments, func(v plan.Verdict) bool { return v.Key == plan.Key{Namespace: a.Namespace, Name: a.Name} })
		if at < 0 {
			continue
		}
		v := p.Attachments[at]
		meta.SetStatusCondition(&a.Status.Conditions, v.Condition())
		ready := facts.Ready(a)
		meta.SetStatusCondition(&a.Status.Conditions, ready)
		s.Attachments.Total++
		if ready.Status == metav1.ConditionTrue {
			s.Attachments.Ready++
		}
		if v.ExternalPort != 0 && v.Included {
			r.Workloads = append(r.Workloads, render.ExternalService(a, v.ExternalPort))
		}
	}
	s.Attachments.ReadyOfTotal = fmt.Sprintf("%d/%d", s.Attachments.Ready, s.Attachments.Total)
}

// orphans are attachments whose Infra is not there.
func (r *Result) orphans(o *Objects) {
	for i := range o.World.Attachments {
		a := &o.World.Attachments[i]
		if meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionReady) != nil {
			continue
		}
		reason := plan.Reason{Reason: v1alpha1.ReasonInfraNotFound, Message: fmt.Sprintf("no Infra %s in namespace %s", a.Spec.InfraRef.Name, a.Namespace)}
		meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason.Reason, Message: reason.Message,
		})
		r.problem("InfraClusterAttachment", plan.Key{Namespace: a.Namespace, Name: a.Name}, reason)
	}
}

// standalone are the children that a user made: no Infra plans one of that name.
func (r *Result) standalone(o *Objects) {
	planned := map[string]bool{}
	name := func(c render.Object) string { return fmt.Sprintf("%T %s/%s", c, c.GetNamespace(), c.GetName()) }
	for _, c := range r.Children {
		planned[name(c)] = true
	}
	add := func(c render.Object, kind string) {
		if metav1.GetControllerOf(c) == nil && !planned[name(c)] {
			c.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
			r.Children = append(r.Children, c)
		}
	}
	for i := range o.World.DHCPServers {
		add(o.World.DHCPServers[i].DeepCopy(), "DHCPServer")
	}
	for i := range o.DNSServers {
		add(o.DNSServers[i].DeepCopy(), "DNSServer")
	}
	for i := range o.World.ProxyServers {
		add(o.World.ProxyServers[i].DeepCopy(), "ProxyServer")
	}
}

// workload renders one child. A child that cannot be served is a problem of its
// own.
func (r *Result) workload(o *Objects, child render.Object, options Options) error {
	key := plan.Key{Namespace: child.GetNamespace(), Name: child.GetName()}
	snapshot, err := agent.Encode(child)
	if err != nil {
		r.problem(child.GetObjectKind().GroupVersionKind().Kind, key, plan.Reason{Reason: v1alpha1.ReasonInvalidConfiguration, Message: err.Error()})
		return nil
	}
	at := options.Render
	if at.Snapshot, err = agent.File(snapshot); err != nil {
		return fmt.Errorf("rendering %s: %w", key, err)
	}
	if child.GetUID() == "" {
		snapshot.Child = nil
	}
	r.Snapshots = append(r.Snapshots, Snapshot{key, snapshot})
	r.review(child)
	switch c := child.(type) {
	case *v1alpha1.DHCPServer:
		at.Fence = fenced(o, options, key.Namespace, render.ComponentDHCP)
		r.Workloads = append(r.Workloads, render.DHCP(c, at)...)
	case *v1alpha1.DNSServer:
		at.Fence = fenced(o, options, key.Namespace, render.ComponentDNS)
		r.Workloads = append(r.Workloads, render.DNS(c, at)...)
	case *v1alpha1.ProxyServer:
		at.Fence = fenced(o, options, key.Namespace, render.ComponentProxy)
		r.Workloads = append(r.Workloads, render.Proxy(c, at)...)
	}
	return nil
}

// labelEnforce is the Pod Security level of a namespace.
const labelEnforce = "pod-security.kubernetes.io/enforce"

// fenced decides like --fence (behaviour B5).
func fenced(o *Objects, options Options, namespace, component string) bool {
	if options.Fence != FenceAuto {
		return options.Fence == FenceOn
	}
	for i := range o.World.Namespaces {
		if n := &o.World.Namespaces[i]; n.Name == namespace {
			if level := n.Labels[labelEnforce]; level != "" && level != "privileged" {
				return false
			}
		}
	}
	return render.AllowsFence(component, options.Render)
}

// policies are the control-plane namespaces' NetworkPolicies.
func (r *Result) policies(o *Objects) {
	peers := map[string][]render.PolicyPeer{}
	services := map[string][]v1alpha1.ObservedService{}
	for i := range o.World.Attachments {
		a := &o.World.Attachments[i]
		if a.Status.Observed.HostedClusterUID == "" {
			continue
		}
		namespace := string(a.Status.ControlPlaneNamespace)
		peers[namespace] = append(peers[namespace], render.PolicyPeer{Namespace: a.Namespace, Infra: string(a.Spec.InfraRef.Name)})
		services[namespace] = append(services[namespace], a.Status.Observed.Services...)
	}
	var namespaces []string
	for namespace := range peers {
		namespaces = append(namespaces, namespace)
	}
	slices.Sort(namespaces)
	for _, namespace := range namespaces {
		r.Workloads = append(r.Workloads, render.ControlPlanePolicy(namespace, peers[namespace], services[namespace]))
	}
	for i := range o.World.Infras {
		r.label(o, &o.World.Infras[i])
	}
}

// label says when an Infra's namespace lacks the label that the policies ask for.
func (r *Result) label(o *Objects, infra *v1alpha1.Infra) {
	at := slices.IndexFunc(o.World.Namespaces, func(n corev1.Namespace) bool { return n.Name == infra.Namespace })
	if at >= 0 && o.World.Namespaces[at].Labels[render.LabelNetworkPolicyGroup] != render.NetworkPolicyGroupInternal {
		r.problem("Infra", plan.Key{Namespace: infra.Namespace, Name: infra.Name}, plan.Reason{
			Reason: v1alpha1.ReasonNamespaceNotLabelled, Message: fmt.Sprintf("namespace %s lacks the label %s=%s; the operator sets it, or: kubectl label namespace %s %s=%s",
				infra.Namespace, render.LabelNetworkPolicyGroup, render.NetworkPolicyGroupInternal,
				infra.Namespace, render.LabelNetworkPolicyGroup, render.NetworkPolicyGroupInternal),
		})
	}
}

// status are the Infras and attachments as they would be reported, without times.
func (r *Result) status(o *Objects) {
	for i := range o.World.Infras {
		infra := o.World.Infras[i].DeepCopy()
		r.Status = append(r.Status, &v1alpha1.Infra{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Infra"},
			ObjectMeta: metav1.ObjectMeta{Namespace: infra.Namespace, Name: infra.Name}, Status: infra.Status,
		})
		timeless(infra.Status.Conditions)
	}
	for i := range o.World.Attachments {
		a := o.World.Attachments[i].DeepCopy()
		r.Status = append(r.Status, &v1alpha1.InfraClusterAttachment{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "InfraClusterAttachment"},
			ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}, Status: a.Status,
		})
		timeless(a.Status.Conditions)
	}
}

// timeless drops what differs from one run to the next, and sorts.
func timeless(conditions []metav1.Condition) {
	for i := range conditions {
		conditions[i].LastTransitionTime = metav1.Time{}
	}
	slices.SortFunc(conditions, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
}
