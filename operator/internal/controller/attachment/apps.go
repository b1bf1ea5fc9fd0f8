package attachment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/hosted"
	"github.com/densityops/oooi/operator/internal/outcome"
)

// Apps brings *.apps of a hosted cluster to the VLAN, or takes it away.
type Apps interface {
	// Ensure records the status in a, and gives when to ask again; the error
	// says what is missing.
	Ensure(ctx context.Context, a *v1alpha1.InfraClusterAttachment, f facts.Attachment, infras []v1alpha1.Infra) (time.Duration, error)
	// Remove takes everything back; the error says what is still there.
	Remove(ctx context.Context, a *v1alpha1.InfraClusterAttachment) error
	// Drop forgets how the hosted cluster is reached.
	Drop(a *v1alpha1.InfraClusterAttachment)
}

// apps is the step of *.apps. It is not run for a cluster that the attachment
// may not attach: nothing is written for it.
func (c *Controller) apps(ctx context.Context, p *pass) stepResult {
	a := p.attachment
	if !a.Spec.AppsIngress.Enabled {
		return c.appsOff(ctx, a)
	}
	if !p.facts.Admitted {
		c.Turns.NotAsked(client.ObjectKeyFromObject(a))
		return stepResult{enabled: true, err: outcome.Waiting{
			Reason: v1alpha1.ReasonWaitingForInfra, Message: "the attachment is not admitted",
		}}
	}
	if elsewhere(a) {
		if err := c.leaveHostedCluster(ctx, a); err != nil {
			return stepResult{enabled: true, err: err}
		}
		c.held.forget(a.UID)
		a.Status.AppsIngressStatus = nil
	}
	after, err := c.Apps.Ensure(ctx, a, p.facts, p.world.Infras)
	return stepResult{enabled: true, err: err, after: after}
}

// elsewhere: *.apps were brought to another hosted cluster than is declared by now.
func elsewhere(a *v1alpha1.InfraClusterAttachment) bool {
	in, now := facts.AppliedIn(a), facts.ClusterOf(a)
	return a.Status.AppsIngressStatus != nil && (string(in.Namespace) != now.Namespace || string(in.Name) != now.Name)
}

// appsOff takes *.apps away. A hosted cluster that was not asked is said to be as it
// was.
func (c *Controller) appsOff(ctx context.Context, a *v1alpha1.InfraClusterAttachment) stepResult {
	var err error
	if a.Status.AppsIngressStatus != nil {
		err = c.takeBack(ctx, a)
	}
	if err == nil || errors.Is(err, errGone) {
		err = nil
		c.Apps.Drop(a)
		a.Status.AppsIngressStatus = nil
		c.Turns.NotAsked(client.ObjectKeyFromObject(a))
	}
	if errors.Is(err, hosted.ErrNotAsked) {
		err = nil
		if message, said := lastWords(a, v1alpha1.ConditionDegraded); said {
			err = outcome.Waiting{Reason: v1alpha1.ReasonHostedClusterAccessFailed, Message: message}
		}
		return stepResult{err: err, after: retryNotAsked}
	}
	return stepResult{err: err}
}

// appsAsBefore is what is known of *.apps before the hosted cluster is asked. Of another
// generation than the one that was written nothing is.
func appsAsBefore(p *pass) stepResult {
	st := p.attachment.Status.AppsIngressStatus
	if p.stored != p.attachment.Generation {
		st.Phase, st.Reason, st.Message = v1alpha1.AppsPhasePending, v1alpha1.ReasonWaitingForHostedClusterNodes, hosted.NotAskedYet
	}
	if st.Phase == v1alpha1.AppsPhaseReady {
		return stepResult{enabled: true}
	}
	return stepResult{enabled: true, err: outcome.Waiting{Reason: st.Reason, Message: st.Message}}
}

// How long a hosted cluster holds up the deletion of its attachment: one that does
// not answer may be back, one that answers and refuses will not change its mind.
// Who takes as long as answersWithin has not answered. It is asked every retryAway,
// or as soon as there is room.
const (
	releaseAfter   = 10 * time.Minute
	releaseRefused = 70 * time.Second
	answersWithin  = 5 * time.Second
	retryAway      = 15 * time.Second
	retryNotAsked  = 5 * time.Second
)

// leaveHostedCluster takes everything back, as far as that can be done: a
// hosted cluster that is gone takes it with it, and one that does not answer is
// given up after a while (behaviour B6) in which it could have answered: neither
// an operator that was down nor one without its own API server has asked it.
func (c *Controller) leaveHostedCluster(ctx context.Context, a *v1alpha1.InfraClusterAttachment) error {
	if a.Status.AppsIngressStatus == nil {
		return nil
	}
	if err := c.takeBackOrGiveUp(ctx, a); err != nil {
		return err
	}
	c.Apps.Drop(a)
	return nil
}

func (c *Controller) takeBackOrGiveUp(ctx context.Context, a *v1alpha1.InfraClusterAttachment) error {
	t, limit, after := try{began: c.Clock()}, releaseAfter, retryAway
	err := c.takeBack(ctx, a)
	if err == nil {
		return nil
	}
	t.ended, t.away, t.fault = c.Clock(), c.away(), faultOfHosted(err)
	if t.ended.Sub(t.began) < answersWithin {
		limit = releaseRefused
	}
	var spent time.Duration
	message := err.Error()
	if errors.Is(err, hosted.ErrNotAsked) {
		// The next try counts what lies between, and says what is wrong.
		after, message = retryNotAsked, hosted.NotAskedYet
		if last, said := lastWords(a, v1alpha1.ConditionReady); said {
			message = last
		}
	} else {
		spent = c.held.add(a.UID, t)
	}
	gone := errors.Is(err, errGone)
	if gone || t.fault && spent >= limit {
		ctrl.LoggerFrom(ctx).Info("leaving objects of the apps ingress in the hosted cluster", "gone", gone, "err", err.Error())
		return nil
	}
	return outcome.Waiting{Reason: v1alpha1.ReasonHostedClusterAccessFailed, Message: message, After: after}
}

// lastWords are what a condition says of a hosted cluster that could not be reached.
func lastWords(a *v1alpha1.InfraClusterAttachment, conditionType string) (message string, said bool) {
	c := meta.FindStatusCondition(a.Status.Conditions, conditionType)
	if c == nil || c.Reason != v1alpha1.ReasonHostedClusterAccessFailed {
		return "", false
	}
	return c.Message, true
}

// away is for how long the management cluster's API server was away so far.
func (c *Controller) away() time.Duration {
	if c.Away == nil {
		return 0
	}
	return c.Away()
}

// errGone says that the hosted cluster is deleted, being deleted, or another one by now.
var errGone = errors.New("the HostedCluster is gone")

// takeBack takes everything back from the hosted cluster that it was made in. Where
// another one has its place by now, that one is not asked: it may be somebody else's.
func (c *Controller) takeBack(ctx context.Context, a *v1alpha1.InfraClusterAttachment) error {
	in, made := facts.AppliedIn(a), a.DeepCopy()
	made.Spec.HostedClusterRef = v1alpha1.HostedClusterRef{Namespace: in.Namespace, Name: in.Name}
	made.Spec.ControlPlaneNamespace = in.ControlPlaneNamespace
	w, err := c.World.ForAttachment(ctx, made)
	if err != nil {
		return fmt.Errorf("%w: %w", hosted.ErrManagement, err)
	}
	gone, replaced := facts.Whereabouts(w, in)
	if replaced {
		return errGone
	}
	err = c.Apps.Remove(ctx, a)
	if err != nil && gone {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return err
}
