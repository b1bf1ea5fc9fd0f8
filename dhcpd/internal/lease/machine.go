package lease

import (
	"net/netip"
	"time"
)

// Existence is what is known about a virtual machine.
type Existence uint8

// A machine is unknown while the place where it would be listed cannot be
// read.
const (
	Unknown Existence = iota
	Exists
	Gone
)

// Directory knows the virtual machines.
type Directory interface {
	// VMs lists the interfaces with this address, the likeliest first.
	VMs(m MAC) []VM
	// Exists tells whether vm's machine is still there.
	Exists(vm VM) Existence
	// Len is the number of interfaces.
	Len() int
}

// Sync compares the table with the directory: a machine that is gone no
// longer holds its address, and a client that has turned out to be a machine
// does.
func (t *Table) Sync(d Directory, now time.Time) {
	t.machines = d.Len()
	for _, e := range t.byIP {
		if !e.owned || (e.state != Bound && e.state != Held && e.state != Cooling) {
			continue
		}
		if e.vm.Interface == "" {
			t.recognise(e, d.VMs(e.mac))
		}
		if e.vm.Known() {
			t.pin(e, d.Exists(e.vm), now)
		}
	}
}

// recognise finds the machine, or the interface, of an entry that has none.
func (t *Table) recognise(e *entry, vms []VM) {
	for _, vm := range vms {
		if !t.served(vm) && (!e.vm.Known() || e.vm.same(vm)) {
			t.identify(e, vm)
			t.generation++
			t.record(e)
			return
		}
	}
}

func (t *Table) pin(e *entry, x Existence, now time.Time) {
	switch x {
	case Exists:
		e.pinned = true
		if e.state == Cooling {
			t.generation++
			t.put(e, Held, now)
		}
	case Unknown: // nobody says that it has gone
		e.pinned = e.pinned || e.state == Bound
	case Gone:
		e.pinned = false
		if e.state == Held && !t.isFixed(e) {
			t.retire(e, now)
		}
	}
}

// isFixed says whether e is its client's by reservation.
func (t *Table) isFixed(e *entry) bool { return e.owned && t.fixed[e.ip] == e.mac }

// Claim takes over an address that a machine is seen to use while nothing is
// recorded of it. A claim never overrides a binding.
func (t *Table) Claim(m MAC, vm VM, ip netip.Addr, now time.Time) bool {
	if !ip.Is4() || !t.set.Prefix.Contains(ip) || t.byMAC[m] != nil || t.byVM[vm] != nil {
		return false
	}
	n := number(ip)
	if _, ok := t.fixed[n]; ok && t.fixed[n] != m {
		return false
	}
	e := t.byIP[n]
	if e == nil {
		e = &entry{ip: n, vm: vm}
		if !t.pool.contains(n) && (t.isExcluded(n) || !t.honoured(e)) {
			return false
		}
		e = t.add(n)
	}
	switch e.state {
	case Free, Aside, Granted, Resting:
	default:
		return false
	}
	t.bind(e, Client{MAC: m, VMs: []VM{vm}}, now)
	return true
}

// Holder tells who has ip, for logs and problems.
func (t *Table) Holder(ip netip.Addr) (Binding, bool) {
	e := t.byIP[number(ip)]
	if e == nil || !e.owned {
		return Binding{}, false
	}
	return Binding{MAC: e.mac, IP: ip, VM: e.vm}, true
}

// Knows says whether the client has an address or a reservation.
func (t *Table) Knows(m MAC) bool {
	if _, ok := t.set.Fixed[m]; ok {
		return true
	}
	return t.byMAC[m] != nil
}

// Merge takes over what a successor or predecessor has written down, which
// counts more than what is recorded here. When each lease ends is not known,
// so it is given its full time, or what was recorded here if that is longer. It
// may have been longer elsewhere too, so what ends by it is probed.
func (t *Table) Merge(bindings []Binding, now time.Time) {
	for _, b := range bindings {
		if !b.IP.Is4() || !t.set.Prefix.Contains(b.IP) || !b.MAC.Unicast() {
			continue
		}
		n := number(b.IP)
		e := t.byIP[n]
		if e == nil {
			e = t.add(n)
		}
		if !e.owned || e.mac != b.MAC {
			if old := t.byMAC[b.MAC]; old != nil {
				t.disown(old)
				t.free(old)
				t.record(old)
			}
			t.own(e, b.MAC)
		}
		if !e.vm.same(b.VM) {
			t.identify(e, b.VM)
		}
		e.fresh, e.pinned = true, e.vm.Known()
		t.put(e, Bound, t.end(e, now))
		t.record(e)
	}
	t.generation++
}
