package app

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"github.com/densityops/oooi/xds-manager/internal/envoy"
)

// deviceOf finds the network device that carries an address.
func deviceOf(a netip.Addr) (envoy.Device, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return envoy.Device{}, fmt.Errorf("listing network devices: %w", err)
	}
	for _, i := range ifs {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, n := range addrs {
			p, err := netip.ParsePrefix(n.String())
			if err == nil && p.Addr().Unmap() == a {
				return envoy.Device{Name: i.Name, Index: i.Index}, nil
			}
		}
	}
	return envoy.Device{}, fmt.Errorf("address %s is on no network device", a)
}

// bound is a control function that binds a socket to a device, so that nothing
// routed in through another one reaches it.
func bound(device string) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var serr error
		err := c.Control(func(fd uintptr) {
			serr = syscall.SetsockoptString(int(fd), syscall.SOL_SOCKET, syscall.SO_BINDTODEVICE, device)
		})
		if err != nil {
			return err
		}
		if serr != nil {
			return fmt.Errorf("binding to device %s: %w", device, serr)
		}
		return nil
	}
}

// listenOn listens on an address, bound to the device that carries it.
func listenOn(ctx context.Context, addr netip.AddrPort) (net.Listener, error) {
	lc := net.ListenConfig{}
	if device, err := deviceOf(addr.Addr()); err == nil {
		lc.Control = bound(device.Name)
	}
	l, err := lc.Listen(ctx, "tcp4", addr.String())
	if err != nil {
		return nil, fmt.Errorf("listening for health: %w", err)
	}
	return l, nil
}

// forwards says whether the kernel would pass packets on that come in through
// the device.
func forwards(device string) bool {
	b, err := os.ReadFile("/proc/sys/net/ipv4/conf/" + device + "/forwarding")
	return err == nil && strings.TrimSpace(string(b)) == "1"
}
