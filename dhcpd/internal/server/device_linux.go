package server

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// ErrNoDevice is returned while no device has the server's address.
var ErrNoDevice = errors.New("no device has the server's address")

// Device is the network device that has the server's address. Its name is not
// fixed: it is found by the address.
type Device struct {
	Index int
	Name  string
	MTU   int
	MAC   lease.MAC
}

// FindDevice looks for the device that has ip.
func FindDevice(ip netip.Addr) (Device, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return Device{}, fmt.Errorf("listing devices: %w", err)
	}
	for _, i := range ifs {
		addrs, err := i.Addrs()
		if err != nil {
			continue // it has just gone
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err != nil || p.Addr() != ip {
				continue
			}
			d := Device{Index: i.Index, Name: i.Name, MTU: i.MTU}
			copy(d.MAC[:], i.HardwareAddr)
			return d, nil
		}
	}
	return Device{}, fmt.Errorf("%w %s", ErrNoDevice, ip)
}
