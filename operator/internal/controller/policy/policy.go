package policy

import (
	"context"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/apply"
	"github.com/densityops/oooi/operator/internal/controller/world"
	"github.com/densityops/oooi/operator/internal/render"
)

// identity are the labels of the policies that the operator makes. A policy is
// its namespace's: several attachments may need it.
var identity = map[string]string{
	render.LabelManagedBy: render.ManagedBy, render.LabelComponent: render.ComponentControlPlane,
}

var policyKind = networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy")

// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete

// Policies writes them.
type Policies struct {
	Applier *apply.Applier
	World   *world.Reader
}

// Settle makes the policy of a namespace what is needed there; where nothing is,
// it goes. own is an attachment whose facts are newer than what is read; may be nil.
func (p *Policies) Settle(ctx context.Context, namespace string, own *v1alpha1.InfraClusterAttachment) error {
	attachments, err := p.World.AttachmentsTo(ctx, namespace)
	if err != nil {
		return err
	}
	needed := make([]*v1alpha1.InfraClusterAttachment, 0, len(attachments)+1)
	for i := range attachments {
		if own == nil || attachments[i].UID != own.UID {
			needed = append(needed, &attachments[i])
		}
	}
	if own != nil {
		needed = append(needed, own)
	}
	peers, services, err := p.needs(ctx, namespace, needed)
	if err != nil {
		return err
	}
	if len(peers) == 0 {
		return p.Applier.Remove(ctx, identity, apply.Scope{Kind: policyKind, Namespace: namespace})
	}
	err = p.Applier.Set(ctx, apply.Set{Identity: identity, Objects: []client.Object{render.ControlPlanePolicy(namespace, peers, services)}})
	if err != nil {
		return fmt.Errorf("letting the proxy into %s: %w", namespace, err)
	}
	return nil
}

// leftOut: the Infra serves nothing of the attachment, so no proxy has business in
// its control plane. Until that word is there the way is open: it has to be before
// the first connection. A word on *.apps alone, or on an Infra whose stack stays as
// it is, leaves nothing out.
func leftOut(a *v1alpha1.InfraClusterAttachment) bool {
	c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionProgrammed)
	if c == nil || c.Status != metav1.ConditionFalse {
		return false
	}
	switch c.Reason {
	case v1alpha1.ReasonNetworkOverlap, v1alpha1.ReasonTooManyAttachments, v1alpha1.ReasonDuplicateHostname, v1alpha1.ReasonDuplicateHostedCluster:
		return true
	}
	return false
}

// admitted: the attachment may attach the cluster whose control plane is in the
// namespace. What was observed of another control plane vouches for none (behaviour F0).
func admitted(a *v1alpha1.InfraClusterAttachment, namespace string) bool {
	return a.DeletionTimestamp == nil && a.Status.Observed.HostedClusterUID != "" && string(a.Status.ControlPlaneNamespace) == namespace
}

// needs are whom the attachments let into a namespace, and where to.
func (p *Policies) needs(ctx context.Context, namespace string, attachments []*v1alpha1.InfraClusterAttachment,
) ([]render.PolicyPeer, []v1alpha1.ObservedService, error) {
	var peers []render.PolicyPeer
	var services []v1alpha1.ObservedService
	for _, a := range attachments {
		if !admitted(a, namespace) || leftOut(a) {
			continue
		}
		infra := types.NamespacedName{Namespace: a.Namespace, Name: string(a.Spec.InfraRef.Name)}
		living, err := p.World.LivingInfra(ctx, infra)
		if err != nil {
			return nil, nil, err
		}
		if living {
			peers = append(peers, render.PolicyPeer{Namespace: infra.Namespace, Infra: infra.Name})
			services = append(services, a.Status.Observed.Services...)
		}
	}
	return peers, services, nil
}
