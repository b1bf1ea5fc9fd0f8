package server

import (
	"net/netip"
	"strings"
	"time"

	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/dhcp"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

const (
	// hopTime is how long a station that has answered for a next hop counts,
	// and hopAsk how often it is asked for meanwhile.
	hopTime = time.Minute
	hopAsk  = 20 * time.Second
	// maxHopMACs bounds the stations that say they are one next hop.
	maxHopMACs = 4
)

// hop is the next station on the way to a relay, from which the frames of its
// messages come.
type hop struct {
	ip    netip.Addr
	macs  map[lease.MAC]time.Time // that have answered for ip
	asked time.Time
}

// stations drops answers that are too old and says how many are left.
func (h *hop) stations(now time.Time) int {
	for m, t := range h.macs {
		if now.Sub(t) > hopTime {
			delete(h.macs, m)
		}
	}
	return len(h.macs)
}

// answered notes that a station says it is a next hop.
func (s *Server) answered(ip netip.Addr, mac lease.MAC, now time.Time) {
	for _, h := range s.hops {
		if h.ip != ip {
			continue
		}
		if _, ok := h.macs[mac]; ok || len(h.macs) < maxHopMACs {
			h.macs[mac] = now
		}
	}
}

// genuine says whether the station that has sent a frame may say what is in it:
// a client for itself, and a relay for others.
//
// The frames of a relay on the link are its own. Those of a relay behind a
// router may come from any router, but from no client of ours. What takes an
// address from a client must come from the one station that answers for the next
// hop: RFC 2131 section 4.4.4 has a RELEASE sent to us alone, so that only a relay
// with an address of ours (RFC 5107) or one that overhears it passes it on.
func (s *Server) genuine(m *dhcp.Message, from lease.MAC, now time.Time) bool {
	if !m.Relayed() {
		return m.MAC == from
	}
	h := s.hops[m.GIAddr]
	n, its := 0, false
	if h != nil {
		n = h.stations(now)
		_, its = h.macs[from]
	}
	switch {
	case m.Type == dhcp.Release, m.Type == dhcp.Decline:
		return its && n == 1
	case its:
		return true
	case n > 0 && h.ip == m.GIAddr:
		return false
	}
	return !s.isMachine(from) && !s.table.Knows(from)
}

// checkRelays looks which relays of other networks cannot be reached, and asks
// who the next hop to each is.
func (s *Server) checkRelays(c *conn, dev Device) {
	s.mu.Lock()
	cfg := s.cfg
	s.mu.Unlock()
	var lost []string
	hops := map[netip.Addr]netip.Addr{}
	for _, relay := range cfg.Relays {
		switch next, ok, err := route(dev.Index, relay); {
		case err != nil:
			s.opts.Log.Debug("route to a relay cannot be looked up", "ip", relay.String(), "err", err)
		case ok && next.IsValid():
			hops[relay] = next
		case !ok && !cfg.Prefix.Contains(relay):
			lost = append(lost, relay.String())
		}
	}
	for _, ip := range s.setHops(lost, hops) {
		if c.arp != nil {
			c.arp.ask(c.ip, ip)
		}
	}
}

// setHops takes over what is known of the ways to relays, and says which next
// hops are to be asked for.
func (s *Server) setHops(lost []string, next map[netip.Addr]netip.Addr) (ask []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	s.watch.lost = lost
	hops := make(map[netip.Addr]*hop, len(next))
	for relay, ip := range next {
		h := s.hops[relay]
		if h == nil || h.ip != ip {
			h = &hop{ip: ip, macs: map[lease.MAC]time.Time{}}
		}
		hops[relay] = h
		if h.stations(now) == 0 || now.Sub(h.asked) >= hopAsk {
			h.asked = now
			ask = append(ask, ip)
		}
	}
	s.hops = hops
	s.relays.Store(len(hops) > 0)
	return ask
}

// lostRelays is the problem of relays that cannot be reached.
func lostRelays(lost []string) config.Problem {
	return config.Problem{
		Reason: "NoVLANRoute",
		Message: "no route by the network's own device to the relays " + strings.Join(lost, ", ") +
			", so their clients get no answer; add one to the NetworkAttachmentDefinition's ipam, as " +
			`"routes": [{"dst": "` + lost[0] + `/32", "gw": "ROUTER"}]`,
	}
}
