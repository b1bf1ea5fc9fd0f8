package lease

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"
)

// Range is an inclusive range of IPv4 addresses.
type Range struct{ First, Last netip.Addr }

// Settings are what the table needs of the configuration.
type Settings struct {
	// Prefix is the network. An address outside of it is never confirmed.
	Prefix netip.Prefix
	// Dynamic is the range that clients get addresses from.
	Dynamic Range
	// Reserved are the gateway and the servers: never anybody's.
	Reserved []netip.Addr
	// Excluded are left out of the dynamic range.
	Excluded []Range
	// Fixed are the administrator's reservations.
	Fixed map[MAC]netip.Addr
	// LeaseTime is how long a lease lasts.
	LeaseTime time.Duration
	// IgnoreUnknown gives nothing to clients that are neither a known
	// virtual machine nor have a reservation.
	IgnoreUnknown bool
	// Headroom keeps a part of the pool for known virtual machines.
	Headroom bool
}

// span is an inclusive range of addresses as numbers.
type span struct{ first, last uint32 }

func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func address(n uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}

// pool is the set of addresses that may be given dynamically: the range less
// everything that must not be given (spec C7).
type pool struct {
	spans []span
	size  int
}

func newPool(s Settings) pool {
	var p pool
	if !s.Dynamic.First.Is4() || !s.Dynamic.Last.Is4() {
		return p
	}
	next, last := number(s.Dynamic.First), number(s.Dynamic.Last)
	for _, x := range excluded(s) {
		if next > last {
			break
		}
		if x.last < next {
			continue
		}
		if x.first > last {
			break
		}
		if x.first > next {
			p.add(span{next, x.first - 1})
		}
		if x.last == ^uint32(0) {
			return p
		}
		next = x.last + 1
	}
	if next <= last {
		p.add(span{next, last})
	}
	return p
}

// excluded lists, sorted, everything that the pool leaves out.
func excluded(s Settings) []span {
	var out []span
	for _, r := range s.Excluded {
		out = append(out, span{number(r.First), number(r.Last)})
	}
	one := func(a netip.Addr) { out = append(out, span{number(a), number(a)}) }
	for _, a := range s.Reserved {
		one(a)
	}
	for _, a := range s.Fixed {
		one(a)
	}
	if s.Prefix.IsValid() {
		one(s.Prefix.Masked().Addr())
		one(lastOf(s.Prefix))
	}
	slices.SortFunc(out, func(a, b span) int {
		if a.first < b.first {
			return -1
		}
		if a.first > b.first {
			return 1
		}
		return 0
	})
	return out
}

// lastOf is the broadcast address of p.
func lastOf(p netip.Prefix) netip.Addr {
	return address(number(p.Masked().Addr()) | (1<<(32-p.Bits()) - 1))
}

func (p *pool) add(s span) {
	p.spans = append(p.spans, s)
	p.size += int(s.last-s.first) + 1
}

func (p pool) contains(n uint32) bool {
	_, ok := slices.BinarySearchFunc(p.spans, n, func(s span, n uint32) int {
		switch {
		case s.last < n:
			return -1
		case s.first > n:
			return 1
		}
		return 0
	})
	return ok
}

// cursor walks the pool once, upwards.
type cursor struct {
	span int
	next uint32
}

// never returns the next address of the pool that the table has no entry for.
func (t *Table) never() (uint32, bool) {
	for t.cursor.span < len(t.pool.spans) {
		s := t.pool.spans[t.cursor.span]
		n := max(t.cursor.next, s.first)
		if n == s.last {
			t.cursor = cursor{span: t.cursor.span + 1}
		} else {
			t.cursor.next = n + 1
		}
		if _, ok := t.byIP[n]; !ok {
			return n, true
		}
	}
	return 0, false
}
