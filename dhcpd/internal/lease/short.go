package lease

import (
	"net/netip"
	"slices"
)

// Crowd is how many interfaces of machines there are on the network, and how many
// addresses for them: those of the pool, and those that are reserved.
func (t *Table) Crowd() (interfaces, addresses int) { return t.machines, t.pool.size + len(t.fixed) }

// Waiting is a reservation whose address another client has.
type Waiting struct {
	MAC, Holder MAC
	IP          netip.Addr
}

// Waiting lists the reservations that cannot be met now, by address.
func (t *Table) Waiting() []Waiting {
	var out []Waiting
	for n, m := range t.fixed {
		e := t.byIP[n]
		if e != nil && e.owned && e.mac != m && (e.state == Bound || e.state == Held) {
			out = append(out, Waiting{MAC: m, Holder: e.mac, IP: address(n)})
		}
	}
	slices.SortFunc(out, func(a, b Waiting) int { return a.IP.Compare(b.IP) })
	return out
}
