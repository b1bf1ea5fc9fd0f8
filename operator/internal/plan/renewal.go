package plan

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// sameHold says whether two records hold the same of a network.
func sameHold(a, b v1alpha1.NetworkInForce) bool {
	a.Renewal, b.Renewal = nil, nil
	return a == b
}

// renewed is the network as the status records it, with what running workers
// keep of an earlier one for a lease time (behaviour A7).
func (w *world) renewed() *v1alpha1.NetworkInForce {
	now, before := w.own.inForce(), w.in.Infra.Network
	if before == nil || w.in.Now.IsZero() {
		return now
	}
	if changes := moved(*before, *now); changes != "" {
		lease := LeaseTime(w.in.Infra.Spec.InfraComponents.DHCP.LeaseTime)
		now.Renewal = &v1alpha1.NetworkRenewal{
			Message: fmt.Sprintf("%s; running workers keep what they had until they renew, at most %s", changes, lease),
			Until:   metav1.NewTime(w.in.Now.Add(lease).UTC().Truncate(time.Second)),
		}
		return now
	}
	if before.Renewal != nil && w.in.Now.Before(before.Renewal.Until.Time) {
		now.Renewal = before.Renewal.DeepCopy()
	}
	return now
}

// moved names what workers know of the network and that has changed.
func moved(before, now v1alpha1.NetworkInForce) string {
	var out []string
	for _, f := range []struct{ field, before, now string }{
		{"networkConfig.cidr", string(before.CIDR), string(now.CIDR)},
		{"infraComponents.dhcp.serverIP", string(before.DHCPServerIP), string(now.DHCPServerIP)},
		{"infraComponents.dns.serverIP", string(before.DNSServerIP), string(now.DNSServerIP)},
		{"infraComponents.proxy.serverIP", string(before.ProxyServerIP), string(now.ProxyServerIP)},
	} {
		if f.before != "" && f.now != "" && f.before != f.now {
			out = append(out, fmt.Sprintf("%s moved from %s to %s", f.field, f.before, f.now))
		}
	}
	return strings.Join(out, ", ")
}

// Renewing says that workers still keep an earlier network, and for how long.
func (p Plan) Renewing(now time.Time) (Reason, time.Duration) {
	if p.Network == nil || p.Network.Renewal == nil || p.Refusal.Reason != "" {
		return Reason{}, 0
	}
	return Reason{v1alpha1.ReasonNetworkChanged, p.Network.Renewal.Message}, p.Network.Renewal.Until.Sub(now)
}
