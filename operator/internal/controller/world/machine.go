package world

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/plan"
)

// nodePoolAnnotation is what HyperShift writes on a Machine.
const nodePoolAnnotation = "hypershift.openshift.io/nodePool"

// machineFrom reads a CAPI Machine of any version: the paths are the same.
func machineFrom(u *unstructured.Unstructured) facts.Machine {
	m := facts.Machine{
		Key:      plan.Key{Namespace: u.GetNamespace(), Name: u.GetName()},
		Deleting: u.GetDeletionTimestamp() != nil,
	}
	if ns, name, ok := strings.Cut(u.GetAnnotations()[nodePoolAnnotation], "/"); ok {
		m.NodePool = plan.Key{Namespace: ns, Name: name}
	}
	m.VM, _, _ = unstructured.NestedString(u.Object, "spec", "infrastructureRef", "name")
	addresses, _, _ := unstructured.NestedSlice(u.Object, "status", "addresses")
	for _, a := range addresses {
		entry, _ := a.(map[string]any)
		if text, ok := entry["address"].(string); ok {
			m.Addresses = append(m.Addresses, text)
		}
	}
	return m
}
