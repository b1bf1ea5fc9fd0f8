package infra

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/outcome"
	"github.com/densityops/oooi/operator/internal/plan"
)

// program writes Programmed on the attachments, under a field owner of its own.
// applied is what the write of the shared stack ended with: who is planned in is part
// of a stack that could be written (behaviour H3). What is refused for good is their
// word then. A write that went wrong otherwise says nothing: what is in force stays
// so, and what is not yet waits for the next try.
func (c *Controller) program(ctx context.Context, infra *v1alpha1.Infra, w facts.World, verdicts []plan.Verdict, applied error) error {
	conditions := map[plan.Key]metav1.Condition{}
	for _, v := range verdicts {
		conditions[v.Key] = v.Condition()
	}
	refusal := refusalIn(applied)
	lasts := c.refused.last(infra.UID, refusal)
	return c.setProgrammed(ctx, w.Attachments, func(a *v1alpha1.InfraClusterAttachment) (metav1.Condition, bool) {
		cond, ok := conditions[plan.Key{Namespace: a.Namespace, Name: a.Name}]
		// Its own controller has the first word: without its facts there is
		// nothing to say yet.
		if !ok || a.Status.ObservedGeneration != a.Generation {
			return cond, false
		}
		switch {
		case applied == nil || cond.Status != metav1.ConditionTrue:
			return cond, true
		case refusal == nil || inForce(a) && !lasts:
			return cond, false
		}
		return outcome.Condition(v1alpha1.ConditionProgrammed, 0, refusal), true
	})
}

// inForce: the attachment, as it is declared, is part of the stack that was written before.
func inForce(a *v1alpha1.InfraClusterAttachment) bool {
	c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionProgrammed)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == a.Generation
}

// refusalIn finds what will be refused again as it is; nil where there is nothing of
// that kind.
func refusalIn(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if refusal := refusalIn(e); refusal != nil {
				return refusal
			}
		}
		return nil
	}
	if ours(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) {
		return err
	}
	return nil
}

// ours: the operator itself refuses, and will until somebody has changed something.
func ours(err error) bool {
	_, is := errors.AsType[outcome.Invalid](err)
	return is
}

// lasting is for how long the API server has to refuse before what is in force counts
// as refused: one that has just started, or whose rights are being changed, may refuse
// for a moment.
const lasting = 30 * time.Second

// refusals know since when the writes of an Infra's stack are refused.
type refusals struct {
	mu    sync.Mutex
	since map[types.UID]time.Time // guarded by mu
}

// last records what a write was refused with, nil for nothing, and says whether that lasts.
func (r *refusals) last(infra types.UID, refusal error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if refusal == nil {
		delete(r.since, infra)
		return false
	}
	if r.since == nil {
		r.since = map[types.UID]time.Time{}
	}
	since, before := r.since[infra]
	if !before {
		since = time.Now()
		r.since[infra] = since
	}
	return ours(refusal) || time.Since(since) >= lasting
}
