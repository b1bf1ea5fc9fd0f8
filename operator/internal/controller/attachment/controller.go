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
	"github.com/densityops/oooi/operator/internal/controller/world"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/outcome"
	"github.com/densityops/oooi/operator/internal/status"
)

// Finalizer is set before anything is written in a control-plane namespace or
// in a hosted cluster.
const Finalizer = "hostedcluster.densityops.com/attachment"

// retry is how often a thing that does not exist yet is looked for, beside the
// watches.
const retry = 30 * time.Second

// Controller reconciles InfraClusterAttachments.
type Controller struct {
	Client   client.Client
	Applier  *apply.Applier
	World    *world.Reader
	Apps     Apps
	Gatherer *coalesce.Gatherer
	Clock    func() time.Time
	// Events tells of conditions that have changed; may be nil.
	Events func(before, after *v1alpha1.InfraClusterAttachment)
}

// pass is one reconcile.
type pass struct {
	attachment *v1alpha1.InfraClusterAttachment
	world      facts.World
	facts      facts.Attachment
	now        time.Time
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
	if a.DeletionTimestamp != nil {
		before := a.DeepCopy()
		err := c.release(ctx, a)
		return outcome.Result(err, c.reportRelease(ctx, before, a, err))
	}
	w, err := c.World.ForAttachment(ctx, a)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("observing: %w", err)
	}
	p := &pass{attachment: a, world: w, now: c.Clock()}
	p.facts = facts.ForAttachment(w, a, p.now)
	if p.facts.Admitted {
		if err := c.setFinalizer(ctx, a, true); err != nil {
			return outcome.Result(err)
		}
	}
	before := a.DeepCopy()
	policyErr := c.controlPlane(ctx, p)
	p.external = c.external(ctx, p)
	p.apps = c.apps(ctx, p)
	report(p, policyErr)
	statusErr := c.statusWriter().Patch(ctx, before, a)
	if statusErr == nil && c.Events != nil {
		c.Events(before, a)
	}
	return outcome.Result(policyErr, p.external.err, p.apps.err, statusErr, p.again())
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
	c.Gatherer.Forget(client.ObjectKeyFromObject(a))
	if !controllerutil.ContainsFinalizer(a, Finalizer) {
		return nil
	}
	if err := errors.Join(c.leaveHostedCluster(ctx, a), c.leaveControlPlane(ctx, a)); err != nil {
		return err
	}
	return c.setFinalizer(ctx, a, false)
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
	return c.statusWriter().Patch(ctx, before, a)
}

func (c *Controller) statusWriter() *status.Writer {
	return status.Everything(c.Client, status.OwnerController, nil, []string{v1alpha1.ConditionProgrammed})
}

func (c *Controller) setFinalizer(ctx context.Context, a *v1alpha1.InfraClusterAttachment, present bool) error {
	if controllerutil.ContainsFinalizer(a, Finalizer) == present {
		return nil
	}
	patched := a.DeepCopy()
	if present {
		controllerutil.AddFinalizer(patched, Finalizer)
	} else {
		controllerutil.RemoveFinalizer(patched, Finalizer)
	}
	patch := client.MergeFromWithOptions(a.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, patched, patch); err != nil {
		return client.IgnoreNotFound(err)
	}
	*a = *patched
	return nil
}
