package proxy

import (
	"crypto/rand"
	"encoding/binary"
)

// Hello is a TLS 1.3 ClientHello (RFC 8446 section 4.1.2) made by hand, so that
// it can be what no library would send.
type Hello struct {
	// Name is the server name (RFC 6066 section 3); nil leaves the extension out.
	Name []byte
	// Pad adds that many bytes of padding (RFC 7685).
	Pad int
	// Record splits the handshake message into records of that many bytes.
	Record int
}

// Named is a plain hello for one server name; "" has none.
func Named(name string) []byte {
	if name == "" {
		return Hello{}.Bytes()
	}
	return Hello{Name: []byte(name)}.Bytes()
}

// Bytes is the hello as it goes on the wire.
func (h Hello) Bytes() []byte {
	var ext []byte
	add := func(typ uint16, body []byte) {
		ext = binary.BigEndian.AppendUint16(ext, typ)
		ext = append(ext, prefixed16(body)...)
	}
	if h.Name != nil {
		entry := append([]byte{0}, prefixed16(h.Name)...)
		add(0, prefixed16(entry))
	}
	add(43, []byte{2, 0x03, 0x04})
	add(10, prefixed16([]byte{0x00, 0x1d}))
	add(13, prefixed16([]byte{0x04, 0x03, 0x08, 0x04}))
	add(51, prefixed16(append([]byte{0x00, 0x1d}, prefixed16(random(32))...)))
	if h.Pad > 0 {
		add(21, make([]byte, h.Pad))
	}
	body := append([]byte{3, 3}, random(32)...)
	body = append(append(body, 32), random(32)...)
	body = append(body, prefixed16([]byte{0x13, 0x01})...)
	body = append(body, 1, 0)
	body = append(body, prefixed16(ext)...)
	msg := append([]byte{1, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
	size := h.Record
	if size == 0 {
		size = len(msg)
	}
	var out []byte
	for len(msg) > 0 {
		n := min(size, len(msg))
		out = append(append(out, 22, 3, 1), prefixed16(msg[:n])...)
		msg = msg[n:]
	}
	return out
}

func prefixed16(b []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}
