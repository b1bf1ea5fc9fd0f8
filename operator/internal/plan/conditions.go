package plan

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// Conditions of the Infra that follow from the Plan alone, without times and
// generations. Available and Progressing follow from the children.
func (p Plan) Conditions() []metav1.Condition {
	out := []metav1.Condition{
		provisioned(v1alpha1.ConditionDHCPProvisioned, p.DHCP.Action, p.DHCP.Reason),
		provisioned(v1alpha1.ConditionDNSProvisioned, p.DNS.Action, p.DNS.Reason),
		p.proxyProvisioned(),
		p.retained(),
		p.duplicateSource(),
		p.degraded(),
		p.ready(),
	}
	slices.SortFunc(out, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	return out
}

func condition(kind string, is bool, r Reason) metav1.Condition {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: r.Reason, Message: r.Message}
}

func provisioned(kind string, action Action, reason Reason) metav1.Condition {
	if action == Apply {
		return condition(kind, true, Reason{v1alpha1.ReasonReconciliationSucceeded, "provisioned as declared"})
	}
	return condition(kind, false, reason)
}

// proxyProvisioned says why a proxy that is provisioned is not ready: proxyReady
// needs a route (behaviour H1).
func (p Plan) proxyProvisioned() metav1.Condition {
	out := provisioned(v1alpha1.ConditionProxyProvisioned, p.Proxy.Action, p.Proxy.Reason)
	if p.Proxy.Action == Apply && !p.ComponentStatus().ProxyReady {
		out.Message += "; it has no route yet, so componentStatus.proxyReady is false"
	}
	return out
}

// retained names the disabled components whose resources are kept (behaviour B7).
func (p Plan) retained() metav1.Condition {
	var kept []string
	for _, c := range []struct {
		name   string
		action Action
		reason Reason
	}{{"dhcp", p.DHCP.Action, p.DHCP.Reason}, {"dns", p.DNS.Action, p.DNS.Reason}, {"proxy", p.Proxy.Action, p.Proxy.Reason}} {
		if c.action == Keep && c.reason.Reason == v1alpha1.ReasonDisabled {
			kept = append(kept, c.name)
		}
	}
	if len(kept) == 0 {
		return condition(v1alpha1.ConditionRetained, false, Reason{v1alpha1.ReasonAsExpected, "no component is disabled and kept"})
	}
	return condition(v1alpha1.ConditionRetained, true, Reason{
		v1alpha1.ReasonRetained, "disabled, and no longer reconciled; what exists is kept: " + strings.Join(kept, ", "),
	})
}

// duplicateSource is a condition of its own; Ready stays as it is (behaviour F4).
func (p Plan) duplicateSource() metav1.Condition {
	messages := p.messages("Infra", v1alpha1.ReasonDuplicateSourceIP)
	if len(messages) == 0 {
		return condition(v1alpha1.ConditionDuplicateSourceIP, false, Reason{v1alpha1.ReasonAsExpected, "no worker address is claimed twice"})
	}
	return condition(v1alpha1.ConditionDuplicateSourceIP, true, Reason{v1alpha1.ReasonDuplicateSourceIP, joined(messages)})
}

// unready are the reasons of a plan that make an Infra not Ready, the first ones
// first.
var unready = []string{
	v1alpha1.ReasonDuplicateHostname, v1alpha1.ReasonDuplicateHostedCluster, v1alpha1.ReasonTooManyAttachments,
}

// ready: provisioned as declared (behaviour H1).
func (p Plan) ready() metav1.Condition {
	if p.Refusal.Reason != "" {
		return condition(v1alpha1.ConditionReady, false, p.Refusal)
	}
	for _, reason := range unready {
		if messages := p.messages("Infra", reason); len(messages) > 0 {
			return condition(v1alpha1.ConditionReady, false, Reason{reason, joined(messages)})
		}
	}
	var faults []string
	for _, r := range []Reason{p.DHCP.Reason, p.DNS.Reason, p.Proxy.Reason} {
		if r.Reason == v1alpha1.ReasonInvalidConfiguration {
			faults = append(faults, r.Message)
		}
	}
	if len(faults) > 0 {
		return condition(v1alpha1.ConditionReady, false, Reason{v1alpha1.ReasonInvalidConfiguration, joined(faults)})
	}
	return condition(v1alpha1.ConditionReady, true, Reason{v1alpha1.ReasonReconciliationSucceeded, "provisioned as declared"})
}

// degraded: something works less well than declared.
func (p Plan) degraded() metav1.Condition {
	var reason string
	var messages []string
	for _, problem := range p.Problems {
		if problem.Reason.Reason == v1alpha1.ReasonDuplicateSourceIP {
			continue
		}
		text := problem.Message
		if problem.Kind != "Infra" {
			text = problem.Name + ": " + text
			if reason == "" {
				reason = v1alpha1.ReasonExcluded
			}
		} else if reason == "" || reason == v1alpha1.ReasonExcluded {
			reason = problem.Reason.Reason
		}
		messages = append(messages, text)
	}
	if reason == "" {
		return condition(v1alpha1.ConditionDegraded, false, Reason{v1alpha1.ReasonAsExpected, "nothing was found wrong"})
	}
	return condition(v1alpha1.ConditionDegraded, true, Reason{reason, joined(messages)})
}

// messages of the problems of a kind with a reason.
func (p Plan) messages(kind, reason string) []string {
	var out []string
	for _, problem := range p.Problems {
		if problem.Kind == kind && problem.Reason.Reason == reason {
			out = append(out, problem.Message)
		}
	}
	return out
}

// maxMessage keeps a message well below the 32,768 bytes of a condition.
const maxMessage = 8192

// joined is a list of sentences, cut at a sentence's end.
func joined(messages []string) string {
	messages = slices.Compact(messages)
	const more = "; and more"
	var b strings.Builder
	for i, m := range messages {
		if len(m) > 2048 {
			m = strings.ToValidUTF8(m[:2048], "") + "..."
		}
		if b.Len()+len(m)+len(more) > maxMessage {
			return b.String() + more
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(m)
	}
	return b.String()
}

// Condition is the attachment's Programmed.
func (v Verdict) Condition() metav1.Condition {
	if v.Reason.Reason != "" {
		return condition(v1alpha1.ConditionProgrammed, false, v.Reason)
	}
	return condition(v1alpha1.ConditionProgrammed, true, Reason{v1alpha1.ReasonReconciliationSucceeded, "part of the shared stack"})
}

// ComponentStatus are the booleans of the status: provisioned, and for the
// proxy that a backend is there (behaviour H1).
func (p Plan) ComponentStatus() v1alpha1.InfraComponentStatus {
	return v1alpha1.InfraComponentStatus{
		DHCPReady: p.DHCP.Action == Apply, DNSReady: p.DNS.Action == Apply,
		ProxyReady: p.Proxy.Action == Apply && len(p.Proxy.Spec.Backends) > 0,
	}
}
