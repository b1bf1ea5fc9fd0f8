package facts

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/plan"
)

// maxStrays are named; more are counted.
const maxStrays = 10

// strays names the machines that have addresses, but none on the VLAN: something
// else is wrong with them than with a machine that has none yet (behaviour F1).
func (j *judge) strays(workers []v1alpha1.ObservedWorker) string {
	if j.w.Unreadable[KindNodePool] || j.w.Unreadable[KindMachine] || !j.cidr.IsValid() {
		return ""
	}
	there := map[string]bool{}
	for _, w := range workers {
		there[w.Machine] = true
	}
	off := slices.DeleteFunc(j.machines(), func(m Machine) bool { return there[m.Name] || !slices.ContainsFunc(m.Addresses, routable) })
	if len(off) == 0 {
		return ""
	}
	leased := j.leased()
	var names []string
	for _, m := range off {
		if !leased[cmp.Or(m.VM, m.Name)] {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	more := ""
	if n := len(names) - maxStrays; n > 0 {
		names, more = names[:maxStrays], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("machines have addresses, but none in networkConfig.cidr %s, so the aliases do not serve them: %s%s", j.cidr, strings.Join(names, ", "), more)
}

// leased are the VMs of the cluster that have an address of the VLAN from DHCP:
// their machines will say so.
func (j *judge) leased() map[string]bool {
	out := map[string]bool{}
	var in plan.Inputs
	readChildren(j.w, j.infra, &in)
	for _, b := range in.Bindings {
		if b.VM.Namespace == j.controlPlane && j.cidr.Contains(b.Address) {
			out[b.VM.Name] = true
		}
	}
	return out
}

// routable: an IPv4 address that a network gave; an interface without one has a
// link-local one.
func routable(text string) bool {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "/")
	a, err := netip.ParseAddr(text)
	return err == nil && a.Is4() && a.IsGlobalUnicast()
}
