package render

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// The labels of what the operator makes. Only objects that carry them are ever
// deleted (behaviour B6).
const (
	LabelName      = "app.kubernetes.io/name"
	LabelComponent = "app.kubernetes.io/component"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelInfra names the Infra that an object serves; empty for a child that a
	// user made.
	LabelInfra = "hostedcluster.densityops.com/infra"
	// LabelAttachment names the attachment that an object serves.
	LabelAttachment = "hostedcluster.densityops.com/attachment"
	// LabelOwnerNamespace is the namespace of the owner: in other namespaces and
	// in the cluster the names alone would not do.
	LabelOwnerNamespace = "hostedcluster.densityops.com/owner-namespace"
	// LabelNetworkPolicyGroup on a namespace lets its proxy pods into the control
	// planes (behaviour B11).
	LabelNetworkPolicyGroup = "hostedcluster.densityops.com/network-policy-group"
)

// The values of labels.
const (
	Name                       = "oooi"
	ManagedBy                  = "oooi-operator"
	ComponentDHCP              = "dhcp"
	ComponentDNS               = "dns"
	ComponentProxy             = "proxy"
	ComponentControlPlane      = "control-plane"
	ComponentExternal          = "external"
	NetworkPolicyGroupInternal = "infrastructure"
)

// component of a child.
func component(child metav1.Object) string {
	switch child.(type) {
	case *v1alpha1.DHCPServer:
		return ComponentDHCP
	case *v1alpha1.DNSServer:
		return ComponentDNS
	}
	return ComponentProxy
}

// infraOf names the Infra that controls a child; empty for one that a user made.
func infraOf(child metav1.Object) string {
	if owner := metav1.GetControllerOf(child); owner != nil && owner.Kind == "Infra" {
		return owner.Name
	}
	return ""
}

// selector of a component's pods. Two Infras of one namespace, and two
// components of one name, never select each other's pods (behaviour B4).
func selector(component, instance, infra string) map[string]string {
	return map[string]string{LabelComponent: component, LabelInstance: instance, LabelInfra: infra}
}

// ProxySelector selects the proxy pods of an Infra.
func ProxySelector(infra string) map[string]string {
	return selector(ComponentProxy, ChildName(infra, ComponentProxy), infra)
}

// objectLabels are the labels of a child's objects.
func objectLabels(child metav1.Object) map[string]string {
	labels := selector(component(child), child.GetName(), infraOf(child))
	labels[LabelName] = Name
	labels[LabelManagedBy] = ManagedBy
	return labels
}

// Identity are the labels that every object of a child carries, and no object
// of another.
func Identity(child metav1.Object) map[string]string {
	return map[string]string{
		LabelManagedBy: ManagedBy, LabelComponent: component(child), LabelInstance: child.GetName(),
		LabelOwnerNamespace: child.GetNamespace(),
	}
}

// InfraIdentity are the labels of an Infra's children.
func InfraIdentity(infra metav1.Object) map[string]string {
	return map[string]string{LabelManagedBy: ManagedBy, LabelInfra: infra.GetName(), LabelOwnerNamespace: infra.GetNamespace()}
}

// AttachmentIdentity are the labels of an attachment's objects.
func AttachmentIdentity(attachment metav1.Object) map[string]string {
	return map[string]string{
		LabelManagedBy: ManagedBy, LabelAttachment: attachment.GetName(), LabelOwnerNamespace: attachment.GetNamespace(),
	}
}

// merged is the union; a later map wins.
func merged(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}
