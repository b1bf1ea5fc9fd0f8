package oooi

import (
	"net"
	"net/netip"
	"slices"

	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

// side is one of the two networks that the server stands in, and so one of the
// two views.
type side uint8

const (
	sideVLAN side = iota
	sidePod
	sides
)

func (s side) String() string {
	if s == sideVLAN {
		return "vlan"
	}
	return "pod"
}

// serving is all that a query needs. It is built once per snapshot, never
// changed, and swapped as a whole.
type serving struct {
	config   snapshot.Config
	views    [sides]tree
	vlanIPs  []netip.Addr // our addresses on the VLAN
	upstream *upstream    // nil: nothing to forward to
	serial   uint32
	blocked  map[string]bool // domains that the upstreams send back, by wire form
}

// newServing compiles a snapshot. vlan is the address that the Corefile names;
// the snapshot's own counts as well, so that neither side of a change of the
// address is taken for the pod network.
func newServing(c snapshot.Config, vlan netip.Addr, up *upstream) *serving {
	s := &serving{config: c, upstream: up, vlanIPs: []netip.Addr{c.ServerIP}, serial: serial(c)}
	if vlan.IsValid() && vlan != c.ServerIP {
		s.vlanIPs = append(s.vlanIPs, vlan)
	}
	s.views[sideVLAN] = compile(&c, func(r snapshot.Record) snapshot.View { return r.VLAN })
	s.views[sidePod] = compile(&c, func(r snapshot.Record) snapshot.View { return r.Pod })
	return s
}

// serial is the SOA serial: the child's generation, at least 1. Nobody
// transfers the zone; people read it.
func serial(c snapshot.Config) uint32 {
	return uint32(max(c.Child.Generation, 1))
}

// admit decides which view a query gets, by the socket that it came in by and
// by its source. ok is false for a source that has no business on that socket.
func (s *serving) admit(local, remote netip.Addr) (view side, ok bool) {
	inside := slices.ContainsFunc(s.config.Sources, func(p netip.Prefix) bool { return p.Contains(remote) })
	if slices.Contains(s.vlanIPs, local) {
		return sideVLAN, inside
	}
	return sidePod, !inside
}

// address is the IP address of a socket's end, without IPv4-in-IPv6.
func address(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case *net.UDPAddr:
		return a.AddrPort().Addr().Unmap()
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
