package server

import (
	"time"

	"github.com/densityops/oooi/dhcpd/internal/dhcp"
)

// chosen notices a client that has chosen another server (RFC 2131 section 3.1
// point 3). That server's own messages may be unicast and never come here; the
// client's REQUEST is a broadcast and names it. Behind a relay a second server
// may well be meant to be.
func (s *Server) chosen(m *dhcp.Message, now time.Time) {
	if m.Type != dhcp.Request || m.Relayed() || !m.ServerID.IsGlobalUnicast() {
		return
	}
	id := m.ServerID.String()
	if _, known := s.watch.servers[id]; !known && s.limit.allow("chosen", now) {
		s.opts.Log.Warn("client has chosen another DHCP server", "ip", id, "mac", m.MAC.String())
	}
	s.watch.note(s.watch.servers, id, now)
}
