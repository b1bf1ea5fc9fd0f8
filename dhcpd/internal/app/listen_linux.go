package app

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// listenHealth listens on an address, bound to the device that carries it: a
// packet that a VM routes to the pod's own address through the VLAN's reaches
// no socket. An address on no device (0.0.0.0, a host name) is left as it is.
func listenHealth(addr string) (net.Listener, error) {
	var lc net.ListenConfig
	if ap, err := netip.ParseAddrPort(addr); err == nil {
		if device := deviceOf(ap.Addr()); device != "" {
			lc.Control = func(_, _ string, raw syscall.RawConn) error {
				var bound error
				err := raw.Control(func(fd uintptr) { bound = unix.BindToDevice(int(fd), device) })
				if err == nil && bound != nil {
					err = fmt.Errorf("binding to device %s: %w", device, bound)
				}
				return err
			}
		}
	}
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening for health: %w", err)
	}
	return l, nil
}

// deviceOf is the device that has the address, or nothing.
func deviceOf(ip netip.Addr) string {
	devices, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for _, device := range devices {
		addrs, err := device.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == ip {
				return device.Name
			}
		}
	}
	return ""
}
