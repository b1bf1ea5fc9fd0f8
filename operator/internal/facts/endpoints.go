package facts

import (
	"fmt"
	"slices"
	"strings"

	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// hostedConditions compare the HostedCluster with what the shared stack serves,
// and mirror HyperShift's own view of the two paths (behaviour F2).
func (j *judge) hostedConditions() []metav1.Condition {
	if j.hosted == nil {
		because := metav1.Condition{Reason: v1alpha1.ReasonStale, Message: "HostedCluster " + j.cluster.String() + " cannot be read"}
		return []metav1.Condition{
			unknown(v1alpha1.ConditionEndpointMismatch, because), unknown(v1alpha1.ConditionClusterProxyBypassesVLAN, because),
			unknown(v1alpha1.ConditionControlPlaneConnectionAvailable, because), unknown(v1alpha1.ConditionDataPlaneConnectionAvailable, because),
		}
	}
	return []metav1.Condition{
		j.mismatch(), j.bypass(),
		j.mirror(v1alpha1.ConditionControlPlaneConnectionAvailable, hyperv1.ControlPlaneConnectionAvailable),
		j.mirror(v1alpha1.ConditionDataPlaneConnectionAvailable, hyperv1.DataPlaneConnectionAvailable),
	}
}

// mirror is HyperShift's own condition; older releases do not have it.
func (j *judge) mirror(kind string, theirs hyperv1.ConditionType) metav1.Condition {
	c := meta.FindStatusCondition(j.hosted.Status.Conditions, string(theirs))
	if c == nil {
		return unknown(kind, metav1.Condition{Reason: v1alpha1.ReasonNotReported, Message: "HyperShift does not report " + string(theirs)})
	}
	reason := c.Reason
	if reason == "" {
		reason = v1alpha1.ReasonNotReported
	}
	message := c.Message
	if len(message) > 2048 {
		message = message[:2048]
	}
	return metav1.Condition{Type: kind, Status: c.Status, Reason: reason, Message: message}
}

// mismatch is the condition EndpointMismatch.
func (j *judge) mismatch() metav1.Condition {
	domain := plan.Domain(j.attachment.Spec.DNS)
	faults := serviceFaults(j.hosted, domain)
	faults = append(faults, domainFaults(j.hosted, domain)...)
	reason := v1alpha1.ReasonEndpointMismatch
	if passthrough := passthroughFault(j.hosted, domain); passthrough != "" {
		if len(faults) == 0 {
			reason = v1alpha1.ReasonBaseDomainPassthrough
		}
		faults = append(faults, passthrough)
	}
	if len(faults) == 0 {
		return condition(v1alpha1.ConditionEndpointMismatch, false, v1alpha1.ReasonAsExpected, "the HostedCluster publishes what the shared stack serves")
	}
	return condition(v1alpha1.ConditionEndpointMismatch, true, reason, strings.Join(faults, "; "))
}

// published are the endpoints that a HostedCluster names and we serve. OIDC and
// OVNSbDb are none.
var published = []struct {
	service hyperv1.ServiceType
	name    string
}{{hyperv1.APIServer, "api"}, {hyperv1.OAuthServer, "oauth"}, {hyperv1.Konnectivity, "konnectivity"}, {hyperv1.Ignition, "ignition"}}

func serviceFaults(h *hyperv1.HostedCluster, domain string) []string {
	var faults []string
	for _, p := range published {
		want := p.name + "." + domain
		i := slices.IndexFunc(h.Spec.Services, func(s hyperv1.ServicePublishingStrategyMapping) bool { return s.Service == p.service })
		var got string
		if i >= 0 {
			got = publishedName(h.Spec.Services[i].ServicePublishingStrategy)
		}
		switch {
		case got == "":
			faults = append(faults, fmt.Sprintf("%s has no hostname and falls back to the hub's own, %s is served", p.service, want))
		case strings.TrimSuffix(strings.ToLower(got), ".") != want:
			faults = append(faults, fmt.Sprintf("%s is published as %s, %s is served", p.service, got, want))
		case p.service == hyperv1.APIServer && h.Spec.Services[i].Type == hyperv1.Route:
			faults = append(faults, fmt.Sprintf("%s is published as a Route, on port 443; %s is served on port 6443", p.service, want))
		}
	}
	if n := h.Spec.Networking.APIServer; n != nil && n.Port != nil && *n.Port != 6443 {
		faults = append(faults, fmt.Sprintf("networking.apiServer.port is %d, api.%s is served on port 6443", *n.Port, domain))
	}
	return faults
}

// publishedName is the host name, or address and port, that a strategy publishes.
func publishedName(s hyperv1.ServicePublishingStrategy) string {
	switch {
	case s.Type == hyperv1.LoadBalancer && s.LoadBalancer != nil:
		return s.LoadBalancer.Hostname
	case s.Type == hyperv1.Route && s.Route != nil:
		return s.Route.Hostname
	case s.Type == hyperv1.NodePort && s.NodePort != nil:
		return fmt.Sprintf("%s:%d", s.NodePort.Address, s.NodePort.Port)
	}
	return ""
}

// domainFaults compare dns.baseDomain and the domain of *.apps.
func domainFaults(h *hyperv1.HostedCluster, domain string) []string {
	var faults []string
	if h.Spec.DNS.BaseDomain != "" {
		if got := clusterDomain(h); got != domain {
			faults = append(faults, fmt.Sprintf("dns.baseDomain makes the cluster's domain %s, %s is served", got, domain))
		}
	}
	if apps := appsDomain(h); apps != "" && apps != "apps."+domain {
		faults = append(faults, fmt.Sprintf("configuration.ingress.appsDomain is %s, apps.%s is served", apps, domain))
	}
	return faults
}

// clusterDomain is the prefix, by default the name, before the base domain.
func clusterDomain(h *hyperv1.HostedCluster) string {
	prefix := h.Name
	if p := h.Spec.DNS.BaseDomainPrefix; p != nil {
		prefix = *p
	}
	if prefix == "" {
		return strings.ToLower(h.Spec.DNS.BaseDomain)
	}
	return strings.ToLower(prefix + "." + h.Spec.DNS.BaseDomain)
}

func appsDomain(h *hyperv1.HostedCluster) string {
	if h.Spec.Configuration == nil || h.Spec.Configuration.Ingress == nil {
		return ""
	}
	return strings.TrimSuffix(strings.ToLower(h.Spec.Configuration.Ingress.AppsDomain), ".")
}

// passthroughFault: with baseDomainPassthrough the hub's domain is the base of
// *.apps, unless the cluster names its own.
func passthroughFault(h *hyperv1.HostedCluster, domain string) string {
	k := h.Spec.Platform.Kubevirt
	if k == nil || k.BaseDomainPassthrough == nil || !*k.BaseDomainPassthrough || appsDomain(h) == "apps."+domain {
		return ""
	}
	return fmt.Sprintf("platform.kubevirt.baseDomainPassthrough is true and puts *.apps below the hub's domain, *.apps.%s is served", domain)
}

// bypass is the condition ClusterProxyBypassesVLAN: with an HTTPS proxy and no
// exception for the API, nodes send API traffic through that proxy.
func (j *judge) bypass() metav1.Condition {
	api := "api." + plan.Domain(j.attachment.Spec.DNS)
	if c := j.hosted.Spec.Configuration; c != nil && c.Proxy != nil && c.Proxy.HTTPSProxy != "" && !j.skipsProxy(c.Proxy.NoProxy, api) {
		return condition(v1alpha1.ConditionClusterProxyBypassesVLAN, true, v1alpha1.ReasonClusterProxyBypassesVLAN,
			fmt.Sprintf("configuration.proxy.httpsProxy is set and noProxy does not cover the API; add %s to configuration.proxy.noProxy", api))
	}
	return condition(v1alpha1.ConditionClusterProxyBypassesVLAN, false, v1alpha1.ReasonAsExpected, "no proxy setting sends API traffic elsewhere")
}

// skipsProxy: HyperShift leaves the proxy out where noProxy covers the API by the
// usual rules, holds the text "kubernetes", or a network of the cluster.
func (j *judge) skipsProxy(noProxy, api string) bool {
	if strings.Contains(noProxy, "kubernetes") {
		return true
	}
	for entry := range strings.SplitSeq(noProxy, ",") {
		entry = strings.ToLower(strings.TrimSpace(entry))
		if entry == "*" || slices.Contains(j.networks(), entry) {
			return true
		}
		host, _, _ := strings.Cut(entry, ":")
		bare := strings.TrimPrefix(strings.TrimPrefix(host, "*"), ".")
		if bare == "" {
			continue
		}
		if host == api || strings.HasSuffix(api, "."+bare) {
			return true
		}
	}
	return false
}
