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

// constraints makes DHCP's SecurityContextConstraints (--scc=minimal) each time that
// the cluster begins to have the kind.
type constraints struct {
	app     *App
	changed chan struct{}
}

func (a *App) constraints() constraints {
	c := constraints{a, make(chan struct{}, 1)}
	a.kinds.OnChange(func() {
		select {
		case c.changed <- struct{}{}:
		default: // it is about to look already
		}
	})
	return c
}

// Start makes them until the context ends.
func (c constraints) Start(ctx context.Context) error {
	if !c.app.options.OpenShift || c.app.kinds.Known(ctx) != nil {
		return nil
	}
	if !c.app.openShift() {
		c.app.options.Logger.Warn("--enable-openshift has no effect yet: the cluster has no SecurityContextConstraints")
	}
	made := false
	for {
		made = made && c.app.openShift()
		if !made {
			made = c.ensure(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
		case <-time.After(constraintsRetry):
		}
	}
}

// ensure makes them where they are wanted, and says whether it did.
func (c constraints) ensure(ctx context.Context) bool {
	if !c.app.openShift() || c.app.options.SCC != render.SCCMinimal {
		return false
	}
	err := EnsureDHCPConstraints(ctx, c.app.manager.GetClient())
	if err != nil {
		c.app.options.Logger.Error("making the SecurityContextConstraints of DHCP", "err", err)
	}
	return err == nil
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
