package server

import (
	"net/netip"
	"time"

	"github.com/densityops/oooi/dhcpd/internal/dhcp"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

const (
	// probeTime is how long an offer of an address that was never used waits
	// for another station to answer for it. ARP on a LAN takes well below
	// 100 ms; clients wait 3 s and more for an offer.
	probeTime = 300 * time.Millisecond
	// probeAgain is when the request is repeated, should one be lost.
	probeAgain = 120 * time.Millisecond
	// maxProbes bounds the offers that wait.
	maxProbes = 8192
)

// pending is an offer that waits for its probe.
type pending struct {
	frame []byte
	mac   lease.MAC // where the frame goes
	owner lease.MAC // who it is for
	asked int
	sent  time.Time
}

type probes map[netip.Addr]*pending

// probe keeps the built answer back and asks whether anybody has its address.
func (s *Server) probe(c *conn, m *dhcp.Message, r dhcp.Result, now time.Time) {
	if p := s.probes[r.IP]; p != nil && p.owner == m.MAC {
		return // a retransmission; the first is still on its way
	}
	if len(s.probes) >= maxProbes {
		return
	}
	frame := append([]byte(nil), c.slot()[:len(r.Answer)]...)
	wrap(frame, netip.AddrPortFrom(c.ip, serverPort), netip.AddrPortFrom(r.To.IP, clientPort))
	s.probes[r.IP] = &pending{frame: frame, mac: r.To.MAC, owner: m.MAC, asked: 1, sent: now}
	c.arp.ask(c.ip, r.IP)
}

// settle sends the offers whose probes nobody has answered.
func (s *Server) settle(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	for ip, p := range s.probes {
		age := now.Sub(p.sent)
		switch {
		case age >= probeTime:
			delete(s.probes, ip)
			if b, ok := s.table.Holder(ip); ok && b.MAC == p.owner {
				s.table.Probed(ip)
				c.sendFrame(p.frame, p.mac)
			}
		case age >= probeAgain && p.asked == 1:
			p.asked++
			c.arp.ask(c.ip, ip)
		}
	}
}

// seen is told that a station uses an address.
func (s *Server) seen(dev Device, ip netip.Addr, mac lease.MAC) {
	if mac == dev.MAC || !mac.Unicast() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	if ip == s.cfg.ServerIP {
		s.watch.note(s.watch.owners, mac.String(), now)
		return
	}
	p := s.probes[ip]
	if p == nil || p.owner == mac {
		return
	}
	delete(s.probes, ip)
	if s.table.Conflict(ip, mac, now) {
		s.opts.Log.Warn("address is in use by another station", "ip", ip.String(), "mac", mac.String())
		s.commit()
	}
}
