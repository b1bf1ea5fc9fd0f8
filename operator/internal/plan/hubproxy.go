package plan

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// hubProxyProblem: hosted API servers inherit the management cluster's proxy, and
// reach the kubelets on the VLAN through it unless there is an exception. Nothing
// is withheld for it.
func (w *world) hubProxyProblem() []Problem {
	if !w.in.HubProxy.Used {
		return nil
	}
	for _, entry := range w.in.HubProxy.NoProxy {
		entry = strings.TrimSpace(entry)
		p, err := netip.ParsePrefix(entry)
		if entry == "*" || err == nil && p.Bits() <= w.own.cidr.Bits() && p.Contains(w.own.cidr.Addr()) {
			return nil
		}
	}
	return []Problem{{Kind: "Infra", Key: w.in.Infra.Key, Reason: Reason{v1alpha1.ReasonHubProxyLacksVLAN, fmt.Sprintf(
		"noProxy of the management cluster's Proxy cluster has no %s: hosted API servers reach the kubelets there through the HTTP proxy; "+
			"add %s to its spec.noProxy", w.own.cidr, w.own.cidr)}}}
}
