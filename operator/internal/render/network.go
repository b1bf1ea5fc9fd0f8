package render

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// PolicyPeer is an Infra whose proxy may reach a control plane.
type PolicyPeer struct {
	Namespace, Infra string
}

// ControlPlanePolicy is the NetworkPolicy of a control-plane namespace (behaviour
// B11): in come the proxy pods of the peers, to the ports that the Services lead
// to. Policy acts after DNAT, so those are target ports, by number or by name.
func ControlPlanePolicy(namespace string, peers []PolicyPeer, services []v1alpha1.ObservedService) *networkingv1.NetworkPolicy {
	peers = slices.Clone(peers)
	slices.SortFunc(peers, func(a, b PolicyPeer) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Infra, b.Infra))
	})
	var from []networkingv1.NetworkPolicyPeer
	for _, p := range slices.Compact(peers) {
		from = append(from, networkingv1.NetworkPolicyPeer{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
				LabelNetworkPolicyGroup: NetworkPolicyGroupInternal, corev1.LabelMetadataName: p.Namespace,
			}},
			PodSelector: &metav1.LabelSelector{MatchLabels: ProxySelector(p.Infra)},
		})
	}
	policy := &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: PolicyName, Namespace: namespace, Labels: map[string]string{
			LabelName: Name, LabelManagedBy: ManagedBy, LabelComponent: ComponentControlPlane,
		}},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		},
	}
	// A rule without peers or ports would let everybody in.
	if ports := policyPorts(services); len(from) > 0 && len(ports) > 0 {
		policy.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: from, Ports: ports}}
	}
	return policy
}

func policyPorts(services []v1alpha1.ObservedService) []networkingv1.NetworkPolicyPort {
	var targets []string
	for _, s := range services {
		targets = append(targets, cmp.Or(s.TargetPort, strconv.Itoa(int(s.Port))))
	}
	slices.Sort(targets)
	tcp := corev1.ProtocolTCP
	var out []networkingv1.NetworkPolicyPort
	for _, t := range slices.Compact(targets) {
		port := intstr.Parse(t)
		out = append(out, networkingv1.NetworkPolicyPort{Protocol: &tcp, Port: &port})
	}
	return out
}

// The annotations that pin a MetalLB pool, the old and the new one.
var poolAnnotations = []string{"metallb.universe.tf/address-pool", "metallb.io/address-pool"}

// ExternalService is an attachment's LoadBalancer in the management cluster
// (behaviour F3): port 443 only, to the proxy's pod port of this attachment.
func ExternalService(attachment *v1alpha1.InfraClusterAttachment, port uint16) *corev1.Service {
	e := attachment.Spec.ExternalService
	infra := string(attachment.Spec.InfraRef.Name)
	annotations := merged(e.Annotations)
	for _, key := range poolAnnotations {
		if e.AddressPoolName != "" {
			annotations[key] = string(e.AddressPoolName)
		}
	}
	labels := merged(e.Labels, AttachmentIdentity(attachment), map[string]string{
		LabelName: Name, LabelComponent: ComponentExternal, LabelInfra: infra,
	})
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name: ExternalServiceName(attachment.Name), Namespace: attachment.Namespace, Labels: labels, Annotations: annotations,
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: ProxySelector(infra),
			Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(int32(port)), Protocol: corev1.ProtocolTCP}},
		},
	}
}
