package attachment

import (
	"context"
	"errors"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/apply"
	"github.com/densityops/oooi/operator/internal/controller/world"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/render"
)

// policyIdentity are the labels of the policies that the operator makes. The
// policy is its namespace's: several attachments may need it.
var policyIdentity = map[string]string{
	render.LabelManagedBy: render.ManagedBy, render.LabelComponent: render.ComponentControlPlane,
}

var policyKind = networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy")

// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete

// controlPlane lets the proxy of the attachment's Infra into the control plane
// (behaviour B11), and no longer into one that the attachment has left.
func (c *Controller) controlPlane(ctx context.Context, p *pass) error {
	var errs []error
	ns := p.facts.ControlPlaneNamespace
	if left := string(p.attachment.Status.ControlPlaneNamespace); left != "" && left != ns {
		errs = append(errs, c.settle(ctx, left, nil))
	}
	if p.facts.Admitted {
		errs = append(errs, c.settle(ctx, ns, p))
	} else if p.attachment.Status.Observed.HostedClusterUID != "" {
		errs = append(errs, c.settle(ctx, ns, &pass{attachment: p.attachment}))
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
		errs = append(errs, c.settle(ctx, ns, &pass{attachment: a}))
	}
	return errors.Join(errs...)
}

// settle makes the policy of a control-plane namespace what the attachments
// that are admitted to it need together; without one it goes. p is the
// attachment's own pass, whose facts are newer than the cache.
func (c *Controller) settle(ctx context.Context, ns string, p *pass) error {
	attachments, err := world.AttachmentsBy(ctx, c.Client, world.IndexControlPlane, ns)
	if err != nil {
		return err
	}
	var peers []render.PolicyPeer
	var services []v1alpha1.ObservedService
	add := func(a *v1alpha1.InfraClusterAttachment, observed v1alpha1.ObservedFacts) {
		if observed.HostedClusterUID != "" {
			peers = append(peers, render.PolicyPeer{Namespace: a.Namespace, Infra: string(a.Spec.InfraRef.Name)})
			services = append(services, observed.Services...)
		}
	}
	for i := range attachments {
		a := &attachments[i]
		own := p != nil && a.UID == p.attachment.UID
		if !own && a.DeletionTimestamp == nil {
			add(a, a.Status.Observed)
		}
	}
	if p != nil {
		add(p.attachment, p.facts.Observed)
	}
	if len(peers) == 0 {
		return c.Applier.Remove(ctx, policyIdentity, apply.Scope{Kind: policyKind, Namespace: ns})
	}
	err = c.Applier.Set(ctx, apply.Set{Identity: policyIdentity, Objects: []client.Object{render.ControlPlanePolicy(ns, peers, services)}})
	if err != nil {
		return fmt.Errorf("letting the proxy into %s: %w", ns, err)
	}
	return nil
}
