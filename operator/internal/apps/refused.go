package apps

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// Refused turns the error of writing an object of d.Apply into what d becomes:
// MetalLB's webhook that is not up yet is waited for (metallb/metallb#1597), a
// refusal is shown in its own words.
func (d Decision) Refused(kind string, err error, last Endpoint) Decision {
	d.Endpoint = last
	d.Phase, d.After = v1alpha1.AppsPhasePending, recheckInstall
	after := recheckFault
	switch {
	case isUnmapped(err), isWebhookAway(err):
		d.Reason, d.Message = v1alpha1.ReasonWaitingForMetalLBWebhook, "MetalLB does not take "+kind+" objects yet"
		return d
	case isRefusal(err):
		d.Reason, d.Message = v1alpha1.ReasonMetalLBInstallFailed, fmt.Sprintf("writing %s: %v", kind, err)
		if kind == "Service" {
			d.Reason = v1alpha1.ReasonIngressServiceFailed
		}
	default:
		d.Reason, d.Message = v1alpha1.ReasonHostedClusterAccessFailed, fmt.Sprintf("writing %s: %v", kind, err)
		after = recheckAccess
	}
	d.Phase, d.After = v1alpha1.AppsPhaseDegraded, after
	return d
}

// isUnmapped: the kind is served, but not known to our client yet.
func isUnmapped(err error) bool {
	_, kind := errors.AsType[*meta.NoKindMatchError](err)
	_, resource := errors.AsType[*meta.NoResourceMatchError](err)
	return kind || resource
}

func isWebhookAway(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook")
}

// isRefusal says whether the API server understood the object and said no.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && !apierrors.IsTooManyRequests(err) && !apierrors.IsUnauthorized(err) && !apierrors.IsTimeout(err)
}
