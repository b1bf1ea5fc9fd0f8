package dhcp

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"

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

// The options that are read or set (RFC 2132 unless stated).
const (
	optPad            = 0
	optMask           = 1
	optRouter         = 3
	optDNS            = 6
	optHostName       = 12
	optMTU            = 26
	optRequestedIP    = 50
	optLeaseTime      = 51
	optOverload       = 52
	optMessageType    = 53
	optServerID       = 54
	optMessage        = 56
	optMaxMessageSize = 57
	optRenewal        = 58
	optRebinding      = 59
	optClientID       = 61
	optRelayInfo      = 82 // RFC 3046
	optEnd            = 255
)

// The sub-options of option 82 that matter here.
const (
	subLinkSelection  = 5  // RFC 3527
	subServerOverride = 11 // RFC 5107
)

// The layout of a BOOTP message (RFC 2131 section 2).
const (
	offFlags   = 10
	offCIAddr  = 12
	offYIAddr  = 16
	offGIAddr  = 24
	offCHAddr  = 28
	offCookie  = 236
	offOptions = 240
	// minReply is BOOTP's length, which some clients insist on (RFC 951).
	minReply = 300
	// maxRequest is what one Ethernet frame of 1500 bytes can hold.
	maxRequest = 1500 - 28
	// maxHops is the limit of RFC 1542 section 4.1.1.
	maxHops = 16
)

const magicCookie = 0x63825363

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

// Message is a client's message. Its slices point into the buffer that it was
// parsed from.
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
	raw            []byte
}

// Relayed says whether a relay passed the message on.
func (m *Message) Relayed() bool { return !m.GIAddr.IsUnspecified() }

func addr4(b []byte) netip.Addr { return netip.AddrFrom4([4]byte(b)) }

// Parse reads a message into m. What it returns is for counting: a message
// that cannot be parsed is never answered.
func (m *Message) Parse(b []byte) error {
	*m = Message{}
	switch {
	case len(b) < offOptions:
		return ErrShort
	case len(b) > maxRequest:
		return ErrLong
	case b[0] != 1 || binary.BigEndian.Uint32(b[offCookie:]) != magicCookie:
		return ErrNotBOOTP
	case b[1] != 1 || b[2] != 6:
		return ErrHardware
	case b[3] > maxHops:
		return ErrHops
	}
	m.raw = b
	m.MAC = lease.MAC(b[offCHAddr : offCHAddr+6])
	if !m.MAC.Unicast() {
		return ErrHardware
	}
	m.Broadcast = b[offFlags]&0x80 != 0
	m.CIAddr = addr4(b[offCIAddr : offCIAddr+4])
	m.GIAddr = addr4(b[offGIAddr : offGIAddr+4])
	if err := m.parseOptions(b[offOptions:]); err != nil {
		return err
	}
	if m.Type == 0 {
		return ErrNoType
	}
	return m.parseRelayInfo()
}

// parseOptions reads up to End; whatever follows is padding of whatever bytes.
func (m *Message) parseOptions(b []byte) error {
	for len(b) > 0 {
		code := b[0]
		if code == optEnd {
			return nil
		}
		if code == optPad {
			b = b[1:]
			continue
		}
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return ErrOptions
		}
		if err := m.setOption(code, b[2:2+int(b[1])]); err != nil {
			return err
		}
		b = b[2+int(b[1]):]
	}
	return nil
}

func (m *Message) setOption(code byte, v []byte) error {
	switch code {
	case optOverload:
		return ErrOverload
	case optMessageType:
		if len(v) != 1 {
			return ErrOptions
		}
		m.Type = Type(v[0])
	case optRequestedIP, optServerID:
		if len(v) != 4 {
			return ErrOptions
		}
		if code == optRequestedIP {
			m.Requested = addr4(v)
		} else {
			m.ServerID = addr4(v)
		}
	case optMaxMessageSize:
		if len(v) != 2 {
			return ErrOptions
		}
		m.MaxSize = int(binary.BigEndian.Uint16(v))
	case optClientID:
		m.ClientID = join(m.ClientID, v)
	case optRelayInfo:
		m.RelayInfo = join(m.RelayInfo, v)
	}
	return nil
}

// join puts the parts of a split option together (RFC 3396 section 7).
func join(a, b []byte) []byte {
	if len(a) == 0 {
		return b
	}
	return append(slices.Clip(a), b...)
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
	if len(b) < offOptions || b[0] != 2 || binary.BigEndian.Uint32(b[offCookie:]) != magicCookie {
		return 0, netip.Addr{}, false
	}
	var m Message
	if err := m.parseOptions(b[offOptions:]); err != nil || !m.ServerID.IsValid() {
		return 0, netip.Addr{}, false
	}
	return m.Type, m.ServerID, m.Type == Offer || m.Type == Ack || m.Type == Nak
}
