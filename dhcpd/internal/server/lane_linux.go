package server

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/densityops/oooi/dhcpd/internal/dhcp"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// The traffic is shared out among sockets, by their filters: what strangers
// send, and however much, takes none of the room in the kernel that known
// machines have, nor does a flood of DISCOVERs take that of the REQUESTs that
// finish what was begun.

// lane is what one socket takes.
type lane int

// The lanes, the most urgent first.
const (
	machines  lane = iota // whatever known machines send
	strangers             // what anybody else sends, DISCOVERs aside
	discovers             // strangers' DISCOVERs
	lanes
)

// maxLane is how many machines the filter can name: a classic BPF program has
// at most 4,096 instructions, and each takes two.
const maxLane = 2000

// Classic BPF operations (Linux filter.h).
const (
	bpfLoadByte     = 0x30 // A = byte at K
	bpfLoadHalf     = 0x28 // A = half word at K
	bpfLoadWord     = 0x20 // A = word at K
	bpfLoadLength   = 0x80 // A = length of the packet
	bpfLoadHalfX    = 0x48 // A = half word at X+K
	bpfLoadByteX    = 0x50 // A = byte at X+K
	bpfSubX         = 0x1c // A -= X
	bpfHeaderLength = 0xb1 // X = 4 * (byte at K & 15)
	bpfEqual        = 0x15 // A == K ?
	bpfAtLeast      = 0x35 // A >= K ?
	bpfBits         = 0x45 // A & K ?
	bpfReturn       = 0x06
	// bpfLinkHeader makes an offset one into the link header.
	bpfLinkHeader = 0xffe00000
)

const (
	accept = 0xffff
	reject = 0
)

// laneFilter passes whole UDP datagrams to port 67 or 68 that belong into a
// lane. Offsets are from the start of the IP header.
func laneFilter(stations []lease.MAC, l lane) []unix.SockFilter {
	f := []unix.SockFilter{
		{Code: bpfLoadByte, K: 9},
		{Code: bpfEqual, Jt: 1, K: 17}, // UDP
		{Code: bpfReturn, K: reject},
		{Code: bpfLoadHalf, K: 6},
		{Code: bpfBits, Jf: 1, K: 0x3fff}, // a fragment
		{Code: bpfReturn, K: reject},
		{Code: bpfHeaderLength, K: 0},
		{Code: bpfLoadHalfX, K: 2},
		{Code: bpfEqual, Jt: 2, K: serverPort},
		{Code: bpfEqual, Jt: 1, K: clientPort},
		{Code: bpfReturn, K: reject},
	}
	if len(stations) > 0 {
		// The last four bytes of the source will do: who shares them with a
		// machine gets into its lane, no more.
		f = append(f, unix.SockFilter{Code: bpfLoadWord, K: bpfLinkHeader + 8})
	}
	for _, m := range stations[:min(len(stations), maxLane)] {
		f = append(f,
			unix.SockFilter{Code: bpfEqual, Jf: 1, K: binary.BigEndian.Uint32(m[2:])},
			unix.SockFilter{Code: bpfReturn, K: verdict(l == machines)})
	}
	if l == machines {
		return append(f, unix.SockFilter{Code: bpfReturn, K: reject})
	}
	// A DISCOVER as clients write it, its type in front of all other options. One
	// that is written otherwise goes with the rest.
	const options = 8 + dhcp.HeaderLength // after the IP header
	return append(f,
		unix.SockFilter{Code: bpfLoadLength},
		unix.SockFilter{Code: bpfSubX},
		unix.SockFilter{Code: bpfAtLeast, Jf: 5, K: options + 3},
		unix.SockFilter{Code: bpfLoadHalfX, K: options},
		unix.SockFilter{Code: bpfEqual, Jf: 3, K: 53<<8 | 1},
		unix.SockFilter{Code: bpfLoadByteX, K: options + 2},
		unix.SockFilter{Code: bpfEqual, Jf: 1, K: uint32(dhcp.Discover)},
		unix.SockFilter{Code: bpfReturn, K: verdict(l == discovers)},
		unix.SockFilter{Code: bpfReturn, K: verdict(l == strangers)})
}

func verdict(ok bool) uint32 {
	if ok {
		return accept
	}
	return reject
}

// openLanes opens a packet socket for each lane.
func (c *conn) openLanes(known []lease.MAC) error {
	for l := range lanes {
		buffer := receiveBuffer
		if l == discovers {
			buffer = discoverBuffer
		}
		fd, err := openPacket(c.dev.Index, unix.ETH_P_IP, laneFilter(known, l), buffer)
		if err != nil {
			return err
		}
		c.raw, c.lanes = true, append(c.lanes, fd)
	}
	return nil
}

// share shares the traffic out anew; what has arrived stays where it is. In
// between a message may arrive twice, which is harmless.
func (c *conn) share(known []lease.MAC) error {
	if !c.raw {
		return nil
	}
	for l, fd := range c.lanes {
		if err := attach(fd, laneFilter(known, lane(l))); err != nil {
			return err
		}
	}
	return nil
}
