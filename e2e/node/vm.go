package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// VM is a worker as the VLAN sees it: a box with one interface, eth0, that
// knows nothing.
type VM struct {
	*Box
	MAC string
	dir string
}

// Lease is what a DHCP client was told, by udhcpc's names: ip, mask, router,
// dns, hostname, lease, serverid, mtu.
type Lease map[string]string

// VM boots a VM on the VLAN. It has no address yet.
func (c *Cluster) VM(ctx context.Context, name, mac string) (*VM, error) {
	ns, err := c.addNetns(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := c.port(ctx, ns, "eth0", vlanBridge, name); err != nil {
		return nil, err
	}
	if err := ip(ctx, fmt.Sprintf("-n %s link set eth0 address %s", ns, mac)); err != nil {
		return nil, err
	}
	vm := &VM{MAC: mac, dir: filepath.Join(c.opts.Dir, name)}
	if err := os.MkdirAll(vm.dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the directory of VM %s: %w", name, err)
	}
	if err := os.WriteFile(vm.file("lease.sh"), []byte(leaseScript), 0o755); err != nil {
		return nil, fmt.Errorf("writing the lease script of VM %s: %w", name, err)
	}
	if vm.Box, err = c.box(ctx, name, ns); err != nil {
		return nil, err
	}
	_, err = vm.Script(ctx, `hostname "$NAME"; mount -t tmpfs tmpfs /run; : >/run/resolv.conf; mount --bind /run/resolv.conf /etc/resolv.conf`, "NAME="+name)
	return vm, err
}

func (v *VM) file(name string) string { return filepath.Join(v.dir, name) }

// Boot gets a lease by broadcast, as at the VM's first start. It asks every second,
// and gives up after a while.
func (v *VM) Boot(ctx context.Context) (Lease, error) {
	_, err := v.Script(ctx, `busybox udhcpc -i eth0 -f -q -n -t 20 -T 1 -O mtu -O serverid -s "$SCRIPT"`,
		"SCRIPT="+v.file("lease.sh"), "LEASE_FILE="+v.file("lease"))
	if err != nil {
		return nil, err
	}
	return v.Lease()
}

// Lease is what the client was told last.
func (v *VM) Lease() (Lease, error) {
	raw, err := os.ReadFile(v.file("lease"))
	if err != nil {
		return nil, fmt.Errorf("reading the lease: %w", err)
	}
	lease := Lease{}
	for line := range strings.Lines(string(raw)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		lease[key] = value
	}
	return lease, nil
}

// Stay runs a DHCP client that renews as long as the VM lives, or until stop.
func (v *VM) Stay() (stop func(), err error) {
	if err := os.RemoveAll(v.file("lease.history")); err != nil {
		return nil, fmt.Errorf("forgetting older leases: %w", err)
	}
	return v.Daemon("udhcpc", "env", "LEASE_FILE="+v.file("lease"),
		"busybox", "udhcpc", "-i", "eth0", "-f", "-t", "8", "-T", "1", "-O", "mtu", "-O", "serverid", "-s", v.file("lease.sh"))
}

// History is what happened since Stay, in order: "bound 192.0.2.100", "renew
// 192.0.2.100".
func (v *VM) History() ([]string, error) {
	raw, err := os.ReadFile(v.file("lease.history"))
	if err != nil {
		return nil, fmt.Errorf("reading the history of leases: %w", err)
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n"), nil
}
