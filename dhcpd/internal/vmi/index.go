package vmi

import (
	"bytes"
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// machine is what matters of a VirtualMachine or VirtualMachineInstance.
type machine struct {
	namespace, name string
	created         time.Time
	// instance: it runs, or has run, and is not only said to exist.
	instance bool
	// waiting: it has no place to run yet.
	waiting bool
	// finished: it has ended and will not run again under this object.
	finished   bool
	interfaces []nic
}

// nic is an interface on this network.
type nic struct {
	name string
	macs []lease.MAC
	// ip is the address that the machine is seen to use, if any.
	ip netip.Addr
}

// Claim is an address that a machine is seen to use.
type Claim struct {
	MAC lease.MAC
	VM  lease.VM
	IP  netip.Addr
}

// Index is what is known at one time. It is never changed.
type Index struct {
	vms    map[lease.MAC][]lease.VM
	exists map[[2]string]bool
	read   map[string]bool // namespaces that were read completely; "*" = all
	// namespaces are those that are to be read; empty = that is not known.
	namespaces []string
	claims     []Claim
	count      int
	// unreadable says what is wrong with which files.
	unreadable []string
}

var _ lease.Directory = (*Index)(nil)

// without is the index as it was before err kept everything from being read.
func (x *Index) without(err error) *Index {
	y := *x
	y.unreadable = []string{err.Error()}
	return &y
}

// VMs lists the interfaces with this hardware address: of machines that run first,
// then the oldest.
func (x *Index) VMs(m lease.MAC) []lease.VM { return x.vms[m] }

// MACs lists, sorted, the hardware addresses of all machines.
func (x *Index) MACs() []lease.MAC {
	return slices.SortedFunc(maps.Keys(x.vms), func(a, b lease.MAC) int { return bytes.Compare(a[:], b[:]) })
}

// Len is the number of interfaces on this network.
func (x *Index) Len() int { return x.count }

// Exists tells whether a machine is still there. Of a namespace that is not to be
// read nobody will ever say so, and its machines keep nothing beyond their leases.
func (x *Index) Exists(vm lease.VM) lease.Existence {
	switch {
	case x.exists[[2]string{vm.Namespace, vm.Name}]:
		return lease.Exists
	case x.read["*"], x.read[vm.Namespace], !x.looksAt(vm.Namespace):
		return lease.Gone
	}
	return lease.Unknown
}

// looksAt says whether a namespace is one of those that are to be read.
func (x *Index) looksAt(ns string) bool {
	return len(x.namespaces) == 0 || x.namespaces[0] == "*" || slices.Contains(x.namespaces, ns)
}

// Claims lists, sorted by address, the addresses that machines are seen to
// use; an address that two of them claim is left out.
func (x *Index) Claims() []Claim { return x.claims }

// Unreadable lists, sorted by path, what is wrong with files of machines.
func (x *Index) Unreadable() []string { return x.unreadable }

// Duplicates lists hardware addresses that several machines have on this
// network, as "mac: namespace/name, namespace/name", sorted.
func (x *Index) Duplicates() []string {
	var out []string
	for m, vms := range x.vms {
		if len(vms) < 2 {
			continue
		}
		names := make([]string, len(vms))
		for i, vm := range vms {
			names[i] = vm.String()
		}
		slices.Sort(names)
		out = append(out, m.String()+": "+strings.Join(names, ", "))
	}
	slices.Sort(out)
	return out
}

// LongNames lists the machines whose name is longer than a host name can be.
func (x *Index) LongNames() []string {
	var out []string
	for k := range x.exists {
		if len(k[1]) > 63 {
			out = append(out, k[0]+"/"+k[1])
		}
	}
	slices.Sort(out)
	return out
}

// build makes an index of namespaces, of which some were read. Machines come in
// any order.
func build(machines []machine, read map[string]bool, namespaces []string) *Index {
	slices.SortFunc(machines, likelier(machines))
	x := &Index{vms: map[lease.MAC][]lease.VM{}, exists: map[[2]string]bool{}, read: read, namespaces: namespaces}
	claimed := map[netip.Addr][]Claim{}
	seen := map[lease.VM]bool{}
	for _, m := range machines {
		x.exists[[2]string{m.namespace, m.name}] = true
		if m.finished {
			continue // it keeps its address, but its hardware address may be another's by now
		}
		for _, n := range m.interfaces {
			vm := lease.VM{Namespace: m.namespace, Name: m.name, Interface: n.name}
			for _, mac := range n.macs {
				if !slices.Contains(x.vms[mac], vm) {
					x.vms[mac] = append(x.vms[mac], vm)
				}
			}
			if len(n.macs) > 0 && !seen[vm] {
				seen[vm] = true
				x.count++
			}
			if n.ip.IsValid() && len(n.macs) > 0 {
				claimed[n.ip] = append(claimed[n.ip], Claim{MAC: n.macs[0], VM: vm, IP: n.ip})
			}
		}
	}
	for _, c := range claimed {
		if len(c) == 1 {
			x.claims = append(x.claims, c[0])
		}
	}
	slices.SortFunc(x.claims, func(a, b Claim) int { return a.IP.Compare(b.IP) })
	return x
}

// likelier orders machines by which of two with one hardware address a client is: one
// that does not run sends nothing, and of others the older had it first.
func likelier(machines []machine) func(a, b machine) int {
	runs := map[[2]string]int{}
	for _, m := range machines {
		if m.instance && !m.finished && !m.waiting {
			runs[[2]string{m.namespace, m.name}] = -1
		}
	}
	return func(a, b machine) int {
		x, y := [2]string{a.namespace, a.name}, [2]string{b.namespace, b.name}
		return cmp.Or(cmp.Compare(runs[x], runs[y]), a.created.Compare(b.created), slices.Compare(x[:], y[:]))
	}
}

// filter tells which interfaces are on this network.
type filter struct {
	networks map[config.Network]bool
	prefix   netip.Prefix
}

func newFilter(c *config.Config) filter {
	f := filter{networks: map[config.Network]bool{}, prefix: c.Prefix}
	for _, n := range c.Networks {
		f.networks[n] = true
	}
	return f
}

// ours says whether a machine's network is this one. A name without a
// namespace means the machine's own.
func (f filter) ours(n kubevirtv1.Network, namespace string) bool {
	if n.Multus == nil {
		return false
	}
	name := n.Multus.NetworkName
	if ns, rest, ok := strings.Cut(name, "/"); ok {
		return f.networks[config.Network{Namespace: ns, Name: rest}]
	}
	return f.networks[config.Network{Namespace: namespace, Name: name}]
}

// specNICs are the interfaces of a spec that are on this network.
func (f filter) specNICs(spec *kubevirtv1.VirtualMachineInstanceSpec, namespace string) []nic {
	on := map[string]bool{}
	for _, n := range spec.Networks {
		if f.ours(n, namespace) {
			on[n.Name] = true
		}
	}
	var out []nic
	for _, i := range spec.Domain.Devices.Interfaces {
		if !on[i.Name] {
			continue
		}
		n := nic{name: i.Name}
		n.add(i.MacAddress)
		out = append(out, n)
	}
	return out
}

func (n *nic) add(mac string) {
	m, err := lease.ParseMAC(mac)
	if err == nil && m.Unicast() && !slices.Contains(n.macs, m) {
		n.macs = append(n.macs, m)
	}
}

// fromVMI reads a VirtualMachineInstance: hardware addresses of its spec and
// of its status, since KubeVirt may have chosen them.
func (f filter) fromVMI(v *kubevirtv1.VirtualMachineInstance) machine {
	m := machine{
		namespace:  v.Namespace,
		name:       v.Name,
		created:    v.CreationTimestamp.Time,
		instance:   true,
		waiting:    v.Status.Phase == kubevirtv1.Pending || v.Status.Phase == kubevirtv1.Scheduling,
		finished:   v.Status.Phase == kubevirtv1.Succeeded || v.Status.Phase == kubevirtv1.Failed,
		interfaces: f.specNICs(&v.Spec, v.Namespace),
	}
	for _, s := range v.Status.Interfaces {
		i := slices.IndexFunc(m.interfaces, func(n nic) bool { return n.name == s.Name })
		// What the guest agent alone reports is the tenant's word.
		if i < 0 || s.Name == "" || (s.InfoSource != "" && !strings.Contains(s.InfoSource, "domain") && !strings.Contains(s.InfoSource, "multus-status")) {
			continue
		}
		m.interfaces[i].add(s.MAC)
		m.interfaces[i].ip = f.address(append([]string{s.IP}, s.IPs...))
	}
	return m
}

// address is the first that lies in the network.
func (f filter) address(list []string) netip.Addr {
	for _, s := range list {
		s, _, _ = strings.Cut(s, "/")
		if a, err := netip.ParseAddr(s); err == nil && a.Is4() && f.prefix.Contains(a) {
			return a
		}
	}
	return netip.Addr{}
}

// fromVM reads a VirtualMachine, which keeps its address while it is stopped.
func (f filter) fromVM(v *kubevirtv1.VirtualMachine) machine {
	m := machine{namespace: v.Namespace, name: v.Name, created: v.CreationTimestamp.Time}
	if v.Spec.Template != nil {
		m.interfaces = f.specNICs(&v.Spec.Template.Spec, v.Namespace)
	}
	return m
}
