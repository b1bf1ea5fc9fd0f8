package journal

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
	"time"

	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// A file is the header, frames, and zeros up to its end. A frame is
//
//	mark (1) length of payload (2) CRC-32C of payload (4) payload
//
// all little endian. The zeros are written ahead, so that a commit changes no
// metadata of the file and its sync is one write of data; they also tell a
// file that was cut from one that ends.
const (
	header    = "oooi-leases-1\n\x00\x00"
	mark      = 0xA5
	frameHead = 7
	// growBy is how far ahead zeros are written: some 500 records.
	growBy = 32 << 10
	// minPayload is a record without names.
	minPayload = 1 + 4 + 6 + 8 + 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame encodes r. Times are whole seconds of UTC, rounded up: a lease
// never ends earlier on disk than the client was told.
func appendFrame(b []byte, r lease.Record, wall time.Duration) []byte {
	start := len(b)
	b = append(b, mark, 0, 0, 0, 0, 0, 0)
	ip := r.IP.As4()
	b = append(b, byte(r.State))
	b = append(b, ip[:]...)
	b = append(b, r.MAC[:]...)
	var until int64
	if !r.Until.IsZero() {
		until = r.Until.Add(wall + time.Second - 1).Unix()
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(until))
	for _, s := range []string{r.VM.Namespace, r.VM.Name, r.VM.Interface} {
		s = s[:min(len(s), 255)]
		b = append(b, byte(len(s)))
		b = append(b, s...)
	}
	payload := b[start+frameHead:]
	binary.LittleEndian.PutUint16(b[start+1:], uint16(len(payload)))
	binary.LittleEndian.PutUint32(b[start+3:], crc32.Checksum(payload, castagnoli))
	return b
}

// parseFrame reads the frame at the start of b and its length.
func parseFrame(b []byte) (lease.Record, int, bool) {
	if len(b) < frameHead || b[0] != mark {
		return lease.Record{}, 0, false
	}
	n := int(binary.LittleEndian.Uint16(b[1:]))
	if n < minPayload || len(b) < frameHead+n {
		return lease.Record{}, 0, false
	}
	p := b[frameHead : frameHead+n]
	if crc32.Checksum(p, castagnoli) != binary.LittleEndian.Uint32(b[3:]) {
		return lease.Record{}, 0, false
	}
	r, ok := parsePayload(p)
	return r, frameHead + n, ok
}

func parsePayload(p []byte) (lease.Record, bool) {
	var r lease.Record
	r.State = lease.State(p[0])
	r.IP = netip.AddrFrom4([4]byte(p[1:5]))
	r.MAC = lease.MAC(p[5:11])
	if until := int64(binary.LittleEndian.Uint64(p[11:])); until != 0 {
		r.Until = time.Unix(until, 0).UTC()
	}
	p = p[19:]
	for _, s := range []*string{&r.VM.Namespace, &r.VM.Name, &r.VM.Interface} {
		if len(p) < 1 || len(p) < 1+int(p[0]) {
			return r, false
		}
		*s, p = string(p[1:1+int(p[0])]), p[1+int(p[0]):]
	}
	switch r.State {
	case lease.Free, lease.Bound, lease.Cooling, lease.Quarantined, lease.Resting:
		return r, len(p) == 0
	}
	return r, false
}

// scan reads every record that is whole. It says whether the file ends as one
// that was never damaged does; what comes after a damaged stretch is newer
// than what was before, so it is read too.
func scan(b []byte) (records []lease.Record, whole bool) {
	sized := len(b)%growBy == 0
	if len(b) < len(header) || string(b[:len(header)]) != header {
		whole = false
	} else {
		b, whole = b[len(header):], true
	}
	for len(b) > 0 {
		r, n, ok := parseFrame(b)
		if ok {
			records, b = append(records, r), b[n:]
			continue
		}
		if b[0] != 0 {
			whole = false
		}
		next := nextMark(b)
		if next < 0 {
			break
		}
		if b[0] == 0 {
			whole = false // a frame after the end
		}
		b = b[next:]
	}
	return records, whole && sized && len(b) > 0
}

// nextMark finds where another frame may begin, after the first byte.
func nextMark(b []byte) int {
	for i := 1; i < len(b); i++ {
		if b[i] == mark {
			if _, _, ok := parseFrame(b[i:]); ok {
				return i
			}
		}
	}
	return -1
}
