package ingress

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/apps"
)

// recordInstalled records what OLM has made of our Subscriptions in place of what it
// made of them before.
func recordInstalled(ctx context.Context, c client.Client, applied, installed []v1alpha1.AppliedObject) ([]v1alpha1.AppliedObject, error) {
	for _, o := range installed {
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))
		if err := c.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, m); err != nil {
			if err = absent(err, fmt.Sprintf("reading %s %s/%s", o.Kind, o.Namespace, o.Name)); err != nil {
				return applied, err
			}
			continue
		}
		o.UID = string(m.UID)
		applied = record(slices.DeleteFunc(slices.Clone(applied), func(r v1alpha1.AppliedObject) bool {
			return r.Kind == o.Kind && r.Namespace == o.Namespace && r.Name != o.Name
		}), o)
	}
	return applied, nil
}

// unrecorded are those of them that the record does not name.
func unrecorded(applied []v1alpha1.AppliedObject, seen apps.Observed) []v1alpha1.AppliedObject {
	return slices.DeleteFunc(apps.Installed(seen), func(o v1alpha1.AppliedObject) bool {
		return slices.ContainsFunc(applied, func(r v1alpha1.AppliedObject) bool {
			return r.Kind == o.Kind && r.Namespace == o.Namespace && r.Name == o.Name
		})
	})
}
