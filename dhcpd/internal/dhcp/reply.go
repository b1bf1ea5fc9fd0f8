package dhcp

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/u-root/uio/uio"

	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// maxHostName is a label's limit (RFC 1035 section 2.3.4). A longer name is
// left out: a cut one would be another machine's.
const maxHostName = 63

// minMaxSize is what every client must accept (RFC 2132 section 9.10), IP and
// UDP headers included.
const minMaxSize = 576

// maxAddrs is how many addresses one option can hold.
const maxAddrs = 63

// reply says what goes into an answer.
type reply struct {
	typ      Type
	yiaddr   netip.Addr
	ciaddr   netip.Addr
	leased   bool // with lease times
	hostName string
	message  string // option 56, for a NAK
}

// encoder writes answers. What follows from the configuration alone it makes
// once, and its space it uses again.
type encoder struct {
	of       *config.Config
	constant dhcpv4.Options
	options  dhcpv4.Options // of the answer
}

// types are the values of option 53, in order.
var types = []byte{0, byte(Discover), byte(Offer), byte(Request), byte(Decline), byte(Ack), byte(Nak), byte(Release), byte(Inform)}

// minAnswer is the length of a BOOTP message (RFC 951), on which some clients
// insist.
const minAnswer = 300

// zeros pads.
var zeros [minAnswer]byte

// build appends the answer to buf. The library writes the options in the order
// of their codes, option 82 last, and splits long ones (RFC 3396 section 5).
func (e *encoder) build(buf []byte, c *config.Config, m *Message, r reply) []byte {
	if e.of != c {
		e.configure(c)
	}
	o := e.options
	clear(o)
	if r.typ == Nak {
		o[dhcpv4.OptionMessage.Code()] = []byte(r.message)
	} else {
		e.configuration(r)
	}
	o[dhcpv4.OptionDHCPMessageType.Code()] = types[r.typ : r.typ+1]
	o[dhcpv4.OptionServerIdentifier.Code()] = e.serverID(m)
	put(o, dhcpv4.OptionClientIdentifier, m.ClientID) // RFC 6842 section 3
	put(o, dhcpv4.OptionRelayAgentInformation, m.RelayInfo)
	if r.typ != Nak {
		extras(o, c.Options, limit(c, m))
	}
	l := uio.NewBigEndianBuffer(header(buf, m, r))
	o.Marshal(l)
	l.Write8(dhcpv4.OptionEnd.Code())
	if n := l.Len() - len(buf); n < minAnswer {
		l.WriteBytes(zeros[n:])
	}
	return l.Data()
}

// header takes from the client's what an answer repeats (RFC 2131 table 3).
func header(b []byte, m *Message, r reply) []byte {
	flags := m.flags
	if r.typ == Nak && m.Relayed() {
		flags |= broadcastFlag // RFC 2131 section 4.3.2: the relay must broadcast it
	}
	b = append(b, byte(dhcpv4.OpcodeBootReply), 1, byte(len(m.MAC)), 0) // op, htype, hlen, hops
	b = append(b, m.id[:]...)
	b = binary.BigEndian.AppendUint16(b, 0) // secs
	b = binary.BigEndian.AppendUint16(b, flags)
	for _, a := range [...]netip.Addr{r.ciaddr, r.yiaddr, {}, m.GIAddr} {
		var v [4]byte
		if a.Is4() {
			v = a.As4()
		}
		b = append(b, v[:]...)
	}
	b = append(b, m.MAC[:]...)
	b = append(b, zeros[:10+64+128]...) // the rest of chaddr, sname, file
	return binary.BigEndian.AppendUint32(b, magicCookie)
}

// serverID is what an answer names as its server: the relay's choice, if it
// made one (RFC 5107 section 4).
func (e *encoder) serverID(m *Message) []byte {
	if m.ServerOverride.IsValid() && !m.ServerOverride.IsUnspecified() {
		return m.ServerOverride.AsSlice()
	}
	return e.constant[dhcpv4.OptionServerIdentifier.Code()]
}

// configuration writes what the configuration of today says (behaviour C2).
func (e *encoder) configuration(r reply) {
	o := e.options
	maps.Copy(o, e.constant)
	if !r.leased {
		for _, code := range []dhcpv4.OptionCode{dhcpv4.OptionIPAddressLeaseTime, dhcpv4.OptionRenewTimeValue, dhcpv4.OptionRebindingTimeValue} {
			delete(o, code.Code())
		}
	}
	if len(r.hostName) <= maxHostName {
		put(o, dhcpv4.OptionHostName, []byte(r.hostName))
	}
}

// configure makes the options that are the same for every client.
func (e *encoder) configure(c *config.Config) {
	e.of, e.constant, e.options = c, dhcpv4.Options{}, dhcpv4.Options{}
	number := func(code dhcpv4.OptionCode, v uint32) {
		put(e.constant, code, binary.BigEndian.AppendUint32(nil, v))
	}
	s := uint32(c.Lease.LeaseTime / time.Second)
	number(dhcpv4.OptionIPAddressLeaseTime, s)
	number(dhcpv4.OptionRenewTimeValue, s/2)
	number(dhcpv4.OptionRebindingTimeValue, uint32(uint64(s)*7/8)) // RFC 2131 section 4.4.5
	number(dhcpv4.OptionSubnetMask, ^uint32(0)<<(32-c.Prefix.Bits()))
	put(e.constant, dhcpv4.OptionServerIdentifier, c.ServerIP.AsSlice())
	put(e.constant, dhcpv4.OptionRouter, c.Gateway.AsSlice())
	var dns []byte
	for _, a := range c.DNS[:min(len(c.DNS), maxAddrs)] {
		dns = append(dns, a.AsSlice()...)
	}
	put(e.constant, dhcpv4.OptionDomainNameServer, dns)
	if c.MTU != 0 {
		put(e.constant, dhcpv4.OptionInterfaceMTU, binary.BigEndian.AppendUint16(nil, c.MTU))
	}
}

// put leaves out an option that is empty.
func put(o dhcpv4.Options, code dhcpv4.OptionCode, v []byte) {
	if len(v) > 0 {
		o[code.Code()] = v
	}
}

// limit is the longest answer that m's sender takes. Through a relay or not,
// it never exceeds what fits the network's frames.
func limit(c *config.Config, m *Message) int {
	frame := 1500
	if c.MTU != 0 {
		frame = min(frame, max(int(c.MTU), minMaxSize))
	}
	return min(max(m.MaxSize, minMaxSize), frame) - 28
}

// extras writes the administrator's options as far as they fit beside what must
// be there.
func extras(o dhcpv4.Options, options []config.Option, limit int) {
	if len(options) == 0 {
		return
	}
	size := HeaderLength + 1
	for _, v := range o {
		size += sizeOf(v)
	}
	for _, e := range options {
		if _, taken := o[e.Code]; !taken && size+sizeOf(e.Value) <= limit {
			o[e.Code] = e.Value
			size += sizeOf(e.Value)
		}
	}
}

// sizeOf is the length of an option on the wire.
func sizeOf(v []byte) int { return len(v) + 2*max(1, (len(v)+254)/255) }

// hostName is the name that a client is told: its machine's, byte for byte.
func hostName(c *config.Config, m lease.MAC, vm lease.VM) string {
	if vm.Known() {
		return vm.Name
	}
	return c.HostNames[m]
}
