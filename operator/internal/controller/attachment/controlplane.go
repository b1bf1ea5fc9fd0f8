package attachment

import (
	"context"
	"errors"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/facts"
)

// controlPlane lets the proxy of the attachment's Infra into the control plane
// (behaviour B11), and no longer into one that the attachment has left.
func (c *Controller) controlPlane(ctx context.Context, p *pass) error {
	if p.world.Unreadable[facts.KindHostedCluster] || p.world.Unreadable[facts.KindHostedControlPlane] {
		// Nobody can say now whose control plane it is: what is there stays, and
		// nothing is made on the word of a status alone.
		return nil
	}
	var errs []error
	now := p.attachment.DeepCopy()
	ns := p.facts.ControlPlaneNamespace
	now.Status.Observed, now.Status.ControlPlaneNamespace = p.facts.Observed, v1alpha1.NamespaceName(ns)
	if left := string(p.attachment.Status.ControlPlaneNamespace); left != "" && left != ns {
		errs = append(errs, c.Policies.Settle(ctx, left, nil))
	}
	if p.facts.Admitted || p.attachment.Status.Observed.HostedClusterUID != "" {
		errs = append(errs, c.Policies.Settle(ctx, ns, now))
	}
	return errors.Join(errs...)
}

// leaveControlPlane takes back what the attachment needed there.
func (c *Controller) leaveControlPlane(ctx context.Context, a *v1alpha1.InfraClusterAttachment) error {
	namespaces := map[string]bool{facts.ControlPlaneOf(a): true}
	if ns := string(a.Status.ControlPlaneNamespace); ns != "" {
		namespaces[ns] = true
	}
	var errs []error
	for ns := range namespaces {
		errs = append(errs, c.Policies.Settle(ctx, ns, nil))
	}
	return errors.Join(errs...)
}
