package infra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/outcome"
	"github.com/densityops/oooi/operator/internal/plan"
	"github.com/densityops/oooi/operator/internal/render"
	"github.com/densityops/oooi/operator/internal/status"
)

// child is how a child fares.
type child struct {
	component  string
	generation int64
	status     *v1alpha1.ComponentStatus
}

// reported is all that an Infra's status is made from.
type reported struct {
	plan        plan.Plan
	renewing    plan.Reason
	applied     error
	labelled    bool
	children    []child
	attachments []*v1alpha1.InfraClusterAttachment
}

// report writes the status of the Infra; it is pure.
func report(infra *v1alpha1.Infra, r reported) {
	st := &infra.Status
	conditions := append(r.plan.Conditions(), availableCondition(r), progressingCondition(r))
	for _, cond := range conditions {
		switch {
		case cond.Type == v1alpha1.ConditionReady && cond.Status == metav1.ConditionTrue && r.applied != nil:
			cond.Status = metav1.ConditionFalse
			cond.Reason, cond.Message = outcome.Describe(r.applied)
		case cond.Type == v1alpha1.ConditionDegraded:
			cond = degradedCondition(cond, infra.Namespace, r)
		}
		cond.ObservedGeneration = infra.Generation
		meta.SetStatusCondition(&st.Conditions, cond)
	}
	st.ObservedGeneration = infra.Generation
	st.ComponentStatus = r.plan.ComponentStatus()
	st.Network = r.plan.Network
	st.InForce = r.plan.InForce
	st.InternalProxyIP = ""
	if r.plan.InternalProxyIP.IsValid() {
		st.InternalProxyIP = v1alpha1.IPv4(r.plan.InternalProxyIP.String())
	}
	st.Attachments = counts(r.attachments)
}

func counts(attachments []*v1alpha1.InfraClusterAttachment) v1alpha1.AttachmentCounts {
	n := v1alpha1.AttachmentCounts{Total: int32(len(attachments))}
	for _, a := range attachments {
		if meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.ConditionReady) {
			n.Ready++
		}
	}
	n.ReadyOfTotal = fmt.Sprintf("%d/%d", n.Ready, n.Total)
	return n
}

// availableCondition sums up the children that the plan applies.
func availableCondition(r reported) metav1.Condition {
	cond := metav1.Condition{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsExpected}
	if refusal := r.plan.Refusal; refusal.Reason != "" {
		cond.Status, cond.Reason, cond.Message = metav1.ConditionFalse, refusal.Reason, refusal.Message
		return cond
	}
	var words []string
	for _, want := range wanted(r.plan) {
		i := slices.IndexFunc(r.children, func(c child) bool { return c.component == want })
		reason, message := v1alpha1.ReasonDeploymentUnavailable, "not made yet"
		if i >= 0 {
			have := meta.FindStatusCondition(r.children[i].status.Conditions, v1alpha1.ConditionAvailable)
			if have != nil && have.Status == metav1.ConditionTrue && have.ObservedGeneration == r.children[i].generation {
				continue
			}
			if have != nil {
				reason, message = have.Reason, have.Message
			}
		}
		if cond.Status == metav1.ConditionTrue {
			cond.Status, cond.Reason = metav1.ConditionFalse, reason
		}
		words = append(words, want+": "+message)
	}
	cond.Message = strings.Join(words, "; ")
	return cond
}

// progressingCondition: a child changes, or what was planned is not applied.
func progressingCondition(r reported) metav1.Condition {
	cond := metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAsExpected}
	var words []string
	if r.renewing.Reason != "" {
		cond.Status, cond.Reason = metav1.ConditionTrue, r.renewing.Reason
		words = append(words, r.renewing.Message)
	}
	for _, c := range r.children {
		if !slices.Contains(wanted(r.plan), c.component) {
			continue
		}
		have := meta.FindStatusCondition(c.status.Conditions, v1alpha1.ConditionProgressing)
		if have == nil || have.Status != metav1.ConditionTrue {
			continue
		}
		if cond.Status == metav1.ConditionFalse {
			cond.Status, cond.Reason = metav1.ConditionTrue, have.Reason
		}
		words = append(words, c.component+": "+have.Message)
	}
	cond.Message = strings.Join(words, "; ")
	return cond
}

// degradedCondition adds to what the plan has found what only the cluster shows: a
// namespace without its label, and the faults of the children in their own words
// (behaviour H2). The first one names the reason.
func degradedCondition(cond metav1.Condition, namespace string, r reported) metav1.Condition {
	var words []string
	if cond.Status == metav1.ConditionTrue {
		words = append(words, cond.Message)
	}
	add := func(reason, message string) {
		if len(words) == 0 {
			cond.Status, cond.Reason = metav1.ConditionTrue, reason
		}
		words = append(words, message)
	}
	if !r.labelled {
		add(v1alpha1.ReasonNamespaceNotLabelled, fmt.Sprintf("the proxy may not enter the control planes; run: kubectl label namespace %s %s=%s",
			namespace, render.LabelNetworkPolicyGroup, render.NetworkPolicyGroupInternal))
	}
	for _, c := range r.children {
		have := meta.FindStatusCondition(c.status.Conditions, v1alpha1.ConditionDegraded)
		if have != nil && have.Status == metav1.ConditionTrue && slices.Contains(wanted(r.plan), c.component) {
			add(have.Reason, c.component+": "+outcome.Message(have.Message))
		}
	}
	if len(words) > 0 {
		cond.Message = strings.Join(words, "; ")
	}
	return cond
}

func wanted(p plan.Plan) []string {
	var out []string
	if p.DHCP.Action == plan.Apply {
		out = append(out, "dhcp")
	}
	if p.DNS.Action == plan.Apply {
		out = append(out, "dns")
	}
	if p.Proxy.Action == plan.Apply {
		out = append(out, "proxy")
	}
	return out
}

// writers bounds the statuses that are written side by side.
const writers = 8

// orphan tells attachments that their Infra is gone.
func (c *Controller) orphan(ctx context.Context, attachments []*v1alpha1.InfraClusterAttachment) error {
	list := make([]v1alpha1.InfraClusterAttachment, 0, len(attachments))
	for _, a := range attachments {
		list = append(list, *a)
	}
	return c.setProgrammed(ctx, list, func(*v1alpha1.InfraClusterAttachment) (metav1.Condition, bool) {
		return metav1.Condition{
			Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse,
			Reason: v1alpha1.ReasonInfraNotFound, Message: "the Infra is being deleted",
		}, true
	})
}

func (c *Controller) setProgrammed(ctx context.Context, attachments []v1alpha1.InfraClusterAttachment,
	condition func(*v1alpha1.InfraClusterAttachment) (metav1.Condition, bool),
) error {
	writer := status.Conditions(c.Client, status.OwnerInfra, v1alpha1.ConditionProgrammed).Knowing(&c.programmed)
	// One that cannot be written stops no other.
	errs := make([]error, len(attachments))
	var group errgroup.Group
	group.SetLimit(writers)
	for i := range attachments {
		before := &attachments[i]
		cond, ok := condition(before)
		if !ok || before.DeletionTimestamp != nil {
			continue
		}
		cond.ObservedGeneration = before.Generation
		after := before.DeepCopy()
		if !meta.SetStatusCondition(&after.Status.Conditions, cond) && !writer.Behind(before) {
			continue
		}
		group.Go(func() error {
			errs[i] = writer.Patch(ctx, before, after)
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}
