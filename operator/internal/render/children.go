package render

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// Children are the children of an Infra that its plan applies (behaviour B1).
func Children(infra *v1alpha1.Infra, p plan.Plan) []Object {
	var out []Object
	if p.DHCP.Action == plan.Apply {
		child := &v1alpha1.DHCPServer{Spec: *p.DHCP.Spec}
		child.TypeMeta, child.ObjectMeta = childMeta(infra, "DHCPServer", ComponentDHCP)
		out = append(out, child)
	}
	if p.DNS.Action == plan.Apply {
		child := &v1alpha1.DNSServer{Spec: *p.DNS.Spec}
		child.TypeMeta, child.ObjectMeta = childMeta(infra, "DNSServer", ComponentDNS)
		out = append(out, child)
	}
	if p.Proxy.Action == plan.Apply {
		child := &v1alpha1.ProxyServer{Spec: *p.Proxy.Spec}
		child.TypeMeta, child.ObjectMeta = childMeta(infra, "ProxyServer", ComponentProxy)
		out = append(out, child)
	}
	return out
}

func childMeta(infra *v1alpha1.Infra, kind, component string) (metav1.TypeMeta, metav1.ObjectMeta) {
	name := ChildName(infra.Name, component)
	labels := merged(selector(component, name, infra.Name), InfraIdentity(infra))
	labels[LabelName] = Name
	yes := true
	return metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind}, metav1.ObjectMeta{
		Name: name, Namespace: infra.Namespace, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "Infra", Name: infra.Name, UID: infra.UID,
			Controller: &yes, BlockOwnerDeletion: &yes,
		}},
	}
}
