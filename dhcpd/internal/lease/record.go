package lease

import (
	"net/netip"
	"slices"
	"time"
)

// Record is one address as it is to be remembered. The last record of an
// address counts.
type Record struct {
	IP    netip.Addr
	State State // Free, Bound, Cooling, Quarantined or Resting
	MAC   MAC   // zero = nobody's; of a quarantined one, the station seen there
	VM    VM
	Until time.Time
}

// record notes e for the caller to store.
func (t *Table) record(e *entry) { t.pending = append(t.pending, e.toRecord()) }

func (e *entry) toRecord() Record {
	r := Record{IP: address(e.ip), State: e.state, VM: e.vm, Until: e.deadline}
	switch {
	case e.state == Quarantined:
		r.MAC = e.seen
	case e.owned:
		r.MAC = e.mac
	}
	if r.State == Held {
		r.State = Bound
	}
	return r
}

// offeredRecord is what e was before it was offered, which stores nothing.
func (e *entry) offeredRecord() Record {
	r := Record{IP: address(e.ip), State: e.back, Until: e.rest}
	if e.back == Cooling {
		r.MAC, r.VM = e.was.MAC, e.was.VM
	}
	return r
}

// Take appends the records since the last call to buf. The caller must store
// them before it sends any answer that it got in between.
func (t *Table) Take(buf []Record) []Record {
	buf = append(buf, t.pending...)
	t.pending = t.pending[:0]
	return buf
}

// Records lists everything that must be remembered, by address.
func (t *Table) Records() []Record {
	out := make([]Record, 0, len(t.byIP))
	for _, e := range t.byIP {
		switch e.state {
		case Bound, Held, Cooling, Quarantined, Resting:
			out = append(out, e.toRecord())
		case Offered:
			if e.back == Resting || e.back == Cooling {
				out = append(out, e.offeredRecord())
			}
		case Free:
			if e.owned {
				out = append(out, e.toRecord())
			}
		}
	}
	slices.SortFunc(out, func(a, b Record) int { return a.IP.Compare(b.IP) })
	return out
}

// Restore takes remembered records over, in the order in which they were made.
// It never fails: what the configuration no longer allows is kept until it
// ends, and an end that is too far away (the clock was wrong) is pulled in. Of a
// lease that is one that no configuration allows: that leases are shorter today
// says nothing of what clients were told then.
func (t *Table) Restore(records []Record, now time.Time) {
	kept := lastOnes(records)
	limit, longest := now.Add(max(t.set.LeaseTime, t.quarantine())), now.Add(MaxLeaseTime)
	for i := range kept {
		r := &kept[i]
		if r.Until.After(limit) && (r.State != Bound || r.Until.After(longest)) {
			r.Until = limit
		}
	}
	slices.SortStableFunc(kept, func(a, b Record) int { return a.Until.Compare(b.Until) })
	for _, r := range kept {
		t.restore(r)
	}
	t.pending = t.pending[:0]
	t.Tick(now)
	t.pending = t.pending[:0]
}

// lastOnes are the records that count: of each address the last, and of each
// client no more than one binding, since it has moved on from the others.
func lastOnes(records []Record) []Record {
	last := make(map[netip.Addr]int, len(records))
	for i, r := range records {
		last[r.IP] = i
	}
	owner := map[MAC]netip.Addr{}
	kept := records[:0:0]
	for i, r := range records {
		if last[r.IP] != i || !r.IP.Is4() {
			continue
		}
		if r.State == Bound {
			owner[r.MAC] = r.IP
		}
		kept = append(kept, r)
	}
	for i := range kept {
		r := &kept[i]
		if addr, ok := owner[r.MAC]; ok && addr != r.IP && r.State != Quarantined {
			r.MAC = MAC{}
		}
	}
	return kept
}

func (t *Table) restore(r Record) {
	n := number(r.IP)
	if t.byIP[n] != nil {
		return
	}
	if r.State == Bound && r.MAC == (MAC{}) {
		r.State = Free
	}
	if r.State == Free && !t.pool.contains(n) {
		return
	}
	// It stays fresh: it may have been renewed while nothing could be stored, or
	// the clock is wrong.
	e := t.add(n)
	switch {
	case r.State == Quarantined:
		e.seen = r.MAC
	case r.MAC != (MAC{}) && t.byMAC[r.MAC] == nil:
		t.own(e, r.MAC)
	}
	if r.State != Free {
		t.identify(e, r.VM)
	}
	t.put(e, r.State, r.Until)
}

// Binding is one line of the status.
type Binding struct {
	MAC MAC
	IP  netip.Addr
	VM  VM
}

// binding is e as a line of the status.
func (e *entry) binding() Binding {
	b := Binding{IP: address(e.ip), VM: e.vm}
	if e.owned {
		b.MAC = e.mac
	}
	return b
}

// Bindings lists who has which address, by address. An address that cools
// down still counts as its machine's, so that a successor of this process
// does not give it to another cluster.
func (t *Table) Bindings() []Binding {
	out := make([]Binding, 0, t.lists[Bound].len+t.lists[Held].len)
	add := func(l *list) {
		for e := l.head; e != nil; e = e.next {
			if e.owned {
				out = append(out, e.binding())
			}
		}
	}
	add(&t.lists[Bound])
	add(&t.lists[Held])
	for _, l := range t.cooling {
		add(l)
	}
	slices.SortFunc(out, func(a, b Binding) int { return a.IP.Compare(b.IP) })
	return out
}

// Stats are the figures of the status.
type Stats struct {
	Total, Active, Free, Declined, Conflicts int
	// Offered, Cooling, Resting and SetAside are for the metrics.
	Offered, Cooling, Resting, SetAside int
}

// Stats counts.
func (t *Table) Stats() Stats {
	s := Stats{
		Total:     t.pool.size,
		Active:    t.lists[Bound].len + t.lists[Held].len,
		Free:      t.freeInPool(),
		Declined:  t.lists[Quarantined].len,
		Conflicts: t.conflicts,
		Offered:   t.lists[Offered].len,
		Resting:   t.lists[Resting].len,
		SetAside:  t.lists[Aside].len + t.lists[Granted].len,
	}
	for _, l := range t.cooling {
		s.Cooling += l.len
	}
	return s
}

// freeInPool is the number of addresses that new clients could get.
func (t *Table) freeInPool() int {
	used := 0
	for _, s := range []State{Offered, Bound, Held, Cooling, Quarantined, Resting} {
		used += t.inPool[s]
	}
	return t.pool.size - used
}
