package policy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/apply"
	"github.com/densityops/oooi/operator/internal/controller/world"
	"github.com/densityops/oooi/operator/internal/outcome"
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

	// failed wakes the Sweeper; nil where there is none.
	failed chan event.GenericEvent

	mu sync.Mutex
	// owed are the namespaces whose policy could not be settled.
	owed map[string]bool // guarded by mu
	// words are of attachments' own passes, whose facts may not be written yet.
	words map[types.UID]word // guarded by mu
}

// word is what an attachment's own pass has found out: whether it is let into a namespace.
type word struct {
	namespace string
	letIn     bool
	at        time.Time
}

// Settle makes the policy of a namespace what is needed there; where nothing is,
// it goes. own is an attachment whose facts are newer than what is read; may be nil.
// What fails is owed: caller may not be there, or not know of the namespace, when it
// could be tried again.
func (p *Policies) Settle(ctx context.Context, namespace string, own *v1alpha1.InfraClusterAttachment) error {
	if own != nil {
		p.say(own.UID, word{namespace: namespace, letIn: admitted(own, namespace)})
	}
	err := p.settle(ctx, namespace, own)
	if p.owe(namespace, err) && p.failed != nil {
		select {
		case p.failed <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}:
		case <-ctx.Done():
		}
	}
	return err
}

func (p *Policies) settle(ctx context.Context, namespace string, own *v1alpha1.InfraClusterAttachment) error {
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

// owe records that a namespace's policy could not be settled, or was, and says whether
// that it is owed is new. A policy that is not ours has nothing of ours in it.
func (p *Policies) owe(namespace string, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, invalid := errors.AsType[outcome.Invalid](err)
	if err == nil || invalid {
		delete(p.owed, namespace)
		return false
	}
	was := p.owed[namespace]
	if p.owed == nil {
		p.owed = map[string]bool{}
	}
	p.owed[namespace] = true
	return !was
}

func (p *Policies) owes(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.owed[namespace]
}

// writtenBy is how long after a word of an attachment's own its facts are written at the
// latest, or it has said so again.
const writtenBy = time.Minute

// say records the word of an attachment's own pass.
func (p *Policies) say(uid types.UID, is word) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is.at = time.Now()
	maps.DeleteFunc(p.words, func(_ types.UID, w word) bool { return is.at.Sub(w.at) > writtenBy })
	if p.words == nil {
		p.words = map[types.UID]word{}
	}
	p.words[uid] = is
}

// said gives the last word of an attachment's own on a namespace, while it may say more
// than what is written.
func (p *Policies) said(uid types.UID, namespace string) (letIn, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, found := p.words[uid]
	return w.letIn, found && w.namespace == namespace && time.Since(w.at) <= writtenBy
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
		if letIn, known := p.said(a.UID, namespace); !admitted(a, namespace) || leftOut(a) || known && !letIn {
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
