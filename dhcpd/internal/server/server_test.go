package server

import (
	"encoding/binary"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/densityops/oooi/dhcpd/internal/agentpb"
	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/journal"
	"github.com/densityops/oooi/dhcpd/internal/lease"
	"github.com/densityops/oooi/dhcpd/internal/netns"
)

const serverIP = "192.0.2.2"

// lan is a VLAN of two ends: ours with a server, and the other, where a test
// is any station it likes.
type lan struct {
	t      *testing.T
	far    *os.File
	index  int
	server *Server
	mac    lease.MAC // of our device

	mu     sync.Mutex
	counts map[string]int // guarded by mu
}

func configure(t *testing.T, edit func(*agentpb.DHCPConfig)) *config.Config {
	t.Helper()
	in := &agentpb.DHCPConfig{
		Cidr: "192.0.2.0/24", Gateway: "192.0.2.1", ServerIp: serverIP, LeaseSeconds: 3600, Mtu: 1500,
		Range:  &agentpb.AddressRange{Start: "192.0.2.100", End: "192.0.2.199"},
		Relays: []string{"192.0.2.250"},
	}
	if edit != nil {
		edit(in)
	}
	cfg, err := config.From(&agentpb.Snapshot{Config: &agentpb.Snapshot_Dhcp{Dhcp: in}})
	require.NoError(t, err)
	return cfg
}

// newLAN serves on a veth pair. The caller is in a namespace of its own.
func newLAN(t *testing.T, j *journal.Journal) *lan {
	t.Helper()
	netns.Run(t, "ip", "link", "add", "vlan", "type", "veth", "peer", "name", "far")
	netns.Run(t, "ip", "addr", "add", serverIP+"/24", "dev", "vlan")
	netns.Run(t, "ip", "link", "set", "vlan", "up")
	netns.Run(t, "ip", "link", "set", "far", "up")
	// Both ends are in one namespace: the far one must not answer for ours.
	require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/conf/far/arp_ignore", []byte("8"), 0))
	l := &lan{t: t, counts: map[string]int{}}
	dev, err := FindDevice(netip.MustParseAddr(serverIP))
	require.NoError(t, err)
	require.Equal(t, "vlan", dev.Name)
	l.mac = dev.MAC
	far, err := net.InterfaceByName("far")
	require.NoError(t, err)
	l.index = far.Index
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1))
	require.NoError(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: far.Index}))
	l.far = os.NewFile(uintptr(fd), "far")
	t.Cleanup(func() { require.NoError(t, l.far.Close()) })

	begin := time.Now()
	l.server = New(Options{
		Log: slog.New(slog.NewTextHandler(os.Stdout, nil)), Journal: j,
		Now: func() time.Time { return begin.Add(time.Since(begin)) },
		Observe: func(typ, outcome string) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.counts[typ+" "+outcome]++
		},
	}, configure(t, nil), nil)
	l.server.Tick()
	done := make(chan error, 1)
	go func() { done <- l.server.Run(t.Context()) }()
	t.Cleanup(func() { require.NoError(t, <-done) })
	require.Eventually(t, func() bool { return l.server.Serving() && running(t, "vlan") && running(t, "far") }, time.Minute, 5*time.Millisecond)
	return l
}

// running says whether a device has its carrier, without which frames are lost.
func running(t *testing.T, name string) bool {
	t.Helper()
	dev, err := net.InterfaceByName(name)
	require.NoError(t, err)
	return dev.Flags&net.FlagRunning != 0
}

func (l *lan) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[what]
}

// frame is a frame that the far end sees.
type seen struct {
	dst, src lease.MAC
	proto    uint16
	body     []byte
}

// next is the next frame that ok accepts.
func (l *lan) next(within time.Duration, ok func(seen) bool) (seen, bool) {
	l.t.Helper()
	require.NoError(l.t, l.far.SetReadDeadline(time.Now().Add(within)))
	buf := make([]byte, 4096)
	for {
		n, err := l.far.Read(buf)
		if err != nil {
			return seen{}, false
		}
		f := seen{dst: lease.MAC(buf[0:6]), src: lease.MAC(buf[6:12]), proto: binary.BigEndian.Uint16(buf[12:]), body: append([]byte{}, buf[14:n]...)}
		if ok(f) {
			return f, true
		}
	}
}

// answer waits for a DHCP message to a port, and checks both checksums.
func (l *lan) answer(port uint16) (seen, *dhcpv4.DHCPv4) {
	l.t.Helper()
	var p *dhcpv4.DHCPv4
	f, ok := l.next(3*time.Second, func(f seen) bool {
		if f.proto != unix.ETH_P_IP || f.body[9] != 17 || binary.BigEndian.Uint16(f.body[22:]) != port {
			return false
		}
		var err error
		p, err = dhcpv4.FromBytes(f.body[28:])
		return err == nil && p.OpCode == dhcpv4.OpcodeBootReply
	})
	require.True(l.t, ok, "no answer to port %d", port)
	require.Equal(l.t, uint16(0xffff), fold(sum(f.body[:20], 0)), "IP checksum")
	size := int(binary.BigEndian.Uint16(f.body[2:]))
	if port == clientPort {
		pseudo := sum(f.body[12:20], 17+uint64(size-20))
		require.Equal(l.t, uint16(0xffff), fold(sum(f.body[20:size], pseudo)), "UDP checksum (hazard 57)")
	}
	return f, p
}

func (l *lan) silence(within time.Duration) {
	l.t.Helper()
	_, ok := l.next(within, func(f seen) bool {
		return f.proto == unix.ETH_P_IP && f.body[9] == 17 && binary.BigEndian.Uint16(f.body[20:]) == serverPort
	})
	require.False(l.t, ok, "an answer where there should be none")
}

// send puts a message on the wire, from a station and an address.
func (l *lan) send(from lease.MAC, src, dst string, message []byte) {
	l.t.Helper()
	b := make([]byte, 14+headers, 14+headers+len(message))
	to := lease.MAC{255, 255, 255, 255, 255, 255}
	if dst == serverIP {
		to = l.mac
	}
	copy(b, to[:])
	copy(b[6:], from[:])
	binary.BigEndian.PutUint16(b[12:], unix.ETH_P_IP)
	b = append(b, message...)
	port := uint16(clientPort)
	if src == "192.0.2.250" {
		port = serverPort
	}
	wrap(b[14:], netip.AddrPortFrom(netip.MustParseAddr(src), port), netip.AddrPortFrom(netip.MustParseAddr(dst), serverPort))
	b[14+26], b[14+27] = 0x12, 0x34 // a partial checksum, as a neighbour on the same machine sends it
	_, err := l.far.Write(b)
	require.NoError(l.t, err)
}

// arp sends an ARP reply or announcement.
func (l *lan) arp(mac lease.MAC, ip string) {
	l.t.Helper()
	b := make([]byte, 42)
	copy(b, "\xff\xff\xff\xff\xff\xff")
	copy(b[6:], mac[:])
	binary.BigEndian.PutUint16(b[12:], unix.ETH_P_ARP)
	copy(b[14:], []byte{0, 1, 8, 0, 6, 4, 0, 2})
	copy(b[22:], mac[:])
	a := netip.MustParseAddr(ip).As4()
	copy(b[28:], a[:])
	_, err := l.far.Write(b)
	require.NoError(l.t, err)
}

func message(t *testing.T, mac lease.MAC, typ dhcpv4.MessageType, mods ...dhcpv4.Modifier) []byte {
	t.Helper()
	mods = append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(net.HardwareAddr(mac[:])), dhcpv4.WithMessageType(typ)}, mods...)
	p, err := dhcpv4.New(mods...)
	require.NoError(t, err)
	return p.ToBytes()
}

func ask(ip string) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.ParseIP(ip)))
}

func station(n byte) lease.MAC { return lease.MAC{2, 0, 0, 0, 0, n} }

// behaviours C1, C8, case C08, hazards 53 to 57: frames as they must be.
func TestFramesOnTheWire(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	l := newLAN(t, nil)
	discover, request := dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeRequest
	everybody := lease.MAC{255, 255, 255, 255, 255, 255}

	l.send(station(1), "0.0.0.0", "255.255.255.255", message(t, station(1), discover, dhcpv4.WithBroadcast(true)))
	f, p := l.answer(clientPort)
	require.Equal(t, everybody, f.dst)
	require.Equal(t, "255.255.255.255", net.IP(f.body[16:20]).String())
	require.Equal(t, "192.0.2.100", p.YourIPAddr.String())

	l.send(station(2), "0.0.0.0", "255.255.255.255", message(t, station(2), discover, dhcpv4.WithBroadcast(false)))
	f, _ = l.answer(clientPort)
	require.Equal(t, station(2), f.dst, "a client without an address gets a frame to its hardware address")
	require.Equal(t, "192.0.2.101", net.IP(f.body[16:20]).String())
	require.Equal(t, serverIP, net.IP(f.body[12:16]).String())

	l.send(station(2), "0.0.0.0", "255.255.255.255", message(t, station(2), request, ask("192.0.2.101"), dhcpv4.WithBroadcast(false)))
	_, p = l.answer(clientPort)
	require.Equal(t, dhcpv4.MessageTypeAck, p.MessageType())

	renew := message(t, station(2), request, func(d *dhcpv4.DHCPv4) { d.ClientIPAddr = net.IP{192, 0, 2, 101} })
	l.send(station(2), "192.0.2.101", serverIP, renew)
	f, p = l.answer(clientPort)
	require.Equal(t, station(2), f.dst, "a renewal needs no ARP (hazard 90)")
	require.Equal(t, "192.0.2.101", net.IP(f.body[16:20]).String())
	require.Equal(t, dhcpv4.MessageTypeAck, p.MessageType())

	l.send(station(3), "0.0.0.0", "255.255.255.255", message(t, station(3), request, ask("198.51.100.7"), dhcpv4.WithBroadcast(false)))
	f, p = l.answer(clientPort)
	require.Equal(t, everybody, f.dst, "a NAK is broadcast")
	require.Equal(t, dhcpv4.MessageTypeNak, p.MessageType())
}

// behaviour C8, hazards 58, 59: through a relay, by the kernel, to port 67.
func TestARelayIsAnsweredOnPort67(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	l := newLAN(t, nil)
	relay := station(250)
	netns.Run(t, "ip", "neigh", "add", "192.0.2.250", "lladdr", relay.String(), "dev", "vlan", "nud", "permanent")
	l.send(relay, "192.0.2.250", serverIP, message(t, station(1), dhcpv4.MessageTypeDiscover, dhcpv4.WithGatewayIP(net.IP{192, 0, 2, 250})))
	f, p := l.answer(serverPort)
	require.Equal(t, relay, f.dst)
	require.Equal(t, serverIP, net.IP(f.body[12:16]).String())
	require.Equal(t, "192.0.2.250", net.IP(f.body[16:20]).String())
	require.Equal(t, dhcpv4.MessageTypeOffer, p.MessageType())
	l.send(relay, "192.0.2.250", serverIP, message(t, station(2), dhcpv4.MessageTypeDiscover, dhcpv4.WithGatewayIP(net.IP{192, 0, 2, 251})))
	l.silence(300 * time.Millisecond)
	require.Equal(t, 1, l.count("discover unknown_relay"))
}

// behaviour C8, hazard 58: a relay of another network that no route leads to is
// reported, and no longer once there is one.
func TestARelayWithoutARouteIsReported(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	l := newLAN(t, nil)
	l.server.Configure(configure(t, func(c *agentpb.DHCPConfig) { c.Relays = []string{"192.0.2.250", "203.0.113.1", "203.0.113.2"} }))
	told := func() string {
		for _, p := range l.server.Problems() {
			if p.Reason == "NoVLANRoute" {
				return p.Message
			}
		}
		return ""
	}
	// Another device's default route, as a pod has it, does not count.
	netns.Run(t, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0far")
	netns.Run(t, "ip", "link", "set", "eth0far", "up")
	netns.Run(t, "ip", "addr", "add", "10.128.0.9/24", "dev", "eth0")
	netns.Run(t, "ip", "link", "set", "eth0", "up")
	netns.Run(t, "ip", "route", "add", "default", "via", "10.128.0.1")
	require.Eventually(t, func() bool { return strings.Contains(told(), "203.0.113.1, 203.0.113.2,") }, time.Minute, 10*time.Millisecond)
	require.NotContains(t, told(), "192.0.2.250", "it is on the link")
	netns.Run(t, "ip", "route", "add", "203.0.113.1/32", "via", "192.0.2.1")
	require.Eventually(t, func() bool { return strings.Contains(told(), "relays 203.0.113.2,") }, time.Minute, 10*time.Millisecond)
	netns.Run(t, "ip", "route", "add", "203.0.113.0/24", "dev", "vlan")
	require.Eventually(t, func() bool { return told() == "" }, time.Minute, 10*time.Millisecond)
}

// behaviour C10, case C09: what is malformed or spoofed is dropped and counted.
func TestMalformedAndSpoofedMessagesAreCounted(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	l := newLAN(t, nil)
	for range 1000 {
		for _, name := range []string{"dhcp-bad-hlen0", "dhcp-bad-hlen255", "dhcp-bad-truncated-option", "dhcp-bad-short"} {
			b, err := os.ReadFile("../dhcp/testdata/" + name)
			require.NoError(t, err)
			l.send(station(1), "0.0.0.0", "255.255.255.255", b)
		}
	}
	l.send(station(66), "0.0.0.0", "255.255.255.255", message(t, station(1), dhcpv4.MessageTypeDiscover))
	l.send(station(66), "192.0.2.100", serverIP, message(t, station(1), dhcpv4.MessageTypeRelease))
	require.Eventually(t, func() bool {
		return l.count("malformed hardware_address") == 2000 && l.count("malformed options") == 1000 &&
			l.count("malformed short") == 1000 && l.count("malformed spoofed") == 2
	}, time.Minute, 10*time.Millisecond)
	l.silence(200 * time.Millisecond)
	l.server.Do(func(table *lease.Table, _ time.Time) { require.Zero(t, table.Stats().Offered+table.Stats().Active) })
}

// behaviour C6, hazard 71: an address that somebody uses is not given, and the
// client gets another one without asking again.
func TestAnAddressInUseIsNotGiven(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	l := newLAN(t, nil)
	l.send(station(1), "0.0.0.0", "255.255.255.255", message(t, station(1), dhcpv4.MessageTypeDiscover))
	_, ok := l.next(2*time.Second, func(f seen) bool {
		return f.proto == unix.ETH_P_ARP && net.IP(f.body[24:28]).String() == "192.0.2.100"
	})
	require.True(t, ok, "nobody asked for the address")
	l.arp(station(9), "192.0.2.100")
	_, p := l.answer(clientPort)
	require.Equal(t, "192.0.2.101", p.YourIPAddr.String())
	l.server.Do(func(table *lease.Table, _ time.Time) { require.Equal(t, 1, table.Stats().Declined) })
	// The station that has it may have it.
	l.send(station(9), "0.0.0.0", "255.255.255.255", message(t, station(9), dhcpv4.MessageTypeRequest, ask("192.0.2.100")))
	_, p = l.answer(clientPort)
	require.Equal(t, dhcpv4.MessageTypeAck, p.MessageType())
}

// behaviours C6, C8, hazards 72, 244, 248: what is noticed on the VLAN.
func TestForeignServersAndOwnersAreReported(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	l := newLAN(t, nil)
	_, ok := l.next(12*time.Second, func(f seen) bool {
		return f.proto == unix.ETH_P_IP && f.body[9] == 17 && binary.BigEndian.Uint16(f.body[20:]) == clientPort
	})
	require.True(t, ok, "it asks at its start whether another server answers")
	_, ok = l.next(12*time.Second, func(f seen) bool {
		return f.proto == unix.ETH_P_ARP && net.IP(f.body[14:18]).String() == serverIP && net.IP(f.body[24:28]).String() == serverIP
	})
	require.True(t, ok, "it announces its address")
	require.Eventually(t, l.server.Alone, time.Minute, 10*time.Millisecond)
	require.Empty(t, l.server.Problems())

	offer, err := dhcpv4.New(dhcpv4.WithMessageType(dhcpv4.MessageTypeOffer), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IP{192, 0, 2, 9})))
	require.NoError(t, err)
	offer.OpCode = dhcpv4.OpcodeBootReply
	b := make([]byte, 14+headers)
	copy(b, "\xff\xff\xff\xff\xff\xff")
	m := station(9)
	copy(b[6:], m[:])
	binary.BigEndian.PutUint16(b[12:], unix.ETH_P_IP)
	b = append(b, offer.ToBytes()...)
	wrap(b[14:], netip.MustParseAddrPort("192.0.2.9:67"), netip.MustParseAddrPort("255.255.255.255:68"))
	_, err = l.far.Write(b)
	require.NoError(t, err)
	l.arp(station(8), serverIP)
	require.Eventually(t, func() bool { return len(l.server.Problems()) == 2 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, []config.Problem{
		{Reason: "ForeignDHCPServer", Message: "another DHCP server answers on this network: 192.0.2.9"},
		{Reason: "ServerAddressConflict", Message: "another station has the address 192.0.2.2: 02:00:00:00:00:08"},
	}, l.server.Problems())
	require.False(t, l.server.Alone())
}

// behaviour C8, hazard 56: the device goes down, comes back, is made anew.
func TestTheDeviceMayFlap(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	l := newLAN(t, nil)
	bound := func(n byte) func() bool {
		return func() bool {
			l.send(station(n), "0.0.0.0", "255.255.255.255", message(t, station(n), dhcpv4.MessageTypeRequest, ask("192.0.2.150")))
			_, ok := l.next(400*time.Millisecond, func(f seen) bool { return f.proto == unix.ETH_P_IP && f.dst == station(n) })
			return ok
		}
	}
	netns.Run(t, "ip", "link", "set", "vlan", "down")
	netns.Run(t, "ip", "link", "set", "vlan", "up")
	require.Eventually(t, bound(1), time.Minute, 10*time.Millisecond)
	netns.Run(t, "ip", "link", "set", "vlan", "down")
	netns.Run(t, "ip", "addr", "del", serverIP+"/24", "dev", "vlan")
	require.Eventually(t, func() bool { return !l.server.Serving() }, time.Minute, 10*time.Millisecond)
	netns.Run(t, "ip", "link", "set", "vlan", "address", "02:00:00:00:00:aa", "name", "other")
	netns.Run(t, "ip", "addr", "add", serverIP+"/24", "dev", "other")
	netns.Run(t, "ip", "link", "set", "other", "up")
	require.Eventually(t, l.server.Serving, time.Minute, 10*time.Millisecond)
	require.Eventually(t, bound(1), time.Minute, 10*time.Millisecond)
	require.Equal(t, "other", l.server.Device().Name)
}

// behaviour C5, hazard 48: without a disk no new lease, and known ones go on.
func TestWithoutADiskKnownLeasesGoOn(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	dir := t.TempDir()
	j, _ := journal.Open(dir)
	l := newLAN(t, j)
	request := func(n byte, ip string) *dhcpv4.DHCPv4 {
		l.send(station(n), "0.0.0.0", "255.255.255.255", message(t, station(n), dhcpv4.MessageTypeRequest, ask(ip)))
		var p *dhcpv4.DHCPv4
		l.next(time.Second, func(f seen) bool {
			if f.proto != unix.ETH_P_IP || f.dst != station(n) {
				return false
			}
			p, _ = dhcpv4.FromBytes(f.body[28:])
			return true
		})
		return p
	}
	require.NotNil(t, request(1, "192.0.2.110"))
	found, err := journal.Read(dir)
	require.NoError(t, err)
	require.Equal(t, netip.MustParseAddr("192.0.2.110"), found.Records[0].IP, "it was stored before it was told")

	relay := station(250)
	netns.Run(t, "ip", "neigh", "add", "192.0.2.250", "lladdr", relay.String(), "dev", "vlan", "nud", "permanent")
	relayed := func(n byte, ip string) bool { // without a probe in between
		l.send(relay, "192.0.2.250", serverIP, message(t, station(n), dhcpv4.MessageTypeRequest, ask(ip), dhcpv4.WithGatewayIP(net.IP{192, 0, 2, 250})))
		_, ok := l.next(time.Second, func(f seen) bool { return f.proto == unix.ETH_P_IP && f.dst == relay })
		return ok
	}
	require.True(t, relayed(3, "192.0.2.112"))
	l.server.Do(func(*lease.Table, time.Time) { require.NoError(t, j.Close()) }) // every write fails from now on
	require.False(t, relayed(4, "192.0.2.113"), "not newly given")
	require.True(t, relayed(3, "192.0.2.112"), "renewed")
	require.Nil(t, request(2, "192.0.2.111"), "not newly given")
	require.NotNil(t, request(1, "192.0.2.110"), "renewed")
	require.Equal(t, "JournalUnwritable", l.server.Problems()[0].Reason)
	l.server.Do(func(table *lease.Table, _ time.Time) { require.Equal(t, 2, table.Stats().Active) })
	l.server.Tick() // mends it
	require.Empty(t, l.server.Problems())
	require.NotNil(t, request(2, "192.0.2.111"))
}

// A stranger cannot have us flood the network with NAKs.
func TestNaksForStrangersAreLimited(t *testing.T) {
	b := bucket{}
	begin := time.Unix(1000, 0)
	given := 0
	for range 5000 {
		if b.take(begin, nakRate, nakBurst) {
			given++
		}
	}
	require.Equal(t, nakBurst, given)
	require.False(t, b.take(begin.Add(time.Millisecond), nakRate, nakBurst))
	require.True(t, b.take(begin.Add(time.Second), nakRate, nakBurst))
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
