package oooi

import (
	"encoding/binary"
	"errors"
	"sync"

	"github.com/miekg/dns"
)

const (
	headerLen = 12  // RFC 1035 section 4.1.1
	maxName   = 255 // RFC 1035 section 2.3.4

	// udpSize is the payload that we say we take: what fits everywhere without
	// fragments (RFC 6891 section 6.2.5, DNS flag day 2020).
	udpSize = 1232

	// negativeTTL is SOA TTL and minimum (RFC 2308 section 4): a name that comes
	// to exist is seen this soon.
	negativeTTL = 5
)

// errName is returned for a name that has no wire form.
var errName = errors.New("name has no wire form")

// scratch is what one answer needs. It is pooled, so the hot path allocates
// nothing.
type scratch struct {
	low [maxName]byte // the name's wire form in lower case
	out [1024]byte    // the message; no answer of ours is longer than 700 bytes
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// packName puts a presentation-form name as wire form into out, in the case
// that it has, and in lower case into low; n is its length. Escapes are \X and
// \DDD (RFC 1035 section 5.1), as the message parser writes them.
func (s *scratch) packName(out []byte, name string) (n int, err error) {
	if name == "." {
		out[0], s.low[0] = 0, 0
		return 1, nil
	}
	start := 0 // where the current label's length goes
	n = 1
	for i := 0; i < len(name); i++ {
		c := name[i]
		if n >= maxName {
			return 0, errName
		}
		switch c {
		case '.':
			l := n - start - 1
			if l == 0 || l > 63 {
				return 0, errName
			}
			out[start], s.low[start] = byte(l), byte(l)
			start = n
			n++
			continue
		case '\\':
			if c, i, err = unescape(name, i); err != nil {
				return 0, err
			}
		}
		out[n], s.low[n] = c, lower(c)
		n++
	}
	if start == 0 || n != start+1 {
		return 0, errName // empty, or no trailing dot
	}
	out[start], s.low[start] = 0, 0
	return n, nil
}

// lower is RFC 4343's: ASCII letters alone have case.
func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// unescape reads the escape at name[i]; it returns the byte and the index of
// the escape's last character.
func unescape(name string, i int) (byte, int, error) {
	if i+1 >= len(name) {
		return 0, i, errName
	}
	c := name[i+1]
	if c < '0' || c > '9' {
		return c, i + 1, nil
	}
	if i+3 >= len(name) {
		return 0, i, errName
	}
	v := 0
	for _, d := range []byte(name[i+1 : i+4]) {
		if d < '0' || d > '9' {
			return 0, i, errName
		}
		v = v*10 + int(d-'0')
	}
	if v > 255 {
		return 0, i, errName
	}
	return byte(v), i + 3, nil
}

// Bits of the header's third and fourth byte.
const (
	bitResponse      = 0x80
	bitAuthoritative = 0x04
	bitRecursion     = 0x01 // desired
	bitAvailable     = 0x80
	bitNoChecking    = 0x10 // RFC 4035 section 3.2.2: copied from the query
)

// message finishes the answer to r in s.out, whose question name has qlen
// bytes, and returns it.
func (s *scratch) message(r *dns.Msg, qlen int, res result, serial uint32, ttl uint32, recursion bool) []byte {
	out := s.out[:headerLen+qlen]
	q := &r.Question[0]
	out = binary.BigEndian.AppendUint16(out, q.Qtype)
	out = binary.BigEndian.AppendUint16(out, q.Qclass)
	var answers, authority, extra uint16
	rcode := byte(dns.RcodeSuccess)
	switch res.outcome {
	case outAnswer:
		out = append(out, res.node.answer...)
		answers = res.node.count
	case outAny:
		out = append(out, anyRecord...)
		binary.BigEndian.PutUint32(out[len(out)-len(anyRecord)+6:], ttl)
		answers = 1
	case outApex:
		out = appendSOA(out, qlen, qlen, serial)
		answers = 1
	case outName:
		rcode = dns.RcodeNameError
		fallthrough
	default:
		out = appendSOA(out, qlen, res.zoneLen, serial)
		authority = 1
	}
	if opt := edns(r); opt != nil {
		out = appendOPT(out, opt.Do())
		extra = 1
	}
	h := out[:headerLen]
	binary.BigEndian.PutUint16(h, r.Id)
	h[2], h[3] = bitResponse|bitAuthoritative, rcode
	if r.RecursionDesired {
		h[2] |= bitRecursion
	}
	if recursion {
		h[3] |= bitAvailable
	}
	if r.CheckingDisabled {
		h[3] |= bitNoChecking
	}
	binary.BigEndian.PutUint16(h[4:], 1)
	binary.BigEndian.PutUint16(h[6:], answers)
	binary.BigEndian.PutUint16(h[8:], authority)
	binary.BigEndian.PutUint16(h[10:], extra)
	return out
}

// anyRecord is the HINFO record of RFC 8482 section 4.2.
var anyRecord = appendRecord(nil, dns.TypeHINFO, 0, []byte("\x07RFC8482\x00"))

// edns is the query's OPT record, nil without one.
func edns(r *dns.Msg) *dns.OPT {
	for _, rr := range r.Extra {
		if opt, ok := rr.(*dns.OPT); ok {
			return opt
		}
	}
	return nil
}

// appendOPT appends our OPT record (RFC 6891 section 6.1.2). DO is copied
// (RFC 3225 section 3); options are not echoed.
func appendOPT(out []byte, do bool) []byte {
	var flags byte
	if do {
		flags = 0x80
	}
	return append(out, 0, 0, byte(dns.TypeOPT), udpSize>>8, udpSize&0xff, 0, 0, flags, 0, 0, 0)
}

// appendSOA appends the SOA record of the apex that the last zoneLen bytes of
// the question name spell: ns.APEX hostmaster.APEX (RFC 1035 section 3.3.13). An
// apex so long that nothing fits before it stands for both itself.
func appendSOA(out []byte, qlen, zoneLen int, serial uint32) []byte {
	apex := uint16(0xC000 | headerLen + qlen - zoneLen)
	out = binary.BigEndian.AppendUint16(out, apex)
	out = binary.BigEndian.AppendUint16(out, dns.TypeSOA)
	out = binary.BigEndian.AppendUint16(out, dns.ClassINET)
	out = binary.BigEndian.AppendUint32(out, negativeTTL)
	host, mailbox := "\x02ns", "\x0ahostmaster"
	if zoneLen+len(mailbox) > maxName {
		host, mailbox = "", ""
	}
	out = binary.BigEndian.AppendUint16(out, uint16(len(host)+2+len(mailbox)+2+20))
	out = append(out, host...)
	out = binary.BigEndian.AppendUint16(out, apex)
	out = append(out, mailbox...)
	out = binary.BigEndian.AppendUint16(out, apex)
	out = binary.BigEndian.AppendUint32(out, serial)
	out = binary.BigEndian.AppendUint32(out, 3600)         // refresh: nobody transfers the zone
	out = binary.BigEndian.AppendUint32(out, 600)          // retry
	out = binary.BigEndian.AppendUint32(out, 86400)        // expire
	return binary.BigEndian.AppendUint32(out, negativeTTL) // minimum
}
