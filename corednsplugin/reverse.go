package oooi

import (
	"bytes"
	"net/netip"
)

// arpa ends every IPv4 reverse name (RFC 1035 section 3.5).
var arpa = []byte("\x07in-addr\x04arpa\x00")

// reverse decides about a name that no node answers: reverse names that lie
// inside the VLAN are ours and never forwarded. It allocates nothing.
func reverse(low []byte, cidr netip.Prefix) result {
	if !bytes.HasSuffix(low, arpa) {
		return result{outcome: outForward}
	}
	var labels [128]uint8 // offsets of the labels before in-addr.arpa
	count, end := 0, len(low)-len(arpa)
	off := 0
	for off < end {
		labels[count] = uint8(off)
		count++
		off += 1 + int(low[off])
	}
	if off != end {
		return result{outcome: outForward} // "in-addr" was the tail of a longer label
	}
	var addr [4]byte
	octets := 0
	for octets < 4 && octets < count {
		v, ok := octet(low, int(labels[count-1-octets]))
		if !ok {
			break
		}
		addr[octets] = v
		octets++
	}
	if octets*8 < cidr.Bits() || !cidr.Contains(netip.AddrFrom4(addr)) {
		return result{outcome: outForward}
	}
	// The apex that the SOA names is the /24 of the address: all of it is ours,
	// or (in a CIDR longer than /24) it is what the name's parent is called.
	zone := len(arpa)
	if depth := min(octets, 3); depth > 0 {
		zone = len(low) - int(labels[count-depth])
	}
	if octets == count && octets < 4 {
		return result{outcome: outNoData, zoneLen: zone}
	}
	return result{outcome: outName, zoneLen: zone}
}

// octet reads a label as a decimal octet without leading zeros.
func octet(low []byte, off int) (uint8, bool) {
	n := int(low[off])
	if n == 0 || n > 3 || n > 1 && low[off+1] == '0' {
		return 0, false
	}
	v := 0
	for _, c := range low[off+1 : off+1+n] {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int(c-'0')
	}
	return uint8(v), v <= 255
}
