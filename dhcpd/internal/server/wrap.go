package server

import (
	"encoding/binary"
	"net/netip"
)

// wrap writes IP and UDP headers in front of a message, with full checksums:
// some clients drop a packet whose UDP checksum was left to the hardware.
func wrap(b []byte, src, dst netip.AddrPort) {
	s, d := src.Addr().As4(), dst.Addr().As4()
	ip := b[:20]
	clear(ip)
	ip[0] = 0x45
	ip[1] = 0x10 // low delay, as other servers mark their answers
	binary.BigEndian.PutUint16(ip[2:], uint16(len(b)))
	ip[8] = 64
	ip[9] = 17
	copy(ip[12:], s[:])
	copy(ip[16:], d[:])
	binary.BigEndian.PutUint16(ip[10:], ^fold(sum(ip, 0)))
	u := b[20:]
	binary.BigEndian.PutUint16(u, src.Port())
	binary.BigEndian.PutUint16(u[2:], dst.Port())
	binary.BigEndian.PutUint16(u[4:], uint16(len(u)))
	u[6], u[7] = 0, 0
	pseudo := sum(s[:], sum(d[:], 17+uint64(len(u))))
	c := ^fold(sum(u, pseudo))
	if c == 0 {
		c = 0xffff // RFC 768: zero means that there is none
	}
	binary.BigEndian.PutUint16(u[6:], c)
}

// sum adds b up for the internet checksum (RFC 1071), four bytes at a time.
func sum(b []byte, s uint64) uint64 {
	for len(b) >= 4 {
		s += uint64(binary.BigEndian.Uint32(b))
		b = b[4:]
	}
	if len(b) >= 2 {
		s += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		s += uint64(b[0]) << 8
	}
	return s
}

func fold(s uint64) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
