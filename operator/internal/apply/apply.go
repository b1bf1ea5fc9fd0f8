package apply

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/outcome"
)

// Owner is the operator's field owner.
const Owner client.FieldOwner = "oooi-operator"

// Set is what one object wants to exist.
type Set struct {
	// Owner is the controller of every object in its own namespace; objects
	// elsewhere are tied to it by the labels alone.
	Owner client.Object
	// Identity are the labels that every object of the set carries, and no
	// object of another set does.
	Identity map[string]string
	Objects  []client.Object
	// Together: the objects do not need each other, and none waits for another.
	Together bool
	// Keep are objects that are neither applied nor pruned now.
	Keep []client.Object
	// Prune lists what of an earlier set may be left.
	Prune []Scope
}

// Scope is a kind in a namespace; no namespace is everywhere.
type Scope struct {
	Kind      schema.GroupVersionKind
	Namespace string
}

// Applier applies sets.
type Applier struct {
	client client.Client
	live   client.Reader
	// typed kinds are cached as whole objects; of all others the cache holds
	// the metadata only.
	typed map[schema.GroupVersionKind]bool

	mu   sync.Mutex
	memo map[key]record // guarded by mu
}

type key struct {
	kind schema.GroupVersionKind
	name types.NamespacedName
}

// record is what is known of an object that was applied.
type record struct {
	desired  [sha256.Size]byte
	fields   [sha256.Size]byte
	uid      types.UID
	revision string
}

// New makes an Applier. c reads from the cache and writes; live reads from the
// API server, and is asked only before an object is made.
func New(c client.Client, live client.Reader, typed ...schema.GroupVersionKind) *Applier {
	a := &Applier{client: c, live: live, typed: map[schema.GroupVersionKind]bool{}, memo: map[key]record{}}
	for _, gvk := range typed {
		a.typed[gvk] = true
	}
	return a
}

// Set makes the world agree with the set. One object's fault does not stop the
// others; nothing is pruned unless all could be applied.
func (a *Applier) Set(ctx context.Context, set Set) error {
	errs := make([]error, len(set.Objects))
	var group errgroup.Group
	group.SetLimit(1)
	if set.Together {
		group.SetLimit(atOnce)
	}
	for i, o := range set.Objects {
		group.Go(func() error {
			errs[i] = a.one(ctx, set, o)
			return nil
		})
	}
	_ = group.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return a.prune(ctx, set)
}

// atOnce bounds the objects of one set that are applied at once.
const atOnce = 4

func (a *Applier) one(ctx context.Context, set Set, o client.Object) error {
	u, err := a.desired(set, o)
	if err != nil {
		return err
	}
	k := key{kind: u.GroupVersionKind(), name: client.ObjectKeyFromObject(u)}
	hash, err := digest(u.Object)
	if err != nil {
		return fmt.Errorf("encoding %s %s: %w", k.kind.Kind, k.name, err)
	}
	found, err := a.find(ctx, k)
	if err != nil {
		return err
	}
	if found != nil {
		if err := a.mine(ctx, set, k, found); err != nil {
			return err
		}
		if a.unchanged(k, hash, found) {
			return nil
		}
	}
	if err := a.write(ctx, u, found != nil); err != nil {
		a.forget(k)
		return outcome.Failed{
			Reason: v1alpha1.ReasonReconciliationFailed, Message: "applying " + k.kind.Kind + " " + k.name.String(), Err: err,
		}
	}
	a.remember(k, hash, u)
	return nil
}

// write applies u, which is then the object as it is. A Deployment that somebody
// gave another strategy needs one step more: the strategy's own settings are
// theirs, so to apply Recreate leaves them there, and beside them it is invalid.
func (a *Applier) write(ctx context.Context, u *unstructured.Unstructured, exists bool) error {
	strategy, _, _ := unstructured.NestedString(u.Object, "spec", "strategy", "type")
	if !exists || u.GetKind() != "Deployment" || strategy != "Recreate" {
		return a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), Owner, client.ForceOwnership)
	}
	desired := u.DeepCopy()
	err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), Owner, client.ForceOwnership)
	if !apierrors.IsInvalid(err) {
		return err
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`))
	if err := a.client.Patch(ctx, desired.DeepCopy(), patch, Owner); err != nil {
		return err
	}
	u.Object = desired.Object
	return a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), Owner, client.ForceOwnership)
}

// desired strips o to what we want to own.
func (a *Applier) desired(set Set, o client.Object) (*unstructured.Unstructured, error) {
	gvk, err := apiutil.GVKForObject(o, a.client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", o, err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s: %w", gvk.Kind, client.ObjectKeyFromObject(o), err)
	}
	u := &unstructured.Unstructured{Object: withoutNulls(content)}
	u.SetGroupVersionKind(gvk)
	delete(u.Object, "status")
	for _, field := range []string{"creationTimestamp", "resourceVersion", "uid", "generation", "managedFields", "ownerReferences"} {
		unstructured.RemoveNestedField(u.Object, "metadata", field)
	}
	if !carries(u.GetLabels(), set.Identity) || len(set.Identity) == 0 {
		return nil, fmt.Errorf("%s %s lacks the labels of its set", gvk.Kind, client.ObjectKeyFromObject(o))
	}
	if set.Owner != nil && set.Owner.GetNamespace() != "" && set.Owner.GetNamespace() == u.GetNamespace() {
		if err := controllerutil.SetControllerReference(set.Owner, u, a.client.Scheme()); err != nil {
			return nil, fmt.Errorf("owning %s %s: %w", gvk.Kind, client.ObjectKeyFromObject(o), err)
		}
	}
	return u, nil
}

// find asks the cache, and before an object is made the API server: the cache
// sees only objects with our labels. What it gives is the cache's own: caller must
// not change it.
func (a *Applier) find(ctx context.Context, k key) (client.Object, error) {
	o, err := a.empty(k.kind)
	if err != nil {
		return nil, err
	}
	err = a.client.Get(ctx, k.name, o, client.UnsafeDisableDeepCopy)
	if err == nil {
		return o, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading %s %s: %w", k.kind.Kind, k.name, err)
	}
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(k.kind)
	err = a.live.Get(ctx, k.name, m)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", k.kind.Kind, k.name, err)
	}
	return m, nil
}

func (a *Applier) empty(gvk schema.GroupVersionKind) (client.Object, error) {
	if !a.typed[gvk] {
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(gvk)
		return m, nil
	}
	o, err := a.client.Scheme().New(gvk)
	if err != nil {
		return nil, fmt.Errorf("making a %s: %w", gvk.Kind, err)
	}
	return o.(client.Object), nil
}

// mine refuses an object that somebody else made, and clears away what an
// earlier owner of our own name has left.
func (a *Applier) mine(ctx context.Context, set Set, k key, found client.Object) error {
	ref := metav1.GetControllerOf(found)
	ours := ref != nil && set.Owner != nil && ref.UID == set.Owner.GetUID() && found.GetNamespace() == set.Owner.GetNamespace()
	// One of ours that somebody has taken the labels off gets them back.
	if !ours && !carries(found.GetLabels(), set.Identity) {
		return outcome.Invalid{
			Reason: v1alpha1.ReasonNameTaken, After: takenRetry,
			Message: fmt.Sprintf("%s %s exists and was not made by oooi for this object (%s); rename or remove it", k.kind.Kind, k.name, whose(found)),
		}
	}
	if found.GetDeletionTimestamp() != nil {
		a.forget(k)
		return outcome.Waiting{
			Reason: v1alpha1.ReasonReconciliationFailed, After: conflictWait,
			Message: fmt.Sprintf("%s %s is being deleted", k.kind.Kind, k.name),
		}
	}
	if set.Owner == nil || ref == nil || ours || found.GetNamespace() != set.Owner.GetNamespace() {
		return nil
	}
	if err := a.remove(ctx, found); err != nil {
		return err
	}
	return outcome.Waiting{
		Reason: v1alpha1.ReasonReconciliationFailed, After: conflictWait,
		Message: fmt.Sprintf("%s %s belongs to a deleted owner and is removed first", k.kind.Kind, k.name),
	}
}

// unchanged holds where the same desired state was applied before and nobody
// has touched a field of ours since: who changes one takes it out of our entry
// of the managed fields.
func (a *Applier) unchanged(k key, desired [sha256.Size]byte, found client.Object) bool {
	a.mu.Lock()
	r, ok := a.memo[k]
	a.mu.Unlock()
	if !ok || r.desired != desired || r.uid != found.GetUID() {
		return false
	}
	return older(found.GetResourceVersion(), r.revision) || r.fields == owned(found)
}

// remember records what was applied. Who is late with its own write has had another
// one's follow it: that is what the object is like.
func (a *Applier) remember(k key, desired [sha256.Size]byte, applied client.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last, found := a.memo[k]; found && last.uid == applied.GetUID() && older(applied.GetResourceVersion(), last.revision) {
		return
	}
	a.memo[k] = record{desired: desired, fields: owned(applied), uid: applied.GetUID(), revision: applied.GetResourceVersion()}
}

func (a *Applier) forget(k key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.memo, k)
}

// older tells that the cache has not yet seen our own write.
func older(have, want string) bool {
	h, errH := strconv.ParseUint(have, 10, 64)
	w, errW := strconv.ParseUint(want, 10, 64)
	return errH == nil && errW == nil && h < w
}

// owned is the digest of our entry in the managed fields.
func owned(o client.Object) [sha256.Size]byte {
	for _, f := range o.GetManagedFields() {
		if f.Manager == string(Owner) && f.Operation == metav1.ManagedFieldsOperationApply && f.Subresource == "" && f.FieldsV1 != nil {
			return sha256.Sum256(f.FieldsV1.GetRawBytes())
		}
	}
	return [sha256.Size]byte{}
}

func digest(content map[string]any) ([sha256.Size]byte, error) {
	b, err := json.Marshal(content)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	return sha256.Sum256(b), nil
}

func carries(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// withoutNulls drops null members: to apply one means to own its absence.
func withoutNulls(m map[string]any) map[string]any {
	for k, v := range m {
		switch v := v.(type) {
		case nil:
			delete(m, k)
		case map[string]any:
			withoutNulls(v)
		case []any:
			for _, item := range v {
				if item, ok := item.(map[string]any); ok {
					withoutNulls(item)
				}
			}
		}
	}
	return m
}
