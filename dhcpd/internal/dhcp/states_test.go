package dhcp

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/agentpb"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// behaviour C1: every message in every state of a client (RFC 2131 table 4).
func TestEveryMessageInEveryState(t *testing.T) {
	bound, foreign := "192.0.2.120", "192.0.2.9"
	states := map[string]func(*Handler){
		"new":     func(*Handler) {},
		"offered": func(h *Handler) { h.Table.Offer(lease.Client{MAC: theVM}, ip(bound), start) },
		"bound":   func(h *Handler) { h.Table.Request(lease.Client{MAC: theVM}, ip(bound), start) },
		"expired": func(h *Handler) { h.Table.Request(lease.Client{MAC: theVM}, ip(bound), start.Add(-2*time.Hour)) },
		"released": func(h *Handler) {
			h.Table.Request(lease.Client{MAC: theVM}, ip(bound), start)
			h.Table.Release(theVM, ip(bound), start)
		},
		"declined": func(h *Handler) {
			h.Table.Request(lease.Client{MAC: theVM}, ip(bound), start)
			h.Table.Decline(theVM, ip(bound), start)
		},
	}
	discover, request, release, decline := dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeRelease, dhcpv4.MessageTypeDecline
	type m = []dhcpv4.Modifier
	for _, c := range []struct {
		name string
		typ  dhcpv4.MessageType
		mods m
		want map[string]string
	}{
		{"DISCOVER", discover, nil, map[string]string{"*": "offer"}},
		{"SELECTING us", request, m{requested(bound), server("192.0.2.2")}, map[string]string{"*": "ack", "declined": "nak"}},
		{"SELECTING us, another address", request, m{requested("192.0.2.130"), server("192.0.2.2")}, map[string]string{"*": "ack", "offered": "nak", "bound": "nak"}},
		{"SELECTING another server", request, m{requested(bound), server(foreign)}, map[string]string{"*": ""}},
		{"INIT-REBOOT", request, m{requested(bound)}, map[string]string{"*": "ack", "declined": "nak"}},
		{"INIT-REBOOT into another network", request, m{requested("198.51.100.7")}, map[string]string{"*": "nak"}},
		{"RENEWING or REBINDING", request, m{ciaddr(bound)}, map[string]string{"*": "ack", "declined": "nak"}},
		{"REQUEST for nothing", request, nil, map[string]string{"*": ""}},
		{"RELEASE", release, m{ciaddr(bound), server("192.0.2.2")}, map[string]string{"*": ""}},
		{"RELEASE to another server", release, m{ciaddr(bound), server(foreign)}, map[string]string{"*": ""}},
		{"DECLINE", decline, m{requested(bound), server("192.0.2.2")}, map[string]string{"*": ""}},
		{"INFORM", dhcpv4.MessageTypeInform, m{ciaddr(bound)}, map[string]string{"*": "ack"}},
		{"INFORM from elsewhere", dhcpv4.MessageTypeInform, m{ciaddr("198.51.100.7")}, map[string]string{"*": ""}},
	} {
		for state, prepare := range states {
			t.Run(c.name+", "+state, func(t *testing.T) {
				h := newHandler(t, fixture(), false)
				prepare(h)
				r := handle(t, h, message(t, theVM, c.typ, c.mods...))
				want, ok := c.want[state]
				if !ok {
					want = c.want["*"]
				}
				got := ""
				if r.Answer != nil {
					got = r.Type.String()
				}
				require.Equal(t, want, got, "%s", r.Outcome)
			})
		}
	}
}

// behaviour C2: the options of an answer, in the order of their codes.
func TestOptionsOfAnAnswer(t *testing.T) {
	f := fixture()
	f.Options = []*agentpb.DHCPOption{{Code: 42, Value: []byte{192, 0, 2, 1}}}
	h := newHandler(t, f, true)
	r := handle(t, h, message(t, theVM, dhcpv4.MessageTypeDiscover, option(dhcpv4.OptionClientIdentifier, []byte{1, 2, 3})))
	var codes []byte
	for b := r.Answer[HeaderLength:]; b[0] != dhcpv4.OptionEnd.Code(); b = b[2+int(b[1]):] {
		codes = append(codes, b[0])
	}
	require.Equal(t, []byte{1, 3, 6, 12, 26, 42, 51, 53, 54, 58, 59, 61}, codes)
	p := parsed(t, r)
	require.Equal(t, net.CIDRMask(24, 32), p.SubnetMask())
	require.Equal(t, "192.0.2.1", p.Router()[0].String(), "hazard 32")
	require.Equal(t, "192.0.2.3", p.DNS()[0].String(), "hazard 82")
	require.Equal(t, time.Hour, p.IPAddressLeaseTime(0))
	require.Equal(t, 30*time.Minute, p.IPAddressRenewalTime(0), "hazard 86: a half")
	require.Equal(t, 52*time.Minute+30*time.Second, p.IPAddressRebindingTime(0), "and seven eighths")
	require.Equal(t, theVMIs.Name, p.HostName(), "hazards 8, 9: byte for byte, although it was not asked for")
	require.Equal(t, []byte{1, 2, 3}, p.Options.Get(dhcpv4.OptionClientIdentifier), "RFC 6842")
	require.True(t, p.ServerIPAddr.IsUnspecified(), "hazards 84, 256: no next server")
	require.Empty(t, p.ServerHostName+p.BootFileName)
	require.GreaterOrEqual(t, len(r.Answer), 300, "hazard 85")
}

func TestWhatIsNotKnownIsLeftOut(t *testing.T) {
	f := fixture()
	f.DnsServers, f.Mtu = nil, 0
	p := parsed(t, handle(t, newHandler(t, f, false), message(t, theVM, dhcpv4.MessageTypeDiscover, option(dhcpv4.OptionHostName, []byte("localhost")))))
	for _, o := range []dhcpv4.OptionCode{dhcpv4.OptionDomainNameServer, dhcpv4.OptionInterfaceMTU, dhcpv4.OptionHostName, dhcpv4.OptionDomainName, dhcpv4.OptionDNSDomainSearchList} {
		require.Nil(t, p.Options.Get(o), "%s (hazards 10, 81)", o)
	}
}

// hazard 11: a cut name would be another machine's.
func TestALongNameIsLeftOut(t *testing.T) {
	h := newHandler(t, fixture(), false)
	for n, want := range map[int]bool{63: true, 64: false, 253: false} {
		name := strings.Repeat("x", n)
		h.Directory = machines{theVM: {{Namespace: "ns", Name: name}}}
		p := parsed(t, handle(t, h, message(t, theVM, dhcpv4.MessageTypeInform, ciaddr("192.0.2.50"))))
		require.Equal(t, want, p.HostName() == name, "%d bytes", n)
	}
}

// hazard 85: option 57 bounds the answer; what the administrator added goes
// first, what the client needs never.
func TestAnAnswerFitsWhatTheClientTakes(t *testing.T) {
	f := fixture()
	for i := range uint32(5) {
		f.Options = append(f.Options, &agentpb.DHCPOption{Code: 200 + i, Value: make([]byte, 200)})
	}
	h := newHandler(t, f, true)
	for _, c := range []struct {
		name   string
		size   []byte
		extras int
	}{
		{"nothing said", nil, 1},
		{"less than the least", []byte{0, 100}, 1},
		{"a full frame", []byte{5, 220}, 5},
		{"networkd and NetworkManager say 65535", []byte{255, 255}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			var mods []dhcpv4.Modifier
			if c.size != nil {
				mods = append(mods, option(dhcpv4.OptionMaximumDHCPMessageSize, c.size))
			}
			r := handle(t, h, message(t, theVM, dhcpv4.MessageTypeDiscover, mods...))
			p := parsed(t, r)
			n := 0
			for i := range 5 {
				if p.Options.Get(dhcpv4.GenericOptionCode(200+i)) != nil {
					n++
				}
			}
			require.Equal(t, c.extras, n)
			require.LessOrEqual(t, len(r.Answer), 1472)
			require.Equal(t, theVMIs.Name, p.HostName())
		})
	}
}

// RFC 3396: an option in parts is one, and a long one goes back in parts.
func TestLongOptionsComeAndGoInParts(t *testing.T) {
	h := newHandler(t, fixture(), false)
	b := message(t, theVM, dhcpv4.MessageTypeDiscover)
	end := lastEnd(b)
	id := make([]byte, 300)
	for i := range id {
		id[i] = byte(i)
	}
	b = append(b[:end], append(append(append([]byte{61, 200}, id[:200]...), append([]byte{61, 100}, id[200:]...)...), 255)...)
	r := handle(t, h, b)
	var got []byte
	for o := r.Answer[HeaderLength:]; o[0] != dhcpv4.OptionEnd.Code(); o = o[2+int(o[1]):] {
		if o[0] == 61 {
			got = append(got, o[2:2+int(o[1])]...)
		}
	}
	require.Equal(t, id, got)
}

func lastEnd(b []byte) int {
	i := len(b)
	for b[i-1] == 0 {
		i--
	}
	return i - 1
}

// hazards 51, 52, behaviour C4: initrd and system differ in the client-id.
func TestTheHardwareAddressIsTheKey(t *testing.T) {
	h := newHandler(t, fixture(), false)
	id := func(b ...byte) dhcpv4.Modifier { return option(dhcpv4.OptionClientIdentifier, b) }
	first := handle(t, h, message(t, theVM, dhcpv4.MessageTypeDiscover, id(1, 2, 0, 0x5e, 0x10, 0, 0x0a)))
	handle(t, h, message(t, theVM, dhcpv4.MessageTypeRequest, requested(first.IP.String()), server("192.0.2.2")))
	for _, mods := range [][]dhcpv4.Modifier{{id(255, 1, 2, 3, 4, 0, 2, 0, 0)}, {}} {
		require.Equal(t, first.IP, handle(t, h, message(t, theVM, dhcpv4.MessageTypeDiscover, mods...)).IP)
	}
}

// hazard 75: a machine may be known when its client asks for the second time.
func TestANewcomerIsLeftToAskAgain(t *testing.T) {
	h := newHandler(t, fixture(), true)
	h.Newcomer = func(lease.MAC, time.Time) bool { return true }
	stranger := lease.MAC{2, 9, 9, 9, 9, 9}
	require.Equal(t, WaitForRetry, handle(t, h, message(t, stranger, dhcpv4.MessageTypeDiscover)).Outcome)
	require.Equal(t, Offer, handle(t, h, message(t, theVM, dhcpv4.MessageTypeDiscover)).Type, "but not a machine")
	h.Newcomer = func(lease.MAC, time.Time) bool { return false }
	require.Equal(t, Offer, handle(t, h, message(t, stranger, dhcpv4.MessageTypeDiscover)).Type)
}

// hazards 71, behaviour C6: what was never used is probed where that is
// possible, and never through a relay.
func TestProbesAreForClientsOnTheLink(t *testing.T) {
	h := newHandler(t, fixture(), false)
	h.Near = true
	r := handle(t, h, message(t, theVM, dhcpv4.MessageTypeDiscover))
	require.True(t, r.Probe)
	require.Nil(t, r.Answer)
	h.Table.Probed(r.IP)
	require.Equal(t, Offer, handle(t, h, message(t, theVM, dhcpv4.MessageTypeDiscover)).Type)
	relayed := handle(t, h, message(t, lease.MAC{2, 8, 8, 8, 8, 8}, dhcpv4.MessageTypeDiscover, dhcpv4.WithGatewayIP([]byte{203, 0, 113, 1})))
	require.Equal(t, Offer, relayed.Type)
}

// hazard 72: what a foreign server says is noticed.
func TestForeignServersAreTold(t *testing.T) {
	offer, err := dhcpv4.New(dhcpv4.WithMessageType(dhcpv4.MessageTypeOffer), server("192.0.2.9"))
	require.NoError(t, err)
	offer.OpCode = dhcpv4.OpcodeBootReply
	typ, id, ok := Foreign(offer.ToBytes())
	require.True(t, ok)
	require.Equal(t, Offer, typ)
	require.Equal(t, ip("192.0.2.9"), id)
	for _, b := range [][]byte{nil, make([]byte, 300), message(t, theVM, dhcpv4.MessageTypeDiscover, server("192.0.2.9"))} {
		_, _, ok := Foreign(b)
		require.False(t, ok)
	}
}

func TestUnknownClientsMayBeIgnored(t *testing.T) {
	f := fixture()
	f.UnknownClients = agentpb.UnknownClients_UNKNOWN_CLIENTS_IGNORE
	h := newHandler(t, f, true)
	stranger := lease.MAC{2, 9, 9, 9, 9, 9}
	require.Nil(t, handle(t, h, message(t, stranger, dhcpv4.MessageTypeDiscover)).Answer)
	require.Nil(t, handle(t, h, message(t, stranger, dhcpv4.MessageTypeInform, ciaddr("192.0.2.50"))).Answer)
	require.Equal(t, Ack, handle(t, h, message(t, theVM, dhcpv4.MessageTypeInform, ciaddr("192.0.2.50"))).Type)
}
