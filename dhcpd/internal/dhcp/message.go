package dhcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// Type is the DHCP message type (RFC 2132 section 9.6).
type Type uint8

// The message types.
const (
	Discover Type = 1 + iota
	Offer
	Request
	Decline
	Ack
	Nak
	Release
	Inform
)

var typeNames = [...]string{"unknown", "discover", "offer", "request", "decline", "ack", "nak", "release", "inform"}

// String is the type's name as the metrics have it.
func (t Type) String() string {
	if int(t) >= len(typeNames) {
		t = 0
	}
	return typeNames[t]
}

// The sub-options of option 82 that matter here.
const (
	subLinkSelection  = 5  // RFC 3527
	subServerOverride = 11 // RFC 5107
)

const (
	// HeaderLength is that of a BOOTP message with the magic cookie (RFC 2131
	// section 2): where the options begin.
	HeaderLength = 240
	magicCookie  = 0x63825363
	// maxRequest is what one Ethernet frame of 1500 bytes can hold.
	maxRequest = 1500 - 28
	// chaddrSize is the space that a hardware address has.
	chaddrSize = 16
	// maxHops is the limit of RFC 1542 section 4.1.1.
	maxHops = 16
)

// The ways in which a message can be malformed.
var (
	ErrShort    = errors.New("shorter than a BOOTP message")
	ErrLong     = errors.New("longer than an Ethernet frame")
	ErrNotBOOTP = errors.New("no BOOTP request with DHCP options")
	ErrHardware = errors.New("hardware address is not that of one Ethernet station")
	ErrOptions  = errors.New("malformed options")
	ErrOverload = errors.New("option overload")
	ErrNoType   = errors.New("no message type")
	ErrHops     = errors.New("too many relays")
)

// Two kinds of ErrHardware that a log should tell apart: keys of no
// byte at all, and of more than there are.
var (
	errNoHardware   = fmt.Errorf("%w: it has no bytes", ErrHardware)
	errLongHardware = fmt.Errorf("%w: it is longer than its field", ErrHardware)
)

// hardware judges the hardware address' type and length (RFC 2131 section 2).
func hardware(typ, length byte) error {
	switch {
	case length == 0:
		return errNoHardware
	case length > chaddrSize:
		return errLongHardware
	case typ != 1 || length != 6:
		return ErrHardware
	}
	return nil
}

// Message is a client's message.
type Message struct {
	Type      Type
	MAC       lease.MAC
	Broadcast bool
	CIAddr    netip.Addr
	GIAddr    netip.Addr
	// Requested is option 50 and ServerID option 54, invalid when absent.
	Requested netip.Addr
	ServerID  netip.Addr
	ClientID  []byte // option 61
	RelayInfo []byte // option 82
	MaxSize   int    // option 57, 0 when absent
	// LinkSelection and ServerOverride are sub-options of option 82.
	LinkSelection  netip.Addr
	ServerOverride netip.Addr
	id             [4]byte
	flags          uint16
	options        dhcpv4.Options
}

// Relayed says whether a relay passed the message on.
func (m *Message) Relayed() bool { return !m.GIAddr.IsUnspecified() }

// addrOf is an option that holds one address, invalid when absent; it is not ok
// when it holds something else.
func addrOf(o dhcpv4.Options, code dhcpv4.OptionCode) (netip.Addr, bool) {
	v := o[code.Code()]
	if len(v) == 0 {
		return netip.Addr{}, true
	}
	if len(v) != 4 {
		return netip.Addr{}, false
	}
	return addr4(v), true
}

func addr4(b []byte) netip.Addr { return netip.AddrFrom4([4]byte(b)) }

// broadcastFlag is the one flag that there is (RFC 2131 section 2).
const broadcastFlag = 0x8000

// Parse reads a message into m, whose slices hold until the next call. What it
// returns is for counting: a message that cannot be parsed is never answered.
//
// The header's fields have fixed places. It is judged before the library reads
// the options, since that takes any hardware address length for a key of that
// length.
func (m *Message) Parse(b []byte) error {
	*m = Message{options: m.options}
	switch {
	case len(b) < HeaderLength:
		return ErrShort
	case len(b) > maxRequest:
		return ErrLong
	case b[0] != byte(dhcpv4.OpcodeBootRequest) || binary.BigEndian.Uint32(b[HeaderLength-4:]) != magicCookie:
		return ErrNotBOOTP
	case b[3] > maxHops:
		return ErrHops
	}
	if err := hardware(b[1], b[2]); err != nil {
		return err
	}
	m.MAC = lease.MAC(b[28:34])
	if !m.MAC.Unicast() {
		return ErrHardware
	}
	m.id, m.flags = [4]byte(b[4:8]), binary.BigEndian.Uint16(b[10:])
	m.Broadcast = m.flags&broadcastFlag != 0
	m.CIAddr, m.GIAddr = addr4(b[12:16]), addr4(b[24:28])
	if err := m.parseOptions(b[HeaderLength:]); err != nil {
		return err
	}
	if m.Type == 0 {
		return ErrNoType
	}
	return m.parseRelayInfo()
}

// maxCodes bounds the space that is kept from message to message.
const maxCodes = 48

// parseOptions has the library read the options into the space of the message
// before. An empty option says nothing, so it is as good as none.
func (m *Message) parseOptions(b []byte) error {
	if !ended(b) {
		return ErrOptions
	}
	if m.options == nil || len(m.options) > maxCodes {
		m.options = dhcpv4.Options{}
	}
	for code, v := range m.options {
		m.options[code] = v[:0]
	}
	if err := m.options.FromBytes(b); err != nil {
		return ErrOptions
	}
	return m.readOptions(m.options)
}

// ended says whether options lie within b and end as RFC 2131 section 4.1 has
// it, which the library's reader of options alone does not ask for.
func ended(b []byte) bool {
	for len(b) > 0 {
		switch {
		case b[0] == dhcpv4.OptionEnd.Code():
			return true
		case b[0] == dhcpv4.OptionPad.Code():
			b = b[1:]
		case len(b) < 2 || len(b) < 2+int(b[1]):
			return false
		default:
			b = b[2+int(b[1]):]
		}
	}
	return false
}

// readOptions takes what matters here; a split option is one by now (RFC 3396
// section 7).
func (m *Message) readOptions(o dhcpv4.Options) error {
	if len(o[dhcpv4.OptionOptionOverload.Code()]) > 0 {
		return ErrOverload
	}
	if v := o[dhcpv4.OptionDHCPMessageType.Code()]; len(v) > 0 {
		if len(v) != 1 {
			return ErrOptions
		}
		m.Type = Type(v[0])
	}
	var ok bool
	if m.Requested, ok = addrOf(o, dhcpv4.OptionRequestedIPAddress); !ok {
		return ErrOptions
	}
	if m.ServerID, ok = addrOf(o, dhcpv4.OptionServerIdentifier); !ok {
		return ErrOptions
	}
	if v := o[dhcpv4.OptionMaximumDHCPMessageSize.Code()]; len(v) > 0 {
		if len(v) != 2 {
			return ErrOptions
		}
		m.MaxSize = int(binary.BigEndian.Uint16(v))
	}
	m.ClientID, m.RelayInfo = o[dhcpv4.OptionClientIdentifier.Code()], o[dhcpv4.OptionRelayAgentInformation.Code()]
	return nil
}

func (m *Message) parseRelayInfo() error {
	b := m.RelayInfo
	for len(b) > 0 {
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return ErrOptions
		}
		code, v := b[0], b[2:2+int(b[1])]
		b = b[2+int(b[1]):]
		if code != subLinkSelection && code != subServerOverride {
			continue
		}
		if len(v) != 4 {
			return ErrOptions
		}
		if code == subLinkSelection {
			m.LinkSelection = addr4(v)
		} else {
			m.ServerOverride = addr4(v)
		}
	}
	return nil
}

// Foreign reads the server identifier of a server's OFFER or ACK, to notice
// that there is another one.
func Foreign(b []byte) (Type, netip.Addr, bool) {
	p, err := dhcpv4.FromBytes(b)
	if err != nil || p.OpCode != dhcpv4.OpcodeBootReply {
		return 0, netip.Addr{}, false
	}
	var m Message
	if err := m.readOptions(p.Options); err != nil || !m.ServerID.IsValid() {
		return 0, netip.Addr{}, false
	}
	return m.Type, m.ServerID, m.Type == Offer || m.Type == Ack || m.Type == Nak
}
