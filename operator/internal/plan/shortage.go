package plan

import (
	"fmt"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// shortageProblem: an upgrade that replaces makes all new workers before the old
// ones are gone, and one without an address never joins, so the upgrade stops.
// Counted are the workers that have no lease yet, against what the DHCP server says
// is free; before it has said anything nothing is known. The message has the
// difference alone: it stays as it is while workers get their leases.
func (w *world) shortageProblem(own []*candidate) []Problem {
	if w.in.Pool.Total == 0 {
		return nil
	}
	bound := map[Key]bool{}
	for _, b := range w.in.Bindings {
		bound[b.VM] = true
	}
	waiting := 0
	for _, c := range own {
		if !c.included() {
			continue
		}
		for _, vm := range c.Machines {
			if !bound[Key{Namespace: c.ControlPlaneNamespace, Name: vm}] {
				waiting++
			}
		}
	}
	short := waiting - w.in.Pool.Free
	if short <= 0 {
		return nil
	}
	return []Problem{{Kind: "Infra", Key: w.in.Infra.Key, Reason: Reason{v1alpha1.ReasonTooFewAddresses, fmt.Sprintf(
		"the DHCP range lacks %d addresses for workers that have none yet; an upgrade that replaces workers needs room for twice as many: "+
			"widen infraComponents.dhcp.rangeStart to rangeEnd", short)}}}
}
