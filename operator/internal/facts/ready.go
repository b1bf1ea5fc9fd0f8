package facts

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// Ready sums up an attachment's other conditions (behaviour H3): admitted, its
// control plane known, part of the shared stack, and its *.apps as declared.
func Ready(a *v1alpha1.InfraClusterAttachment) metav1.Condition {
	for _, kind := range []string{v1alpha1.ConditionAdmitted, v1alpha1.ConditionControlPlaneAvailable, v1alpha1.ConditionProgrammed} {
		c := meta.FindStatusCondition(a.Status.Conditions, kind)
		if c == nil {
			return condition(v1alpha1.ConditionReady, false, v1alpha1.ReasonWaitingForInfra, "Infra "+string(a.Spec.InfraRef.Name)+" has not taken the attachment up yet")
		}
		if c.Status != metav1.ConditionTrue {
			return condition(v1alpha1.ConditionReady, false, c.Reason, c.Message)
		}
	}
	if a.Spec.ExternalService.Enabled {
		c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionExternalServiceReady)
		if c != nil && c.Status == metav1.ConditionFalse {
			return condition(v1alpha1.ConditionReady, false, c.Reason, c.Message)
		}
	}
	if apps := a.Status.AppsIngressStatus; a.Spec.AppsIngress.Enabled && (apps == nil || apps.Phase != v1alpha1.AppsPhaseReady) {
		if apps == nil || apps.Reason == "" {
			return condition(v1alpha1.ConditionReady, false, v1alpha1.ReasonWaitingForHostedClusterNodes, "the apps ingress has not been looked at yet")
		}
		return condition(v1alpha1.ConditionReady, false, apps.Reason, apps.Message)
	}
	return condition(v1alpha1.ConditionReady, true, v1alpha1.ReasonReconciliationSucceeded, "attached as declared")
}

// Networks parses networks; what is none, or IPv6, is skipped.
func Networks(cidrs []string) []netip.Prefix {
	var out []netip.Prefix
	for _, c := range cidrs {
		if p, err := netip.ParsePrefix(c); err == nil && p.Addr().Is4() {
			out = append(out, p.Masked())
		}
	}
	return out
}
