package oooi

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// bindListeners binds every listening socket of the process to the device that
// holds the socket's address (SO_BINDTODEVICE, socket(7)). Linux answers on any
// of its addresses whatever device a packet comes in by; a bound socket does
// not. It needs no right while a socket is not bound yet.
//
// CoreDNS opens its sockets itself, and so do health, ready and prometheus, so
// they are found by looking at the process's own descriptors.
func bindListeners() (bound, error) {
	held, err := listDevices()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, fmt.Errorf("listing descriptors: %w", err)
	}
	to := bound{}
	var errs []error
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		addr, ok := listening(fd)
		if !ok {
			continue
		}
		if to[addr.Addr()], err = bindListener(fd, addr, held); err != nil {
			errs = append(errs, err)
		}
	}
	return to, errors.Join(errs...)
}

// bindListener binds one socket and returns the index of its device.
func bindListener(fd int, addr netip.AddrPort, held devices) (int, error) {
	d, ok := held.at(addr.Addr())
	if !ok {
		return 0, fmt.Errorf("listener %s: no device holds its address", addr)
	}
	if now, err := unix.GetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE); err == nil && now == d.name {
		return d.index, nil // a socket that outlived a reload
	}
	if err := unix.BindToDevice(fd, d.name); err != nil {
		return 0, fmt.Errorf("binding listener %s to %s: %w", addr, d.name, err)
	}
	return d.index, nil
}

// listening tells whether a descriptor takes in packets or connections from
// anybody, and on what address: a listening TCP socket or an unconnected UDP
// socket with a port.
func listening(fd int) (netip.AddrPort, bool) {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return netip.AddrPort{}, false
	}
	switch kind {
	case unix.SOCK_STREAM:
		accepts, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		if err != nil || accepts == 0 {
			return netip.AddrPort{}, false
		}
	case unix.SOCK_DGRAM:
		if _, err := unix.Getpeername(fd); err == nil {
			return netip.AddrPort{}, false
		}
	default:
		return netip.AddrPort{}, false
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, false
	}
	var ap netip.AddrPort
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		ap = netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		ap = netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port))
	}
	return ap, ap.Port() != 0
}

// device is a network device. A name can be given again, an index is not.
type device struct {
	name  string
	index int
}

// devices tells which device holds an address.
type devices struct {
	byAddr   map[netip.Addr][]device
	loopback device
}

// all are the devices that hold an address. All of 127.0.0.0/8 is the loopback
// device's, whatever addresses it lists (RFC 1122 section 3.2.1.3).
func (d devices) all(a netip.Addr) []device {
	if a.IsLoopback() && d.loopback.name != "" {
		return []device{d.loopback}
	}
	return d.byAddr[a]
}

// at finds the device of an address; where there are several, it is the last.
func (d devices) at(a netip.Addr) (device, bool) {
	all := d.all(a)
	if len(all) == 0 {
		return device{}, false
	}
	return all[len(all)-1], true
}

// holding is at for whom the name is enough.
func (d devices) holding(a netip.Addr) (string, bool) {
	at, ok := d.at(a)
	return at.name, ok
}

// indexes are those of the devices that hold an address.
func (d devices) indexes(a netip.Addr) []int {
	var out []int
	for _, at := range d.all(a) {
		out = append(out, at.index)
	}
	return out
}

func listDevices() (devices, error) {
	d := devices{byAddr: map[netip.Addr][]device{}}
	ifaces, err := net.Interfaces()
	if err != nil {
		return d, fmt.Errorf("listing devices: %w", err)
	}
	for _, i := range ifaces {
		at := device{name: i.Name, index: i.Index}
		if i.Flags&net.FlagLoopback != 0 {
			d.loopback = at
		}
		addrs, err := i.Addrs()
		if err != nil {
			return d, fmt.Errorf("listing addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(n.IP); ok {
					d.byAddr[ip.Unmap()] = append(d.byAddr[ip.Unmap()], at)
				}
			}
		}
	}
	return d, nil
}

// bindControl binds an outgoing socket to a device.
func bindControl(device string) func(fd uintptr) error {
	return func(fd uintptr) error { return unix.BindToDevice(int(fd), device) }
}
