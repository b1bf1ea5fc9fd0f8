package lease

import (
	"net/netip"
	"time"
)

// Offer answers a DISCOVER (RFC 2131 section 4.3.1). Nothing is stored.
func (t *Table) Offer(c Client, asked netip.Addr, now time.Time) Answer {
	t.expire(now)
	if t.set.IgnoreUnknown && !t.known(c) {
		return Answer{Reason: UnknownClient}
	}
	e, _ := t.current(c)
	if e != nil && !t.offerable(e, c) {
		e = nil
	}
	if e == nil {
		var n uint32
		var reason Reason
		if asked.Is4() {
			n = number(asked)
		}
		if e, reason = t.choose(c, n); e == nil {
			return Answer{Reason: reason}
		}
	}
	if e.state == Bound || e.state == Held {
		return Answer{Verdict: Ack, Reason: OK, IP: address(e.ip), VM: t.vmOf(e, c)}
	}
	t.offer(e, c, now)
	return Answer{Verdict: Ack, Reason: OK, IP: address(e.ip), VM: t.vmOf(e, c), Probe: t.mustProbe(e, c)}
}

// offerable says whether a client that starts anew gets e again.
func (t *Table) offerable(e *entry, c Client) bool {
	if a, ok := t.set.Fixed[c.MAC]; ok && number(a) != e.ip && t.reserved(number(a), c.MAC) != nil {
		return false
	}
	if !e.vm.Known() && len(c.VMs) == 0 && !t.pool.contains(e.ip) && t.fixed[e.ip] != c.MAC {
		return false // the range has moved on, and so may this client
	}
	switch e.state {
	case Bound, Held:
		return true
	case Offered, Cooling:
		return t.mode.Allocate && !t.mode.ReadOnly
	}
	return t.givable(e) && t.admits(c) == OK
}

// offer promises e to c for OfferTime.
func (t *Table) offer(e *entry, c Client, now time.Time) {
	if e.state != Offered {
		e.back = Free
		if e.list != nil && (e.state == Granted || e.state == Resting || e.state == Cooling) {
			e.back, e.rest = e.state, e.deadline
		}
		if e.back == Cooling {
			was := e.binding()
			e.was = &was
			t.generation++ // no line of the status names it meanwhile
		}
		e.remember = e.owned && e.mac == c.MAC
	}
	remember := e.remember
	t.own(e, c.MAC)
	e.remember = remember
	t.put(e, Offered, now.Add(OfferTime))
}

// vmOf is the machine that an answer is for: the one that e was given to, if
// it still has the client's address, else the first.
func (t *Table) vmOf(e *entry, c Client) VM {
	if len(c.VMs) == 0 {
		return e.vm
	}
	for _, vm := range c.VMs {
		if vm.same(e.vm) {
			return vm
		}
	}
	return c.VMs[0]
}

// Request answers a REQUEST for ip that is meant for us, in any state of the
// client (RFC 2131 section 4.3.2). It never confirms another address than ip.
func (t *Table) Request(c Client, ip netip.Addr, now time.Time) Answer {
	t.expire(now)
	if t.set.IgnoreUnknown && !t.known(c) {
		return Answer{Reason: UnknownClient}
	}
	if !t.set.Prefix.Contains(ip) {
		return Answer{Verdict: Nak, Reason: WrongNetwork}
	}
	n := number(ip)
	e, reason := t.current(c)
	switch {
	case reason != OK:
		return Answer{Verdict: Nak, Reason: reason}
	case e != nil && e.ip == n:
		return t.confirm(e, c, now)
	case e != nil && (e.state == Bound || e.state == Held || e.state == Offered) && !t.resting(n):
		return Answer{Verdict: Nak, Reason: WrongAddress}
	}
	return t.adopted(c, n, now)
}

// resting says whether n is of a predecessor's block. A client that says it
// has such an address knows better than the table, which may have an older one
// of it from the status.
func (t *Table) resting(n uint32) bool {
	x := t.byIP[n]
	return x != nil && x.state == Resting
}

// adopted answers a client that says it has an address of which there is no
// record. Somebody else may have it, so it is probed first where that can be
// done: meanwhile it is on offer to this client.
func (t *Table) adopted(c Client, n uint32, now time.Time) Answer {
	e, verdict, reason := t.adopt(c, n)
	if e == nil {
		return Answer{Verdict: verdict, Reason: reason}
	}
	if t.mustProbe(e, c) {
		t.offer(e, c, now)
		return Answer{Verdict: Ack, Reason: OK, IP: address(e.ip), VM: t.vmOf(e, c), Probe: true}
	}
	return t.bind(e, c, now)
}

// confirm acknowledges the address that a client has.
func (t *Table) confirm(e *entry, c Client, now time.Time) Answer {
	switch e.state {
	case Bound, Held:
		return t.bind(e, c, now)
	case Offered, Cooling:
		if r := t.may(); r != OK {
			return Answer{Reason: r}
		}
		return t.bind(e, c, now)
	}
	return t.adopted(c, e.ip, now)
}

// may says whether any binding may be made now.
func (t *Table) may() Reason {
	switch {
	case !t.mode.Allocate:
		return NotAllocating
	case t.mode.ReadOnly:
		return CannotStore
	}
	return OK
}

// bind leases e to c for the lease time.
func (t *Table) bind(e *entry, c Client, now time.Time) Answer {
	fresh := e.state != Bound && e.state != Held
	other := !e.owned || e.mac != c.MAC
	vm := t.vmOf(e, c)
	if other && len(c.VMs) == 0 {
		vm = VM{} // it has the address, but is not the machine that had it
	}
	if fresh || other || e.vm != vm {
		t.generation++
	}
	if fresh && e.state != Offered {
		e.comesFrom()
	}
	t.own(e, c.MAC)
	t.identify(e, vm)
	e.fresh, e.seen = false, MAC{}
	if fresh && len(c.VMs) > 0 {
		e.pinned = true // else it is as gone as it was
	}
	t.put(e, Bound, t.end(e, now))
	delete(t.wanted, e.ip)
	t.record(e)
	return Answer{Verdict: Ack, Reason: OK, IP: address(e.ip), VM: e.vm, New: fresh}
}

// end is when a lease ends that is given or renewed now. Where leases have become
// shorter it stays as it was: the client may not hear of the renewal, and then has
// what it was told before.
func (t *Table) end(e *entry, now time.Time) time.Time {
	until := now.Add(t.set.LeaseTime)
	if e.state == Bound && e.deadline.After(until) {
		return e.deadline
	}
	return until
}

// comesFrom remembers what e goes back to if its binding cannot be stored.
func (e *entry) comesFrom() {
	e.back, e.was = Free, nil
	switch e.state {
	case Cooling:
		was := e.binding()
		e.back, e.rest, e.was = Cooling, e.deadline, &was
	case Resting:
		e.back, e.rest = Resting, e.deadline
	}
}

// Revoke undoes a new binding whose record could not be stored: the client has
// not been told, so the address goes back to being offered, and from there to
// cooling down or resting if it came from there.
func (t *Table) Revoke(ip netip.Addr, now time.Time) {
	e := t.byIP[number(ip)]
	if e == nil || e.state != Bound {
		return
	}
	t.generation++
	if e.back != Cooling && e.back != Resting {
		e.back = Free
	}
	e.fresh, e.remember = true, false
	t.put(e, Offered, now.Add(OfferTime))
}

// Withdraw frees the offer of a client that has chosen another server (RFC
// 2131 section 3.1 point 4).
func (t *Table) Withdraw(m MAC) {
	if e := t.byMAC[m]; e != nil && e.state == Offered {
		t.lapse(e)
	}
}

// Decline takes an address out of use that its own client found in use (RFC
// 2131 section 4.3.3). A machine keeps its address: other systems know it by
// that, so a person has to look.
func (t *Table) Decline(m MAC, ip netip.Addr, now time.Time) Reason {
	t.expire(now)
	e := t.byMAC[m]
	if e == nil || address(e.ip) != ip {
		return NotTheirs
	}
	switch {
	case e.state != Offered && e.state != Bound && e.state != Held:
		return NotTheirs
	case e.vm.Known() || t.fixed[e.ip] == m:
		return Kept
	}
	t.setQuarantine(e, now)
	return OK
}

// Conflict takes an offered address out of use, since a probe found a station
// that uses it. An address that rests is that station's in all likelihood. Where
// too many are said to be in use, this one goes back to its place in the queue,
// and nothing of it is stored.
func (t *Table) Conflict(ip netip.Addr, by MAC, now time.Time) bool {
	e := t.byIP[number(ip)]
	if e == nil || e.state != Offered {
		return false
	}
	e.seen = by
	if e.back == Resting || t.Disputed() {
		t.conflicts++
		t.lapse(e)
	} else {
		t.setQuarantine(e, now)
	}
	return true
}

func (t *Table) setQuarantine(e *entry, now time.Time) {
	t.conflicts++
	t.generation++
	t.disown(e)
	t.put(e, Quarantined, now.Add(t.quarantine()))
	t.record(e)
	if l := &t.lists[Quarantined]; l.len > t.maxQuarantine() {
		old := l.head
		old.fresh = true
		t.free(old)
		t.record(old)
	}
}

// Probed notes that a probe found nobody at an address.
func (t *Table) Probed(ip netip.Addr) {
	if e := t.byIP[number(ip)]; e != nil {
		e.fresh = false
	}
}

// Release ends a lease (RFC 2131 section 4.3.4). A machine keeps its address.
func (t *Table) Release(m MAC, ip netip.Addr, now time.Time) Reason {
	t.expire(now)
	e := t.byMAC[m]
	if e == nil || address(e.ip) != ip || e.state != Bound {
		return NotTheirs
	}
	if e.pinned || t.fixed[e.ip] == m {
		return Kept
	}
	t.retire(e, now)
	return OK
}
