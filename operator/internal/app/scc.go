package app

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/internal/apply"
	"github.com/densityops/oooi/operator/internal/render"
)

// +kubebuilder:rbac:groups=security.openshift.io,resources=securitycontextconstraints,verbs=create
// +kubebuilder:rbac:groups=security.openshift.io,resources=securitycontextconstraints,resourceNames=oooi-dhcpd,verbs=get;patch

// constraintsRetry is how soon the SecurityContextConstraints are tried again: a
// DHCP pod waits for them.
const constraintsRetry = 30 * time.Second

// constraints makes DHCP's SecurityContextConstraints at the start (--scc=minimal).
type constraints struct {
	options Options
	client  client.Client
}

// Start tries until it has succeeded once.
func (c constraints) Start(ctx context.Context) error {
	for c.options.OpenShift && c.options.SCC == render.SCCMinimal {
		err := EnsureDHCPConstraints(ctx, c.client)
		if err == nil {
			return nil
		}
		c.options.Logger.Error("making the SecurityContextConstraints of DHCP", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(constraintsRetry):
		}
	}
	return nil
}

// EnsureDHCPConstraints applies DHCP's SecurityContextConstraints (behaviour B2).
func EnsureDHCPConstraints(ctx context.Context, c client.Client) error {
	scc := render.DHCPConstraints()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(scc)
	if err != nil {
		return fmt.Errorf("encoding SecurityContextConstraints %s: %w", scc.Name, err)
	}
	// The nulls stay: the schema requires fields that may be null.
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	u := &unstructured.Unstructured{Object: content}
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), apply.Owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("applying SecurityContextConstraints %s: %w", scc.Name, err)
	}
	return nil
}
