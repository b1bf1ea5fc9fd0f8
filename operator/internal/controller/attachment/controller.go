package attachment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/apply"
	"github.com/densityops/oooi/operator/internal/controller/coalesce"
	"github.com/densityops/oooi/operator/internal/controller/finalizer"
	"github.com/densityops/oooi/operator/internal/controller/policy"
	"github.com/densityops/oooi/operator/internal/controller/world"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/outcome"
	"github.com/densityops/oooi/operator/internal/status"
)

// Finalizer is set before anything is written in a hosted cluster: what lies in
// the management cluster is found again without the attachment.
const Finalizer = "hostedcluster.densityops.com/attachment"

// retry is how often a thing that does not exist yet is looked for, beside the
// watches.
const retry = 30 * time.Second

// wordWithin is how long the first status of an attachment waits for the Infra
// controller's word, to be written once and not twice.
const wordWithin = 10 * time.Second

// Controller reconciles InfraClusterAttachments.
type Controller struct {
	Client   client.Client
	Applier  *apply.Applier
	World    *world.Reader
	Policies *policy.Policies
	Apps     Apps
	Gatherer *coalesce.Gatherer
	Turns    *Turns
	Clock    func() time.Time
	// Away is for how long the management cluster's API server was away since the
	// operator's start; may be nil.
	Away func() time.Duration
	// Events tells of conditions that have changed; may be nil.
	Events func(before, after *v1alpha1.InfraClusterAttachment)

	held    heldUp
	wording wording
	written status.Memory
}

// pass is one reconcile.
type pass struct {
	attachment *v1alpha1.InfraClusterAttachment
	world      facts.World
	facts      facts.Attachment
	now        time.Time
	// stored is the generation that the written status is of.
	stored int64
	// What the steps have found out.
	external stepResult
	apps     stepResult
}

// stepResult is what a step reports.
type stepResult struct {
	enabled bool
	err     error
	// after is when to run it again although it is as declared.
	after time.Duration
}

// +kubebuilder:rbac:groups=hostedcluster.densityops.com,resources=infraclusterattachments,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=hostedcluster.densityops.com,resources=infraclusterattachments/status,verbs=get;patch
// +kubebuilder:rbac:groups=hostedcluster.densityops.com,resources=infraclusterattachments/finalizers,verbs=update

// Reconcile records the facts of the hosted cluster and runs the steps.
func (c *Controller) Reconcile(ctx context.Context, a *v1alpha1.InfraClusterAttachment) (reconcile.Result, error) {
	c.Gatherer.Started(client.ObjectKeyFromObject(a))
	// What is carried on from pass to pass is read back from the status.
	if err := c.statusWriter().Recall(a); err != nil {
		return outcome.Result(err)
	}
	if a.DeletionTimestamp != nil {
		before := a.DeepCopy()
		err := c.release(ctx, a)
		return outcome.Result(err, c.reportRelease(ctx, before, a, err))
	}
	w, err := c.World.ForAttachment(ctx, a)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("observing: %w", err)
	}
	p := &pass{attachment: a, world: w, now: c.Clock(), stored: a.Status.ObservedGeneration}
	p.facts = facts.ForAttachment(w, a, p.now)
	if err := finalizer.Set(ctx, c.Client, a, Finalizer, p.reachesIn()); err != nil {
		return outcome.Result(err)
	}
	before := a.DeepCopy()
	c.tell(ctx, p)
	policyErr := c.controlPlane(ctx, p)
	p.external = c.external(ctx, p)
	if err := c.writeEarly(ctx, p, before, policyErr); err != nil {
		return outcome.Result(err)
	}
	p.apps = c.apps(ctx, p)
	report(p, policyErr)
	if p.awaitsWord() {
		if left := wordWithin - c.World.Board().Post(ctx, a); left > 0 {
			return outcome.Result(policyErr, p.external.err, p.again(), outcome.Waiting{Reason: v1alpha1.ReasonWaitingForInfra, After: left})
		}
	}
	statusErr := c.write(ctx, before, a)
	if statusErr == nil && c.Events != nil {
		c.Events(before, a)
	}
	return outcome.Result(policyErr, p.external.err, p.apps.err, statusErr, p.again())
}

// tell lets the Infra controller know of facts that are new before the steps are
// done: its plan needs the facts alone, and a change is sooner in the snapshots.
func (c *Controller) tell(ctx context.Context, p *pass) {
	if p.stored == p.attachment.Generation {
		return
	}
	early := *p
	early.attachment = p.attachment.DeepCopy()
	report(&early, nil)
	if early.awaitsWord() {
		c.World.Board().Post(ctx, early.attachment)
	}
}

// writeEarly writes what the management cluster says while the hosted one, which was
// slow before, is still to be asked. before is then as it is written.
func (c *Controller) writeEarly(ctx context.Context, p *pass, before *v1alpha1.InfraClusterAttachment, policyErr error) error {
	a := p.attachment
	asks := a.Spec.AppsIngress.Enabled && p.facts.Admitted && a.Status.AppsIngressStatus != nil
	if !asks || !c.Turns.Slow(client.ObjectKeyFromObject(a)) {
		return nil
	}
	p.apps = appsAsBefore(p)
	report(p, policyErr)
	if err := c.write(ctx, before, a); err != nil {
		return err
	}
	if c.Events != nil {
		c.Events(before, a)
	}
	a.DeepCopyInto(before)
	return nil
}

// reachesIn: objects of the attachment are in the hosted cluster, or will be.
func (p *pass) reachesIn() bool {
	return p.attachment.Status.AppsIngressStatus != nil || p.attachment.Spec.AppsIngress.Enabled && p.facts.Admitted
}

// awaitsWord: nothing of this generation is written yet, and the Infra
// controller's word alone is missing. What *.apps has made is written at once.
func (p *pass) awaitsWord() bool {
	a := p.attachment
	ready := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionReady)
	return p.stored != a.Generation && ready.Reason == v1alpha1.ReasonWaitingForInfra && !p.reachesIn()
}

// again is the wait for what no watch tells: a held address that expires, and
// an object that does not exist yet.
func (p *pass) again() error {
	var waits []error
	if p.facts.Recheck > 0 {
		waits = append(waits, outcome.Waiting{Reason: v1alpha1.ReasonStale, After: p.facts.Recheck})
	}
	if p.apps.after > 0 {
		waits = append(waits, outcome.Waiting{Reason: v1alpha1.ReasonAsExpected, After: p.apps.after})
	}
	if !p.facts.Admitted {
		waits = append(waits, outcome.Waiting{Reason: v1alpha1.ReasonHostedClusterNotFound, After: retry})
	}
	return errors.Join(waits...)
}

// release undoes what was done elsewhere, in any state of the rest of the world.
func (c *Controller) release(ctx context.Context, a *v1alpha1.InfraClusterAttachment) error {
	if !controllerutil.ContainsFinalizer(a, Finalizer) {
		return nil
	}
	left := c.leaveControlPlane(ctx, a)
	if err := errors.Join(c.leaveHostedCluster(ctx, a), left); err != nil {
		return err
	}
	if err := finalizer.Set(ctx, c.Client, a, Finalizer, false); err != nil {
		return err
	}
	c.held.forget(a.UID)
	c.Turns.NotAsked(client.ObjectKeyFromObject(a))
	return nil
}

// reportRelease says what holds up a deletion; nothing once it is done.
func (c *Controller) reportRelease(ctx context.Context, before, a *v1alpha1.InfraClusterAttachment, err error) error {
	if err == nil {
		return nil
	}
	for _, conditionType := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionDegraded} {
		cond := outcome.Condition(conditionType, a.Generation, err)
		if conditionType == v1alpha1.ConditionDegraded {
			cond.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&a.Status.Conditions, cond)
	}
	return c.write(ctx, before, a)
}

func (c *Controller) statusWriter() *status.Writer {
	return status.Everything(c.Client, status.OwnerController, nil, []string{v1alpha1.ConditionProgrammed}).Knowing(&c.written)
}
