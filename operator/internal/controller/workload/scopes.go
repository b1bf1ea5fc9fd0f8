package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/densityops/oooi/operator/internal/apply"
)

// OwnScopes are the kinds that a child has in its own namespace.
func OwnScopes(namespace string) []apply.Scope {
	var out []apply.Scope
	for _, gvk := range []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("Deployment"),
		corev1.SchemeGroupVersion.WithKind("Service"),
		corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		rbacv1.SchemeGroupVersion.WithKind("Role"),
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
		coordinationv1.SchemeGroupVersion.WithKind("Lease"),
	} {
		out = append(out, apply.Scope{Kind: gvk, Namespace: namespace})
	}
	return out
}

// ForeignScopes are the kinds that a child may have anywhere.
func ForeignScopes() []apply.Scope {
	return []apply.Scope{
		{Kind: rbacv1.SchemeGroupVersion.WithKind("RoleBinding")},
		{Kind: rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding")},
	}
}
