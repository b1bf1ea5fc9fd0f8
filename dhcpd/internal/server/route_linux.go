package server

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// A route request of rtnetlink(7): two headers, and two attributes of a word.
const (
	routeHeaders = unix.SizeofNlMsghdr + unix.SizeofRtMsg
	routeWord    = unix.SizeofRtAttr + 4
)

// route says whether the routing table has a way to ip by a device, and which
// station on the link is the next on it, if there is one. Where it has no way,
// the kernel takes whatever is asked for by that device to be on the link, and
// looks for it there by ARP, in vain.
func route(ifindex int, ip netip.Addr) (hop netip.Addr, ok bool, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return hop, false, os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing is buffered
	if err := unix.Sendto(fd, routeRequest(ifindex, ip), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return hop, false, os.NewSyscallError("sendto", err)
	}
	buf := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		return hop, false, os.NewSyscallError("recvfrom", err)
	}
	return foundRoute(buf[:n], ip)
}

func routeRequest(ifindex int, ip netip.Addr) []byte {
	e := binary.NativeEndian
	b := make([]byte, routeHeaders, routeHeaders+2*routeWord)
	e.PutUint32(b, uint32(cap(b)))
	e.PutUint16(b[4:], unix.RTM_GETROUTE)
	e.PutUint16(b[6:], unix.NLM_F_REQUEST)
	m := b[unix.SizeofNlMsghdr:]
	m[0], m[1] = unix.AF_INET, 32            // family, length of the destination's prefix
	e.PutUint32(m[8:], unix.RTM_F_FIB_MATCH) // the table's entry, no guess
	attribute := func(kind uint16, value [4]byte) {
		b = e.AppendUint16(e.AppendUint16(b, routeWord), kind)
		b = append(b, value[:]...)
	}
	attribute(unix.RTA_DST, ip.As4())
	var index [4]byte
	e.PutUint32(index[:], uint32(ifindex))
	attribute(unix.RTA_OIF, index)
	return b
}

// foundRoute reads the kernel's answer about the way to ip.
func foundRoute(b []byte, ip netip.Addr) (hop netip.Addr, ok bool, err error) {
	e := binary.NativeEndian
	switch {
	case len(b) < routeHeaders:
		return hop, false, errors.New("short answer about a route")
	case e.Uint16(b[4:]) == unix.RTM_NEWROUTE:
		return gateway(b[routeHeaders:], ip), true, nil
	case e.Uint16(b[4:]) != unix.NLMSG_ERROR:
		return hop, false, errors.New("unexpected answer about a route")
	}
	errno := unix.Errno(-int32(e.Uint32(b[unix.SizeofNlMsghdr:])))
	if errno == unix.ENETUNREACH || errno == unix.EHOSTUNREACH {
		return hop, false, nil
	}
	return hop, false, os.NewSyscallError("RTM_GETROUTE", errno)
}

// gateway is the next hop that a route's attributes name: a router, ip itself
// where it is on the link, and none where there are several.
func gateway(b []byte, ip netip.Addr) netip.Addr {
	e := binary.NativeEndian
	hop := ip
	for len(b) >= unix.SizeofRtAttr {
		n := int(e.Uint16(b))
		if n < unix.SizeofRtAttr || n > len(b) {
			break
		}
		switch kind := e.Uint16(b[2:]); {
		case kind == unix.RTA_GATEWAY && n == routeWord:
			hop = netip.AddrFrom4([4]byte(b[unix.SizeofRtAttr:]))
		case kind == unix.RTA_MULTIPATH:
			return netip.Addr{}
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	return hop
}
