package attachment

import (
	"context"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/outcome"
)

// Apps brings *.apps of a hosted cluster to the VLAN, or takes it away.
type Apps interface {
	// Ensure gives the status to record; the error says what is missing.
	Ensure(ctx context.Context, a *v1alpha1.InfraClusterAttachment, f facts.Attachment) (*v1alpha1.AppsIngressStatus, error)
	// Remove takes everything back; the error says what is still there.
	Remove(ctx context.Context, a *v1alpha1.InfraClusterAttachment) error
}

// apps is the step of *.apps. It is not run for a cluster that the attachment
// may not attach: nothing is written for it.
func (c *Controller) apps(ctx context.Context, p *pass) stepResult {
	a := p.attachment
	if !a.Spec.AppsIngress.Enabled {
		if a.Status.AppsIngressStatus == nil {
			return stepResult{}
		}
		err := c.Apps.Remove(ctx, a)
		if err == nil {
			a.Status.AppsIngressStatus = nil
		}
		return stepResult{err: err}
	}
	if !p.facts.Admitted {
		return stepResult{enabled: true, err: outcome.Waiting{
			Reason: v1alpha1.ReasonWaitingForInfra, Message: "the attachment is not admitted",
		}}
	}
	st, err := c.Apps.Ensure(ctx, a, p.facts)
	a.Status.AppsIngressStatus = st
	return stepResult{enabled: true, err: err}
}
