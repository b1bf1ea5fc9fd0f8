package server

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/densityops/oooi/dhcpd/internal/dhcp"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

const (
	// probeTime is how long an answer about an address that was never used
	// waits for another station to answer for it. ARP on a LAN takes well
	// below 100 ms; clients wait 3 s and more.
	probeTime = 300 * time.Millisecond
	// probeAgain is when the request is repeated, should one be lost.
	probeAgain = 120 * time.Millisecond
	// probeLook is how often waiting answers are looked at.
	probeLook = 20 * time.Millisecond
	// maxProbes bounds the answers that wait.
	maxProbes = 8192
	// A message is answered after at most this many addresses in a row were
	// found in use; then its client has to ask again.
	machineTries  = 8
	strangerTries = 3
	// maxClaims is how many addresses of the pool a station may have of its own
	// accord. One that answers for more answers for everything.
	maxClaims = 3
	// maxClaimants bounds the stations whose answers are counted.
	maxClaimants = 1024
)

// What the metrics call a message whose answer waits, and one whose NAK would
// have been one too many.
const (
	outcomeProbing = "probing"
	outcomeLimited = "nak_limited"
)

// pending is a message whose answer waits for a probe.
type pending struct {
	message []byte
	owner   lease.MAC
	tries   int // addresses that were found in use before
	asked   int // requests that the device has taken
	// came is when the message came, sent when the first request went.
	came, sent time.Time
	by         lease.MAC // the station that has the address, zero = none yet
}

type probes map[netip.Addr]*pending

// ask asks who has the address.
func (p *pending) ask(c *conn, ip netip.Addr) {
	if c.arp.ask(c.ip, ip) {
		p.asked++
	}
}

// frame is an answer that is ready to be sent.
type frame struct {
	b     []byte
	mac   lease.MAC
	fresh bool
}

// probe keeps a message back and asks whether anybody has the address that it
// would be answered with.
func (s *Server) probe(c *conn, p pending, ip netip.Addr, now time.Time) {
	if other := s.probes[ip]; other != nil && other.owner == p.owner {
		return // a retransmission; the first is still on its way
	}
	if len(s.probes) >= maxProbes {
		return
	}
	s.probes[ip] = &pending{message: slices.Clone(p.message), owner: p.owner, tries: p.tries, came: now, sent: now}
	s.waiting.Store(true)
	s.probes[ip].ask(c, ip)
	select {
	case s.probing <- struct{}{}:
	default:
	}
}

// settleAll looks at waiting answers as long as there are some.
func (s *Server) settleAll(ctx context.Context, c *conn) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.probing:
		}
		for waiting := true; waiting; {
			if wait(ctx, probeLook) != nil {
				return nil
			}
			waiting = s.settle(c)
		}
	}
}

// settle answers the messages whose probes nobody has answered, a batch at a
// time, so that others get their turn. It says whether any are left.
func (s *Server) settle(c *conn) bool {
	for {
		out, stored, left := s.settleBatch(c)
		c.sendFrames(out, stored)
		if len(out) < batchSize {
			return left
		}
	}
}

func (s *Server) settleBatch(c *conn) (out []frame, stored, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	var due []*pending
	for ip, p := range s.probes {
		taken := p.by != (lease.MAC{})
		switch age := now.Sub(p.sent); {
		case !taken && p.asked == 0:
			if p.sent = now; now.Sub(p.came) > probeTime {
				delete(s.probes, ip) // nobody can be asked, and its client comes again
			} else {
				p.ask(c, ip)
			}
		case !taken && age < probeTime:
			if age >= probeAgain && p.asked == 1 {
				p.ask(c, ip)
			}
		case len(due) == batchSize: // of the next batch
		case !taken:
			delete(s.probes, ip)
			s.table.Probed(ip)
			due = append(due, p)
		default:
			delete(s.probes, ip)
			if s.another(ip, p, now) {
				due = append(due, p)
			}
		}
	}
	out = s.again(c, due, now)
	s.waiting.Store(len(s.probes) > 0)
	return out, s.commit(), len(s.probes) > 0
}

// another takes an address that is in use out of use, and says whether another
// one is to be tried for the same message.
func (s *Server) another(ip netip.Addr, p *pending, now time.Time) bool {
	if !s.table.Conflict(ip, p.by, now) {
		return false
	}
	s.warn("conflict", now, "address is in use by another station", "ip", ip.String(), "mac", p.by.String())
	p.tries++
	if s.isMachine(p.owner) {
		return p.tries < machineTries
	}
	return p.tries < strangerTries
}

// again handles messages that were kept back.
func (s *Server) again(c *conn, due []*pending, now time.Time) []frame {
	var out []frame
	var m dhcp.Message
	buf := make([]byte, headers, frameSize)
	for _, p := range due {
		if m.Parse(p.message) != nil {
			continue // it was parsed before
		}
		r := s.handler.Handle(&m, now, buf)
		if r.Probe {
			s.probe(c, *p, r.IP, now)
			continue
		}
		s.settled(&m, r, now)
		if r.Answer == nil {
			continue
		}
		wrap(r.Answer, netip.AddrPortFrom(c.ip, serverPort), netip.AddrPortFrom(r.To.IP, clientPort))
		out = append(out, frame{b: slices.Clone(r.Answer), mac: r.To.MAC, fresh: r.New})
	}
	return out
}

// sendFrames sends answers; without stored, only those that are not about a
// new binding.
func (c *conn) sendFrames(out []frame, stored bool) {
	for _, f := range out {
		if stored || !f.fresh {
			c.sendFrame(f.b, f.mac)
		}
	}
}

// seen is told that a station uses an address. What comes of it is settled
// with the other answers that wait: whoever answers everything holds up nobody.
func (s *Server) seen(c *conn, ip netip.Addr, mac lease.MAC) {
	if mac == c.dev.MAC || !mac.Unicast() || ip != c.ip && !s.waiting.Load() && !s.relays.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	if ip == s.cfg.ServerIP {
		s.watch.owners.note(mac, mac.String(), now)
		return
	}
	s.answered(ip, mac, now)
	p := s.probes[ip]
	if p == nil || p.owner == mac || p.by != (lease.MAC{}) {
		return
	}
	if !s.claims.believed(mac, ip, now) {
		s.watch.liars.note(mac, mac.String(), now)
		return
	}
	p.by = mac
}

// claims remembers, in two generations, which stations have answered for which
// addresses.
type claims struct {
	now, before map[lease.MAC][]netip.Addr
	turned      time.Time
}

// believed says whether a station may well have an address that it answers for.
func (c *claims) believed(m lease.MAC, ip netip.Addr, now time.Time) bool {
	if c.now == nil || len(c.now) >= maxClaimants || now.Sub(c.turned) > remember {
		c.before, c.now, c.turned = c.now, map[lease.MAC][]netip.Addr{}, now
	}
	has, ok := c.now[m]
	if !ok {
		has = c.before[m]
	}
	known := slices.Contains(has, ip)
	if !known && len(has) < maxClaims {
		has, known = append(has, ip), true
	}
	c.now[m] = has
	return known
}
