package workload

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1 "github.com/densityops/oooi/operator/api/agent/v1"
	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/agent"
	"github.com/densityops/oooi/operator/internal/apply"
	"github.com/densityops/oooi/operator/internal/render"
)

// Kind is what differs between the children.
type Kind[T client.Object] struct {
	// Component is "dhcp", "dns" or "proxy"; Rank orders roll-outs within an
	// Infra: a listener comes before the answers that lead to it.
	Component string
	Rank      int
	New       func() T
	NewList   func() client.ObjectList
	Encode    func(T) (*agentv1.Snapshot, error)
	Render    func(T, render.Options) []render.Object
	View      func(T) View
	// Bare is the child without its spec: who and how it is. Its status is a copy.
	Bare func(T) T
	// Fence says whether the component's SCC lets the fence run: it needs NET_ADMIN.
	Fence func(render.Options) bool
	// Foreign: the child has objects outside its namespace.
	Foreign bool
}

// View is what the controller reads of any child.
type View struct {
	Status *v1alpha1.ComponentStatus
	// Agent is nil where the agent has not reported yet.
	Agent *v1alpha1.AgentStatus
	// InForce is the version that serves.
	InForce string
	// Network is the NetworkAttachmentDefinition, and ServerIP the address on it.
	Network  types.NamespacedName
	ServerIP string
}

// head says which object it is, and as of when.
func head(o client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), Generation: o.GetGeneration(), ResourceVersion: o.GetResourceVersion(),
	}
}

func viewOf[A, B ~string](child client.Object, nad A, nadNamespace B, serverIP v1alpha1.IPv4, status *v1alpha1.ComponentStatus) View {
	return View{
		Status: status, ServerIP: string(serverIP),
		Network: types.NamespacedName{Namespace: cmp.Or(string(nadNamespace), child.GetNamespace()), Name: string(nad)},
	}
}

// DHCP is the DHCPServer: it reads virtual machines in other namespaces.
func DHCP() Kind[*v1alpha1.DHCPServer] {
	return Kind[*v1alpha1.DHCPServer]{
		Component: render.ComponentDHCP, Rank: 2, Foreign: true,
		New:     func() *v1alpha1.DHCPServer { return &v1alpha1.DHCPServer{} },
		NewList: func() client.ObjectList { return &v1alpha1.DHCPServerList{} },
		Bare: func(c *v1alpha1.DHCPServer) *v1alpha1.DHCPServer {
			return &v1alpha1.DHCPServer{ObjectMeta: head(c), Status: *c.Status.DeepCopy()}
		},
		Encode: agent.EncodeDHCP, Render: render.DHCP,
		// The SCC of our own allows no NET_ADMIN.
		Fence: func(o render.Options) bool { return !o.OpenShift || o.SCC == render.SCCReference },
		View: func(c *v1alpha1.DHCPServer) View {
			n := c.Spec.NetworkConfig
			v := viewOf(c, n.NetworkAttachmentName, n.NetworkAttachmentNamespace, n.ServerIP, &c.Status.ComponentStatus)
			if a := c.Status.Agent; a != nil {
				v.Agent, v.InForce = &a.AgentStatus, a.ObservedVersion
			}
			return v
		},
	}
}

// DNS is the DNSServer.
func DNS() Kind[*v1alpha1.DNSServer] {
	return Kind[*v1alpha1.DNSServer]{
		Component: render.ComponentDNS, Rank: 1,
		New:     func() *v1alpha1.DNSServer { return &v1alpha1.DNSServer{} },
		NewList: func() client.ObjectList { return &v1alpha1.DNSServerList{} },
		Bare: func(c *v1alpha1.DNSServer) *v1alpha1.DNSServer {
			return &v1alpha1.DNSServer{ObjectMeta: head(c), Status: *c.Status.DeepCopy()}
		},
		Encode: agent.EncodeDNS, Render: render.DNS,
		// Neither anyuid nor restricted-v2 allows NET_ADMIN.
		Fence: func(o render.Options) bool { return !o.OpenShift },
		View: func(c *v1alpha1.DNSServer) View {
			n := c.Spec.NetworkConfig
			v := viewOf(c, n.NetworkAttachmentName, n.NetworkAttachmentNamespace, n.ServerIP, &c.Status.ComponentStatus)
			if a := c.Status.Agent; a != nil {
				v.Agent, v.InForce = &a.AgentStatus, a.ObservedVersion
			}
			return v
		},
	}
}

// Proxy is the ProxyServer: in force is what Envoy has accepted, not what its
// manager has heard of.
func Proxy() Kind[*v1alpha1.ProxyServer] {
	return Kind[*v1alpha1.ProxyServer]{
		Component: render.ComponentProxy, Rank: 0,
		New:     func() *v1alpha1.ProxyServer { return &v1alpha1.ProxyServer{} },
		NewList: func() client.ObjectList { return &v1alpha1.ProxyServerList{} },
		Bare: func(c *v1alpha1.ProxyServer) *v1alpha1.ProxyServer {
			return &v1alpha1.ProxyServer{ObjectMeta: head(c), Status: *c.Status.DeepCopy()}
		},
		Encode: agent.EncodeProxy, Render: render.Proxy,
		// restricted-v2 allows no NET_ADMIN.
		Fence: func(o render.Options) bool { return !o.OpenShift || o.SCC == render.SCCReference },
		View: func(c *v1alpha1.ProxyServer) View {
			n := c.Spec.NetworkConfig
			v := viewOf(c, n.NetworkAttachmentName, n.NetworkAttachmentNamespace, n.ServerIP, &c.Status.ComponentStatus)
			if a := c.Status.Agent; a != nil {
				v.Agent, v.InForce = &a.AgentStatus, a.AcceptedVersion
			}
			return v
		},
	}
}

// ownKinds are what a child has in its own namespace.
var ownKinds = []schema.GroupVersionKind{
	appsv1.SchemeGroupVersion.WithKind("Deployment"),
	corev1.SchemeGroupVersion.WithKind("Service"),
	corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	rbacv1.SchemeGroupVersion.WithKind("Role"),
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
	coordinationv1.SchemeGroupVersion.WithKind("Lease"),
}

// foreignKinds are what one may have anywhere.
var foreignKinds = []schema.GroupVersionKind{
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
}

// own are the scopes to prune in the child's namespace.
func (k Kind[T]) own(child T) []apply.Scope {
	out := make([]apply.Scope, 0, len(ownKinds)+len(foreignKinds))
	for _, kind := range ownKinds {
		out = append(out, apply.Scope{Kind: kind, Namespace: child.GetNamespace()})
	}
	return out
}

// foreign are the scopes that owner references do not reach.
func (k Kind[T]) foreign() []apply.Scope {
	var out []apply.Scope
	for _, kind := range foreignKinds {
		if k.Foreign {
			out = append(out, apply.Scope{Kind: kind})
		}
	}
	return out
}
