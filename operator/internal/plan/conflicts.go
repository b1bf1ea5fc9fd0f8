package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// rank orders those who want the same: who has it already, then who is older,
// then by name (behaviour F5). Names decide nothing else.
type rank struct {
	inForce bool
	created time.Time
	name    Key
}

func (r rank) compare(o rank) int {
	if r.inForce != o.inForce {
		if r.inForce {
			return -1
		}
		return 1
	}
	return cmp.Or(r.created.Compare(o.created), compareKeys(r.name, o.name))
}

func compareKeys(a, b Key) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// accept goes through claims by rank and keeps those that collide with none
// that was kept before. For each refused claim it names the first that it
// collides with.
func accept[C any](claims []C, rankOf func(C) rank, collide func(a, b C) bool) map[Key]C {
	slices.SortStableFunc(claims, func(a, b C) int { return rankOf(a).compare(rankOf(b)) })
	refused := map[Key]C{}
	var kept []C
next:
	for _, c := range claims {
		for _, k := range kept {
			if collide(c, k) {
				if _, twice := refused[rankOf(c).name]; !twice {
					refused[rankOf(c).name] = k
				}
				continue next
			}
		}
		kept = append(kept, c)
	}
	return refused
}

// groups joins whatever shares a collision, directly or through others, and
// returns the groups of two and more. pairs calls join for every collision.
func groups(n int, pairs func(join func(a, b int))) [][]int {
	parent := make([]int, n)
	for i := range parent {
		parent[i] = i
	}
	var root func(int) int
	root = func(i int) int {
		if parent[i] != i {
			parent[i] = root(parent[i])
		}
		return parent[i]
	}
	pairs(func(a, b int) { parent[root(a)] = root(b) })
	members := map[int][]int{}
	for i := range n {
		members[root(i)] = append(members[root(i)], i)
	}
	var out [][]int
	for _, m := range members {
		if len(m) > 1 {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	return out
}

// domainsCollide: one domain is the other, or lies inside it.
func domainsCollide(a, b string) bool {
	return a == b || strings.HasSuffix(a, "."+b) || strings.HasSuffix(b, "."+a)
}

// domainPairs joins attachments whose domains collide.
func domainPairs(domains []string) func(join func(a, b int)) {
	return func(join func(a, b int)) {
		first := map[string]int{}
		for i, d := range domains {
			if f, found := first[d]; found {
				join(f, i)
			} else {
				first[d] = i
			}
		}
		for i, d := range domains {
			for rest := d; ; {
				_, parent, more := strings.Cut(rest, ".")
				if !more {
					break
				}
				if f, found := first[parent]; found {
					join(f, i)
				}
				rest = parent
			}
		}
	}
}

// equalPairs joins what has an equal value.
func equalPairs[V comparable](values []V) func(join func(a, b int)) {
	return func(join func(a, b int)) {
		first := map[V]int{}
		for i, v := range values {
			if f, found := first[v]; found {
				join(f, i)
			} else {
				first[v] = i
			}
		}
	}
}

// netClaim is what an Infra wants of a network, or holds of it.
type netClaim struct {
	rank
	cidr    netip.Prefix
	servers []netip.Addr
	dhcp    bool
	// holds is what its Infra has in force, nil for a newcomer.
	holds *netClaim
}

// netClaimsCollide: the claims of two Infras meet, and one is a newcomer to it.
func netClaimsCollide(a, b netClaim) bool {
	return a.name != b.name && !sideBySide(a, b) && a.meets(b)
}

// sideBySide: two Infras of different namespaces hold already what their claims meet
// in. Who may write an Infra's status, its servers or the NetworkAttachmentDefinition
// that it names decides what it seems to hold, so that takes nothing from what another
// namespace has in force (behaviours F0, F5).
func sideBySide(a, b netClaim) bool {
	if a.name.Namespace == b.name.Namespace || a.holds == nil || b.holds == nil {
		return false
	}
	if a.cidr.Overlaps(b.cidr) && !a.holds.cidr.Overlaps(b.holds.cidr) {
		return false
	}
	if contested(a, b) {
		return false
	}
	return !a.dhcp || !b.dhcp || a.holds.dhcp && b.holds.dhcp
}

// contested: both claim an address for a server that not both of them hold.
func contested(a, b netClaim) bool {
	return slices.ContainsFunc(a.servers, func(s netip.Addr) bool {
		held := slices.Contains(a.holds.servers, s) && slices.Contains(b.holds.servers, s)
		return slices.Contains(b.servers, s) && !held
	})
}

// meets: they overlap, share a server's address, or both serve DHCP.
func (c netClaim) meets(other netClaim) bool {
	if c.cidr.Overlaps(other.cidr) || c.dhcp && other.dhcp {
		return true
	}
	return slices.ContainsFunc(c.servers, func(s netip.Addr) bool { return slices.Contains(other.servers, s) })
}

// rangeClaim is an attachment's load balancer range.
type rangeClaim struct {
	rank
	Range
}

// rangesCollide: two attachments' ranges share an address.
func rangesCollide(a, b rangeClaim) bool {
	return a.name != b.name && a.Overlaps(b.Range)
}

// portClaim is the ports that an attachment's *.apps is served on.
type portClaim struct {
	rank
	http, https uint16
}

// portsCollide: one attachment's port for HTTP is another's for HTTPS.
func portsCollide(a, b portClaim) bool {
	return a.http == b.https || a.https == b.http
}

// staticRangeFault says what a range collides with that is no attachment's.
// A pool that was moved onto a range in force gives way (behaviour C7).
func (n *network) staticRangeFault(r Range, inForce bool) string {
	if !r.Within(rangeOf(n.cidr)) {
		return fmt.Sprintf("range %s lies outside networkConfig.cidr %s", r, n.cidr)
	}
	if r.Contains(n.gateway) {
		return fmt.Sprintf("range %s holds networkConfig.gateway %s", r, n.gateway)
	}
	for _, s := range n.servers() {
		if r.Contains(s) {
			return fmt.Sprintf("range %s holds serverIP %s", r, s)
		}
	}
	if r.Overlaps(n.pool) && !inForce {
		return fmt.Sprintf("range %s overlaps the DHCP range %s", r, n.pool)
	}
	return ""
}

// sameNetwork says whether two NetworkAttachmentDefinitions are one network: the
// same object, the same name in their configuration, or the same plugin, master
// and VLAN id (behaviour C3).
func sameNetwork(a, b NetworkAttachment) bool {
	if a.Key == b.Key || a.Network != "" && a.Network == b.Network {
		return true
	}
	return a.Type != "" && a.Master != "" && a.Type == b.Type && a.Master == b.Master && a.VLAN == b.VLAN
}

// sourceClaims are who claims each worker address.
type sourceClaims map[netip.Addr][]int

// add a claim, once.
func (s sourceClaims) add(a netip.Addr, who int) {
	if !slices.Contains(s[a], who) {
		s[a] = append(s[a], who)
	}
}

// ambiguous are the addresses that two and more claim, sorted.
func (s sourceClaims) ambiguous() []netip.Addr {
	var out []netip.Addr
	for a, who := range s {
		if len(who) > 1 {
			out = append(out, a)
		}
	}
	return sortAddrs(out)
}
