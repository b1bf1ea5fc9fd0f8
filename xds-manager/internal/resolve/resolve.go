// Package resolve looks up endpoints that are host names.
//
// The names come from a tenant. So it asks the VLAN's upstreams and never the
// cluster's DNS, and what it hands out are only addresses inside the VLAN that
// are none of ours: a name can lead nowhere that its owner could not reach
// anyway. A failed look-up keeps the last good answer.
package resolve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// lookupTimeout bounds one question to one upstream.
const lookupTimeout = 2 * time.Second

// Policy says whom to ask and what to believe.
type Policy struct {
	Upstreams []string
	CIDR      netip.Prefix
	Reserved  []netip.Addr
}

// ErrNoUpstream says that there is nobody to ask.
var ErrNoUpstream = errors.New("no upstream resolver with an address")

// Host looks a name up. The error says why no address is usable.
func (p Policy) Host(ctx context.Context, host string) ([]netip.Addr, error) {
	servers := p.servers()
	if len(servers) == 0 {
		return nil, ErrNoUpstream
	}
	var errs []error
	for _, s := range servers {
		addrs, err := ask(ctx, s, host)
		if err != nil {
			errs = append(errs, fmt.Errorf("asking %s: %w", s, err))
			continue
		}
		return p.Usable(addrs)
	}
	return nil, errors.Join(errs...)
}

// servers are the upstreams that are addresses: "resolv.conf" would be the
// cluster's own resolver.
func (p Policy) servers() []string {
	var out []string
	for _, u := range p.Upstreams {
		if a, err := netip.ParseAddr(u); err == nil {
			out = append(out, netip.AddrPortFrom(a, 53).String())
		} else if ap, err := netip.ParseAddrPort(u); err == nil {
			out = append(out, ap.String())
		}
	}
	return out
}

func ask(ctx context.Context, server, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server)
	}}
	// The trailing dot keeps the pod's search list out.
	return r.LookupNetIP(ctx, "ip4", strings.TrimSuffix(host, ".")+".")
}

// Usable are those of the addresses that may be used, sorted and once each. The
// error says that there are none.
func (p Policy) Usable(in []netip.Addr) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, a := range in {
		a = a.Unmap()
		if p.CIDR.Contains(a) && !slices.Contains(p.Reserved, a) && a != p.CIDR.Addr() && a != broadcast(p.CIDR) {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("none of its %d addresses is a free one inside %s", len(in), p.CIDR)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}

func broadcast(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().As4()
	host := uint32(1)<<(32-p.Bits()) - 1
	v := uint32(a[0])<<24 | uint32(a[1])<<16 | uint32(a[2])<<8 | uint32(a[3])
	v |= host
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}
