package server

import (
	"errors"
	"net/netip"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is struct mmsghdr of recvmmsg(2) on 64-bit systems.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
	_   [4]byte
}

// batch is a set of message headers with their buffers and addresses, for one
// recvmmsg or sendmmsg call.
type batch struct {
	msgs []mmsghdr
	iovs []unix.Iovec
	from []unix.RawSockaddrLinklayer
	bufs [][]byte
	// n messages wait to be sent; fresh tells which of them are about a new
	// binding.
	n     int
	fresh []bool
	info  []byte // control message
}

func newBatch(n int) *batch {
	const size = frameSize
	b := &batch{
		msgs:  make([]mmsghdr, n),
		iovs:  make([]unix.Iovec, n),
		from:  make([]unix.RawSockaddrLinklayer, n),
		bufs:  make([][]byte, n),
		fresh: make([]bool, n),
	}
	space := make([]byte, n*size)
	for i := range b.msgs {
		b.bufs[i] = space[i*size : (i+1)*size : (i+1)*size]
		b.iovs[i].Base = &b.bufs[i][0]
		b.iovs[i].SetLen(size)
		b.msgs[i].hdr.Iov = &b.iovs[i]
		b.msgs[i].hdr.SetIovlen(1)
		b.msgs[i].hdr.Name = (*byte)(unsafe.Pointer(&b.from[i]))
		b.msgs[i].hdr.Namelen = unix.SizeofSockaddrLinklayer
	}
	return b
}

// receive takes up to limit messages that have arrived.
func (b *batch) receive(fd, limit int) (int, error) {
	for i := range limit {
		b.msgs[i].hdr.Namelen = unix.SizeofSockaddrLinklayer
	}
	n, err := b.call(fd, unix.SYS_RECVMMSG, 0, limit)
	if errors.Is(err, unix.EAGAIN) {
		return 0, nil
	}
	return n, os.NewSyscallError("recvmmsg", err)
}

// add takes the next buffer's first size bytes for sending.
func (b *batch) add(size int, fresh bool) int {
	i := b.n
	b.n++
	b.iovs[i].SetLen(size)
	b.fresh[i] = fresh
	return i
}

// setInet addresses message i to an IPv4 socket.
func (b *batch) setInet(i int, to netip.AddrPort) {
	sa := (*unix.RawSockaddrInet4)(unsafe.Pointer(&b.from[i]))
	*sa = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: htons(to.Port()), Addr: to.Addr().As4()}
	b.msgs[i].hdr.Namelen = unix.SizeofSockaddrInet4
}

// sendFrom makes all messages leave by a device and from an address.
func (b *batch) sendFrom(ifindex int, ip netip.Addr) {
	b.info = unix.PktInfo4(&unix.Inet4Pktinfo{Ifindex: int32(ifindex), Spec_dst: ip.As4()})
	for i := range b.msgs {
		b.msgs[i].hdr.Control = &b.info[0]
		b.msgs[i].hdr.SetControllen(len(b.info))
	}
}

// leaves says whether message i may be sent: what is new must be on disk first.
func (b *batch) leaves(i int, stored bool) bool { return stored || !b.fresh[i] }

// flush sends what waits. Messages that the kernel refuses are lost to their
// clients, and those ask again; only a device that is down is an error. A device
// whose queue stands still is waited for once, not for every message.
func (b *batch) flush(fd int, stored bool) error {
	n := b.n
	b.n = 0
	var until time.Time
	for i := 0; i < n; {
		end := n
		if !stored {
			end = i + 1
			if !b.leaves(i, stored) {
				i++
				continue
			}
		}
		k, err := b.call(fd, unix.SYS_SENDMMSG, i, end)
		if errors.Is(err, unix.EAGAIN) {
			if until.IsZero() {
				until = time.Now().Add(drainTime)
			}
			if !drained(fd, time.Until(until)) {
				return nil
			}
			continue
		}
		if isDown(err) {
			return os.NewSyscallError("sendmmsg", err)
		}
		i += max(k, 1)
	}
	return nil
}

// drainTime is how long one flush waits for a full send buffer in all.
const drainTime = 100 * time.Millisecond

// drained waits until a socket takes more, and says whether it does in time.
func drained(fd int, limit time.Duration) bool {
	if limit <= 0 {
		return false
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(limit.Milliseconds())+1)
	return n == 1 || errors.Is(err, unix.EINTR)
}

// call makes a system call for messages first to end.
func (b *batch) call(fd int, trap uintptr, first, end int) (int, error) {
	for {
		got, _, errno := unix.Syscall6(trap, uintptr(fd), uintptr(unsafe.Pointer(&b.msgs[first])), uintptr(end-first), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			return int(got), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// isDown says whether an error means that the device is down or gone.
func isDown(err error) bool {
	if err == nil {
		return false
	}
	for _, e := range []unix.Errno{unix.ENETDOWN, unix.ENODEV, unix.ENXIO, unix.EBADF} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
