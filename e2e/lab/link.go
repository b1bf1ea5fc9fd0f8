package lab

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Bridge makes a bridge in the host, which is then a switch.
func (h *Host) Bridge(ctx context.Context, name string) error {
	return h.ip(ctx, "link add "+name+" type bridge forward_delay 0 mcast_snooping 0", "link set "+name+" up")
}

// Link is one network device of a host to be made by Plug.
type Link struct {
	// Device is its name in the host.
	Device string
	// MAC is its hardware address; empty lets the kernel choose.
	MAC string
	// Addresses are given to it, each with its prefix length.
	Addresses []netip.Prefix
	// MTU in bytes; 0 = 1500.
	MTU int
}

// Plug joins a host to a bridge of another host by a veth pair. The device is
// up afterwards.
func (h *Host) Plug(ctx context.Context, sw *Host, bridge string, link Link) error {
	// The port's name is unique in the switch: a process id and a device name.
	port := fmt.Sprintf("%d%s", h.PID(), link.Device)
	if len(port) > 15 {
		port = port[len(port)-15:]
	}
	mtu := link.MTU
	if mtu == 0 {
		mtu = 1500
	}
	mac := ""
	if link.MAC != "" {
		mac = " address " + link.MAC
	}
	if err := sw.ip(ctx,
		fmt.Sprintf("link add %s mtu %d type veth peer name %s mtu %d%s netns %d", port, mtu, link.Device, mtu, mac, h.PID()),
		"link set "+port+" master "+bridge+" up",
	); err != nil {
		return fmt.Errorf("plugging %s of %s into %s: %w", link.Device, h.Name, bridge, err)
	}
	lines := []string{"link set " + link.Device + " up"}
	for _, a := range link.Addresses {
		lines = append(lines, "addr add "+a.String()+" dev "+link.Device)
	}
	return h.ip(ctx, lines...)
}

// Addr adds an address to a device.
func (h *Host) Addr(ctx context.Context, device string, addr netip.Prefix) error {
	return h.ip(ctx, "addr add "+addr.String()+" dev "+device)
}

// Route adds a route; args is what follows "ip route add".
func (h *Host) Route(ctx context.Context, args string) error {
	return h.ip(ctx, "route add "+args)
}

// LinkUp and LinkDown switch a device on and off.
func (h *Host) LinkUp(ctx context.Context, device string) error {
	return h.ip(ctx, "link set "+device+" up")
}

// LinkDown switches a device off.
func (h *Host) LinkDown(ctx context.Context, device string) error {
	return h.ip(ctx, "link set "+device+" down")
}

// ip runs lines of ip(8) in the host's network, with the maker's own process
// numbers: a peer's namespace is named by one.
func (h *Host) ip(ctx context.Context, lines ...string) error {
	spec := Spec{
		Args:    []string{"ip", "-batch", "-"},
		Stdin:   strings.NewReader(strings.Join(lines, "\n") + "\n"),
		netOnly: true,
	}
	if _, err := h.Exec(ctx, spec); err != nil {
		return fmt.Errorf("ip in %s: %w", h.Name, err)
	}
	return nil
}

func (h *Host) target() string { return "--target=" + strconv.Itoa(h.PID()) }
