package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// maxHosts is what the DNSServer's schema takes.
const maxHosts = 4096

// hosts are the worker VMs' own names below their cluster's domain, from the
// leases (behaviour D8). A name of two labels, or one that is owned, is left out.
func hosts(bindings []Binding, n *network, included []*candidate, owned []v1alpha1.DNSRecord) []v1alpha1.DNSHost {
	domains := map[string]string{}
	for _, c := range included {
		if c.ControlPlaneNamespace != "" {
			domains[c.ControlPlaneNamespace] = c.domain
		}
	}
	taken := map[string]bool{}
	for _, r := range owned {
		for _, name := range r.Names() {
			taken[name] = true
		}
	}
	var out []v1alpha1.DNSHost
	for _, b := range bindings {
		domain, found := domains[b.VM.Namespace]
		if !found || !isHost(n.cidr, b.Address) || !isLabel(b.VM.Name) {
			continue
		}
		name := b.VM.Name + "." + domain
		if taken[name] || len(name) > 253 {
			continue
		}
		out = append(out, v1alpha1.DNSHost{Name: v1alpha1.DomainName(name), Address: listedIPv4(b.Address)})
	}
	slices.SortFunc(out, func(a, b v1alpha1.DNSHost) int {
		return cmp.Or(strings.Compare(string(a.Name), string(b.Name)), strings.Compare(string(a.Address), string(b.Address)))
	})
	out = slices.Compact(out)
	if len(out) > maxHosts {
		out = out[:maxHosts]
	}
	return out
}
