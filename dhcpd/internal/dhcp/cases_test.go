package dhcp

import (
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/lease"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares an answer's bytes.
func golden(t *testing.T, name string, answer []byte) {
	t.Helper()
	path := filepath.Join("testdata", "answers", name+".hex")
	got := hex.EncodeToString(answer) + "\n"
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// case C01, hazards 43, 10: a REQUEST for an address of another network.
func TestInitRebootIntoAnotherNetworkIsRefused(t *testing.T) {
	h := newHandler(t, fixture(), true)
	r := handle(t, h, file(t, "dhcp-initreboot-foreign-subnet"))
	golden(t, "initreboot-foreign-subnet", r.Answer)
	p := parsed(t, r)
	require.Equal(t, dhcpv4.MessageTypeNak, p.MessageType())
	require.Equal(t, "192.0.2.2", p.ServerIdentifier().String())
	require.True(t, p.YourIPAddr.IsUnspecified())
	require.Equal(t, Destination{IP: broadcast}, r.To)
	require.Empty(t, h.Table.Take(nil), "nothing is stored, the name localhost least of all")
	require.Nil(t, p.Options.Get(dhcpv4.OptionHostName))
}

// case C02, hazards 44, 72: a REQUEST for another server.
func TestARequestForAnotherServerIsIgnoredAndFreesTheOffer(t *testing.T) {
	h := newHandler(t, fixture(), false)
	before := h.Table.Stats().Free
	offer := handle(t, h, file(t, "dhcp-discover-bcast"))
	require.Equal(t, before-1, h.Table.Stats().Free)
	require.Equal(t, Offer, offer.Type)
	r := handle(t, h, file(t, "dhcp-request-other-server"))
	require.Nil(t, r.Answer)
	require.Equal(t, NotForUs, r.Outcome)
	require.Equal(t, before, h.Table.Stats().Free)
}

// case C03, hazards 58 to 60: a relay with link selection and server override.
func TestARelayedDiscoverIsAnsweredThroughTheRelay(t *testing.T) {
	h := newHandler(t, fixture(), true)
	in := file(t, "dhcp-discover-relay-opt82")
	r := handle(t, h, in)
	golden(t, "discover-relay-opt82", r.Answer)
	p := parsed(t, r)
	require.Equal(t, dhcpv4.MessageTypeOffer, p.MessageType())
	require.Equal(t, Destination{Relay: true, IP: ip("203.0.113.1")}, r.To)
	require.Equal(t, "203.0.113.1", p.GatewayIPAddr.String())
	require.Equal(t, "192.0.2.1", p.ServerIdentifier().String(), "RFC 5107: the relay's choice")
	require.Equal(t, theVMsIP, p.YourIPAddr.String())

	asked, err := dhcpv4.FromBytes(in)
	require.NoError(t, err)
	info := asked.Options.Get(dhcpv4.OptionRelayAgentInformation)
	require.Equal(t, info, p.Options.Get(dhcpv4.OptionRelayAgentInformation))
	require.Equal(t, append(append([]byte{82, byte(len(info))}, info...), 255), lastOptions(r.Answer, len(info)+3), "byte for byte, and last")

	relay := dhcpv4.WithGatewayIP([]byte{203, 0, 113, 1})
	override := option(dhcpv4.OptionRelayAgentInformation, info)
	r = handle(t, h, message(t, theVM, dhcpv4.MessageTypeRequest, requested(theVMsIP), server("192.0.2.1"), relay, override))
	require.Equal(t, Ack, r.Type, "a REQUEST that names the override is ours")
	r = handle(t, h, message(t, theVM, dhcpv4.MessageTypeRequest, requested("192.0.2.150"), server("192.0.2.1"), relay, override))
	require.Equal(t, Nak, r.Type)
	require.Equal(t, Destination{Relay: true, IP: ip("203.0.113.1")}, r.To, "a NAK goes through the relay too")
	require.Equal(t, info, parsed(t, r).Options.Get(dhcpv4.OptionRelayAgentInformation), "with option 82")
	require.True(t, parsed(t, r).IsBroadcast(), "RFC 2131 section 4.3.2: so that the relay broadcasts it")

	in[24], in[25] = 198, 51 // another relay
	r = handle(t, h, in)
	require.Nil(t, r.Answer)
	require.Equal(t, UnknownRelay, r.Outcome)
}

// lastOptions is the end of a message without its padding.
func lastOptions(b []byte, n int) []byte {
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return b[len(b)-n:]
}

// hazard 58: the link that a relay selects must be ours; hazard 60: option 82
// is echoed without a relay address as well.
func TestLinkSelectionAndASwitchesOption82(t *testing.T) {
	h := newHandler(t, fixture(), false)
	link := func(b ...byte) dhcpv4.Modifier {
		return option(dhcpv4.OptionRelayAgentInformation, append([]byte{5, 4}, b...))
	}
	relay := dhcpv4.WithGatewayIP([]byte{203, 0, 113, 1})
	require.Equal(t, WrongLink, handle(t, h, message(t, theVM, dhcpv4.MessageTypeDiscover, relay, link(198, 51, 100, 0))).Outcome)
	r := handle(t, h, message(t, theVM, dhcpv4.MessageTypeDiscover, option(dhcpv4.OptionRelayAgentInformation, []byte{1, 2, 'e', '1'})))
	require.Equal(t, []byte{1, 2, 'e', '1'}, parsed(t, r).Options.Get(dhcpv4.OptionRelayAgentInformation))
	require.False(t, r.To.Relay)
}

// case C04, hazard 61.
func TestPaddingAfterEndDoesNotMatter(t *testing.T) {
	in := file(t, "dhcp-discover-ff-padding")
	a := handle(t, newHandler(t, fixture(), true), in)
	golden(t, "discover-ff-padding", a.Answer)
	end := len(in)
	for in[end-1] == 0xff {
		end--
	}
	zeros := append(append([]byte{}, in[:end+1]...), make([]byte, len(in)-end-1)...)
	require.Equal(t, a.Answer, handle(t, newHandler(t, fixture(), true), zeros).Answer)
	junk := append(append([]byte{}, in[:end+1]...), 53, 200, 1, 52, 1, 3)
	require.Equal(t, a.Answer, handle(t, newHandler(t, fixture(), true), junk).Answer)
}

// case C05, hazards 65 to 67.
func TestDeclineTakesADynamicAddressOutAndKeepsAMachines(t *testing.T) {
	in := file(t, "dhcp-decline-own")
	h := newHandler(t, fixture(), false)
	r := handle(t, h, message(t, theVM, dhcpv4.MessageTypeRequest, requested(theVMsIP)))
	require.Equal(t, Ack, r.Type)
	r = handle(t, h, in)
	require.Nil(t, r.Answer)
	require.Equal(t, DeclinedTaken, r.Outcome)
	next := handle(t, h, file(t, "dhcp-discover-bcast"))
	require.NotEqual(t, ip(theVMsIP), next.IP)

	h = newHandler(t, fixture(), true)
	r = handle(t, h, in)
	require.Nil(t, r.Answer)
	require.Equal(t, Result{Outcome: DeclinedKept, IP: ip(theVMsIP), VM: theVMIs}, r)
	require.Equal(t, ip(theVMsIP), handle(t, h, file(t, "dhcp-discover-bcast")).IP)
	other := lease.MAC{2, 0, 0, 0, 0, 1}
	require.Equal(t, Nak, handle(t, h, message(t, other, dhcpv4.MessageTypeRequest, requested(theVMsIP))).Type, "it is offered to nobody else")
}

// case C06, hazard 69.
func TestInformGivesOptionsAndNoLease(t *testing.T) {
	h := newHandler(t, fixture(), true)
	r := handle(t, h, file(t, "dhcp-inform"))
	golden(t, "inform", r.Answer)
	p := parsed(t, r)
	require.Equal(t, dhcpv4.MessageTypeAck, p.MessageType())
	require.Equal(t, Destination{IP: ip("192.0.2.50"), MAC: theVM, Configured: true}, r.To)
	require.True(t, p.YourIPAddr.IsUnspecified())
	for _, o := range []dhcpv4.OptionCode{dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer} {
		require.NotNil(t, p.Options.Get(o))
	}
	for _, o := range []dhcpv4.OptionCode{dhcpv4.OptionIPAddressLeaseTime, dhcpv4.OptionRenewTimeValue, dhcpv4.OptionRebindingTimeValue} {
		require.Nil(t, p.Options.Get(o))
	}
	require.Empty(t, h.Table.Take(nil))
}

// case C07, hazards 46, 245.
func TestRenewalInThreeWorlds(t *testing.T) {
	in := file(t, "dhcp-renew-ciaddr")
	to := Destination{IP: ip(theVMsIP), MAC: theVM, Configured: true}
	t.Run("normal", func(t *testing.T) {
		r := handle(t, newHandler(t, fixture(), true), in)
		golden(t, "renew-ciaddr", r.Answer)
		require.Equal(t, Ack, r.Type)
		require.Equal(t, to, r.To)
		require.Equal(t, theVMsIP, parsed(t, r).YourIPAddr.String())
		require.Equal(t, theVMsIP, parsed(t, r).ClientIPAddr.String())
	})
	t.Run("the lease store is lost and machines report their addresses", func(t *testing.T) {
		h := newHandler(t, fixture(), true) // made from the claim alone
		for i := range byte(99) {
			r := handle(t, h, message(t, lease.MAC{2, 1, 0, 0, 0, i}, dhcpv4.MessageTypeDiscover))
			require.NotEqual(t, ip(theVMsIP), r.IP)
		}
		r := handle(t, h, in)
		require.Equal(t, Ack, r.Type)
		require.Equal(t, to, r.To)
	})
	t.Run("the DNS server has moved", func(t *testing.T) {
		f := fixture()
		f.DnsServers = []string{"192.0.2.5"}
		p := parsed(t, handle(t, newHandler(t, f, true), in))
		require.Equal(t, theVMsIP, p.YourIPAddr.String())
		require.Equal(t, "192.0.2.5", p.DNS()[0].String())
	})
}

// case C08, hazards 53 to 57 (the frames themselves are in package server).
func TestTheBroadcastFlagIsHonoured(t *testing.T) {
	in := file(t, "dhcp-discover-bcast")
	r := handle(t, newHandler(t, fixture(), true), in)
	golden(t, "discover-bcast", r.Answer)
	require.Equal(t, Destination{IP: broadcast}, r.To)
	in[10] = 0
	r = handle(t, newHandler(t, fixture(), true), in)
	require.Equal(t, Destination{IP: ip(theVMsIP), MAC: theVM}, r.To)
}

// case C09, hazards 62 to 64, behaviour C10.
func TestMalformedMessagesAreDropped(t *testing.T) {
	good := file(t, "dhcp-discover-bcast")
	edit := func(f func(b []byte) []byte) []byte { return f(append([]byte{}, good...)) }
	for _, c := range []struct {
		name string
		in   []byte
		want error
	}{
		{"hardware address length 0", file(t, "dhcp-bad-hlen0"), ErrHardware},
		{"hardware address length 255", file(t, "dhcp-bad-hlen255"), ErrHardware},
		{"an option longer than the message", file(t, "dhcp-bad-truncated-option"), ErrOptions},
		{"shorter than BOOTP", file(t, "dhcp-bad-short"), ErrShort},
		{"empty", nil, ErrShort},
		{"longer than a frame", make([]byte, maxRequest+1), ErrLong},
		{"a reply", edit(func(b []byte) []byte { b[0] = 2; return b }), ErrNotBOOTP},
		{"another cookie", edit(func(b []byte) []byte { b[236] = 0; return b }), ErrNotBOOTP},
		{"not Ethernet", edit(func(b []byte) []byte { b[1] = 32; return b }), ErrHardware},
		{"a zero hardware address", edit(func(b []byte) []byte { clear(b[28:34]); return b }), ErrHardware},
		{"a broadcast hardware address", edit(func(b []byte) []byte { copy(b[28:], "\xff\xff\xff\xff\xff\xff"); return b }), ErrHardware},
		{"a multicast hardware address", edit(func(b []byte) []byte { b[28] = 1; return b }), ErrHardware},
		{"seventeen relays", edit(func(b []byte) []byte { b[3] = 17; return b }), ErrHops},
		{"option overload", edit(func(b []byte) []byte { copy(b[240:], []byte{52, 1, 3, 255}); return b }), ErrOverload},
		{"no message type", edit(func(b []byte) []byte { b[240] = 255; return b }), ErrNoType},
		{"a message type of two bytes", edit(func(b []byte) []byte { copy(b[240:], []byte{53, 2, 1, 1, 255}); return b }), ErrOptions},
		{"a requested address of three bytes", append(edit(func(b []byte) []byte { return b[:243] }), 50, 3, 1, 2, 3, 255), ErrOptions},
		{"relay information that is cut", append(edit(func(b []byte) []byte { return b[:243] }), 82, 2, 5, 4, 255), ErrOptions},
		{"an option without a length", append(edit(func(b []byte) []byte { return b[:243] }), 61), ErrOptions},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Message
			require.ErrorIs(t, m.Parse(c.in), c.want)
		})
	}
	h := newHandler(t, fixture(), true)
	require.Equal(t, Unexpected, handle(t, h, message(t, theVM, dhcpv4.MessageTypeOffer)).Outcome)
	require.Equal(t, Unexpected, handle(t, h, message(t, theVM, dhcpv4.MessageType(77))).Outcome)
}

// case C15: the API server is away for three lease times.
func TestKnownClientsAreServedWithoutTheAPI(t *testing.T) {
	f := fixture()
	f.LeaseSeconds = 120
	h := newHandler(t, f, true)
	h.Directory = machines{} // what a restart finds while the API is away
	records := h.Table.Records()
	h.Table = lease.New(h.Config.Lease, start)
	h.Table.Restore(records, start)
	for i := range 6 {
		var m Message
		require.NoError(t, m.Parse(file(t, "dhcp-renew-ciaddr")))
		r := h.Handle(&m, start.Add(time.Duration(i+1)*time.Minute), nil)
		require.Equal(t, Ack, r.Type)
		require.Equal(t, theVMIs.Name, parsed(t, r).HostName(), "its name too")
		require.NoError(t, m.Parse(file(t, "dhcp-discover-bcast")))
		require.Equal(t, ip(theVMsIP), h.Handle(&m, start.Add(time.Duration(i+1)*time.Minute), nil).IP)
	}
}
