package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// sourcesOf decides which worker addresses select which attachment (behaviour
// F1). own are the attachments of this Infra; one that is excluded still has
// its workers on the VLAN, so its claims make an address ambiguous too. It
// returns the addresses by attachment and the ambiguous ones as problems.
func sourcesOf(in Inputs, n *network, own []*candidate, taken spans) (map[Key][]netip.Addr, []Problem) {
	leased := leasesByAddress(in.Bindings)
	reserved := n.reserved()
	usable := func(a netip.Addr) bool {
		return isHost(n.cidr, a) && !slices.Contains(reserved, a) && !taken.contain(a)
	}
	claims, held := claimsOfMachines(own, leased, usable)
	owners := ownersOf(own)
	for a, vm := range leased {
		for _, i := range owners[vm] {
			if usable(a) {
				claims.add(a, i)
			}
		}
	}
	for a, who := range held {
		if len(claims[a]) == 0 {
			claims[a] = who
		}
	}
	return resolveSources(in.Infra.Key, own, claims)
}

// claimsOfMachines are the addresses that machines claim, and those that are
// held for them. A guest agent, and so the Machine, says what the tenant likes;
// the lease says whose the address is.
func claimsOfMachines(own []*candidate, leased map[netip.Addr]Key, usable func(netip.Addr) bool) (claims, held sourceClaims) {
	claims, held = sourceClaims{}, sourceClaims{}
	for i, c := range own {
		if c.HostedClusterUID == "" {
			continue
		}
		for _, w := range c.Workers {
			if vm, found := leased[w.Address]; found && vm.Namespace != c.ControlPlaneNamespace || !usable(w.Address) {
				continue
			}
			if w.Held {
				held.add(w.Address, i)
				continue
			}
			claims.add(w.Address, i)
		}
	}
	return claims, held
}

// ownersOf are the attachments by the virtual machines of their workers.
func ownersOf(own []*candidate) map[Key][]int {
	owners := map[Key][]int{}
	for i, c := range own {
		if c.HostedClusterUID == "" {
			continue
		}
		for _, vm := range c.Machines {
			key := Key{c.ControlPlaneNamespace, vm}
			owners[key] = append(owners[key], i)
		}
	}
	return owners
}

// resolveSources gives each address to its one claimant.
func resolveSources(infra Key, own []*candidate, claims sourceClaims) (map[Key][]netip.Addr, []Problem) {
	out := map[Key][]netip.Addr{}
	var problems []Problem
	for _, a := range claims.ambiguous() {
		names := make([]string, 0, len(claims[a]))
		for _, who := range claims[a] {
			names = append(names, own[who].Name)
		}
		slices.Sort(names)
		problems = append(problems, Problem{"Infra", infra, Reason{
			v1alpha1.ReasonDuplicateSourceIP, fmt.Sprintf("%s is claimed by %s and selects none of them", a, strings.Join(names, ", ")),
		}})
	}
	for a, who := range claims {
		if len(who) == 1 && own[who[0]].included() {
			out[own[who[0]].Key] = append(out[own[who[0]].Key], a)
		}
	}
	for key := range out {
		sortAddrs(out[key])
	}
	return out, problems
}

// leasesByAddress are the leases of known VMs. An address that stands there for
// two VMs is nobody's.
func leasesByAddress(bindings []Binding) map[netip.Addr]Key {
	out := map[netip.Addr]Key{}
	twice := map[netip.Addr]bool{}
	for _, b := range bindings {
		if b.VM == (Key{}) || !b.Address.IsValid() {
			continue
		}
		if other, found := out[b.Address]; found && other != b.VM {
			twice[b.Address] = true
		}
		out[b.Address] = b.VM
	}
	for a := range twice {
		out[a] = Key{}
	}
	return out
}
