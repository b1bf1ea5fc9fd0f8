package lease

// This file is the whole allocation policy: who may keep what, who may get
// something new, and which address that is.

// current is the entry that c has and may keep.
func (t *Table) current(c Client) (*entry, Reason) {
	e := t.byMAC[c.MAC]
	if e == nil {
		e = t.renamed(c)
	}
	if e == nil {
		return nil, OK
	}
	if !t.sameCluster(e, c) {
		return nil, OtherCluster
	}
	if !t.honoured(e) {
		return nil, WrongAddress
	}
	return e, OK
}

// renamed finds the address of a machine whose interface has got another MAC:
// the address stays the machine's (bridge interfaces without a MAC of
// their own change it on migration).
func (t *Table) renamed(c Client) *entry {
	for _, vm := range c.VMs {
		if e := t.byVM[vm]; e != nil {
			return e
		}
		// What the status has kept names no interface.
		if e := t.byVM[VM{Namespace: vm.Namespace, Name: vm.Name}]; e != nil {
			return e
		}
	}
	return nil
}

// sameCluster says whether c is of the cluster that e belongs to. A client
// that no machine is known for keeps what it has: the machine may be new, or
// the API away.
func (t *Table) sameCluster(e *entry, c Client) bool {
	if !e.vm.Known() || len(c.VMs) == 0 {
		return true
	}
	for _, vm := range c.VMs {
		if vm.Namespace == e.vm.Namespace {
			return true
		}
	}
	return false
}

// honoured says whether an existing binding goes on. A running machine is
// never moved for the sake of the range alone.
func (t *Table) honoured(e *entry) bool {
	if !t.set.Prefix.Contains(address(e.ip)) {
		return false
	}
	if t.pool.contains(e.ip) || t.isFixed(e) {
		return true
	}
	for _, a := range t.set.Reserved {
		if number(a) == e.ip {
			return false
		}
	}
	if n := address(e.ip); n == t.set.Prefix.Masked().Addr() || n == lastOf(t.set.Prefix) {
		return false
	}
	return e.vm.Known() || !t.isExcluded(e.ip)
}

func (t *Table) isExcluded(n uint32) bool {
	for _, r := range t.set.Excluded {
		if number(r.First) <= n && n <= number(r.Last) {
			return true
		}
	}
	return false
}

// known says whether c is a machine or has a reservation.
func (t *Table) known(c Client) bool {
	if len(c.VMs) > 0 {
		return true
	}
	_, fixed := t.set.Fixed[c.MAC]
	if fixed {
		return true
	}
	e := t.byMAC[c.MAC]
	return e != nil && e.vm.Known()
}

// admits says whether c may get an address that it does not have yet.
func (t *Table) admits(c Client) Reason {
	switch {
	case !t.mode.Allocate:
		return NotAllocating
	case t.mode.ReadOnly:
		return CannotStore
	case t.known(c):
		return OK
	case t.set.IgnoreUnknown:
		return UnknownClient
	case t.set.Headroom && t.freeInPool() <= t.headroom():
		return NoHeadroom
	case t.mode.Blocks && t.set.Headroom && t.lists[Granted].len <= t.blockGoal()/blockShare:
		return NoHeadroom
	}
	return OK
}

// blockShare is the part of a block that unknown clients leave: a quarter.
const blockShare = 4

// headroom is the number of free addresses that only known machines get: an
// eighth of the pool, or as many as machines still lack one.
func (t *Table) headroom() int {
	return max(t.pool.size/headroomShare, t.machines-len(t.byVM))
}

// choose finds an address for a client that has none. The order: its
// reservation, what it asks for, one never used, the one that is free for
// longest, one that cools down in its own namespace, and at last the one that was
// declined first. Those last two change places where addresses have to be set aside.
func (t *Table) choose(c Client, asked uint32) (*entry, Reason) {
	if a, ok := t.set.Fixed[c.MAC]; ok {
		if e := t.reserved(number(a), c.MAC); e != nil {
			return e, OK
		}
	}
	if r := t.admits(c); r != OK {
		return nil, r
	}
	if e := t.byIP[asked]; e != nil && t.givable(e) {
		return e, OK
	}
	if !t.mode.Blocks {
		return t.fromPool(c, asked)
	}
	if e := t.lists[Granted].head; e != nil {
		return e, OK
	}
	if t.freeInPool() > 0 {
		return nil, NotSetAside
	}
	if e := t.cooled(c); e != nil {
		return e, OK
	}
	t.lack(c)
	return nil, NotSetAside
}

// fromPool is choose where no address has to be set aside first.
func (t *Table) fromPool(c Client, asked uint32) (*entry, Reason) {
	if asked != 0 && t.byIP[asked] == nil && t.pool.contains(asked) {
		return t.add(asked), OK
	}
	if e := t.unused(); e != nil {
		return e, OK
	}
	if e := t.lastResort(c); e != nil {
		return e, OK
	}
	return nil, NoFree
}

// lastResort is what is given when nothing is free: an address that cools down
// in the client's own namespace, and at last the one that was declined first.
func (t *Table) lastResort(c Client) *entry {
	if e := t.cooled(c); e != nil {
		return e
	}
	if e := t.lists[Quarantined].head; e != nil && t.pool.contains(e.ip) {
		e.fresh = true
		return e
	}
	return nil
}

// cooled is the address that cools down for longest in a namespace of c's. Where
// addresses have to be set aside it is one that was lent.
func (t *Table) cooled(c Client) *entry {
	for _, vm := range c.VMs {
		l := t.cooling[vm.Namespace]
		if l == nil {
			continue
		}
		for e := l.head; e != nil; e = e.next {
			if t.pool.contains(e.ip) && (e.lent || !t.mode.Blocks) {
				return e
			}
		}
	}
	return nil
}

// lack notes a machine for which nothing is free, and whose namespace has
// addresses that cool down.
func (t *Table) lack(c Client) {
	for _, vm := range c.VMs {
		if t.cooling[vm.Namespace] != nil && len(t.lacking) < maxWanted {
			t.lacking[c.MAC] = vm.Namespace
			return
		}
	}
}

// unused is the next address that is simply free.
func (t *Table) unused() *entry {
	if n, ok := t.never(); ok {
		return t.add(n)
	}
	return t.lists[Free].head
}

// givable says whether a new client may get e.
func (t *Table) givable(e *entry) bool {
	if t.mode.Blocks {
		return e.state == Granted
	}
	return e.state == Free || e.state == Granted
}

// reserved is the entry of an administrator's reservation, unless somebody
// else still has it.
func (t *Table) reserved(n uint32, m MAC) *entry {
	e := t.byIP[n]
	if e == nil {
		e = t.add(n)
		e.fresh = false
		return e
	}
	if e.owned && e.mac != m && (e.state == Bound || e.state == Held || e.state == Offered) {
		return nil
	}
	return e
}

// adopt gives a client the address that it says it has, although there is no
// record of it: rather that than to move a running machine after records were
// lost.
func (t *Table) adopt(c Client, n uint32) (*entry, Verdict, Reason) {
	if a, ok := t.set.Fixed[c.MAC]; ok {
		return t.adoptFixed(c, number(a), n)
	}
	if r := t.admits(c); r != OK {
		return nil, Silence, r
	}
	if !t.pool.contains(n) {
		return nil, Nak, NotInPool
	}
	e := t.byIP[n]
	if e != nil && t.adoptable(e, c) {
		return e, Ack, OK
	}
	if e != nil && e.state != Free && e.state != Aside {
		return nil, Nak, Taken
	}
	if t.mode.Blocks {
		t.want(n)
		return nil, Silence, NotSetAside
	}
	if e == nil {
		e = t.add(n)
	}
	return e, Ack, OK
}

// adoptFixed is adopt for a client that has a reservation.
func (t *Table) adoptFixed(c Client, reserved, n uint32) (*entry, Verdict, Reason) {
	if reserved != n {
		return nil, Nak, WrongAddress
	}
	if e := t.reserved(n, c.MAC); e != nil {
		return e, Ack, OK
	}
	return nil, Nak, Taken
}

// adoptable says whether c may have e, which it asks for by name.
func (t *Table) adoptable(e *entry, c Client) bool {
	switch e.state {
	case Resting:
		e.fresh = e.seen != c.MAC
		return true
	case Quarantined:
		return e.seen == c.MAC // it was this client that answered the probe
	}
	return t.givable(e)
}

// mustProbe says whether somebody must look for another station at e before c
// gets it. A machine is not kept waiting by a network where everything answers.
func (t *Table) mustProbe(e *entry, c Client) bool {
	return e.fresh && c.Near && (!t.Disputed() || !t.known(c))
}

// Disputed says whether so many addresses rest that whoever answers a probe is
// likelier to lie than to use the address. No more are put to rest for that,
// and known machines get theirs without a probe.
func (t *Table) Disputed() bool {
	return t.lists[Quarantined].len >= min(maxDisputed, t.maxQuarantine())
}

// maxQuarantine is how many addresses rest at most.
func (t *Table) maxQuarantine() int { return max(1, t.pool.size/quarantineShare) }

// want notes an address for the next block.
func (t *Table) want(n uint32) {
	if len(t.wanted) < maxWanted {
		t.wanted[n] = struct{}{}
	}
}
