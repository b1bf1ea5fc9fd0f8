package dhcp

import (
	"encoding/binary"
	"net/netip"
	"time"

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

// build appends the answer to buf.
func build(buf []byte, c *config.Config, m *Message, r reply) []byte {
	w := writer{b: buf, start: len(buf)}
	w.header(m, r)
	w.byte1(optMessageType, byte(r.typ))
	w.addrs(optServerID, serverID(c, m))
	if r.typ != Nak {
		w.configuration(c, r)
	} else if r.message != "" {
		w.option(optMessage, []byte(r.message))
	}
	// What the client or its relay must get back has its place reserved
	// before anything that may be left out.
	tail := 1 + sizeOf(m.ClientID) + sizeOf(m.RelayInfo)
	if r.typ != Nak {
		w.extras(c.Options, limit(c, m)-tail)
	}
	w.long(optClientID, m.ClientID) // RFC 6842 section 3
	w.long(optRelayInfo, m.RelayInfo)
	w.b = append(w.b, optEnd)
	for len(w.b)-w.start < minReply {
		w.b = append(w.b, optPad)
	}
	return w.b
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

type writer struct {
	b     []byte
	start int
}

func (w *writer) header(m *Message, r reply) {
	w.b = append(w.b, m.raw[:offCHAddr+16]...) // op to chaddr are the client's
	h := w.b[w.start:]
	h[0] = 2 // BOOTREPLY
	h[3] = 0 // hops
	clear(h[8:10])
	if r.typ == Nak && m.Relayed() {
		h[offFlags] |= 0x80 // RFC 2131 section 4.3.2: the relay must broadcast it
	}
	clear(h[offCIAddr:offGIAddr]) // ciaddr, yiaddr, siaddr
	put(h[offCIAddr:], r.ciaddr)
	put(h[offYIAddr:], r.yiaddr)
	w.b = append(w.b, make([]byte, offCookie-offCHAddr-16)...) // sname, file
	w.b = binary.BigEndian.AppendUint32(w.b, magicCookie)
}

func put(b []byte, a netip.Addr) {
	if a.Is4() {
		v := a.As4()
		copy(b, v[:])
	}
}

// configuration writes what the configuration of today says (spec C2).
func (w *writer) configuration(c *config.Config, r reply) {
	if r.lease > 0 {
		s := uint32(r.lease / time.Second)
		w.uint32(optLeaseTime, s)
		w.uint32(optRenewal, s/2)
		w.uint32(optRebinding, uint32(uint64(s)*7/8)) // RFC 2131 section 4.4.5
	}
	mask := ^uint32(0) << (32 - c.Prefix.Bits())
	w.uint32(optMask, mask)
	w.addrs(optRouter, c.Gateway)
	w.addrs(optDNS, c.DNS...)
	if c.MTU != 0 {
		w.b = append(w.b, optMTU, 2, byte(c.MTU>>8), byte(c.MTU))
	}
	if r.hostName != "" && len(r.hostName) <= maxHostName {
		w.option(optHostName, []byte(r.hostName))
	}
}

// extras writes the administrator's options as far as they fit.
func (w *writer) extras(options []config.Option, limit int) {
	for _, o := range options {
		if len(w.b)-w.start+2+len(o.Value) <= limit {
			w.option(o.Code, o.Value)
		}
	}
}

func (w *writer) option(code byte, v []byte) {
	w.b = append(w.b, code, byte(len(v)))
	w.b = append(w.b, v...)
}

func (w *writer) byte1(code, v byte) { w.b = append(w.b, code, 1, v) }

func (w *writer) uint32(code byte, v uint32) {
	w.b = append(w.b, code, 4)
	w.b = binary.BigEndian.AppendUint32(w.b, v)
}

// maxAddrs is how many addresses one option can hold.
const maxAddrs = 63

func (w *writer) addrs(code byte, as ...netip.Addr) {
	if len(as) == 0 {
		return
	}
	as = as[:min(len(as), maxAddrs)]
	w.b = append(w.b, code, byte(4*len(as)))
	for _, a := range as {
		v := a.As4()
		w.b = append(w.b, v[:]...)
	}
}

// long writes an option of any length, split as RFC 3396 section 5 says.
func (w *writer) long(code byte, v []byte) {
	for len(v) > 0 {
		n := min(len(v), 255)
		w.option(code, v[:n])
		v = v[n:]
	}
}

func sizeOf(v []byte) int {
	if len(v) == 0 {
		return 0
	}
	return len(v) + 2*((len(v)+254)/255)
}

// hostName is the name that a client is told: its machine's, byte for byte.
func hostName(c *config.Config, m lease.MAC, vm lease.VM) string {
	if vm.Known() {
		return vm.Name
	}
	return c.HostNames[m]
}
