package status

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// The field owners of the operator's statuses.
const (
	// OwnerController writes what an object's own controller observes.
	OwnerController client.FieldOwner = "oooi-operator"
	// OwnerInfra writes the condition Programmed on attachments.
	OwnerInfra client.FieldOwner = "oooi-operator-infra"
)

// Writer writes the part of a status that one field owner has.
type Writer struct {
	client client.Client
	owner  client.FieldOwner
	// foreign top-level fields of the status are somebody else's.
	foreign []string
	// owns tells the writer's conditions from other writers' ones.
	owns func(conditionType string) bool
	// conditionsOnly leaves everything but conditions alone.
	conditionsOnly bool
}

// Everything writes the whole status but the named top-level fields and the
// conditions that others own.
func Everything(c client.Client, owner client.FieldOwner, foreignFields, foreignConditions []string) *Writer {
	return &Writer{
		client: c, owner: owner, foreign: foreignFields,
		owns: func(t string) bool { return !slices.Contains(foreignConditions, t) },
	}
}

// Conditions writes the named conditions and nothing else.
func Conditions(c client.Client, owner client.FieldOwner, types ...string) *Writer {
	return &Writer{
		client: c, owner: owner, conditionsOnly: true,
		owns: func(t string) bool { return slices.Contains(types, t) },
	}
}

// Patch writes the status of after if what this writer owns differs from before.
func (w *Writer) Patch(ctx context.Context, before, after client.Object) error {
	had, err := w.project(before)
	if err != nil {
		return err
	}
	want, err := w.project(after)
	if err != nil {
		return err
	}
	same, err := equal(had, want)
	if err != nil || same {
		return err
	}
	gvk, err := apiutil.GVKForObject(after, w.client.Scheme())
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", after, err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": want}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(after.GetNamespace())
	u.SetName(after.GetName())
	// The UID keeps the status of a deleted object off its namesake.
	u.SetUID(after.GetUID())
	err = w.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), w.owner, client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of %s %s: %w", gvk.Kind, client.ObjectKeyFromObject(after), err)
	}
	return nil
}

// project gives the part of the status that the writer owns.
func (w *Writer) project(o client.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("reading the status of %T: %w", o, err)
	}
	all, _, err := unstructured.NestedMap(content, "status")
	if err != nil {
		return nil, fmt.Errorf("reading the status of %T: %w", o, err)
	}
	conditions, _, err := unstructured.NestedSlice(all, "conditions")
	if err != nil {
		return nil, fmt.Errorf("reading the conditions of %T: %w", o, err)
	}
	out := map[string]any{}
	if !w.conditionsOnly {
		for k, v := range all {
			if !slices.Contains(w.foreign, k) {
				out[k] = v
			}
		}
	}
	delete(out, "conditions")
	if own := w.own(conditions); len(own) > 0 {
		out["conditions"] = own
	}
	return out, nil
}

// own keeps the writer's conditions, sorted, because the order in which they
// were first set says nothing.
func (w *Writer) own(conditions []any) []any {
	out := make([]any, 0, len(conditions))
	for _, c := range conditions {
		if w.owns(conditionType(c)) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b any) int {
		return bytes.Compare([]byte(conditionType(a)), []byte(conditionType(b)))
	})
	return out
}

func conditionType(c any) string {
	m, _ := c.(map[string]any)
	t, _ := m["type"].(string)
	return t
}

func equal(a, b map[string]any) (bool, error) {
	x, err := json.Marshal(a)
	if err != nil {
		return false, fmt.Errorf("encoding a status: %w", err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		return false, fmt.Errorf("encoding a status: %w", err)
	}
	return bytes.Equal(x, y), nil
}
