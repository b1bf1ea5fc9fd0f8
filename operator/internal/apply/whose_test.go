package apply

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/internal/render"
)

// hazard 213: whose the object is that has our name, and the same words each time.
func TestWhoseAnObjectIs(t *testing.T) {
	t.Parallel()
	yes := true
	wrote := func(manager, subresource string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource}
	}
	for _, c := range []struct {
		name  string
		found metav1.ObjectMeta
		want  string
	}{
		{"a controller's", metav1.ObjectMeta{
			OwnerReferences: []metav1.OwnerReference{{Kind: "Database", Name: "vlan", Controller: &yes}},
			Labels:          map[string]string{render.LabelManagedBy: "Helm"},
		}, "it belongs to Database vlan"},
		{"another of our own", metav1.ObjectMeta{Labels: map[string]string{
			render.LabelManagedBy: render.ManagedBy, render.LabelInstance: "vlan-dns", render.LabelOwnerNamespace: "other",
		}}, "oooi made it for other/vlan-dns"},
		{"another Infra's", metav1.ObjectMeta{Labels: map[string]string{
			render.LabelManagedBy: render.ManagedBy, render.LabelInfra: "vlan", render.LabelOwnerNamespace: "other",
		}}, "oooi made it for other/vlan"},
		{"a tool's", metav1.ObjectMeta{Labels: map[string]string{render.LabelManagedBy: "Helm"}}, "it is managed by Helm"},
		{"a person's", metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
			wrote("kubectl-edit", ""), wrote("kubelet", "status"), wrote("kubectl-create", ""), wrote("kubectl-edit", ""),
		}}, "it was written by kubectl-create, kubectl-edit"},
		{"nobody's", metav1.ObjectMeta{}, "nothing in it says whose it is"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, whose(&corev1.ConfigMap{ObjectMeta: c.found}))
		})
	}
}
