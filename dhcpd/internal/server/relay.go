package server

import (
	"net/netip"
	"slices"
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

// sole says whether one station alone answers, and it is this one.
func (h *hop) sole(mac lease.MAC, now time.Time) bool {
	if h == nil || h.stations(now) != 1 {
		return false
	}
	_, ok := h.macs[mac]
	return ok
}

// answered notes that a station says it is a next hop. Those that find no room
// change nothing: nobody is believed already.
func (s *Server) answered(ip netip.Addr, mac lease.MAC, now time.Time) {
	for relay, h := range s.hops {
		if h.ip != ip {
			continue
		}
		if _, ok := h.macs[mac]; ok || h.stations(now) < maxHopMACs {
			h.macs[mac] = now
		}
		if len(h.macs) > 1 && s.watch.ambiguous.note(relay, relay.String(), now) {
			s.warn("ambiguous", now, "several stations answer for the next hop to a relay",
				"relay", relay.String(), "ip", ip.String(), "macs", h.names())
		}
	}
}

func (h *hop) names() string {
	var out []string
	for m := range h.macs {
		out = append(out, m.String())
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// genuine says whether the station that has sent a frame may say what is in it:
// a client for itself, and a relay for others.
//
// The one station that answers for the next hop to a relay may speak for it, and
// so may any station that is no client of ours: routers take several ways, and
// those that share an address answer ARP for it with another hardware address
// than they send from (RFC 5798 section 8.1.2). So what a relay says is not lost
// when others answer in its place. What takes an address from a client must come
// from the one station that answers: RFC 2131 section 4.4.4 has a RELEASE sent to
// us alone, so that only a relay with an address of ours (RFC 5107) or one that
// overhears it passes it on.
func (s *Server) genuine(m *dhcp.Message, from lease.MAC, now time.Time) bool {
	switch {
	case !m.Relayed():
		return m.MAC == from
	case s.hops[m.GIAddr].sole(from, now):
		return true
	case m.Type == dhcp.Release, m.Type == dhcp.Decline:
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
	s.watch.ambiguous.keep(func(relay netip.Addr) bool { return hops[relay] != nil })
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

// ambiguousRelays is the problem of relays for whose next hop several stations
// answer.
func ambiguousRelays(relays string) config.Problem {
	return config.Problem{
		Reason: "RelayAmbiguous",
		Message: "several stations answer ARP for the next hop to these relays, so none is believed to be it, " +
			"and RELEASE and DECLINE through them are dropped: " + relays,
	}
}
