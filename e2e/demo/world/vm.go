package world

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/densityops/oooi/e2e/lab"
)

// VM is a worker of a hosted cluster.
type VM struct {
	Machine

	Cluster *Cluster
	Host    *lab.Host
	Lease   Lease
}

// Lease is what a VM learned from its DHCP client.
type Lease struct {
	Address  netip.Prefix
	Router   netip.Addr
	Resolver netip.Addr
	Server   netip.Addr
	HostName string
	Seconds  string
	// Took is the time from the client's start to the lease.
	Took time.Duration
}

// leaseFile is where the client's script leaves what it was told.
const leaseFile = "/run/lease"

// script is what a distribution's DHCP client does with a lease. busybox gives
// the prefix length as $mask.
const script = `#!/bin/sh
case $1 in
deconfig)
	ip addr flush dev "$interface"
	ip link set "$interface" up
	;;
bound | renew)
	ip addr replace "$ip/$mask" dev "$interface"
	[ -z "$router" ] || ip route replace default via "${router%% *}" dev "$interface"
	for server in $dns; do echo "nameserver $server"; done >/etc/resolv.conf
	[ -z "$hostname" ] || hostname "$hostname"
	printf '%s\n' "address=$ip/$mask" "router=$router" "resolver=$dns" "server=$serverid" \
		"hostname=$hostname" "seconds=$lease" >` + leaseFile + `.new
	mv ` + leaseFile + `.new ` + leaseFile + `
	;;
esac
`

// boot starts every VM with nothing but a network card, and waits for its lease.
func (w *World) boot(ctx context.Context) error {
	for _, c := range w.Clusters {
		for _, m := range c.Machines {
			w.VMs = append(w.VMs, &VM{Machine: m, Cluster: c})
		}
	}
	return each(w.VMs, func(vm *VM) error {
		if err := w.bootVM(ctx, vm); err != nil {
			return fmt.Errorf("%s: %w", vm.Name, err)
		}
		return nil
	})
}

func (w *World) bootVM(ctx context.Context, vm *VM) (err error) {
	if vm.Host, err = w.host(ctx, "vm-"+vm.Name, leg{"vlan", "eth0", vm.MAC, nil}); err != nil {
		return err
	}
	if _, err := vm.Host.Run(ctx, "hostname", "localhost"); err != nil {
		return err
	}
	if err := vm.Host.WriteFile(ctx, "/run/dhcp-script", script); err != nil {
		return err
	}
	if _, err := vm.Host.Run(ctx, "chmod", "755", "/run/dhcp-script"); err != nil {
		return err
	}
	begin := time.Now()
	client, err := w.start(vm.Host, "udhcpc", lab.Spec{Args: []string{
		"busybox", "udhcpc", "-f", "-i", "eth0", "-s", "/run/dhcp-script", "-O", "hostname", "-O", "mtu", "-t", "30", "-T", "1",
	}})
	if err != nil {
		return err
	}
	content := ""
	if err := lab.Until(ctx, soon, "a lease", func(ctx context.Context) error {
		if err := client.Running(); err != nil {
			return err
		}
		read, err := vm.Host.ReadFile(ctx, leaseFile)
		content = read
		return err
	}); err != nil {
		return errors.Join(err, errors.New(strings.TrimSpace(client.Output())))
	}
	vm.Lease, err = parseLease(content)
	vm.Lease.Took = time.Since(begin)
	return err
}

func parseLease(content string) (Lease, error) {
	told := map[string]string{}
	for line := range strings.Lines(content) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		told[key] = strings.TrimSpace(value)
	}
	l := Lease{HostName: told["hostname"], Seconds: told["seconds"]}
	var err error
	if l.Address, err = netip.ParsePrefix(told["address"]); err != nil {
		return l, fmt.Errorf("lease without a usable address: %w", err)
	}
	for key, to := range map[string]*netip.Addr{"router": &l.Router, "resolver": &l.Resolver, "server": &l.Server} {
		if *to, err = netip.ParseAddr(told[key]); err != nil {
			return l, fmt.Errorf("lease with %s %q: %w", key, told[key], err)
		}
	}
	return l, nil
}

// writeNew writes a file that must not exist yet.
func writeNew(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
