package server

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// Known machines have a socket of their own: what anybody else sends, and
// however much, takes none of its room in the kernel. The two sockets' filters
// share the traffic out by source address.

// maxLane is how many machines the filter can name: a classic BPF program has
// at most 4,096 instructions, and each takes two.
const maxLane = 2000

// Classic BPF operations (Linux filter.h).
const (
	bpfLoadByte     = 0x30 // A = byte at K
	bpfLoadHalf     = 0x28 // A = half word at K
	bpfLoadWord     = 0x20 // A = word at K
	bpfLoadHalfX    = 0x48 // A = half word at X+K
	bpfHeaderLength = 0xb1 // X = 4 * (byte at K & 15)
	bpfEqual        = 0x15 // A == K ?
	bpfBits         = 0x45 // A & K ?
	bpfReturn       = 0x06
	// bpfLinkHeader makes an offset one into the link header.
	bpfLinkHeader = 0xffe00000
)

const (
	accept = 0xffff
	reject = 0
)

// laneFilter passes whole UDP datagrams to port 67 or 68: those of the given
// stations, or those of all others. Offsets are from the start of the IP
// header.
func laneFilter(stations []lease.MAC, theirs bool) []unix.SockFilter {
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
	match, rest := uint32(reject), uint32(accept)
	if theirs {
		match, rest = accept, reject
	}
	if len(stations) > 0 {
		// The last four bytes of the source will do: who shares them with a
		// machine gets into its lane, no more.
		f = append(f, unix.SockFilter{Code: bpfLoadWord, K: bpfLinkHeader + 8})
	}
	for _, m := range stations[:min(len(stations), maxLane)] {
		f = append(f,
			unix.SockFilter{Code: bpfEqual, Jf: 1, K: binary.BigEndian.Uint32(m[2:])},
			unix.SockFilter{Code: bpfReturn, K: match})
	}
	return append(f, unix.SockFilter{Code: bpfReturn, K: rest})
}

// lane opens a second socket beside c's, with buffers of its own.
func (c *conn) lane(filter []unix.SockFilter) (*conn, error) {
	f, err := openPacket(c.dev.Index, unix.ETH_P_IP, filter)
	if err != nil {
		return nil, fmt.Errorf("opening packet socket on %s: %w", c.dev.Name, err)
	}
	l := *c
	l.raw, l.in, l.frames, l.datagrams = f, newBatch(batchSize), newBatch(batchSize+1), newBatch(batchSize+1)
	l.rc, err = f.SyscallConn()
	return &l, err
}

// refilter replaces the filter of an open socket; what has arrived stays.
func (c *conn) refilter(filter []unix.SockFilter) error {
	var inner error
	err := c.rc.Control(func(fd uintptr) { inner = attach(int(fd), filter) })
	if err == nil {
		err = inner
	}
	return err
}

// share gives the known machines' messages to one socket and all others to the
// other. In between a message may arrive at both, which is harmless. The
// caller holds mu.
func (s *Server) share() {
	if s.lanes[0] == nil {
		return
	}
	for i, c := range s.lanes {
		if err := c.refilter(laneFilter(s.known, i == 0)); err != nil {
			s.opts.Log.Warn("socket filter cannot be changed", "err", err)
		}
	}
}
