package apply

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=patch

// Label sets one label on a namespace, and nothing else of it.
func (a *Applier) Label(ctx context.Context, ns *corev1.Namespace, label, value string) error {
	if ns.Labels[label] == value {
		return nil
	}
	return a.applyLabels(ctx, ns.Name, map[string]string{label: value})
}

// Unlabel gives up the label. It stays where somebody else has set it too.
func (a *Applier) Unlabel(ctx context.Context, name, label string) error {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := a.live.Get(ctx, client.ObjectKey{Name: name}, ns); err != nil {
		return client.IgnoreNotFound(err)
	}
	if ns.DeletionTimestamp != nil || ns.Labels[label] == "" || owned(ns) == owned(&metav1.PartialObjectMetadata{}) {
		return nil
	}
	return a.applyLabels(ctx, name, nil)
}

func (a *Applier) applyLabels(ctx context.Context, name string, labels map[string]string) error {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	u.SetName(name)
	if len(labels) > 0 {
		u.SetLabels(labels)
	}
	err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), Owner, client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labelling Namespace %s: %w", name, err)
	}
	return nil
}
