package server

import (
	"encoding/binary"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// arpConn sends and reads ARP (RFC 826) on one device.
type arpConn struct {
	dev Device
	f   *os.File
	rc  syscall.RawConn
}

func openARP(dev Device) (*arpConn, error) {
	fd, err := openPacket(dev.Index, unix.ETH_P_ARP, nil, receiveBuffer)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "arp")
	rc, err := f.SyscallConn()
	if err != nil {
		_ = f.Close() // the first error counts
		return nil, err
	}
	return &arpConn{dev: dev, f: f, rc: rc}, nil
}

func (a *arpConn) close() { _ = a.f.Close() } // nothing is buffered

// ask broadcasts a request for target. From the server's address it is an
// ordinary request; from 0.0.0.0 it is a probe (RFC 5227 section 2.1.1); for
// the server's own address it is the announcement that corrects neighbours.
func (a *arpConn) ask(sender, target netip.Addr) (sent bool) {
	var b [28]byte
	binary.BigEndian.PutUint16(b[0:], 1)      // Ethernet
	binary.BigEndian.PutUint16(b[2:], 0x0800) // IPv4
	b[4], b[5] = 6, 4
	binary.BigEndian.PutUint16(b[6:], 1) // request
	copy(b[8:], a.dev.MAC[:])
	s, t := sender.As4(), target.As4()
	copy(b[14:], s[:])
	copy(b[24:], t[:])
	sa := &unix.SockaddrLinklayer{
		Protocol: htons(unix.ETH_P_ARP), Ifindex: a.dev.Index, Halen: 6,
		Addr: [8]byte{255, 255, 255, 255, 255, 255},
	}
	// A lost request is repeated by those who sent it. They serve others too, so a
	// device whose queue stands still is not waited for.
	_ = a.rc.Write(func(fd uintptr) bool {
		sent = unix.Sendto(int(fd), b[:], unix.MSG_DONTWAIT, sa) == nil
		return true
	})
	return sent
}

// read waits for one packet and tells who says to have which address.
func (a *arpConn) read(buf []byte) (netip.Addr, lease.MAC, error) {
	n, err := a.f.Read(buf)
	if err != nil {
		return netip.Addr{}, lease.MAC{}, err
	}
	b := buf[:n]
	if n < 28 || binary.BigEndian.Uint16(b) != 1 || binary.BigEndian.Uint16(b[2:]) != 0x0800 || b[4] != 6 || b[5] != 4 {
		return netip.Addr{}, lease.MAC{}, nil
	}
	return netip.AddrFrom4([4]byte(b[14:18])), lease.MAC(b[8:14]), nil
}
