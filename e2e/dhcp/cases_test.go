package dhcp

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The tests of this file send the bytes of the cases as frames, to the process
// as its pod runs it, and look at all that comes of them.

// case C01, hazards 43, 10.
func TestInitRebootIntoAnotherNetwork(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, plan{machines: vms(t, "vmi-mac-forms.yaml")})
	n.has(t, theVM, theVMIP)
	before := n.rows(t)
	m := message(t, "dhcp-initreboot-foreign-subnet")
	mark := n.station.mark()
	n.station.broadcast(t, m)
	p := n.station.answer(t, mark, m, time.Second)
	require.Equal(t, golden(t, "initreboot-foreign-subnet"), p.payload)
	require.Equal(t, []byte{typeNak}, option(p.payload, optType))
	require.Equal(t, addr(serverIP), option(p.payload, optServer))
	require.Equal(t, "0.0.0.0", yiaddr(p))
	require.Equal(t, []string{serverIP + ":67", "255.255.255.255:68", serverMAC, everybody}, []string{p.from.String(), p.to.String(), p.src, p.dst})
	n.turn(t)
	require.Len(t, n.station.answers(mark, m), 1, "one NAK, and no ACK with another address")
	require.Empty(t, n.pod.since(0, func(packet) bool { return true }))
	require.Equal(t, before, n.rows(t))
	require.NotContains(t, n.state(t), "localhost")
	require.Contains(t, n.state(t), theName)
}

// case C02, hazards 44, 72.
func TestARequestThatIsMeantForAnotherServer(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, plan{})
	const addresses = "oooi_dhcpd_addresses"
	n.measures(t, 100, addresses, `"free"`)
	offer := n.station.insist(t, n.station.broadcast, message(t, "dhcp-discover-bcast"))
	require.Equal(t, []byte{typeOffer}, option(offer.payload, optType))
	n.measures(t, 99, addresses, `"free"`)
	n.measures(t, 1, addresses, `"offered"`)
	n.silent(t, "request", "other_server", 1, func() { n.station.broadcast(t, message(t, "dhcp-request-other-server")) })
	n.measures(t, 100, addresses, `"free"`)
	n.measures(t, 0, addresses, `"offered"`)
	require.Empty(t, n.rows(t))
	// The server that it was meant for.
	require.Equal(t, 1, n.said(`"msg":"client has chosen another DHCP server","ip":"192.0.2.9","mac":"`+theVM+`"`), n.dhcpd.Output())
	n.measures(t, 1, "oooi_dhcpd_problems", "ForeignDHCPServer")
}

// case C03, hazards 58 to 60.
func TestARelayWithLinkSelectionAndServerOverride(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, plan{machines: vms(t, "vmi-mac-forms.yaml")})
	n.has(t, theVM, theVMIP)
	host := n.lab.MustHost(t, "relay")
	const mac = "02:00:5e:10:00:fa"
	require.NoError(t, n.plug(t.Context(), host, "eth0", mac, relayIP+"/24", remoteIP+"/32"))
	relay := openTap(t, host, "eth0")
	from := func(ip string) func(*testing.T, []byte) {
		return func(t *testing.T, m []byte) {
			t.Helper()
			relay.send(t, envelope{mac, serverMAC, ip + ":40067", serverIP + ":67"}, m)
		}
	}
	discover := message(t, "dhcp-discover-relay-opt82")
	info := option(discover, 82)
	check := func(p packet, typ byte) {
		require.Equal(t, []byte{typ}, option(p.payload, optType))
		require.Equal(t, remoteIP+":67", p.to.String(), "not the port that it came from")
		require.Equal(t, []string{serverIP + ":67", serverMAC, mac}, []string{p.from.String(), p.src, p.dst})
		require.Equal(t, theVMIP, yiaddr(p))
		require.Equal(t, addr(remoteIP), p.payload[24:28])
		require.Equal(t, addr("192.0.2.1"), option(p.payload, optServer))
		require.Equal(t, append(append([]byte{82, byte(len(info))}, info...), 255), bytes.TrimRight(p.payload, "\x00")[len(bytes.TrimRight(p.payload, "\x00"))-len(info)-3:])
	}
	offer := relay.ask(t, from(remoteIP), discover)
	check(offer, typeOffer)
	require.Equal(t, golden(t, "discover-relay-opt82"), offer.payload)
	check(relay.ask(t, from(remoteIP), selecting(discover, offer)), typeAck)

	// Another relay, and then the known one, whose answer comes after whatever
	// the other could have got.
	other := bytes.Clone(discover)
	copy(other[24:28], addr("203.0.113.9"))
	before := n.count(t, "discover", "unknown_relay")
	mark := n.vlan.mark()
	from("203.0.113.9")(t, other)
	require.NoError(t, waitFor(t.Context(), patience, "the count", func() bool {
		return n.count(t, "discover", "unknown_relay") == before+1
	}, n.dhcpd.Output))
	check(relay.ask(t, from(remoteIP), discover), typeOffer)
	require.Len(t, n.vlan.since(mark, sentByServer), 1)
	for _, at := range []*tap{n.vlan, n.station, relay} {
		require.Empty(t, at.since(0, func(p packet) bool { return p.to.Port() == 68 }))
	}
	require.Empty(t, n.pod.since(0, func(packet) bool { return true }))
}

// case C04, hazard 61.
func TestPaddingBehindTheEndOnTheWire(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, plan{machines: vms(t, "vmi-mac-forms.yaml")})
	n.has(t, theVM, theVMIP)
	ones := message(t, "dhcp-discover-ff-padding")
	zeros := bytes.TrimRight(ones, "\xff")
	zeros = append(append(bytes.Clone(zeros), 255), make([]byte, len(ones)-len(zeros)-1)...)
	require.Len(t, zeros, len(ones))
	for _, m := range [][]byte{ones, zeros} {
		p := n.station.ask(t, n.station.broadcast, m)
		require.Equal(t, golden(t, "discover-ff-padding"), p.payload)
		require.Equal(t, []string{serverIP + ":67", theVMIP + ":68", serverMAC, theVM}, []string{p.from.String(), p.to.String(), p.src, p.dst})
	}
}

// case C05, hazards 65, 66: an address that is no machine's, on offer or leased.
func TestADeclinedAddressRestsOverACrash(t *testing.T) {
	t.Parallel()
	for _, leased := range []bool{false, true} {
		t.Run(fmt.Sprintf("leased=%t", leased), func(t *testing.T) {
			t.Parallel()
			declined(t, leased)
		})
	}
}

func declined(t *testing.T, leased bool) {
	n := newNetwork(t, plan{})
	plain := message(t, "dhcp-discover-bcast")
	discover := with(plain, optRequested, addr(theVMIP)...)
	stranger := func(i int) []byte { return of(t, fmt.Sprint(strangerOf, i), discover) }
	offer := n.station.insist(t, n.station.broadcast, discover)
	require.Equal(t, theVMIP, yiaddr(offer))
	if leased {
		ack := n.station.ask(t, n.station.broadcast, selecting(plain, offer))
		require.Equal(t, []byte{typeAck}, option(ack.payload, optType))
		require.Equal(t, theVMIP, yiaddr(ack))
		n.has(t, theVM, theVMIP)
	}

	n.silent(t, "decline", "declined", 1, func() { n.station.broadcast(t, message(t, "dhcp-decline-own")) })
	require.Equal(t, 1, n.said(`"msg":"client found its address in use","mac":"`+theVM+`","ip":"`+theVMIP+`"`), n.dhcpd.Output())
	rests := func() {
		l := n.rows(t)
		require.Len(t, l, 1)
		require.Equal(t, row{IP: theVMIP, State: "declined", Until: l[0].Until}, l[0])
		until, err := time.Parse(time.RFC3339, l[0].Until)
		require.NoError(t, err)
		require.InDelta(t, time.Hour.Seconds(), time.Until(until).Seconds(), 120)
	}
	rests()
	next := n.station.insist(t, n.station.broadcast, discover)
	require.Equal(t, []byte{typeOffer}, option(next.payload, optType))
	require.NotEqual(t, theVMIP, yiaddr(next), "though it asks for it")
	require.NotEqual(t, theVMIP, yiaddr(n.station.insist(t, n.station.broadcast, stranger(1))))
	n.reborn(t, func() {})
	rests()
	for _, m := range [][]byte{stranger(2), discover} {
		require.NotEqual(t, theVMIP, yiaddr(n.station.insist(t, n.station.broadcast, m)))
	}
	n.measures(t, 1, "oooi_dhcpd_addresses", "declined")
}

// case C06, hazard 69.
func TestAnInformOnTheWire(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, plan{machines: vms(t, "vmi-mac-forms.yaml")})
	n.has(t, theVM, theVMIP)
	before, m := n.rows(t), message(t, "dhcp-inform")
	mark := n.station.mark()
	p := n.station.ask(t, n.station.unicast, m)
	require.Equal(t, golden(t, "inform"), p.payload)
	require.Equal(t, []byte{typeAck}, option(p.payload, optType))
	require.Equal(t, "0.0.0.0", yiaddr(p))
	require.Equal(t, []string{serverIP + ":67", quietIP + ":68", serverMAC, theVM}, []string{p.from.String(), p.to.String(), p.src, p.dst})
	for _, code := range []byte{1, 3, optDNS} {
		require.NotEmpty(t, option(p.payload, code), "option %d", code)
	}
	for _, code := range []byte{51, 58, 59} {
		require.Nil(t, option(p.payload, code), "option %d", code)
	}
	n.turn(t)
	require.Len(t, n.station.answers(mark, m), 1)
	require.Equal(t, before, n.rows(t), "no lease")
}

// case C07, hazards 46, 245.
func TestARenewalInThreeWorlds(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, plan{machines: vms(t, "vmi-mac-forms.yaml"), addresses: []string{theVMIP}})
	n.has(t, theVM, theVMIP)
	m := message(t, "dhcp-renew-ciaddr")
	acked := func(p packet) {
		require.Equal(t, []byte{typeAck}, option(p.payload, optType))
		require.Equal(t, theVMIP, yiaddr(p))
		require.Equal(t, []string{serverIP + ":67", theVMIP + ":68", serverMAC, theVM}, []string{p.from.String(), p.to.String(), p.src, p.dst})
	}
	p := n.station.ask(t, n.station.unicast, m)
	acked(p)
	require.Equal(t, golden(t, "renew-ciaddr"), p.payload)

	// The lease store is gone. At first the server knows nothing at all.
	n.reborn(t, func() {
		require.NoError(t, os.RemoveAll(n.dir+"/state"))
		require.NoError(t, os.Mkdir(n.dir+"/state", 0o755))
	})
	mark := n.station.mark()
	acked(n.station.insist(t, n.station.unicast, m))
	n.has(t, theVM, theVMIP)
	p = n.station.ask(t, n.station.unicast, m)
	acked(p)
	require.Equal(t, golden(t, "renew-ciaddr"), p.payload)
	for _, a := range n.station.answers(mark, m) {
		acked(a) // never a NAK, never another address
	}
	// A stranger that asks for the address gets another.
	p = n.station.insist(t, n.station.broadcast, of(t, strangerOf+"1", with(message(t, "dhcp-discover-bcast"), optRequested, addr(theVMIP)...)))
	require.Equal(t, []byte{typeOffer}, option(p.payload, optType))
	require.NotEqual(t, theVMIP, yiaddr(p))

	// DNS moves, under a server that runs.
	n.reconfigure(t, func(dhcp map[string]any) { dhcp["dnsServers"] = []string{"192.0.2.5"} })
	p = n.station.ask(t, n.station.unicast, m)
	acked(p)
	require.Equal(t, addr("192.0.2.5"), option(p.payload, optDNS))
	require.Equal(t, bytes.Replace(golden(t, "renew-ciaddr"), []byte{optDNS, 4, 192, 0, 2, 3}, []byte{optDNS, 4, 192, 0, 2, 5}, 1), p.payload)
}

// case C08, hazards 53 to 57.
func TestTheBroadcastFlagOnTheWire(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, plan{machines: vms(t, "vmi-mac-forms.yaml")})
	n.has(t, theVM, theVMIP)
	flagged := message(t, "dhcp-discover-bcast")
	plain := bytes.Clone(flagged)
	plain[10] = 0
	offer := func(m []byte, to, dst string) packet {
		mark := n.vlan.mark()
		p := n.station.ask(t, n.station.broadcast, m)
		want := golden(t, "discover-bcast")
		want[10] = m[10]
		require.Equal(t, want, p.payload)
		require.Equal(t, []string{serverIP + ":67", to + ":68", serverMAC, dst}, []string{p.from.String(), p.to.String(), p.src, p.dst})
		n.turn(t)
		require.Len(t, n.vlan.since(mark, sentByServer), 2, "this one, and turn's own")
		return p
	}
	require.True(t, offer(flagged, "255.255.255.255", everybody).summed)
	require.True(t, offer(plain, theVMIP, theVM).summed, "a frame of its own with the right UDP checksum")
	require.Empty(t, n.pod.since(0, func(packet) bool { return true }))

	n.reborn(t, func() { require.NoError(t, n.withoutNetRaw(t.Context())) })
	require.Equal(t, 1, n.said("answers to clients without an address are broadcast"))
	offer(flagged, "255.255.255.255", everybody)
	offer(plain, "255.255.255.255", everybody)
	require.Empty(t, n.pod.since(0, func(packet) bool { return true }), "nothing on eth0")
}

// case C09, hazards 62, 63.
func TestMalformedMessagesByTheThousand(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, plan{})
	kinds := []struct{ file, outcome, line string }{
		{"dhcp-bad-hlen0", "hardware_address", `"reason":"hardware_address","err":"hardware address is not that of one Ethernet station: it has no bytes"`},
		{"dhcp-bad-hlen255", "hardware_address", `"reason":"hardware_address","err":"hardware address is not that of one Ethernet station: it is longer than its field"`},
		{"dhcp-bad-truncated-option", "options", `"reason":"options","err":"malformed options"`},
		{"dhcp-bad-short", "short", `"reason":"short","err":"shorter than a BOOTP message"`},
	}
	n.turn(t)
	began, before := time.Now(), n.memory(t)
	const rounds, batch = 1000, 100
	for range rounds / batch {
		n.silent(t, "malformed", "outcome", batch*len(kinds), func() {
			for range batch {
				for _, k := range kinds {
					n.station.send(t, envelope{theVM, everybody, "0.0.0.0:68", "255.255.255.255:67"}, message(t, k.file))
				}
			}
		})
	}
	took := time.Since(began)
	require.Equal(t, 4*rounds, n.count(t, "malformed", "outcome"))
	for outcome, want := range map[string]int{"hardware_address": 2 * rounds, "options": rounds, "short": rounds} {
		require.Equal(t, want, n.count(t, "malformed", `"`+outcome+`"`))
	}
	for _, k := range kinds {
		lines := n.said(`"msg":"message dropped",` + k.line)
		require.Positive(t, lines, "%s: %s", k.file, n.dhcpd.Output())
		require.LessOrEqual(t, lines, 1+int(took/(10*time.Second)), k.file)
	}
	require.NoError(t, n.dhcpd.Running())
	require.NotContains(t, n.dhcpd.Output(), "panic")
	require.Empty(t, n.rows(t), "no binding, whatever its key")
	after := n.memory(t)
	t.Logf("%d messages in %s, %d KiB before and %d KiB after", 4*rounds, took.Round(time.Millisecond), before, after)
	require.Less(t, after, before+8<<10, "KiB")
}

// case C17, hazards 14, 15, 76: the forms in which hardware addresses are written.
func TestMachinesAreFoundInAnyForm(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, plan{machines: vms(t, "vmi-mac-forms.yaml")})
	n.has(t, theVM, theVMIP)
	n.has(t, otherVM, "192.0.2.150")
	for _, vm := range []struct{ mac, ip, name string }{{theVM, theVMIP, theName}, {otherVM, "192.0.2.150", "example-hcp-b-m4d8w-t2c6j"}} {
		p := n.station.ask(t, n.station.broadcast, of(t, vm.mac, message(t, "dhcp-discover-bcast")))
		require.Equal(t, vm.ip, yiaddr(p))
		require.Equal(t, vm.name, string(option(p.payload, optName)))
	}
}
