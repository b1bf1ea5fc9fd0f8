package apply

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/internal/render"
)

// whose says of an object that is not ours whose it is, as far as it shows: its
// controller, the object of ours that it was made for, who its labels say manages it,
// else who wrote it.
func whose(found client.Object) string {
	if ref := metav1.GetControllerOf(found); ref != nil {
		return "it belongs to " + ref.Kind + " " + ref.Name
	}
	labels := found.GetLabels()
	manager := labels[render.LabelManagedBy]
	if manager == render.ManagedBy {
		for _, l := range []string{render.LabelInstance, render.LabelAttachment, render.LabelInfra} {
			if labels[l] != "" {
				return "oooi made it for " + labels[render.LabelOwnerNamespace] + "/" + labels[l]
			}
		}
	}
	if manager != "" {
		return "it is managed by " + manager
	}
	if all := writers(found.GetManagedFields()); len(all) > 0 {
		return "it was written by " + strings.Join(all, ", ")
	}
	return "nothing in it says whose it is"
}

// writers of an object's fields, its status aside, sorted.
func writers(fields []metav1.ManagedFieldsEntry) []string {
	var out []string
	for _, f := range fields {
		if f.Subresource == "" && f.Manager != "" {
			out = append(out, f.Manager)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
