package app

import (
	"strings"

	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/render"
)

// cacheOptions keep memory from growing with what the operator does not manage
// (behaviour B10): of the core kinds only objects with our label are cached,
// Services and Namespaces without what is never read, and no Secret at all. A
// read of a kind that nobody watches fails instead of starting an informer.
func cacheOptions() cache.Options {
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{render.LabelManagedBy: render.ManagedBy})}
	byObject := map[client.Object]cache.ByObject{}
	for _, o := range labelled() {
		byObject[o] = ours
	}
	return cache.Options{ByObject: byObject, DefaultTransform: strip, ReaderFailOnMissingInformer: true}
}

func labelled() []client.Object {
	return append(metadataKinds(), &appsv1.Deployment{}, &corev1.Pod{})
}

// metadataKinds are cached by their metadata alone.
func metadataKinds() []client.Object {
	return []client.Object{
		&corev1.ConfigMap{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRoleBinding{},
		&networkingv1.NetworkPolicy{}, &coordinationv1.Lease{},
	}
}

// strip drops what is never read. The managed fields of our own objects are:
// they tell whether somebody has changed a field of ours.
func strip(in any) (any, error) {
	if u, ok := in.(*unstructured.Unstructured); ok {
		return stripMachine(u), nil
	}
	o, ok := in.(client.Object)
	if !ok {
		return in, nil
	}
	if o.GetLabels()[render.LabelManagedBy] == render.ManagedBy {
		return in, nil
	}
	o.SetManagedFields(nil)
	switch o := in.(type) {
	case *metav1.PartialObjectMetadata:
		o.Annotations, o.Labels, o.OwnerReferences, o.Finalizers = nil, nil, nil, nil
	case *corev1.Service:
		o.Annotations = nil
	case *hyperv1.HostedControlPlane:
		// Whose it is stands in an annotation.
		o.Spec, o.Status = hyperv1.HostedControlPlaneSpec{}, hyperv1.HostedControlPlaneStatus{}
	case *hyperv1.NodePool:
		o.Spec = hyperv1.NodePoolSpec{ClusterName: o.Spec.ClusterName, Platform: hyperv1.NodePoolPlatform{Type: o.Spec.Platform.Type}}
		o.Status = hyperv1.NodePoolStatus{}
	}
	return in, nil
}

// stripMachine keeps what facts.MachineOf reads of a CAPI Machine: there are many,
// and as a tree of maps each costs kilobytes.
func stripMachine(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(u.GroupVersionKind())
	out.SetNamespace(u.GetNamespace())
	out.SetName(u.GetName())
	out.SetUID(u.GetUID())
	out.SetResourceVersion(u.GetResourceVersion())
	out.SetDeletionTimestamp(u.GetDeletionTimestamp())
	if pool, found := u.GetAnnotations()[facts.AnnotationNodePool]; found {
		out.SetAnnotations(map[string]string{facts.AnnotationNodePool: pool})
	}
	if vm, found, err := unstructured.NestedString(u.Object, "spec", "infrastructureRef", "name"); found && err == nil {
		_ = unstructured.SetNestedField(out.Object, vm, "spec", "infrastructureRef", "name")
	}
	list, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "addresses")
	entries, _ := list.([]any)
	var addresses []any
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		// Half of the entries are names; what is no text at all is nobody's address.
		if text, ok := entry["address"].(string); ok && strings.ContainsAny(text, ".:") {
			addresses = append(addresses, map[string]any{"address": text})
		}
	}
	if len(addresses) > 0 {
		_ = unstructured.SetNestedField(out.Object, addresses, "status", "addresses")
	}
	return out
}
