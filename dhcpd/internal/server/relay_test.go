package server

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/agentpb"
	"github.com/densityops/oooi/dhcpd/internal/lease"
	"github.com/densityops/oooi/dhcpd/internal/netns"
)

// withRelays is a server with relays, a machine, and a client with a lease.
func withRelays(t *testing.T, now *time.Time, vm, holder lease.MAC, held netip.Addr, relays ...string) *Server {
	t.Helper()
	s := New(Options{Log: quiet(), Now: func() time.Time { return *now }, Observe: func(string, string) {}},
		configure(t, func(c *agentpb.DHCPConfig) { c.Relays = relays }), nil)
	s.SetDirectory(directory{vm}, []lease.MAC{vm})
	require.True(t, s.table.Request(lease.Client{MAC: holder}, held, *now).New)
	return s
}

// behaviour C10, hazard 68: who may say that it is a relay.
func TestWhoMaySpeakForOthers(t *testing.T) {
	var (
		vm, holder, relay, router, other = station(1), station(2), station(3), station(4), station(5)
		near, far, unresolved            = net.IP{192, 0, 2, 250}, net.IP{203, 0, 113, 1}, net.IP{203, 0, 113, 9}
	)
	now := time.Now()
	held := netip.MustParseAddr("192.0.2.150")
	s := withRelays(t, &now, vm, holder, held, near.String(), far.String(), unresolved.String())
	addr := func(ip net.IP) netip.Addr { return netip.AddrFrom4([4]byte(ip)) }
	next := map[netip.Addr]netip.Addr{addr(near): addr(near), addr(far): netip.MustParseAddr("192.0.2.9"), addr(unresolved): netip.MustParseAddr("192.0.2.8")}
	require.Len(t, s.setHops(nil, next), 3)
	s.answered(addr(near), relay, now)
	s.answered(netip.MustParseAddr("192.0.2.9"), router, now)
	require.Len(t, s.setHops(nil, next), 1, "who has answered is not asked at once again")
	discover, release, decline := dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeRelease, dhcpv4.MessageTypeDecline
	for _, c := range []struct {
		name string
		typ  dhcpv4.MessageType
		from lease.MAC
		via  net.IP
		want bool
	}{
		{"a client for itself", release, holder, nil, true},
		{"a machine for another client", release, vm, nil, false},
		{"the relay on the link", discover, relay, near, true},
		{"the relay on the link by its own address, where a virtual one answers", discover, other, near, true},
		{"a machine as the relay on the link", discover, vm, near, false},
		{"a client with a lease as the relay on the link", discover, holder, near, false},
		{"the router to a relay", discover, router, far, true},
		{"another router to a relay", discover, other, far, true},
		{"a machine as a relay", discover, vm, far, false},
		{"a client with a lease as a relay", discover, holder, far, false},
		{"a machine as a relay that nothing is known of", discover, vm, unresolved, false},
		{"a router to a relay that nothing is known of", discover, other, unresolved, true},
		{"a RELEASE by the relay", release, relay, near, true},
		{"a RELEASE by another station than the relay on the link", release, other, near, false},
		{"a RELEASE by the router", release, router, far, true},
		{"a RELEASE by another router", release, other, far, false},
		{"a RELEASE by a machine", release, vm, far, false},
		{"a RELEASE by a relay that nothing is known of", release, other, unresolved, false},
		{"a DECLINE by the router", decline, router, far, true},
		{"a DECLINE by a machine", decline, vm, far, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			mods := []dhcpv4.Modifier{ciaddr(held)}
			if c.via != nil {
				mods = append(mods, dhcpv4.WithGatewayIP(c.via))
			}
			require.NoError(t, s.msg.Parse(message(t, holder, c.typ, mods...)))
			require.Equal(t, c.want, s.genuine(&s.msg, c.from, now))
		})
	}
	now = now.Add(2 * hopTime)
	require.NoError(t, s.msg.Parse(message(t, holder, release, ciaddr(held), dhcpv4.WithGatewayIP(far))))
	require.False(t, s.genuine(&s.msg, router, now), "a router that has not answered for long")
}

// behaviour C10, hazard 68: stations that answer in a relay's place do not
// silence it, get nothing by it themselves, and it is reported.
func TestNobodySilencesARelay(t *testing.T) {
	vm, holder, relay := station(1), station(2), station(3)
	held := netip.MustParseAddr("192.0.2.150")
	for _, hop := range []struct{ name, relay, ip string }{
		{"on the link", "192.0.2.250", "192.0.2.250"}, {"behind a router", "203.0.113.1", "192.0.2.9"},
	} {
		for _, c := range []struct {
			name    string
			answers []lease.MAC
			sole    bool
		}{
			{"the relay alone", []lease.MAC{relay}, true},
			{"the relay before a machine", []lease.MAC{relay, vm}, false},
			{"a machine before the relay", []lease.MAC{vm, relay}, false},
			{"invented stations that leave it no room", []lease.MAC{station(11), station(12), station(13), station(14), relay}, false},
			{"more of them, and a machine among them", []lease.MAC{vm, station(12), station(13), station(14), station(15), relay}, false},
		} {
			t.Run(hop.name+", "+c.name, func(t *testing.T) {
				now := time.Now()
				s := withRelays(t, &now, vm, holder, held, hop.relay)
				addr, ip := netip.MustParseAddr(hop.relay), netip.MustParseAddr(hop.ip)
				s.setHops(nil, map[netip.Addr]netip.Addr{addr: ip})
				for _, m := range c.answers {
					s.answered(ip, m, now)
				}
				require.LessOrEqual(t, len(s.hops[addr].macs), maxHopMACs)
				says := func(typ dhcpv4.MessageType, from lease.MAC) bool {
					require.NoError(t, s.msg.Parse(message(t, holder, typ, ciaddr(held), dhcpv4.WithGatewayIP(addr.AsSlice()))))
					return s.genuine(&s.msg, from, now)
				}
				for _, typ := range []dhcpv4.MessageType{dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeRequest} {
					require.True(t, says(typ, relay))
					require.False(t, says(typ, vm))
					require.False(t, says(typ, holder))
				}
				for _, typ := range []dhcpv4.MessageType{dhcpv4.MessageTypeRelease, dhcpv4.MessageTypeDecline} {
					require.Equal(t, c.sole, says(typ, relay))
					require.False(t, says(typ, vm))
					require.False(t, says(typ, station(12)))
				}
				if c.sole {
					require.Empty(t, s.Problems())
					return
				}
				p := s.Problems()
				require.Len(t, p, 1)
				require.Equal(t, "RelayAmbiguous", p[0].Reason)
				require.Contains(t, p[0].Message, ": "+hop.relay)
			})
		}
	}
}

// behaviour C10: what comes and goes stays reported for a while, and what cannot
// come again does not.
func TestRelaysWithSeveralStationsAreReportedForAWhile(t *testing.T) {
	vm, holder, router := station(1), station(2), station(3)
	now, held, ip := time.Now(), netip.MustParseAddr("192.0.2.150"), netip.MustParseAddr("192.0.2.9")
	s := withRelays(t, &now, vm, holder, held, "203.0.113.1", "203.0.113.2")
	hops := map[netip.Addr]netip.Addr{netip.MustParseAddr("203.0.113.2"): ip, netip.MustParseAddr("203.0.113.1"): ip}
	s.setHops(nil, hops)
	s.answered(ip, router, now)
	require.Empty(t, s.Problems())
	s.answered(ip, vm, now)
	require.Len(t, s.Problems(), 1)
	require.Contains(t, s.Problems()[0].Message, ": 203.0.113.1, 203.0.113.2")

	now = now.Add(2 * hopTime)
	s.answered(ip, router, now)
	require.NoError(t, s.msg.Parse(message(t, holder, dhcpv4.MessageTypeRelease, ciaddr(held), dhcpv4.WithGatewayIP(net.IP{203, 0, 113, 1}))))
	require.True(t, s.genuine(&s.msg, router, now), "it alone answers again")
	require.Len(t, s.Problems(), 1)
	now = now.Add(2 * remember)
	require.Empty(t, s.Problems())

	s.answered(ip, router, now)
	s.answered(ip, vm, now)
	delete(hops, netip.MustParseAddr("203.0.113.2"))
	s.setHops(nil, hops)
	require.Contains(t, s.Problems()[0].Message, ": 203.0.113.1")
	require.NotContains(t, s.Problems()[0].Message, "203.0.113.2")
}

// behaviour C10: the next hop is found by the routing table and by ARP.
func TestTheNextHopToARelayIsAskedFor(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	l := newLAN(t, nil)
	l.server.Configure(configure(t, func(c *agentpb.DHCPConfig) { c.Relays = []string{"192.0.2.250", "203.0.113.1"} }))
	netns.Run(t, "ip", "route", "add", "203.0.113.0/24", "via", "192.0.2.9")
	for _, c := range []struct{ relay, hop string }{{"192.0.2.250", "192.0.2.250"}, {"203.0.113.1", "192.0.2.9"}} {
		t.Run(c.relay, func(t *testing.T) {
			_, ok := l.next(8*time.Second, func(f seen) bool { return f.proto == 0x0806 && net.IP(f.body[24:28]).String() == c.hop })
			require.True(t, ok)
			l.arp(station(9), c.hop)
			require.Eventually(t, func() bool {
				l.server.mu.Lock()
				defer l.server.mu.Unlock()
				h := l.server.hops[netip.MustParseAddr(c.relay)]
				return h != nil && !h.macs[station(9)].IsZero()
			}, time.Minute, 10*time.Millisecond)
		})
	}
}
