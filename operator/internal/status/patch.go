package status

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
	// memory of what was written; nil: none.
	memory *Memory
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
	needed, err := w.needed(before, had, want)
	if err != nil || !needed {
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
	if err == nil {
		err = w.expel(ctx, u, want)
	}
	if client.IgnoreNotFound(err) != nil {
		w.memory.put(after.GetUID(), line{unsure: true})
		return fmt.Errorf("writing the status of %s %s: %w", gvk.Kind, client.ObjectKeyFromObject(after), err)
	}
	said, err := timeless(want)
	w.memory.put(after.GetUID(), line{revision: u.GetResourceVersion(), part: want, said: said})
	return err
}

// expel removes what somebody else has written into the writer's part: to apply a
// status without a field leaves that field to who owns it. u is the object as the
// API server has it by now.
func (w *Writer) expel(ctx context.Context, u *unstructured.Unstructured, want map[string]any) error {
	have, _, err := unstructured.NestedMap(u.Object, "status")
	if err != nil || have == nil {
		return err
	}
	own, err := w.part(have)
	if err != nil {
		return err
	}
	if same, err := equal(own, want); err != nil || same {
		return err
	}
	patch, err := mergePatch(have, w.clean(have, want))
	if err != nil {
		return err
	}
	// Whoever changes the object meanwhile wins; the next pass comes soon.
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": u.GetResourceVersion()}, "status": patch})
	if err != nil {
		return fmt.Errorf("encoding a status: %w", err)
	}
	patched := u.DeepCopy()
	if err := w.client.Status().Patch(ctx, patched, client.RawPatch(types.MergePatchType, body), w.owner); err != nil {
		return err
	}
	u.SetResourceVersion(patched.GetResourceVersion())
	return nil
}

// clean is the status that has what others own, and want.
func (w *Writer) clean(have, want map[string]any) map[string]any {
	out := maps.Clone(want)
	for k, v := range have {
		if w.conditionsOnly || slices.Contains(w.foreign, k) {
			out[k] = v
		}
	}
	all, _ := have["conditions"].([]any)
	mine, _ := want["conditions"].([]any)
	out["conditions"] = append(slices.DeleteFunc(slices.Clone(all), func(c any) bool { return w.owns(conditionType(c)) }), mine...)
	return out
}

func mergePatch(from, to map[string]any) (json.RawMessage, error) {
	x, err := json.Marshal(from)
	if err != nil {
		return nil, fmt.Errorf("encoding a status: %w", err)
	}
	y, err := json.Marshal(to)
	if err != nil {
		return nil, fmt.Errorf("encoding a status: %w", err)
	}
	patch, err := jsonpatch.CreateMergePatch(x, y)
	if err != nil {
		return nil, fmt.Errorf("comparing statuses: %w", err)
	}
	return patch, nil
}

// project gives the part of an object's status that the writer owns.
func (w *Writer) project(o client.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("reading the status of %T: %w", o, err)
	}
	all, _, err := unstructured.NestedMap(content, "status")
	if err != nil {
		return nil, fmt.Errorf("reading the status of %T: %w", o, err)
	}
	return w.part(all)
}

// part gives the part of a status that the writer owns.
func (w *Writer) part(all map[string]any) (map[string]any, error) {
	conditions, _, err := unstructured.NestedSlice(all, "conditions")
	if err != nil {
		return nil, fmt.Errorf("reading the conditions of a status: %w", err)
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
			out = append(out, bounded(c))
		}
	}
	slices.SortFunc(out, func(a, b any) int {
		return bytes.Compare([]byte(conditionType(a)), []byte(conditionType(b)))
	})
	return out
}

// bounded keeps a condition's message within what metav1.Condition allows. Other
// people's objects are told of in them, and a status that is refused is told to nobody.
func bounded(c any) any {
	const most = 32768
	m, _ := c.(map[string]any)
	message, _ := m["message"].(string)
	if len(message) <= most {
		return c
	}
	m = maps.Clone(m)
	m["message"] = strings.ToValidUTF8(message[:most-4], "") + " ..."
	return m
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
