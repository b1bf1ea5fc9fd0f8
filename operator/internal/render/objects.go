package render

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// configMap holds the snapshot, gzipped, and the hub's CA. A change of it rolls
// no pod: agents watch the file.
func (w *workload) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: w.meta(w.name),
		Data:       map[string]string{"ca.crt": string(w.o.HubCA)},
		BinaryData: map[string][]byte{"snapshot.json.gz": w.o.Snapshot},
	}
}

func (w *workload) serviceAccount() *corev1.ServiceAccount {
	no := false
	return &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: w.meta(w.name), AutomountServiceAccountToken: &no,
	}
}

// role lets the agent read its own resource and write its status (behaviour B12).
func (w *workload) role(resource string, more ...rbacv1.PolicyRule) []Object {
	rules := append([]rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{resource}, ResourceNames: []string{w.child.GetName()}, Verbs: []string{"get"}},
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{resource + "/status"}, ResourceNames: []string{w.child.GetName()}, Verbs: []string{"patch"}},
	}, more...)
	return []Object{
		&rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
			ObjectMeta: w.meta(w.name), Rules: rules,
		},
		w.binding(w.child.GetNamespace(), w.name, "Role", w.name),
	}
}

// binding of a role to the workload's ServiceAccount, in any namespace.
func (w *workload) binding(namespace, name, kind, role string) *rbacv1.RoleBinding {
	meta := w.meta(name)
	meta.Namespace = namespace
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role}, Subjects: w.subjects(),
	}
}

func (w *workload) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: w.name, Namespace: w.child.GetNamespace()}}
}

// scc is the RoleBinding that OpenShift needs (behaviour B2). With --scc=minimal
// DNS and the proxy run under restricted-v2, which needs none.
func (w *workload) scc() []Object {
	if !w.o.OpenShift {
		return nil
	}
	role := "system:openshift:scc:privileged"
	switch {
	case w.o.SCC == SCCMinimal && w.component == ComponentDHCP:
		role = SCCName
	case w.o.SCC == SCCMinimal:
		return nil
	case w.component == ComponentDNS:
		role = "system:openshift:scc:anyuid"
	}
	return []Object{w.binding(w.child.GetNamespace(), w.name+"-scc", "ClusterRole", role)}
}

// service in front of the pod.
func (w *workload) service(headless bool, ports ...corev1.ServicePort) *corev1.Service {
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: w.meta(w.name),
		Spec:       corev1.ServiceSpec{Selector: w.selector(), Ports: ports},
	}
	if headless {
		s.Spec.ClusterIP = corev1.ClusterIPNone
	}
	return s
}

func servicePort(name string, port int32, protocol corev1.Protocol) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: port, TargetPort: intstr.FromInt32(port), Protocol: protocol}
}
