package render

import (
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/images"
)

// DHCP is the workload of a DHCPServer.
func DHCP(child *v1alpha1.DHCPServer, o Options) []Object {
	n := child.Spec.NetworkConfig
	w := newWorkload(child, o, child.Spec.PodConfig, vlan{
		string(n.NetworkAttachmentName), string(n.NetworkAttachmentNamespace), n.ServerIP, n.CIDR,
	})
	spec := w.podSpec(10)
	c := corev1.Container{
		Name: "dhcpd", Image: images.Choose(child.Spec.Image, o.Images.DHCPD), ImagePullPolicy: corev1.PullIfNotPresent,
		Args: []string{"serve"}, Env: w.environment(portDHCP),
		Ports: []corev1.ContainerPort{{Name: "health", ContainerPort: portDHCP, Protocol: corev1.ProtocolTCP}},
		// Raw frames to clients without an address (behaviour C8).
		SecurityContext: w.restricted("NET_RAW"), Resources: w.serving(resources("50m", "64Mi", "", "256Mi")), VolumeMounts: mounts(),
	}
	probes(&c, "/live", "health", "/ready", "health")
	spec.Containers = []corev1.Container{c}

	out := []Object{w.serviceAccount()}
	out = append(out, w.role("dhcpservers", rbacv1.PolicyRule{
		APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, ResourceNames: []string{w.name}, Verbs: []string{"get", "update"},
	})...)
	out = append(out, w.vmiReaders(child)...)
	out = append(out, w.scc()...)
	return append(out, w.lease(), w.configMap(), w.service(true, servicePort("metrics", portDHCP, corev1.ProtocolTCP)), w.deployment(spec))
}

// lease that makes one pod the allocator (behaviour C6); who holds it is dhcpd's.
func (w *workload) lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
		ObjectMeta: w.meta(w.name),
	}
}

// vmiReaders let dhcpd read virtual machines where it looks them up, in the
// whole cluster only for "*" (behaviour B12).
func (w *workload) vmiReaders(child *v1alpha1.DHCPServer) []Object {
	namespaces := slices.Clone(child.Spec.VMINamespaces)
	if len(namespaces) == 0 {
		namespaces = []string{child.Namespace}
	}
	name := foreignName(child.Namespace, w.name)
	if slices.Contains(namespaces, "*") {
		meta := w.meta(name)
		meta.Namespace = ""
		return []Object{&rbacv1.ClusterRoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: VMIReader}, Subjects: w.subjects(),
		}}
	}
	slices.Sort(namespaces)
	var out []Object
	for _, namespace := range slices.Compact(namespaces) {
		out = append(out, w.binding(namespace, name, "ClusterRole", VMIReader))
	}
	return out
}
