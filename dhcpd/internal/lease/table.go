package lease

import (
	"net/netip"
	"time"
)

const (
	// OfferTime is how long an unanswered offer keeps its address. Clients
	// answer within seconds; a minute covers four of their retries (RFC 2131
	// section 4.1: 4, 8, 16, 32 s).
	OfferTime = 60 * time.Second
	// MaxLeaseTime is the longest lease that can be configured.
	MaxLeaseTime = 720 * time.Hour
	// minQuarantine is the least time that a declined address, or one that
	// leaves a cluster, rests: what other systems need to forget it.
	minQuarantine = 10 * time.Minute
	// quarantineShare is the part of the pool that clients can put out of
	// use by declining: a quarter. Beyond that the oldest comes back.
	quarantineShare = 4
	// maxDisputed is how many addresses that rest are still taken for honest
	// trouble, however large the pool: with each of a machine's messages some
	// are tried, and it must come to an end.
	maxDisputed = 64
	// headroomShare is the part of the pool that only known machines get.
	headroomShare = 8
	// maxWanted bounds the addresses that clients wait for.
	maxWanted = 256
)

// Client is who sent a message.
type Client struct {
	MAC MAC
	// VMs are the interfaces of virtual machines with this address, the
	// likeliest first; more than one is a mistake that is reported elsewhere.
	VMs []VM
	// Near says that the client is on the link, so that an address can be
	// probed for it.
	Near bool
}

// Verdict is what to answer.
type Verdict uint8

// The verdicts.
const (
	Silence Verdict = iota
	Ack
	Nak
)

// Reason says why, for logs and metrics.
type Reason string

// The reasons.
const (
	OK            Reason = "ok"
	NoFree        Reason = "no_free_address"
	NoHeadroom    Reason = "kept_for_known_machines"
	NotSetAside   Reason = "not_set_aside"
	NotAllocating Reason = "not_allocating"
	CannotStore   Reason = "cannot_store"
	UnknownClient Reason = "unknown_client"
	WrongNetwork  Reason = "wrong_network"
	WrongAddress  Reason = "wrong_address"
	NotInPool     Reason = "not_in_pool"
	Taken         Reason = "taken"
	OtherCluster  Reason = "other_cluster"
	NotTheirs     Reason = "not_theirs"
	Kept          Reason = "kept"
)

// Answer is the table's decision on one message.
type Answer struct {
	Verdict Verdict
	Reason  Reason
	IP      netip.Addr
	VM      VM
	// New says that the binding was made by this message. If its record
	// cannot be stored, the caller must call Revoke and stay silent.
	New bool
	// Probe asks the caller to find out, before it answers, that no other
	// station uses the address. A request is then to be handled again.
	Probe bool
}

// Mode is what the table may do beyond renewing.
type Mode struct {
	// Allocate allows new bindings at all.
	Allocate bool
	// Blocks restricts them to addresses that were confirmed as set aside.
	Blocks bool
	// ReadOnly is set while records cannot be stored.
	ReadOnly bool
}

// Table is the lease table. It is not safe for concurrent use.
type Table struct {
	set     Settings
	pool    pool
	cursor  cursor
	mode    Mode
	fixed   map[uint32]MAC
	byIP    map[uint32]*entry
	byMAC   map[MAC]*entry
	byVM    map[VM]*entry
	lists   [states]list
	cooling map[string]*list
	inPool  [states]int
	wanted  map[uint32]struct{}
	lacking map[MAC]string // machines, and their namespaces, that nothing is free for
	lending bool           // addresses that cool down wait for Confirm
	pending []Record
	// machines is the number of interfaces of known machines.
	machines   int
	conflicts  int
	generation uint64
}

// New makes an empty table that allocates freely.
func New(s Settings, now time.Time) *Table {
	t := &Table{
		mode:    Mode{Allocate: true},
		byIP:    map[uint32]*entry{},
		byMAC:   map[MAC]*entry{},
		byVM:    map[VM]*entry{},
		cooling: map[string]*list{},
		wanted:  map[uint32]struct{}{},
		lacking: map[MAC]string{},
	}
	t.Configure(s, now)
	return t
}

// Configure takes new settings over. Bindings stay, whatever the range.
func (t *Table) Configure(s Settings, now time.Time) {
	t.set, t.pool, t.cursor = s, newPool(s), cursor{}
	t.fixed = make(map[uint32]MAC, len(s.Fixed))
	for m, a := range s.Fixed {
		t.fixed[number(a)] = m
	}
	t.inPool = [states]int{}
	for n, e := range t.byIP {
		if t.pool.contains(n) {
			t.inPool[e.state]++
			continue
		}
		if e.state == Free || e.state == Aside || e.state == Granted || e.state == Resting {
			t.forget(e)
		}
	}
	clear(t.wanted)
	clear(t.lacking)
	t.generation++
	t.expire(now)
}

// SetMode says what the table may do.
func (t *Table) SetMode(m Mode) { t.mode = m }

// Mode is what the table may do.
func (t *Table) Mode() Mode { return t.mode }

// Generation grows whenever it changes who has which address.
func (t *Table) Generation() uint64 { return t.generation }

// put moves e to a state and its list.
func (t *Table) put(e *entry, s State, deadline time.Time) {
	in := t.pool.contains(e.ip)
	if e.list != nil {
		e.unlink()
		if in {
			t.inPool[e.state]--
		}
	}
	if in {
		t.inPool[s]++
	}
	e.state, e.deadline = s, deadline
	e.lent = e.lent && (s == Cooling || s == Offered)
	switch s {
	case Cooling:
		l := t.cooling[e.vm.Namespace]
		if l == nil {
			l = &list{}
			t.cooling[e.vm.Namespace] = l
		}
		l.insert(e)
	case Free, Aside, Granted, Held:
		t.lists[s].push(e)
	default:
		t.lists[s].insert(e)
	}
}

// add makes an entry for an address that has none.
func (t *Table) add(n uint32) *entry {
	e := &entry{ip: n, fresh: true}
	t.byIP[n] = e
	return e
}

// forget removes e altogether. The count of its state in the pool is the
// caller's business when the pool has just changed.
func (t *Table) forget(e *entry) {
	t.disown(e)
	e.unlink()
	delete(t.byIP, e.ip)
}

// own gives e to a client.
func (t *Table) own(e *entry, m MAC) {
	if e.owned && e.mac == m {
		return
	}
	t.disown(e)
	if old := t.byMAC[m]; old != nil {
		t.leave(old)
	}
	e.mac, e.owned = m, true
	t.byMAC[m] = e
}

// disown takes e from whoever has it, machine included.
func (t *Table) disown(e *entry) {
	if e.owned && t.byMAC[e.mac] == e {
		delete(t.byMAC, e.mac)
	}
	if e.vm.Known() && t.byVM[e.vm] == e {
		delete(t.byVM, e.vm)
	}
	e.owned, e.mac, e.vm, e.pinned, e.remember = false, MAC{}, VM{}, false, false
}

// leave is called when the client of e gets another address.
func (t *Table) leave(e *entry) {
	delete(t.byMAC, e.mac)
	e.owned = false
	switch e.state {
	case Bound, Held, Cooling:
		t.retire(e, e.deadline)
	case Offered:
		if e.was != nil && e.was.MAC == e.mac {
			e.was.MAC = MAC{} // it cools down as nobody's
		}
		t.lapse(e)
	}
}

// identify writes the machine on e.
func (t *Table) identify(e *entry, vm VM) {
	if !vm.Known() || e.vm == vm {
		return
	}
	if e.vm.Known() && t.byVM[e.vm] == e {
		delete(t.byVM, e.vm)
	}
	e.vm, e.pinned = vm, true
	if !t.served(vm) {
		t.byVM[vm] = e
	}
}

// served says whether a machine has an address that a client of its own uses. One
// that it had before, and that only cools down, is no longer the machine's when it
// has got another.
func (t *Table) served(vm VM) bool {
	e := t.byVM[vm]
	return e != nil && e.owned
}

// quarantine is how long an address rests after trouble.
func (t *Table) quarantine() time.Duration { return max(t.set.LeaseTime, minQuarantine) }

// retire ends a binding. A machine's address cools down before others get it.
func (t *Table) retire(e *entry, now time.Time) {
	t.generation++
	if e.vm.Known() {
		t.put(e, Cooling, now.Add(t.quarantine()))
	} else {
		t.free(e)
	}
	t.record(e)
}

// free gives e back to the pool.
func (t *Table) free(e *entry) {
	t.generation++
	if !t.pool.contains(e.ip) {
		t.forget(e)
		return
	}
	if e.vm.Known() {
		t.disown(e)
	}
	t.put(e, Free, time.Time{})
}

// lapse ends an offer that nobody took.
func (t *Table) lapse(e *entry) {
	if e.remember {
		e.fresh = true // a probe for whom it was says nothing of him
	} else {
		t.disown(e)
	}
	if e.back == Cooling {
		t.coolAgain(e)
		return
	}
	if !t.pool.contains(e.ip) {
		t.forget(e)
		return
	}
	if e.back == Granted && t.lists[Granted].len >= t.blockGoal() {
		e.back = Free // others have taken its place in the block
	}
	if e.back == Resting {
		t.put(e, Resting, e.rest)
		return
	}
	t.put(e, e.back, time.Time{})
}

// coolAgain gives e back to whom it cools down for.
func (t *Table) coolAgain(e *entry) {
	if m := e.was.MAC; m != (MAC{}) && t.byMAC[m] == nil {
		t.own(e, m)
	}
	t.identify(e, e.was.VM)
	e.pinned, e.was = false, nil
	t.put(e, Cooling, e.rest)
	t.generation++
}

// Tick does what has become due.
func (t *Table) Tick(now time.Time) {
	t.expire(now)
	for ns, l := range t.cooling {
		for e := l.head; e != nil && !e.deadline.After(now); e = l.head {
			t.disown(e)
			t.free(e)
			t.record(e)
		}
		if l.len == 0 {
			delete(t.cooling, ns)
		}
	}
}

// expire does what every message must see done.
func (t *Table) expire(now time.Time) {
	for e := t.lists[Offered].head; e != nil && !e.deadline.After(now); e = t.lists[Offered].head {
		t.lapse(e)
	}
	for e := t.lists[Bound].head; e != nil && !e.deadline.After(now); e = t.lists[Bound].head {
		t.expireBound(e)
	}
	for _, s := range []State{Quarantined, Resting} {
		for e := t.lists[s].head; e != nil && !e.deadline.After(now); e = t.lists[s].head {
			e.fresh = true
			t.free(e)
		}
	}
}

func (t *Table) expireBound(e *entry) {
	switch {
	case e.pinned, t.isFixed(e):
		t.put(e, Held, e.deadline)
	case e.vm.Known():
		t.generation++
		t.put(e, Cooling, e.deadline.Add(t.quarantine()))
	default:
		t.free(e)
	}
}
