package lease

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// start is when every test begins.
var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func span4(first, last string) Range { return Range{First: ip(first), Last: ip(last)} }

// fixture is the network of the cases: pool .100 to .199, lease one hour.
func fixture() Settings {
	return Settings{
		Prefix:    netip.MustParsePrefix("192.0.2.0/24"),
		Dynamic:   span4("192.0.2.100", "192.0.2.199"),
		Reserved:  []netip.Addr{ip("192.0.2.1"), ip("192.0.2.2")},
		Excluded:  []Range{span4("192.0.2.3", "192.0.2.4"), span4("192.0.2.200", "192.0.2.209")},
		LeaseTime: time.Hour,
	}
}

// small is a network with so few addresses that everything runs out.
func small(n int) Settings {
	s := fixture()
	s.Dynamic.Last = address(number(s.Dynamic.First) + uint32(n) - 1)
	return s
}

func mac(n byte) MAC { return MAC{2, 0, 0x5e, 0x10, 0, n} }

func unknown(n byte) Client { return Client{MAC: mac(n), Near: true} }

func machine(n byte, namespace string) (Client, VM) {
	vm := VM{Namespace: namespace, Name: namespace + "-" + string(rune('a'+n)), Interface: "net"}
	return Client{MAC: mac(n), VMs: []VM{vm}, Near: true}, vm
}

// everyone is a directory of the given machines, whose namespaces are read.
type everyone struct {
	vms   map[MAC][]VM
	state map[VM]Existence
}

func directory(clients ...Client) everyone {
	d := everyone{vms: map[MAC][]VM{}, state: map[VM]Existence{}}
	for _, c := range clients {
		d.vms[c.MAC] = c.VMs
		for _, vm := range c.VMs {
			d.state[vm] = Exists
		}
	}
	return d
}

func (d everyone) VMs(m MAC) []VM { return d.vms[m] }
func (d everyone) Len() int       { return len(d.state) }
func (d everyone) Exists(vm VM) Existence {
	for k, x := range d.state {
		if k.same(vm) {
			return x
		}
	}
	return Gone
}

// away is a directory that cannot be read.
type away struct{}

func (away) VMs(MAC) []VM        { return nil }
func (away) Len() int            { return 0 }
func (away) Exists(VM) Existence { return Unknown }

// dora is a whole exchange, which must succeed.
func dora(t *testing.T, table *Table, c Client, now time.Time) netip.Addr {
	t.Helper()
	o := table.Offer(c, netip.Addr{}, now)
	require.Equal(t, Ack, o.Verdict, "no offer: %s", o.Reason)
	a := table.Request(c, o.IP, now)
	require.Equal(t, Answer{Verdict: Ack, Reason: OK, IP: o.IP, VM: a.VM, New: a.New}, a, "the offer was not confirmed")
	check(t, table)
	return a.IP
}

// check is the table's invariant, from first principles. It runs after every
// step of long random walks, so it compares by hand.
func check(tb testing.TB, t *Table) {
	tb.Helper()
	var in [states]int
	owned := 0
	for n, e := range t.byIP {
		must(tb, e.ip == n && e.list != nil, "%s is in no list", address(n))
		if t.pool.contains(n) {
			in[e.state]++
		}
		if e.owned {
			must(tb, t.byMAC[e.mac] == e, "%s belongs to %s, which has another address", address(n), e.mac)
			owned++
		}
		used := e.state == Bound || e.state == Held || e.state == Offered
		must(tb, e.owned || !used, "%s is in use, but nobody's", address(n))
	}
	must(tb, len(t.byMAC) == owned, "a hardware address has an entry that is not its own")
	must(tb, in == t.inPool, "the counts by state are wrong: %v, not %v", t.inPool, in)
	linked := 0
	for s := range t.lists {
		linked += checkList(tb, &t.lists[s], State(s))
	}
	for _, l := range t.cooling {
		linked += checkList(tb, l, Cooling)
	}
	must(tb, len(t.byIP) == linked, "an entry is in no list, or in two")
	for vm, e := range t.byVM {
		must(tb, e.vm == vm, "the entry of %s is of %s", vm, e.vm)
	}
}

func checkList(tb testing.TB, l *list, s State) int {
	tb.Helper()
	sorted := s == Bound || s == Offered || s == Quarantined || s == Resting || s == Cooling
	var last time.Time
	k := 0
	for e := l.head; e != nil; e = e.next {
		must(tb, e.state == s && e.list == l, "%s is in the list of another state", address(e.ip))
		must(tb, !sorted || !e.deadline.Before(last), "the list of state %d is out of order", s)
		last = e.deadline
		k++
	}
	must(tb, k == l.len, "a list of %d says that it is of %d", k, l.len)
	return k
}

func must(tb testing.TB, ok bool, format string, args ...any) {
	tb.Helper()
	if !ok {
		tb.Fatalf(format, args...)
	}
}
