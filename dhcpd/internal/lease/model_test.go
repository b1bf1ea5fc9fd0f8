package lease

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

// world is clients as the outside sees them: each believes what it was told.
// The one rule is that no two clients believe to have one address.
type world struct {
	tb      testing.TB
	s       Settings
	table   *Table
	now     time.Time
	stored  []Record // what a restart finds
	named   []Range  // what the status names as set aside
	bound   []Binding
	cluster bool
	belief  map[MAC]lease
	d       everyone
	clients []Client
	rand    *rand.Rand
}

// lease is what a client believes.
type lease struct {
	ip    netip.Addr
	until time.Time
	// lost: it is longer than today's, and so are the records that say so. Its
	// client may be refused; others get its address only after a probe.
	lost bool
}

func newWorld(tb testing.TB, seed uint64, cluster bool) *world {
	w := &world{tb: tb, s: small(12 - 7*int(seed/2%2)), now: start, cluster: cluster, belief: map[MAC]lease{}, rand: rand.New(rand.NewPCG(seed, 1))}
	w.s.LeaseTime = 20 * time.Minute
	w.s.Headroom = seed%3 == 0
	for i := range byte(12) {
		c := unknown(i)
		if i%3 == 0 {
			c, _ = machine(i, []string{"cluster-a", "cluster-b"}[i%2])
		}
		c.Near = cluster || i%4 > 0 // without records those behind a relay are lost
		w.clients = append(w.clients, c)
	}
	w.d = directory(w.clients...)
	w.table = New(w.s, w.now)
	w.table.SetMode(Mode{Allocate: true, Blocks: cluster})
	w.table.Sync(w.d, w.now)
	return w
}

// told is called when an ACK reaches its client. Where so many addresses are in
// dispute that a probe is not believed, a machine has got one without.
func (w *world) told(c Client, a Answer, unprobed bool) {
	for m, l := range w.belief {
		if m == c.MAC || l.ip != a.IP || !l.until.After(w.now) {
			continue
		}
		if !unprobed {
			w.tb.Fatalf("%s is given to %s while %s has it until %s (now %s)", a.IP, c.MAC, m, l.until, w.now)
		}
	}
	w.belief[c.MAC] = lease{ip: a.IP, until: w.now.Add(w.s.LeaseTime)}
}

// store writes what the table wants stored.
func (w *world) store() { w.stored = append(w.stored, w.table.Take(nil)...) }

// mirror writes the status.
func (w *world) mirror() {
	if !w.cluster {
		return
	}
	b := w.table.SetAside(w.now)
	w.named, w.bound = b, w.table.Bindings()
	w.table.Confirm(b)
}

// probe asks, as a server does by ARP, whether another station has addr.
func (w *world) probe(c Client, addr netip.Addr) bool {
	for m, l := range w.belief {
		if m != c.MAC && l.ip == addr && l.until.After(w.now) {
			w.table.Conflict(addr, m, w.now)
			w.store()
			return false
		}
	}
	w.table.Probed(addr)
	return true
}

func (w *world) request(c Client, addr netip.Addr) {
	e := w.table.byIP[number(addr)]
	unprobed := e != nil && e.fresh && len(c.VMs) > 0 && w.table.Disputed()
	a := w.table.Request(c, addr, w.now)
	if a.Probe {
		if !w.probe(c, addr) {
			return
		}
		a = w.table.Request(c, addr, w.now)
	}
	switch a.Verdict {
	case Ack:
		must(w.tb, a.IP == addr, "%s asked for %s and got %s", c.MAC, addr, a.IP)
		w.store()
		if w.rand.IntN(8) > 0 { // else the ACK is lost on the way
			w.told(c, a, unprobed)
		}
	case Nak:
		if l, ok := w.belief[c.MAC]; ok && l.ip == addr && l.until.After(w.now) && !l.lost {
			w.tb.Fatalf("%s has %s until %s and is refused: %s", c.MAC, addr, l.until, a.Reason)
		}
	}
}

// step is one thing that happens, chosen by n.
func (w *world) step(n byte) {
	c := w.clients[w.rand.IntN(len(w.clients))]
	l := w.belief[c.MAC]
	valid := l.until.After(w.now)
	if n >= 250 {
		w.reconfigure()
		return
	}
	switch n % 16 {
	case 0, 1, 2:
		o := w.table.Offer(c, netip.Addr{}, w.now)
		if o.Probe && !w.probe(c, o.IP) {
			return
		}
		if o.Verdict == Ack && w.rand.IntN(4) > 0 {
			delete(w.belief, c.MAC) // a client that starts anew forgets what it had
			w.request(c, o.IP)
		}
	case 3, 4, 5:
		if valid {
			w.request(c, l.ip)
		}
	case 6: // a reboot with an address remembered from wherever
		delete(w.belief, c.MAC)
		w.request(c, address(number(w.s.Dynamic.First)+uint32(w.rand.IntN(14))))
	case 7:
		if valid && w.table.Release(c.MAC, l.ip, w.now) == OK {
			delete(w.belief, c.MAC)
			w.store()
		}
	case 8:
		if valid && w.table.Decline(c.MAC, l.ip, w.now) == OK {
			delete(w.belief, c.MAC)
			w.store()
		}
	case 9:
		w.table.Withdraw(c.MAC)
	case 10, 11:
		w.now = w.now.Add(time.Duration(w.rand.IntN(300)) * time.Second)
		w.table.Tick(w.now)
		w.store()
	case 12:
		w.mirror()
	case 13:
		w.restart()
	case 14:
		w.vanish(c)
	case 15:
		w.replace()
	}
	check(w.tb, w.table)
}

// vanish ends or brings back a machine. Its client goes with it.
func (w *world) vanish(c Client) {
	if len(c.VMs) == 0 {
		return
	}
	vm := c.VMs[0]
	if w.d.state[vm] == Exists {
		w.d.state[vm] = Gone
	} else {
		w.d.state[vm] = Exists
	}
	w.table.Sync(w.d, w.now)
	w.store()
}

// reconfigure changes the lease time. What clients were told stays as it is.
func (w *world) reconfigure() {
	w.s.LeaseTime = []time.Duration{5 * time.Minute, 20 * time.Minute, 2 * time.Hour}[w.rand.IntN(3)]
	w.table.Configure(w.s, w.now)
	w.store()
	check(w.tb, w.table)
}

// restart kills the process: what was not stored is gone.
func (w *world) restart() {
	w.table.Take(nil)
	w.table = New(w.s, w.now)
	w.table.Restore(w.stored, w.now)
	w.table.SetMode(Mode{Allocate: true, Blocks: w.cluster})
	if w.cluster {
		w.table.Reclaim(w.named)
	}
	w.table.Sync(w.d, w.now)
	w.stored = w.table.Records()
}

// replace loses the pod and its disk: only the status is left.
func (w *world) replace() {
	if !w.cluster {
		return
	}
	w.table = New(w.s, w.now)
	w.table.SetMode(Mode{Allocate: true, Blocks: true})
	for m, l := range w.belief {
		l.lost = l.lost || l.until.After(w.now.Add(w.s.LeaseTime))
		w.belief[m] = l
	}
	w.table.Merge(w.bound, w.now)
	w.table.Rest(w.named, w.now)
	w.table.Sync(w.d, w.now)
	w.stored = w.table.Records()
	w.mirror()
}

// behaviour C5: whatever happens, in whatever order, no address is given twice
// and no lease is forgotten, over restarts and over lost pods.
func FuzzNoAddressIsGivenTwice(f *testing.F) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		b := make([]byte, 600)
		for i := range b {
			b[i] = byte(r.UintN(256))
		}
		f.Add(seed, seed%2 == 0, b)
	}
	f.Fuzz(func(t *testing.T, seed uint64, cluster bool, ops []byte) {
		w := newWorld(t, seed, cluster)
		for _, n := range ops[:min(len(ops), 2000)] {
			w.step(n)
		}
	})
}

// behaviour C8, hazard 89: a message costs the same whatever the number of
// leases, and a renewal allocates nothing beyond its record.
func BenchmarkRenewal(b *testing.B) {
	s := fixture()
	s.Prefix = netip.MustParsePrefix("10.0.0.0/8")
	s.Dynamic = span4("10.0.0.1", "10.1.0.0")
	table := New(s, start)
	n := 10000
	addrs := make([]netip.Addr, n)
	client := func(i int) Client { return Client{MAC: MAC{4, 0, 0, 0, byte(i >> 8), byte(i)}} }
	for i := range n {
		o := table.Offer(client(i), netip.Addr{}, start)
		addrs[i] = table.Request(client(i), o.IP, start).IP
	}
	buf := table.Take(nil)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		table.Request(client(i%n), addrs[i%n], start.Add(time.Duration(i)*time.Microsecond))
		buf = table.Take(buf[:0])
	}
}
