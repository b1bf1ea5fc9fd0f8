package check

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/densityops/oooi/e2e/demo/world"
)

func bootChecks() []Check {
	return []Check{
		{
			Name: "lease by busybox udhcpc: address, gateway, resolver",
			VM:   lease,
			Took: func(vm *world.VM) time.Duration { return vm.Lease.Took },
		},
		{
			Name: "host name is the VM's",
			VM: func(ctx context.Context, _ *world.World, vm *world.VM) error {
				name, err := vm.Host.Run(ctx, "hostname")
				if err == nil && strings.TrimSpace(name) != vm.Name {
					err = fmt.Errorf("the VM calls itself %q", strings.TrimSpace(name))
				}
				return err
			},
		},
	}
}

func lease(_ context.Context, w *world.World, vm *world.VM) error {
	l := vm.Lease
	switch {
	case !w.Network.CIDR.Contains(l.Address.Addr()) || l.Address.Bits() != w.Network.CIDR.Bits():
		return fmt.Errorf("address %s lies not in %s", l.Address, w.Network.CIDR)
	case l.Router != w.Network.Gateway:
		return fmt.Errorf("gateway %s, not %s", l.Router, w.Network.Gateway)
	case l.Resolver != w.Network.DNS:
		return fmt.Errorf("resolver %s, not %s", l.Resolver, w.Network.DNS)
	case l.Server != w.Network.DHCP:
		return fmt.Errorf("server %s, not %s", l.Server, w.Network.DHCP)
	case l.HostName != vm.Name:
		return fmt.Errorf("host name %q", l.HostName)
	}
	for _, other := range w.VMs {
		if other != vm && other.Lease.Address == l.Address {
			return fmt.Errorf("%s has the same address %s", other.Name, l.Address)
		}
	}
	return nil
}
