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
	asked   int
	sent    time.Time
}

type probes map[netip.Addr]*pending

// frame is an answer that is ready to be sent.
type frame struct {
	b     []byte
	mac   lease.MAC
	fresh bool
}

// probe keeps a message back and asks whether anybody has the address that it
// would be answered with.
func (s *Server) probe(c *conn, message []byte, owner lease.MAC, ip netip.Addr, now time.Time) {
	if p := s.probes[ip]; p != nil && p.owner == owner {
		return // a retransmission; the first is still on its way
	}
	if len(s.probes) >= maxProbes {
		return
	}
	s.probes[ip] = &pending{message: slices.Clone(message), owner: owner, asked: 1, sent: now}
	c.arp.ask(c.ip, ip)
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
		switch age := now.Sub(p.sent); {
		case age >= probeTime && len(due) < batchSize:
			delete(s.probes, ip)
			s.table.Probed(ip)
			due = append(due, p)
		case age >= probeTime: // of the next batch
		case age >= probeAgain && p.asked == 1:
			p.asked++
			c.arp.ask(c.ip, ip)
		}
	}
	out = s.again(c, due, now)
	return out, s.commit(), len(s.probes) > 0
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
			s.probe(c, p.message, p.owner, r.IP, now)
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

// seen is told that a station uses an address.
func (s *Server) seen(c *conn, ip netip.Addr, mac lease.MAC) {
	if mac == c.dev.MAC || !mac.Unicast() {
		return
	}
	s.mu.Lock()
	now := s.opts.Now()
	if ip == s.cfg.ServerIP {
		s.watch.note(s.watch.owners, mac.String(), now)
		s.mu.Unlock()
		return
	}
	p := s.probes[ip]
	if p == nil || p.owner == mac {
		s.mu.Unlock()
		return
	}
	delete(s.probes, ip)
	var out []frame
	if s.table.Conflict(ip, mac, now) {
		s.opts.Log.Warn("address is in use by another station", "ip", ip.String(), "mac", mac.String())
		out = s.again(c, []*pending{p}, now)
	}
	stored := s.commit()
	s.mu.Unlock()
	c.sendFrames(out, stored)
}
