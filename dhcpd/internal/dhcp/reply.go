package dhcp

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// maxHostName is a label's limit (RFC 1035 section 2.3.4). A longer name is
// left out: a cut one would be another machine's.
const maxHostName = 63

// minMaxSize is what every client must accept (RFC 2132 section 9.10), IP and
// UDP headers included.
const minMaxSize = 576

// reply says what goes into an answer.
type reply struct {
	typ      Type
	yiaddr   netip.Addr
	ciaddr   netip.Addr
	lease    time.Duration // 0 = no lease times
	hostName string
	message  string // option 56, for a NAK
}

// serverID is what an answer names as its server: the relay's choice, if it
// made one (RFC 5107 section 4).
func serverID(c *config.Config, m *Message) netip.Addr {
	if m.ServerOverride.IsValid() && !m.ServerOverride.IsUnspecified() {
		return m.ServerOverride
	}
	return c.ServerIP
}

// build appends the answer to buf. The library writes the options in the order
// of their codes, option 82 last, splits long ones (RFC 3396 section 5) and pads
// to BOOTP's 300 bytes (RFC 951), which some clients insist on.
func build(buf []byte, c *config.Config, m *Message, r reply) []byte {
	p := header(m, r)
	o := answer{p.Options}
	o.put(dhcpv4.OptionDHCPMessageType, byte(r.typ))
	o.addrs(dhcpv4.OptionServerIdentifier, serverID(c, m))
	o.put(dhcpv4.OptionClientIdentifier, m.ClientID...) // RFC 6842 section 3
	o.put(dhcpv4.OptionRelayAgentInformation, m.RelayInfo...)
	if r.typ == Nak {
		o.put(dhcpv4.OptionMessage, []byte(r.message)...)
	} else {
		o.configuration(c, r)
		o.extras(c.Options, limit(c, m))
	}
	return append(buf, p.ToBytes()...)
}

// header takes from the client's what an answer repeats (RFC 2131 table 3).
func header(m *Message, r reply) *dhcpv4.DHCPv4 {
	p := &dhcpv4.DHCPv4{
		OpCode: dhcpv4.OpcodeBootReply, HWType: m.packet.HWType, TransactionID: m.packet.TransactionID, Flags: m.packet.Flags,
		ClientIPAddr: netIP(r.ciaddr), YourIPAddr: netIP(r.yiaddr), GatewayIPAddr: m.packet.GatewayIPAddr, ClientHWAddr: m.packet.ClientHWAddr,
		Options: dhcpv4.Options{},
	}
	if r.typ == Nak && m.Relayed() {
		p.SetBroadcast() // RFC 2131 section 4.3.2: the relay must broadcast it
	}
	return p
}

// netIP is the library's form of an address.
func netIP(a netip.Addr) []byte {
	if !a.Is4() {
		return make([]byte, 4)
	}
	return a.AsSlice()
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

// answer is the options of an answer.
type answer struct{ dhcpv4.Options }

func (o answer) put(code dhcpv4.OptionCode, v ...byte) {
	if len(v) > 0 {
		o.Options[code.Code()] = v
	}
}

func (o answer) uint32(code dhcpv4.OptionCode, v uint32) {
	o.put(code, binary.BigEndian.AppendUint32(nil, v)...)
}

// maxAddrs is how many addresses one option can hold.
const maxAddrs = 63

func (o answer) addrs(code dhcpv4.OptionCode, as ...netip.Addr) {
	var v []byte
	for _, a := range as[:min(len(as), maxAddrs)] {
		v = append(v, a.AsSlice()...)
	}
	o.put(code, v...)
}

// configuration writes what the configuration of today says (behaviour C2).
func (o answer) configuration(c *config.Config, r reply) {
	if r.lease > 0 {
		s := uint32(r.lease / time.Second)
		o.uint32(dhcpv4.OptionIPAddressLeaseTime, s)
		o.uint32(dhcpv4.OptionRenewTimeValue, s/2)
		o.uint32(dhcpv4.OptionRebindingTimeValue, uint32(uint64(s)*7/8)) // RFC 2131 section 4.4.5
	}
	o.uint32(dhcpv4.OptionSubnetMask, ^uint32(0)<<(32-c.Prefix.Bits()))
	o.addrs(dhcpv4.OptionRouter, c.Gateway)
	o.addrs(dhcpv4.OptionDomainNameServer, c.DNS...)
	if c.MTU != 0 {
		o.put(dhcpv4.OptionInterfaceMTU, byte(c.MTU>>8), byte(c.MTU))
	}
	if len(r.hostName) <= maxHostName {
		o.put(dhcpv4.OptionHostName, []byte(r.hostName)...)
	}
}

// extras writes the administrator's options as far as they fit beside what must
// be there.
func (o answer) extras(options []config.Option, limit int) {
	size := headerLength + 1
	for _, v := range o.Options {
		size += sizeOf(v)
	}
	for _, e := range options {
		if _, taken := o.Options[e.Code]; !taken && size+sizeOf(e.Value) <= limit {
			o.Options[e.Code] = e.Value
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
