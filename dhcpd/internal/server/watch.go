package server

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/dhcp"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

const (
	// remember is how long something that was seen on the VLAN is reported.
	remember = time.Hour
	// ownerTime is how long another owner of our address is believed to be
	// there: it is asked for more often than that.
	ownerTime = 30 * time.Second
	// maxNewcomers bounds the clients that are left to ask again.
	maxNewcomers = 8192
	// retryAfter is the least time between a newcomer's first message and
	// the one that is served; clients repeat after 3 to 4 s.
	retryAfter   = time.Second
	newcomerTime = time.Minute
)

var errSpoofed = errors.New("frame and message have different hardware addresses")

// watch remembers what was seen on the VLAN that a person should know.
type watch struct {
	servers   sightings[lease.MAC]  // other DHCP servers
	chosen    sightings[netip.Addr] // those that clients say they have chosen
	owners    sightings[lease.MAC]  // other stations with our address
	declines  sightings[lease.MAC]  // machines whose addresses were declined
	liars     sightings[lease.MAC]  // stations that answer for every address
	ambiguous sightings[netip.Addr] // relays with several stations for their next hop
	lost      []string              // relays that no route leads to
}

// foreign notices a message that only servers send.
func (s *Server) foreign(p packet, now time.Time) {
	typ, id, ok := dhcp.Foreign(p.payload)
	if !ok || id == s.cfg.ServerIP {
		return
	}
	s.opts.Observe(typ.String(), "from_other_server")
	if s.watch.servers.note(p.from, id.String(), now) {
		s.warn("foreign", now, "another DHCP server is on the network", "ip", id.String(), "mac", p.from.String())
	}
}

// Problems lists what was noticed and is still so.
func (s *Server) Problems() []config.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	var out []config.Problem
	add := func(reason, message string) {
		out = append(out, config.Problem{Reason: reason, Message: message})
	}
	if l := listed(append(s.watch.servers.recent(now, remember), s.watch.chosen.recent(now, remember)...)); l != "" {
		add("ForeignDHCPServer", "another DHCP server answers on this network: "+l)
	}
	if l := listed(s.watch.owners.recent(now, ownerTime)); l != "" {
		add("ServerAddressConflict", fmt.Sprintf("another station has the address %s: %s", s.cfg.ServerIP, l))
	}
	if l := listed(s.watch.declines.recent(now, remember)); l != "" {
		add("AddressDeclined", "machines found their addresses in use by another station: "+l)
	}
	if l := listed(s.watch.liars.recent(now, remember)); l != "" {
		add("AddressProbesAnswered", "these stations answer for more addresses than they can have, and are not believed: "+l)
	}
	if s.table.Disputed() {
		add("AddressProbesAnswered", "too many addresses are said to be in use by others, so known machines get theirs unprobed")
	}
	if interfaces, addresses := s.table.Crowd(); interfaces > addresses {
		add("PoolTooSmall", fmt.Sprintf("there are %d interfaces of machines and %d addresses: those without one come before all other clients", interfaces, addresses))
	}
	if l := waiting(s.table.Waiting()); l != "" {
		add("ReservationWaits", "another client has the address that is reserved: "+l)
	}
	if len(s.watch.lost) > 0 {
		out = append(out, lostRelays(s.watch.lost))
	}
	if l := listed(s.watch.ambiguous.recent(now, remember)); l != "" {
		out = append(out, ambiguousRelays(l))
	}
	if s.opts.Journal != nil && s.opts.Journal.Err() != nil {
		add("JournalUnwritable", "leases cannot be stored, so new clients get no address; known ones are served")
	}
	return out
}

// maxWaiting is how many reservations are named.
const maxWaiting = 16

func waiting(all []lease.Waiting) string {
	var out []string
	for _, w := range all {
		if len(out) == maxWaiting {
			out = append(out, more)
			break
		}
		out = append(out, fmt.Sprintf("%s for %s is with %s", w.IP, w.MAC, w.Holder))
	}
	return listed(out)
}

// otherOwner says whether another station answers for our address.
func (s *Server) otherOwner() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watch.owners.recent(s.opts.Now(), ownerTime)) > 0
}

// drop counts a message that is not answered whatever it says, and logs one
// of each kind now and then.
func (s *Server) drop(err error, now time.Time) {
	s.opts.Observe("malformed", reasonOf(err))
	s.warn(err.Error(), now, "message dropped", "reason", reasonOf(err), "err", err)
}

func reasonOf(err error) string {
	switch {
	case errors.Is(err, errSpoofed):
		return "spoofed"
	case errors.Is(err, dhcp.ErrShort):
		return "short"
	case errors.Is(err, dhcp.ErrLong):
		return "long"
	case errors.Is(err, dhcp.ErrNotBOOTP):
		return "not_bootp"
	case errors.Is(err, dhcp.ErrHardware):
		return "hardware_address"
	case errors.Is(err, dhcp.ErrOptions):
		return "options"
	case errors.Is(err, dhcp.ErrOverload):
		return "option_overload"
	case errors.Is(err, dhcp.ErrNoType):
		return "no_type"
	case errors.Is(err, dhcp.ErrHops):
		return "hops"
	}
	return "other"
}

// newcomers remembers, in two generations, clients that were first seen a
// short while ago: their machine may be known when they ask again, and an
// address that they get before would have to be moved.
type newcomers struct {
	now, before map[lease.MAC]time.Time
	turned      time.Time
}

func (n *newcomers) wait(m lease.MAC, now time.Time) bool {
	if n.now == nil || len(n.now) >= maxNewcomers || now.Sub(n.turned) > newcomerTime {
		n.before, n.now, n.turned = n.now, map[lease.MAC]time.Time{}, now
	}
	first, ok := n.now[m]
	if !ok {
		first, ok = n.before[m]
	}
	if !ok {
		n.now[m] = now
		return true
	}
	return now.Sub(first) < retryAfter
}
