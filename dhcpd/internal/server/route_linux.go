package server

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/densityops/oooi/dhcpd/internal/config"
)

// A route request of rtnetlink(7): two headers, and two attributes of a word.
const (
	routeHeaders = unix.SizeofNlMsghdr + unix.SizeofRtMsg
	routeWord    = unix.SizeofRtAttr + 4
)

// routed says whether the routing table has a way to ip by a device. Where it
// has none, the kernel takes whatever is asked for by that device to be on the
// link, and looks for it there by ARP, in vain.
func routed(ifindex int, ip netip.Addr) (bool, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return false, os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing is buffered
	if err := unix.Sendto(fd, routeRequest(ifindex, ip), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return false, os.NewSyscallError("sendto", err)
	}
	buf := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		return false, os.NewSyscallError("recvfrom", err)
	}
	return foundRoute(buf[:n])
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

// foundRoute reads the kernel's answer.
func foundRoute(b []byte) (bool, error) {
	e := binary.NativeEndian
	switch {
	case len(b) < routeHeaders:
		return false, errors.New("short answer about a route")
	case e.Uint16(b[4:]) == unix.RTM_NEWROUTE:
		return true, nil
	case e.Uint16(b[4:]) != unix.NLMSG_ERROR:
		return false, errors.New("unexpected answer about a route")
	}
	errno := unix.Errno(-int32(e.Uint32(b[unix.SizeofNlMsghdr:])))
	if errno == unix.ENETUNREACH || errno == unix.EHOSTUNREACH {
		return false, nil
	}
	return false, os.NewSyscallError("RTM_GETROUTE", errno)
}

// checkRelays looks which relays of other networks cannot be reached.
func (s *Server) checkRelays(dev Device) {
	s.mu.Lock()
	cfg := s.cfg
	s.mu.Unlock()
	var lost []string
	for _, relay := range cfg.Relays {
		if cfg.Prefix.Contains(relay) {
			continue
		}
		switch ok, err := routed(dev.Index, relay); {
		case err != nil:
			s.opts.Log.Debug("route to a relay cannot be looked up", "ip", relay.String(), "err", err)
		case !ok:
			lost = append(lost, relay.String())
		}
	}
	s.mu.Lock()
	s.watch.lost = lost
	s.mu.Unlock()
}

// lostRelays is the problem of relays that cannot be reached.
func lostRelays(lost []string) config.Problem {
	return config.Problem{
		Reason: "NoVLANRoute",
		Message: "no route by the network's own device to the relays " + strings.Join(lost, ", ") +
			", so their clients get no answer; add one to the NetworkAttachmentDefinition's ipam, as " +
			`"routes": [{"dst": "` + lost[0] + `/32", "gw": "ROUTER"}]`,
	}
}
