package plan

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// controlPlaneNames are the names below a cluster's domain that lead to the
// proxy (behaviour D1), sorted.
var controlPlaneNames = []string{"api", "api-int", "ignition", "konnectivity", "oauth"}

// podView is what pods get for the clusters' names.
type podView struct {
	// declared: internalProxyService is set.
	declared bool
	// addr of it; zero while it is unknown.
	addr netip.Addr
}

// view of a name that leads to the proxy. Without internalProxyService pods are
// told what the upstreams say.
func (p podView) view() v1alpha1.DNSView {
	switch {
	case !p.declared:
		return forward
	case !p.addr.IsValid():
		return noData
	default:
		return answer(p.addr)
	}
}

// pending is the view of a name that has no address yet.
func (p podView) pending() v1alpha1.DNSView {
	if !p.declared {
		return forward
	}
	return noData
}

var (
	forward = v1alpha1.DNSView{Policy: v1alpha1.DNSPolicyForward}
	noData  = v1alpha1.DNSView{Policy: v1alpha1.DNSPolicyNoData}
)

func answer(a netip.Addr) v1alpha1.DNSView {
	return v1alpha1.DNSView{Policy: v1alpha1.DNSPolicyAnswer, Addresses: []v1alpha1.ListedIPv4{listedIPv4(a)}}
}

// records are the owned names (behaviours D1 to D3), sorted; those of a cluster that
// lead to the same place are one record. proxy is the proxy's
// address on the VLAN; without one there is nothing to lead to.
func records(included []*candidate, sources map[Key][]netip.Addr, proxy netip.Addr, pod podView) []v1alpha1.DNSRecord {
	if !proxy.IsValid() {
		return appsRecords(included, pod)
	}
	var out []v1alpha1.DNSRecord
	for _, c := range included {
		names := make([]string, 0, len(controlPlaneNames))
		for _, name := range controlPlaneNames {
			names = append(names, name+"."+c.domain)
		}
		out = append(out, v1alpha1.DNSRecord{Name: names[0], MoreNames: names[1:], VLAN: answer(proxy), Pod: pod.view()})
	}
	out = append(out, appsRecords(included, pod)...)
	known := slices.ContainsFunc(included, func(c *candidate) bool { return len(sources[c.Key]) > 0 })
	r := v1alpha1.DNSRecord{Name: Aliases[0], MoreNames: slices.Clone(Aliases[1:]), VLAN: noData, Pod: noData}
	if known {
		r.VLAN, r.Pod = answer(proxy), pod.view()
	}
	out = append(out, r)
	sortRecords(out)
	return out
}

// appsRecords are the wildcards of *.apps. A cluster without apps ingress, or
// whose endpoint is a host name, owns none: such names are forwarded.
func appsRecords(included []*candidate, pod podView) []v1alpha1.DNSRecord {
	var out []v1alpha1.DNSRecord
	for _, c := range included {
		if !c.Spec.AppsIngress.Enabled || !c.AppsIP.IsValid() && c.AppsHostname != "" {
			continue
		}
		r := v1alpha1.DNSRecord{Name: "*.apps." + c.domain, VLAN: noData, Pod: pod.pending()}
		if c.publishes() && c.AppsIP.IsValid() {
			r.VLAN, r.Pod = answer(c.AppsIP), pod.view()
		}
		out = append(out, r)
	}
	sortRecords(out)
	return out
}

func sortRecords(r []v1alpha1.DNSRecord) {
	slices.SortFunc(r, func(a, b v1alpha1.DNSRecord) int { return strings.Compare(a.Name, b.Name) })
}
