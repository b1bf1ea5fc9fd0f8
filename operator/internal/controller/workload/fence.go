package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/internal/render"
)

// FenceMode is a value of --fence.
type FenceMode string

// The fence modes. Auto puts the fence into the pod where the namespace and the
// SCC admit it: Pod Security below "privileged" refuses NET_ADMIN.
const (
	FenceAuto FenceMode = "auto"
	FenceOn   FenceMode = "on"
	FenceOff  FenceMode = "off"
)

const enforceLabel = "pod-security.kubernetes.io/enforce"

func (c *Controller[T]) fence(ctx context.Context, child T, o render.Options) (bool, error) {
	switch c.Fence {
	case FenceOn:
		return true, nil
	case FenceOff:
		return false, nil
	}
	if !c.Kind.Fence(o) {
		return false, nil
	}
	ns := &corev1.Namespace{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: child.GetNamespace()}, ns); err != nil {
		return false, fmt.Errorf("reading Namespace %s: %w", child.GetNamespace(), err)
	}
	level, set := ns.Labels[enforceLabel]
	return !set || level == "privileged", nil
}
