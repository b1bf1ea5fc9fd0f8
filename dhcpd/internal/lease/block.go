package lease

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// MaxBlock is the most addresses that are set aside at a time.
const MaxBlock = 64

// SetAside tops the block up to min(64, free/8) addresses, at least one, and
// lists everything that must be named as possibly given: the block, what still
// rests, and what is lent where nothing is free. New clients get nothing of it before Confirm.
func (t *Table) SetAside(now time.Time) []Range {
	t.expire(now)
	goal := t.blockGoal()
	for n := range t.wanted {
		delete(t.wanted, n)
		// Who asks by name need not take what is set aside for him.
		if !t.pool.contains(n) || t.lists[Aside].len+t.lists[Granted].len >= maxOffered*goal {
			continue
		}
		e := t.byIP[n]
		if e == nil {
			e = t.add(n)
		}
		if e.list == nil || e.state == Free {
			t.put(e, Aside, time.Time{})
		}
	}
	t.lend()
	// A flood of DISCOVERs must not have the whole pool named.
	room := maxOffered*goal - t.offeredBlock()
	for t.lists[Aside].len+t.lists[Granted].len < min(goal, room) {
		e := t.unused()
		if e == nil {
			e = t.lists[Quarantined].head
			if e == nil || t.lists[Granted].len > 0 || !t.pool.contains(e.ip) {
				break
			}
			e.fresh = true
		}
		t.put(e, Aside, time.Time{})
	}
	return t.Blocks()
}

// lend has addresses that cool down named as possibly given, and as nobody's, one
// for each machine of their namespaces that nothing is free for.
func (t *Table) lend() {
	need := map[string]int{}
	for _, ns := range t.lacking {
		need[ns]++
	}
	clear(t.lacking)
	if t.freeInPool() > 0 {
		return
	}
	for _, ns := range slices.Sorted(maps.Keys(need)) {
		if l := t.cooling[ns]; l != nil {
			t.lendFrom(l, need[ns])
		}
	}
}

func (t *Table) lendFrom(l *list, n int) {
	for e := l.head; e != nil && n > 0; e = e.next {
		if !t.pool.contains(e.ip) {
			continue
		}
		n--
		t.lending = t.lending || !e.lent
		if e.owned {
			delete(t.byMAC, e.mac)
			e.owned = false
			t.generation++
			t.record(e)
		}
	}
}

// blockGoal is the size of a full block.
func (t *Table) blockGoal() int { return min(MaxBlock, max(1, t.freeInPool()/8)) }

// maxOffered bounds what is named because it is on offer, or because somebody asks
// for it, in blocks.
const maxOffered = 5

// offeredBlock counts the offers that were made out of the block.
func (t *Table) offeredBlock() int {
	n := 0
	for e := t.lists[Offered].head; e != nil; e = e.next {
		if e.back == Granted {
			n++
		}
	}
	return n
}

// Low says whether the block should be topped up: half of it is used, or a
// client waits for what is not in it.
func (t *Table) Low() bool {
	return len(t.wanted) > 0 || len(t.lacking) > 0 || 2*(t.lists[Granted].len+t.lists[Aside].len) <= t.blockGoal()
}

// Blocks lists, merged and sorted, what must be named as possibly given. An
// offer out of the block belongs to it until it is taken, and so does an
// address that cools down as nobody's, since no line of the status names it.
func (t *Table) Blocks() []Range {
	var all []uint32
	for _, s := range []State{Aside, Granted, Resting, Offered} {
		for e := t.lists[s].head; e != nil; e = e.next {
			if s != Offered || e.back != Free {
				all = append(all, e.ip)
			}
		}
	}
	for _, l := range t.cooling {
		for e := l.head; e != nil; e = e.next {
			if !e.owned {
				all = append(all, e.ip)
			}
		}
	}
	slices.Sort(all)
	var out []Range
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		out = append(out, Range{First: address(all[i]), Last: address(all[j])})
		i = j + 1
	}
	return out
}

// Confirm says that the ranges are written down as set aside.
func (t *Table) Confirm(ranges []Range) {
	var next *entry
	for e := t.lists[Aside].head; e != nil; e = next {
		next = e.next
		if within(ranges, address(e.ip)) {
			t.put(e, Granted, time.Time{})
		}
	}
	if !t.lending {
		return
	}
	t.lending = false
	for _, l := range t.cooling {
		for e := l.head; e != nil; e = e.next {
			e.lent = !e.owned && within(ranges, address(e.ip))
		}
	}
}

func within(ranges []Range, a netip.Addr) bool {
	for _, r := range ranges {
		if r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0 {
			return true
		}
	}
	return false
}

// Reclaim takes over a block that an earlier life of this very process had
// set aside and kept complete records of: what is not bound was not given.
func (t *Table) Reclaim(ranges []Range) {
	t.each(ranges, func(e *entry) { t.put(e, Granted, time.Time{}) })
}

// Rest takes over the block of a predecessor whose records are lost: each
// address may have been given, so for one lease time nobody is offered it.
func (t *Table) Rest(ranges []Range, now time.Time) {
	t.each(ranges, func(e *entry) {
		t.put(e, Resting, now.Add(t.set.LeaseTime))
		t.record(e)
	})
}

// each calls do for every address of ranges in the pool that is not in use.
func (t *Table) each(ranges []Range, do func(*entry)) {
	for _, s := range t.pool.spans {
		for _, r := range ranges {
			if !r.First.Is4() || !r.Last.Is4() {
				continue
			}
			first, last := max(s.first, number(r.First)), min(s.last, number(r.Last))
			for n := uint64(first); n <= uint64(last); n++ {
				e := t.byIP[uint32(n)]
				if e == nil {
					e = t.add(uint32(n))
				}
				if e.list == nil || e.state == Free {
					do(e)
				}
			}
		}
	}
}

// Relinquish gives the whole block back: a clean stop names none.
func (t *Table) Relinquish() {
	for _, s := range []State{Aside, Granted} {
		for e := t.lists[s].head; e != nil; e = t.lists[s].head {
			t.put(e, Free, time.Time{})
		}
	}
	for e := t.lists[Offered].head; e != nil; e = e.next {
		if e.back == Granted {
			e.back = Free
		}
		e.lent = false
	}
	for _, l := range t.cooling {
		for e := l.head; e != nil; e = e.next {
			e.lent = false
		}
	}
	t.lending = false
}

// Unconfirmed says whether addresses wait for Confirm.
func (t *Table) Unconfirmed() bool { return t.lists[Aside].len > 0 || t.lending }
