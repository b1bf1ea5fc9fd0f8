package check

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

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
			Targets: []actor.Target{{Address: address, First: 1, Last: 65535}}, Patience: 1000,
		})
		var open []string
		for _, port := range ports {
			open = append(open, address.String()+":"+port)
		}
		if err == nil && !slices.Equal(found.Open, open) {
			err = fmt.Errorf("%s: open are %v, not %v", address, found.Open, open)
		}
		errs = append(errs, err)
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
