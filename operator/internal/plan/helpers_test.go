package plan_test

import (
	"net/netip"

	"github.com/densityops/oooi/operator/internal/plan"
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, prefix(s))
	}
	return out
}

// clusterIPs are Services of the Infra's namespace.
func clusterIPs(services map[string]string) map[plan.Key]netip.Addr {
	out := map[plan.Key]netip.Addr{}
	for name, ip := range services {
		out[plan.Key{Namespace: "clusters", Name: name}] = addr(ip)
	}
	return out
}
