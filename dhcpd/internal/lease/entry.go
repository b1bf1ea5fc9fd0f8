package lease

import "time"

// State is what an address is used for.
type State uint8

// The states of an address. An address without an entry was never used.
const (
	// Free may be given to anybody; it remembers who had it last.
	Free State = iota
	// Aside is named as set aside, but that is not known to be written yet.
	Aside
	// Granted is set aside for new clients and written down as such.
	Granted
	// Offered is promised to a client for a short while (RFC 2131 section
	// 3.1 point 2). Nothing of it is stored.
	Offered
	// Bound is leased.
	Bound
	// Held is past its lease but its virtual machine still exists.
	Held
	// Cooling was a virtual machine's and goes to nobody outside of its
	// namespace until other systems have forgotten the old owner.
	Cooling
	// Quarantined was declined, or another station answered for it.
	Quarantined
	// Resting may have been given by a predecessor whose records are lost:
	// it is offered to nobody, and whoever asks for it by name gets it.
	Resting
	states
)

// entry is one address that was used or set aside. It is a link of exactly one
// list, that of its state.
type entry struct {
	ip    uint32
	mac   MAC
	owned bool // mac is set
	state State
	// fresh is set until a client was bound to the address or a probe found
	// nobody there, in this life of the process.
	fresh bool
	// remember keeps mac when an offer lapses: it had the address before.
	remember bool
	// seen is the station that answered when the address was probed.
	seen MAC
	// pinned is set while the virtual machine is not known to be gone.
	pinned bool
	// lent is set while it cools down as nobody's and is known to be written down
	// as possibly given: its own namespace may have it where nothing else is free.
	lent bool
	// back is where an offer returns to when it lapses, for how long, and, if
	// it cools down, as whose.
	back     State
	rest     time.Time
	was      *Binding
	vm       VM
	deadline time.Time

	list       *list
	prev, next *entry
}

// list is a doubly linked list of entries, sorted by deadline.
type list struct {
	head, tail *entry
	len        int
}

// insert keeps the order. Deadlines nearly always come in order, so the walk
// from the back is short.
func (l *list) insert(e *entry) {
	at := l.tail
	for at != nil && at.deadline.After(e.deadline) {
		at = at.prev
	}
	l.after(at, e)
}

// push appends e whatever its deadline.
func (l *list) push(e *entry) { l.after(l.tail, e) }

func (l *list) after(at, e *entry) {
	e.list, e.prev = l, at
	if at == nil {
		e.next, l.head = l.head, e
	} else {
		e.next, at.next = at.next, e
	}
	if e.next == nil {
		l.tail = e
	} else {
		e.next.prev = e
	}
	l.len++
}

func (e *entry) unlink() {
	l := e.list
	if l == nil {
		return
	}
	if e.prev == nil {
		l.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.list, e.prev, e.next = nil, nil, nil
	l.len--
}
