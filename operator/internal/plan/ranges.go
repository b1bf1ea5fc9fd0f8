package plan

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Range is an inclusive range of IPv4 addresses.
type Range struct {
	First, Last netip.Addr
}

// ParseRange reads "first-last", a network or one address.
func ParseRange(s string) (Range, error) {
	if first, last, dash := strings.Cut(s, "-"); dash {
		f, err := ParseIPv4(strings.TrimSpace(first))
		if err != nil {
			return Range{}, err
		}
		l, err := ParseIPv4(strings.TrimSpace(last))
		if err != nil {
			return Range{}, err
		}
		if l.Less(f) {
			return Range{}, fmt.Errorf("%s must not be after %s", f, l)
		}
		return Range{f, l}, nil
	}
	s = strings.TrimSpace(s)
	if strings.Contains(s, "/") {
		prefix, err := netip.ParsePrefix(s)
		if err != nil || !prefix.Addr().Is4() || prefix != prefix.Masked() {
			return Range{}, fmt.Errorf("%s must be an IPv4 network without host bits", s)
		}
		return rangeOf(prefix), nil
	}
	one, err := ParseIPv4(s)
	return Range{one, one}, err
}

// Contains says whether a lies in the range.
func (r Range) Contains(a netip.Addr) bool {
	return r.IsValid() && a.IsValid() && !a.Less(r.First) && !r.Last.Less(a)
}

// Overlaps says whether the ranges share an address.
func (r Range) Overlaps(o Range) bool {
	return r.IsValid() && o.IsValid() && !r.Last.Less(o.First) && !o.Last.Less(r.First)
}

// Within says whether every address of the range lies in o.
func (r Range) Within(o Range) bool {
	return o.Contains(r.First) && o.Contains(r.Last)
}

// IsValid says whether the range is set.
func (r Range) IsValid() bool { return r.First.IsValid() && r.Last.IsValid() }

// String is the form of IPv4Range: "first-last", or one address.
func (r Range) String() string {
	if r.First == r.Last {
		return r.First.String()
	}
	return r.First.String() + "-" + r.Last.String()
}

// rangeOf is every address of a network, its own and its broadcast address too.
func rangeOf(p netip.Prefix) Range {
	p = p.Masked()
	return Range{p.Addr(), broadcastOf(p)}
}

// broadcastOf is the last address of an IPv4 network.
func broadcastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(b)
}

// ParseIPv4 reads an address in dotted form; netip refuses leading zeros.
func ParseIPv4(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is4() {
		return netip.Addr{}, fmt.Errorf("%q must be an IPv4 address without leading zeros, such as 192.0.2.1", s)
	}
	return a, nil
}

// errHostBits and its neighbours are what ParseCIDR refuses.
var (
	errHostBits = errors.New("must be an IPv4 network without host bits, such as 192.0.2.0/24")
	errSize     = errors.New("must be between /8 and /30")
)

// ParseCIDR reads a VLAN's network.
func ParseCIDR(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is4() || p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("%q %w", s, errHostBits)
	}
	if p.Bits() < 8 || p.Bits() > 30 {
		return netip.Prefix{}, fmt.Errorf("%q %w", s, errSize)
	}
	return p, nil
}

// isHost says whether a can be a host of the network.
func isHost(p netip.Prefix, a netip.Addr) bool {
	return p.Contains(a) && a != p.Masked().Addr() && a != broadcastOf(p)
}

// sortRanges sorts by the first address, then by the last.
func sortRanges(ranges []Range) {
	slices.SortFunc(ranges, func(a, b Range) int { return cmp.Or(a.First.Compare(b.First), a.Last.Compare(b.Last)) })
}

// spans are ranges that do not touch each other, sorted.
type spans []Range

// merge joins ranges to spans.
func merge(ranges []Range) spans {
	ranges = slices.DeleteFunc(slices.Clone(ranges), func(r Range) bool { return !r.IsValid() })
	sortRanges(ranges)
	var out spans
	for _, r := range ranges {
		if last := len(out) - 1; last >= 0 && !out[last].Last.Less(r.First) {
			if out[last].Last.Less(r.Last) {
				out[last].Last = r.Last
			}
			continue
		}
		out = append(out, r)
	}
	return out
}

// contain says whether a lies in one of the spans.
func (s spans) contain(a netip.Addr) bool {
	i, _ := slices.BinarySearchFunc(s, a, func(r Range, a netip.Addr) int { return r.Last.Compare(a) })
	return i < len(s) && s[i].Contains(a)
}

// sortAddrs sorts and removes what is there twice.
func sortAddrs(addrs []netip.Addr) []netip.Addr {
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs)
}
