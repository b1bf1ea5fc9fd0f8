package attachment

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/outcome"
)

// report writes the status of the attachment; it is pure.
func report(p *pass, policyErr error) {
	a := p.attachment
	st := &a.Status
	st.ObservedGeneration = a.Generation
	st.Domain = v1alpha1.DomainName(p.facts.Domain)
	st.ControlPlaneNamespace = v1alpha1.NamespaceName(p.facts.ControlPlaneNamespace)
	st.Observed = p.facts.Observed
	conditions := append([]metav1.Condition{}, p.facts.Conditions...)
	conditions = append(conditions,
		stepCondition(v1alpha1.ConditionExternalServiceReady, p.external),
		stepCondition(v1alpha1.ConditionAppsIngressReady, p.apps),
	)
	set := func(c metav1.Condition) {
		c.ObservedGeneration = a.Generation
		meta.SetStatusCondition(&st.Conditions, c)
	}
	for _, c := range conditions {
		set(c)
	}
	set(readyCondition(p, policyErr))
	set(degradedCondition(p, policyErr))
}

// stepCondition: a step that is switched off is as declared.
func stepCondition(conditionType string, s stepResult) metav1.Condition {
	if !s.enabled {
		return metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDisabled, Message: "not enabled"}
	}
	return outcome.Condition(conditionType, 0, s.err)
}

// readyCondition: aggregation and the apps state (behaviour H3). The first
// thing that is missing names it.
func readyCondition(p *pass, policyErr error) metav1.Condition {
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}
	for _, t := range []string{v1alpha1.ConditionAdmitted, v1alpha1.ConditionControlPlaneAvailable} {
		if c := meta.FindStatusCondition(p.facts.Conditions, t); c != nil && c.Status != metav1.ConditionTrue {
			ready.Reason, ready.Message = c.Reason, c.Message
			return ready
		}
	}
	if policyErr != nil {
		ready.Reason, ready.Message = outcome.Describe(policyErr)
		return ready
	}
	if c := aggregated(p); c.Status != metav1.ConditionTrue {
		ready.Reason, ready.Message = c.Reason, c.Message
		return ready
	}
	for _, s := range []stepResult{p.external, p.apps} {
		if s.enabled && s.err != nil {
			ready.Reason, ready.Message = outcome.Describe(s.err)
			return ready
		}
	}
	ready.Status, ready.Reason = metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded
	return ready
}

// aggregated is what the Infra controller says, if it still holds.
func aggregated(p *pass) metav1.Condition {
	a := p.attachment
	if len(p.world.Infras) == 0 {
		return metav1.Condition{
			Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInfraNotFound,
			Message: "no Infra " + string(a.Spec.InfraRef.Name) + " in namespace " + a.Namespace,
		}
	}
	c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionProgrammed)
	if c == nil || c.ObservedGeneration != a.Generation {
		return metav1.Condition{
			Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonWaitingForInfra, Message: "the Infra has not taken the attachment up yet",
		}
	}
	return *c
}

// degradedCondition: it is attached, and something works less well than declared.
func degradedCondition(p *pass, policyErr error) metav1.Condition {
	degraded := metav1.Condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAsExpected}
	for _, t := range []string{v1alpha1.ConditionEndpointMismatch, v1alpha1.ConditionClusterProxyBypassesVLAN} {
		if c := meta.FindStatusCondition(p.facts.Conditions, t); c != nil && c.Status == metav1.ConditionTrue {
			degraded.Status, degraded.Reason, degraded.Message = metav1.ConditionTrue, c.Reason, c.Message
			return degraded
		}
	}
	appsErr := p.apps.err
	if st := p.attachment.Status.AppsIngressStatus; st != nil && st.Phase == v1alpha1.AppsPhasePending {
		appsErr = nil // it is on its way
	}
	for _, err := range []error{policyErr, p.external.err, appsErr} {
		if err != nil {
			degraded.Status = metav1.ConditionTrue
			degraded.Reason, degraded.Message = outcome.Describe(err)
			return degraded
		}
	}
	for _, c := range p.facts.Conditions {
		if c.Reason == v1alpha1.ReasonStale {
			degraded.Status, degraded.Reason, degraded.Message = metav1.ConditionTrue, c.Reason, c.Message
			return degraded
		}
	}
	if p.facts.Strays != "" {
		degraded.Status, degraded.Reason = metav1.ConditionTrue, v1alpha1.ReasonWorkersOffVLAN
		degraded.Message = outcome.Message(p.facts.Strays)
	}
	return degraded
}
