package attachment

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/apply"
	"github.com/densityops/oooi/operator/internal/outcome"
	"github.com/densityops/oooi/operator/internal/render"
)

var serviceKind = corev1.SchemeGroupVersion.WithKind("Service")

// external makes the attachment's LoadBalancer in the management cluster, or
// takes it away (behaviour F3). The proxy's listener comes first: a Service
// without one would answer with resets.
func (c *Controller) external(ctx context.Context, p *pass) stepResult {
	a := p.attachment
	set := apply.Set{
		Owner: a, Identity: render.AttachmentIdentity(a),
		Prune: []apply.Scope{{Kind: serviceKind, Namespace: a.Namespace}},
	}
	if !a.Spec.ExternalService.Enabled {
		return stepResult{err: c.Applier.Set(ctx, set)}
	}
	port := listenerPort(p)
	if port == 0 {
		if !p.facts.Admitted {
			// Never admitted, or no longer: nothing may lead to the cluster.
			if err := c.Applier.Set(ctx, set); err != nil {
				return stepResult{enabled: true, err: err}
			}
		}
		return stepResult{enabled: true, err: outcome.Waiting{
			Reason: v1alpha1.ReasonWaitingForInfra, Message: "the proxy has no listener for the external Service yet",
		}}
	}
	set.Objects = []client.Object{render.ExternalService(a, port)}
	return stepResult{enabled: true, err: c.Applier.Set(ctx, set)}
}

// listenerPort is the pod port that the proxy holds for the attachment.
func listenerPort(p *pass) uint16 {
	proxy := render.ChildName(string(p.attachment.Spec.InfraRef.Name), render.ComponentProxy)
	for _, s := range p.world.ProxyServers {
		if s.Name != proxy || s.Namespace != p.attachment.Namespace {
			continue
		}
		for _, l := range s.Spec.ExternalListeners {
			if string(l.Name) == p.attachment.Name {
				return uint16(l.Port)
			}
		}
	}
	return 0
}
