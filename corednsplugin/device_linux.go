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
func bindListeners() error {
	devices, err := devicesByAddress()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("listing descriptors: %w", err)
	}
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
		if err := bindListener(fd, addr, devices); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func bindListener(fd int, addr netip.AddrPort, devices map[netip.Addr]string) error {
	device, ok := devices[addr.Addr()]
	if !ok {
		return fmt.Errorf("listener %s: no device holds its address", addr)
	}
	if now, err := unix.GetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE); err == nil && now == device {
		return nil // a socket that outlived a reload
	}
	if err := unix.BindToDevice(fd, device); err != nil {
		return fmt.Errorf("binding listener %s to %s: %w", addr, device, err)
	}
	return nil
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

func devicesByAddress() (map[netip.Addr]string, error) {
	ifaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing devices: %w", err)
	}
	out := map[netip.Addr]string{}
	for _, i := range ifaces {
		addrs, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("listing addresses of %s: %w", i.Name, err)
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(n.IP); ok {
					out[ip.Unmap()] = i.Name
				}
			}
		}
	}
	return out, nil
}

// control binds an outgoing socket to a device.
func bindControl(device string) func(fd uintptr) error {
	return func(fd uintptr) error { return unix.BindToDevice(int(fd), device) }
}
