package check

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/densityops/oooi/e2e/demo/actor"
	"github.com/densityops/oooi/e2e/demo/world"
	"github.com/densityops/oooi/e2e/lab"
)

func scanChecks() []Check {
	return []Check{
		{
			Name:     "port scan of the three VLAN addresses: 53, 80, 443, 6443, nothing else",
			Stranger: scanAll,
		},
		{
			Name:  "on the VLAN no UDP socket listens but 67 and 53",
			World: datagrams,
		},
		{
			Name: "closed: pod network, Services and node, routed through any VLAN address",
			VM: func(ctx context.Context, w *world.World, vm *world.VM) error {
				return routed(ctx, w, vm.Host)
			},
		},
	}
}

// scanAll tries every TCP port of the three addresses.
func scanAll(ctx context.Context, w *world.World) error {
	want := map[netip.Addr][]string{
		w.Network.DHCP:  nil,
		w.Network.DNS:   {"53"},
		w.Network.Proxy: {"80", "443", "6443"},
	}
	var errs []error
	for address, ports := range want {
		found, err := world.Ask[actor.Found](ctx, w, w.Stranger, "scan", actor.Scan{
			Targets: []actor.Target{{Address: address, First: 1, Last: 65535}}, Patience: 1000, Tries: 4,
		})
		var open []string
		for _, port := range ports {
			open = append(open, address.String()+":"+port)
		}
		if err == nil && !slices.Equal(found.Open, open) {
			err = fmt.Errorf("%s: open are %v, not %v", address, found.Open, open)
		}
		if err == nil && found.Silent > 0 {
			err = fmt.Errorf("%s: %d ports said nothing, so nobody knows", address, found.Silent)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// datagrams reads from the pods themselves which UDP sockets a packet from the
// VLAN could reach: a scan from outside cannot tell an open port from a silent one.
func datagrams(ctx context.Context, w *world.World) error {
	var errs []error
	for pod, want := range map[*world.Pod][]string{w.Pods.DHCP: {"67"}, w.Pods.DNS: {"53"}, w.Pods.Proxy: nil} {
		said, err := pod.Host.Run(ctx, "ss", "-H", "-l", "-u", "-n")
		if err != nil {
			return err
		}
		var open []string
		for line := range strings.Lines(said) {
			fields := strings.Fields(line)
			if len(fields) < 4 {
				return fmt.Errorf("ss said %q", line)
			}
			at := fields[3]
			i := strings.LastIndexByte(at, ':')
			address, device, _ := strings.Cut(at[:i], "%")
			if (device == "" || device == pod.Device) && (address == "0.0.0.0" || address == "*" || address == pod.VLAN.String()) {
				open = append(open, at[i+1:])
			}
		}
		slices.Sort(open)
		if open = slices.Compact(open); !slices.Equal(open, want) {
			errs = append(errs, fmt.Errorf("%s: UDP ports %v, not %v", pod.VLAN, open, want))
		}
	}
	return errors.Join(errs...)
}

// routed sends packets for the pod network, the Services and the node to each
// VLAN address, as a VM that tries its luck would, and to the pods' own pod
// addresses, which Linux would answer on any device.
func routed(ctx context.Context, w *world.World, h *lab.Host) error {
	var targets []actor.Target
	add := func(address netip.Addr, ports ...uint16) {
		for _, p := range ports {
			targets = append(targets, actor.Target{Address: address, First: p, Last: p})
		}
	}
	for _, c := range w.Clusters {
		for _, at := range c.Services {
			add(at.Addr(), at.Port())
		}
	}
	for _, p := range []*world.Pod{w.Pods.DHCP, w.Pods.DNS, w.Pods.Proxy} {
		add(p.IP, 53, 80, 443, 6443, 9090, 9091, 9092, 9093, 9094, 9901, 20000)
		add(p.Victim, world.VictimPort)
	}
	add(w.Network.ProxyService, 443, 6443, 80)
	add(w.Network.DNSService, 53)
	var errs []error
	for _, via := range []netip.Addr{w.Network.DHCP, w.Network.DNS, w.Network.Proxy} {
		for _, network := range world.Inside() {
			if _, err := h.Run(ctx, "ip", "route", "replace", network.String(), "via", via.String()); err != nil {
				return err
			}
		}
		found, err := world.Ask[actor.Found](ctx, w, h, "scan", actor.Scan{Targets: targets, Patience: 400})
		if err == nil && len(found.Open) > 0 {
			err = fmt.Errorf("through %s a VM reaches %v", via, found.Open)
		}
		errs = append(errs, err)
	}
	for _, network := range world.Inside() {
		if _, err := h.Run(ctx, "ip", "route", "del", network.String()); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
