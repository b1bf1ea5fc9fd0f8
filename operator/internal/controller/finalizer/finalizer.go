// Package finalizer sets and takes finalizers, each by a patch of its own that
// loses against any other change of the object.
//
// It refuses to touch anything but metadata.finalizers. Invariant: what the
// caller has written into the object in memory stays there.
package finalizer

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Set makes the object have the finalizer, or not have it. An object that is
// gone has none, and cannot be given one.
func Set(ctx context.Context, c client.Writer, o client.Object, name string, present bool) error {
	if controllerutil.ContainsFinalizer(o, name) == present {
		return nil
	}
	before := o.DeepCopyObject().(client.Object)
	if present {
		controllerutil.AddFinalizer(o, name)
	} else {
		controllerutil.RemoveFinalizer(o, name)
	}
	// The API server answers with the whole object; the caller's status is its own.
	patched := o.DeepCopyObject().(client.Object)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := c.Patch(ctx, patched, patch)
	if apierrors.IsNotFound(err) && !present {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing the finalizer %s: %w", name, err)
	}
	o.SetResourceVersion(patched.GetResourceVersion())
	return nil
}
