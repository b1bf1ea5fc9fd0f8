package render_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/render"
)

// behaviour B11; hazards 28, 29.
func TestControlPlanePolicy(t *testing.T) {
	t.Parallel()
	services := []v1alpha1.ObservedService{
		{Role: v1alpha1.ServiceRoleAPIServer, Port: 6443, TargetPort: "client"},
		{Role: v1alpha1.ServiceRoleOAuth, Port: 6443, TargetPort: "6443"},
		{Role: v1alpha1.ServiceRoleKonnectivity, Port: 8091},
	}
	p := render.ControlPlanePolicy("clusters-a", []render.PolicyPeer{{Namespace: "clusters", Infra: "infra"}, {Namespace: "clusters", Infra: "infra"}}, services)
	require.Equal(t, "allow-infrastructure", p.Name)
	require.Equal(t, metav1.LabelSelector{}, p.Spec.PodSelector, "all pods")
	require.Equal(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, p.Spec.PolicyTypes)
	require.Len(t, p.Spec.Ingress, 1)
	rule := p.Spec.Ingress[0]
	require.Equal(t, []networkingv1.NetworkPolicyPeer{{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
			"hostedcluster.densityops.com/network-policy-group": "infrastructure", "kubernetes.io/metadata.name": "clusters",
		}},
		PodSelector: &metav1.LabelSelector{MatchLabels: render.ProxySelector("infra")},
	}}, rule.From)
	var ports []intstr.IntOrString
	for _, port := range rule.Ports {
		ports = append(ports, *port.Port)
	}
	require.Equal(t, []intstr.IntOrString{intstr.FromInt32(6443), intstr.FromInt32(8091), intstr.FromString("client")}, ports)
	both := render.ControlPlanePolicy("clusters-a", []render.PolicyPeer{{Namespace: "clusters", Infra: "other"}, {Namespace: "a", Infra: "infra"}, {Namespace: "clusters", Infra: "infra"}}, services).Spec.Ingress
	require.Len(t, both, 1)
	var from []string
	for _, peer := range both[0].From {
		require.NotNil(t, peer.PodSelector, "all pods of a namespace are too many")
		from = append(from, peer.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"]+"/"+peer.PodSelector.MatchLabels[render.LabelInfra])
	}
	require.Equal(t, []string{"a/infra", "clusters/infra", "clusters/other"}, from, "each proxy is let in, in an order that does not depend on who asks")
	require.Empty(t, render.ControlPlanePolicy("x", nil, services).Spec.Ingress, "without a peer nobody is let in")
	require.Empty(t, render.ControlPlanePolicy("x", []render.PolicyPeer{{Namespace: "a", Infra: "b"}}, nil).Spec.Ingress, "without a port nobody is let in")
}

// behaviour F3.
func TestExternalService(t *testing.T) {
	t.Parallel()
	a := &v1alpha1.InfraClusterAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "example-hcp-a"}}
	a.Spec.InfraRef.Name = "infra"
	a.Spec.ExternalService = v1alpha1.ExternalService{
		Enabled: true, AddressPoolName: "oauth", Labels: map[string]string{"publish": "yes", render.LabelManagedBy: "me"},
		Annotations: map[string]string{"external-dns.alpha.kubernetes.io/hostname": "oauth.example.com.", "metallb.io/address-pool": "theirs"},
	}
	s := render.ExternalService(a, 20007)
	require.Equal(t, "example-hcp-a-proxy-external", s.Name)
	require.Equal(t, corev1.ServiceTypeLoadBalancer, s.Spec.Type)
	require.Equal(t, []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(20007), Protocol: corev1.ProtocolTCP}}, s.Spec.Ports)
	require.Equal(t, render.ProxySelector("infra"), s.Spec.Selector)
	require.Equal(t, "yes", s.Labels["publish"])
	require.Equal(t, render.ManagedBy, s.Labels[render.LabelManagedBy], "ours are ours")
	require.Equal(t, map[string]string{
		"external-dns.alpha.kubernetes.io/hostname": "oauth.example.com.", "metallb.universe.tf/address-pool": "oauth", "metallb.io/address-pool": "oauth",
	}, s.Annotations)
}
