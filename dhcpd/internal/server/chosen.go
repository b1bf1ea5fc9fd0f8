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
	if s.watch.chosen.note(m.ServerID, m.ServerID.String(), now) {
		s.warn("chosen", now, "client has chosen another DHCP server", "ip", m.ServerID.String(), "mac", m.MAC.String())
	}
}
