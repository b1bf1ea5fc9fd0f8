package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/outcome"
)

// conflictWait is how long an object that is on its way out is waited for.
const conflictWait = time.Second

// takenRetry is when to look again for a foreign object that has our name: it may lie
// where nothing is watched.
const takenRetry = 30 * time.Second

// prune deletes what carries the set's labels and is not in the set.
func (a *Applier) prune(ctx context.Context, set Set) error {
	keep := map[key]bool{}
	for _, o := range slices.Concat(set.Objects, set.Keep) {
		gvk, err := apiutil.GVKForObject(o, a.client.Scheme())
		if err != nil {
			return fmt.Errorf("finding the kind of %T: %w", o, err)
		}
		keep[key{kind: gvk, name: client.ObjectKeyFromObject(o)}] = true
	}
	var errs []error
	for _, scope := range set.Prune {
		found, err := a.list(ctx, set.Identity, scope)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, o := range found {
			if keep[key{kind: scope.Kind, name: client.ObjectKeyFromObject(o)}] {
				continue
			}
			errs = append(errs, a.remove(ctx, o))
		}
	}
	return errors.Join(errs...)
}

// Remove deletes every object of the scopes that carries the labels, and gives
// a Waiting while one of them is still there.
func (a *Applier) Remove(ctx context.Context, identity map[string]string, scopes ...Scope) error {
	if len(identity) == 0 {
		return errors.New("removing without labels")
	}
	var errs []error
	for _, scope := range scopes {
		found, err := a.list(ctx, identity, scope)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, o := range found {
			if err := a.remove(ctx, o); err != nil {
				errs = append(errs, err)
				continue
			}
			if len(o.GetFinalizers()) > 0 {
				errs = append(errs, outcome.Waiting{
					Reason: v1alpha1.ReasonReconciliationFailed, After: conflictWait,
					Message: fmt.Sprintf("%s %s is being deleted", scope.Kind.Kind, client.ObjectKeyFromObject(o)),
				})
			}
		}
	}
	return errors.Join(errs...)
}

func (a *Applier) list(ctx context.Context, identity map[string]string, scope Scope) ([]client.Object, error) {
	opts := []client.ListOption{client.MatchingLabels(identity)}
	if scope.Namespace != "" {
		opts = append(opts, client.InNamespace(scope.Namespace))
	}
	listKind := scope.Kind
	listKind.Kind += "List"
	list := client.ObjectList(&metav1.PartialObjectMetadataList{})
	if a.typed[scope.Kind] {
		o, err := a.client.Scheme().New(listKind)
		if err != nil {
			return nil, fmt.Errorf("making a %s: %w", listKind.Kind, err)
		}
		list = o.(client.ObjectList)
	} else {
		list.(*metav1.PartialObjectMetadataList).SetGroupVersionKind(listKind)
	}
	err := a.client.List(ctx, list, opts...)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil // the cluster does not serve the kind: nothing of it is there
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", scope.Kind.Kind, err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", scope.Kind.Kind, err)
	}
	out := make([]client.Object, 0, len(items))
	for _, item := range items {
		o := item.(client.Object)
		o.GetObjectKind().SetGroupVersionKind(scope.Kind)
		out = append(out, o)
	}
	return out, nil
}

// remove deletes exactly the object that was seen.
func (a *Applier) remove(ctx context.Context, o client.Object) error {
	gvk, err := apiutil.GVKForObject(o, a.client.Scheme())
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", o, err)
	}
	a.forget(key{kind: gvk, name: client.ObjectKeyFromObject(o)})
	if o.GetDeletionTimestamp() != nil {
		return nil
	}
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(gvk)
	m.SetNamespace(o.GetNamespace())
	m.SetName(o.GetName())
	uid := o.GetUID()
	err = a.client.Delete(ctx, m, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting %s %s: %w", gvk.Kind, client.ObjectKeyFromObject(o), err)
	}
	return nil
}
