package plan

import (
	"fmt"
	"slices"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// leaveOutApps keeps the first reason why *.apps is not provisioned; the
// control plane's names are served all the same.
func (c *candidate) leaveOutApps(reason, format string, args ...any) {
	if c.apps.Reason == "" {
		c.apps = Reason{reason, fmt.Sprintf(format, args...)}
	}
}

// wantsApps: *.apps is asked for and nothing speaks against it so far.
func (c *candidate) wantsApps() bool {
	return c.admitted && c.Spec.AppsIngress.Enabled && c.apps.Reason == ""
}

// judgeApps decides about the load balancer ranges and the ports of *.apps. all
// are the attachments of one network; each range is judged against all of them,
// the ports within the Infra that is planned (behaviours A2, F5).
func judgeApps(all []*candidate, n *network, leaving []rangeClaim) {
	for _, c := range all {
		if !c.wantsApps() {
			continue
		}
		r, fault := checkApps(c.Spec.AppsIngress)
		if fault != "" {
			c.leaveOutApps(v1alpha1.ReasonInvalidConfiguration, "%s", fault)
			continue
		}
		c.appsRange = r
		if !c.own {
			continue
		}
		if fault := n.staticRangeFault(r, string(c.record.Range) == r.String()); fault != "" {
			c.leaveOutApps(v1alpha1.ReasonOverlappingRange, "appsIngress.metallb.ipAddressPoolRange: %s", fault)
		}
	}
	judgeRanges(all, leaving)
	judgePorts(all)
}

func judgeRanges(all []*candidate, leaving []rangeClaim) {
	claims := slices.Clone(leaving)
	for _, c := range all {
		if c.wantsApps() {
			r := c.rank
			r.inForce = string(c.record.Range) == c.appsRange.String()
			claims = append(claims, rangeClaim{r, c.appsRange})
		}
	}
	refused := accept(claims, func(c rangeClaim) rank { return c.rank }, rangesCollide)
	for _, c := range all {
		if by, found := refused[c.Key]; found && c.wantsApps() {
			c.leaveOutApps(v1alpha1.ReasonOverlappingRange, "appsIngress.metallb.ipAddressPoolRange: range %s overlaps %s of %s",
				c.appsRange, by.Range, by.name)
		}
	}
}

func judgePorts(all []*candidate) {
	var claims []portClaim
	for _, c := range all {
		if c.own && c.wantsApps() {
			http, https := AppsPorts(c.Spec.AppsIngress.Ports)
			r := c.rank
			r.inForce = uint16(c.record.HTTPPort) == http && uint16(c.record.HTTPSPort) == https
			claims = append(claims, portClaim{r, http, https})
		}
	}
	refused := accept(claims, func(c portClaim) rank { return c.rank }, portsCollide)
	for _, c := range all {
		if by, found := refused[c.Key]; found && c.wantsApps() {
			http, https := AppsPorts(c.Spec.AppsIngress.Ports)
			c.leaveOutApps(v1alpha1.ReasonInvalidConfiguration,
				"appsIngress.ports: http %d and https %d collide with http %d and https %d of %s", http, https, by.http, by.https, by.name)
		}
	}
}

// leavingRanges are the recorded ranges that hold on although the spec does not
// ask for them any more: of an attachment that is being deleted, or whose
// objects are still in the hosted cluster.
func leavingRanges(in Inputs, near func(Key) bool) []rangeClaim {
	var out []rangeClaim
	byKey := map[Key]Attachment{}
	for _, a := range in.Attachments {
		byKey[a.Key] = a
	}
	for _, i := range append([]Infra{in.Infra}, in.Siblings...) {
		if !near(i.Key) {
			continue
		}
		for _, r := range i.InForce {
			key := Key{i.Namespace, string(r.Attachment)}
			a, exists := byKey[key]
			if !exists || !leaving(a) {
				continue
			}
			if parsed, err := ParseRange(string(r.Range)); err == nil {
				out = append(out, rangeClaim{rank{inForce: true, created: a.Created, name: key}, parsed})
			}
		}
	}
	return out
}

// leaving: what the attachment holds is given up, but not gone yet.
func leaving(a Attachment) bool {
	return a.Deleting || a.AppsApplied && !a.Spec.AppsIngress.Enabled
}
