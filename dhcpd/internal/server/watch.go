package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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
	// maxSeen bounds what is remembered of a VLAN where anybody can send
	// anything.
	maxSeen = 16
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
	servers  map[string]time.Time // other DHCP servers
	owners   map[string]time.Time // other stations with our address
	declines map[string]time.Time // machines' addresses that were declined
	liars    map[string]time.Time // stations that answer for every address
	lost     []string             // relays that no route leads to
}

func (w *watch) init() {
	w.servers, w.owners, w.declines, w.liars = map[string]time.Time{}, map[string]time.Time{}, map[string]time.Time{}, map[string]time.Time{}
}

// note remembers key, if there is room.
func (w *watch) note(m map[string]time.Time, key string, now time.Time) {
	if _, ok := m[key]; ok || len(m) < maxSeen {
		m[key] = now
	}
}

func (w *watch) declined(mac lease.MAC, r dhcp.Result, now time.Time) {
	if r.Outcome == dhcp.DeclinedKept {
		w.note(w.declines, fmt.Sprintf("%s of %s (%s)", r.IP, mac, r.VM), now)
	}
}

func recent(m map[string]time.Time, now time.Time, age time.Duration) []string {
	var out []string
	for k, t := range m {
		if now.Sub(t) > age {
			delete(m, k)
			continue
		}
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// foreign notices a message that only servers send.
func (s *Server) foreign(p packet, now time.Time) {
	typ, id, ok := dhcp.Foreign(p.payload)
	if !ok || id == s.cfg.ServerIP {
		return
	}
	s.opts.Observe(typ.String(), "from_other_server")
	if _, known := s.watch.servers[id.String()]; !known {
		s.opts.Log.Warn("another DHCP server is on the network", "ip", id.String(), "mac", p.from.String())
	}
	s.watch.note(s.watch.servers, id.String(), now)
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
	if l := recent(s.watch.servers, now, remember); len(l) > 0 {
		add("ForeignDHCPServer", "another DHCP server answers on this network: "+strings.Join(l, ", "))
	}
	if l := recent(s.watch.owners, now, ownerTime); len(l) > 0 {
		add("ServerAddressConflict", fmt.Sprintf("another station has the address %s: %s", s.cfg.ServerIP, strings.Join(l, ", ")))
	}
	if l := recent(s.watch.declines, now, remember); len(l) > 0 {
		add("AddressDeclined", "machines found their addresses in use by another station: "+strings.Join(l, ", "))
	}
	if l := recent(s.watch.liars, now, remember); len(l) > 0 {
		add("AddressProbesAnswered", "these stations answer for more addresses than they can have, and are not believed: "+strings.Join(l, ", "))
	}
	if s.table.Disputed() {
		add("AddressProbesAnswered", "too many addresses are said to be in use by others, so known machines get theirs unprobed")
	}
	if len(s.watch.lost) > 0 {
		out = append(out, lostRelays(s.watch.lost))
	}
	if s.opts.Journal != nil && s.opts.Journal.Err() != nil {
		add("JournalUnwritable", "leases cannot be stored, so new clients get no address; known ones are served")
	}
	return out
}

// otherOwner says whether another station answers for our address.
func (s *Server) otherOwner() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(recent(s.watch.owners, s.opts.Now(), ownerTime)) > 0
}

// drop counts a message that is not answered whatever it says, and logs one
// of each kind now and then.
func (s *Server) drop(err error, now time.Time) {
	s.opts.Observe("malformed", reasonOf(err))
	if s.limit.allow(err.Error(), now) {
		s.opts.Log.Warn("message dropped", "reason", reasonOf(err), "err", err)
	}
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

// A NAK is a broadcast that every machine has to look at, and anybody can ask
// for one. Strangers get this many a second, and a burst of them; who gets none
// asks again.
const (
	nakRate  = 100
	nakBurst = 500
)

// bucket is a token bucket.
type bucket struct {
	tokens float64
	last   time.Time
}

func (b *bucket) take(now time.Time) bool {
	b.tokens = min(nakBurst, b.tokens+nakRate*now.Sub(b.last).Seconds())
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// limiter lets one log line of a kind pass every ten seconds.
type limiter struct{ last map[string]time.Time }

func (l *limiter) allow(kind string, now time.Time) bool {
	if l.last == nil {
		l.last = map[string]time.Time{}
	}
	if t, ok := l.last[kind]; ok && now.Sub(t) < 10*time.Second {
		return false
	}
	l.last[kind] = now
	return true
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
