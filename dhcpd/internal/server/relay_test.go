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

// behaviour C10, hazard 68: who may say that it is a relay.
func TestWhoMaySpeakForOthers(t *testing.T) {
	var (
		vm, holder, relay, router, other = station(1), station(2), station(3), station(4), station(5)
		near, far, unresolved            = net.IP{192, 0, 2, 250}, net.IP{203, 0, 113, 1}, net.IP{203, 0, 113, 9}
	)
	now := time.Now()
	s := New(Options{Log: quiet(), Now: func() time.Time { return now }, Observe: func(string, string) {}}, configure(t, func(c *agentpb.DHCPConfig) {
		c.Relays = []string{near.String(), far.String(), unresolved.String()}
	}), nil)
	s.SetDirectory(directory{vm}, []lease.MAC{vm})
	held := netip.MustParseAddr("192.0.2.150")
	require.True(t, s.table.Request(lease.Client{MAC: holder}, held, now).New)
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
		{"another station as the relay on the link", discover, other, near, false},
		{"the router to a relay", discover, router, far, true},
		{"another router to a relay", discover, other, far, true},
		{"a machine as a relay", discover, vm, far, false},
		{"a client with a lease as a relay", discover, holder, far, false},
		{"a machine as a relay that nothing is known of", discover, vm, unresolved, false},
		{"a router to a relay that nothing is known of", discover, other, unresolved, true},
		{"a RELEASE by the relay", release, relay, near, true},
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
	s.answered(netip.MustParseAddr("192.0.2.9"), vm, now)
	require.NoError(t, s.msg.Parse(message(t, holder, release, ciaddr(held), dhcpv4.WithGatewayIP(far))))
	require.False(t, s.genuine(&s.msg, vm, now), "a machine that says it is the router")
	require.False(t, s.genuine(&s.msg, router, now), "nor is the router believed as long as two say so")
	now = now.Add(2 * hopTime)
	require.False(t, s.genuine(&s.msg, router, now), "nor one that has not answered for long")
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
			}, 3*time.Second, 10*time.Millisecond)
		})
	}
}
