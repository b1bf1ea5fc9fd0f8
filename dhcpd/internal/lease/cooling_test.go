package lease

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// inBothModes runs a test where addresses are given at once, and where they have
// to be written down as set aside first, as in a cluster.
func inBothModes(t *testing.T, f func(t *testing.T, w written)) {
	t.Run("at once", func(t *testing.T) { f(t, false) })
	t.Run("written down first", func(t *testing.T) { f(t, true) })
}

// written is whether addresses have to be written down first.
type written bool

func (w written) table(s Settings) *Table {
	t := New(s, start)
	t.SetMode(Mode{Allocate: true, Blocks: bool(w)})
	return t
}

// offer is what a client gets that asks twice, if it has to: what it lacked at first
// is written down meanwhile.
func (w written) offer(table *Table, c Client, now time.Time) Answer {
	a := table.Offer(c, netip.Addr{}, now)
	if w && a.Reason == NotSetAside {
		table.Confirm(table.SetAside(now))
		a = table.Offer(c, netip.Addr{}, now)
	}
	return a
}

func (w written) dora(t *testing.T, table *Table, c Client, now time.Time) netip.Addr {
	t.Helper()
	w.offer(table, c, now)
	return dora(t, table, c, now)
}

// none is why there is no address.
func (w written) none() Reason {
	if w {
		return NotSetAside
	}
	return NoFree
}

// hazards 7, 35, behaviour C6: an address leaves a cluster only after quarantine; the
// cluster that it rests for gets it before, where there is no other.
func TestAnAddressLeavesAClusterOnlyAfterQuarantine(t *testing.T) {
	inBothModes(t, func(t *testing.T, w written) {
		table := w.table(small(1))
		a, vm := machine(1, "cluster-a")
		b, _ := machine(2, "cluster-b")
		sibling, _ := machine(3, "cluster-a")
		d := directory(a, b, sibling)
		table.Sync(d, start)
		addr := w.dora(t, table, a, start)
		d.state[vm] = Gone
		table.Sync(d, start)

		end := start.Add(time.Hour)
		require.Equal(t, w.none(), w.offer(table, b, end.Add(time.Second)).Reason)
		require.Equal(t, w.none(), w.offer(table, unknown(9), end.Add(time.Second)).Reason)
		require.Len(t, table.Bindings(), 1, "a successor of this process must know it too")
		require.Equal(t, addr, w.offer(table, sibling, end.Add(time.Second)).IP, "its own cluster may have it at once")
		check(t, table)

		table = w.table(small(1))
		table.Sync(d, start)
		d.state[vm] = Exists
		w.dora(t, table, a, start)
		d.state[vm] = Gone
		table.Sync(d, start)
		table.Tick(end.Add(time.Second))
		table.Tick(end.Add(time.Hour + time.Second))
		require.Equal(t, addr, w.dora(t, table, b, end.Add(time.Hour+time.Second)), "one lease time later anybody may")
	})
}

// cooled is a table whose only address cools down after a machine of cluster-a.
func (w written) cooled(t *testing.T, clients ...Client) (table *Table, addr netip.Addr, end time.Time) {
	t.Helper()
	a, vm := machine(1, "cluster-a")
	table = w.table(small(1))
	d := directory(append(clients, a)...)
	table.Sync(d, start)
	addr = w.dora(t, table, a, start)
	d.state[vm] = Gone
	table.Sync(d, start)
	end = start.Add(time.Hour)
	table.Tick(end)
	return table, addr, end
}

// hazard 7: an offer that nobody takes does not end the quarantine, whoever it
// was made to, and whoever asks for the address by name then.
func TestAnOfferThatLapsesLeavesAnAddressCoolingDown(t *testing.T) {
	a, vm := machine(1, "cluster-a")
	sibling, _ := machine(3, "cluster-a")
	b, _ := machine(2, "cluster-b")
	for _, again := range []Client{a, sibling} {
		inBothModes(t, func(t *testing.T, w written) {
			table, addr, end := w.cooled(t, b, again)
			require.Equal(t, addr, w.offer(table, again, end).IP)
			stored := table.Records()
			later := end.Add(2 * OfferTime)
			table.Tick(later)
			check(t, table)
			if w && again.MAC == sibling.MAC {
				require.Equal(t, []Range{{addr, addr}}, table.Blocks(), "as nobody's")
			} else {
				require.Equal(t, []Binding{{MAC: a.MAC, IP: addr, VM: vm}}, table.Bindings())
			}
			require.Equal(t, Nak, table.Request(b, addr, later).Verdict)
			require.Equal(t, w.none(), w.offer(table, unknown(9), later).Reason)
			restarted := w.table(small(1))
			restarted.Restore(stored, later)
			require.Equal(t, w.none(), w.offer(restarted, b, later).Reason, "over a restart in the middle of it too")
			done := end.Add(time.Hour)
			table.Tick(done)
			require.Equal(t, addr, w.offer(table, b, done).IP)
			require.Equal(t, Ack, table.Request(b, addr, done).Verdict)
			check(t, table)
		})
	}
}

// hazard 7, behaviour C5: a binding that could not be stored does not end the
// quarantine either, whether its client asked by name or took an offer.
func TestABindingThatIsRevokedLeavesAnAddressCoolingDown(t *testing.T) {
	for _, offered := range []bool{false, true} {
		inBothModes(t, func(t *testing.T, w written) {
			a, vm := machine(1, "cluster-a")
			b, _ := machine(2, "cluster-b")
			table, addr, end := w.cooled(t, b)
			if offered {
				require.Equal(t, addr, table.Offer(a, netip.Addr{}, end).IP)
			}
			require.Equal(t, Ack, table.Request(a, addr, end).Verdict)
			table.Revoke(addr, end)
			check(t, table)
			later := end.Add(2 * OfferTime)
			table.Tick(later)
			check(t, table)
			require.Equal(t, []Binding{{MAC: a.MAC, IP: addr, VM: vm}}, table.Bindings())
			require.Equal(t, w.none(), w.offer(table, b, later).Reason)
			require.Equal(t, w.none(), w.offer(table, unknown(9), later).Reason)
		})
	}
}

// A client that is no machine does not become the one that had its address.
func TestAnAddressDoesNotCarryItsMachineToTheNextClient(t *testing.T) {
	table := New(small(1), start)
	c, vm := machine(1, "cluster-a")
	table.Restore([]Record{{IP: ip("192.0.2.100"), State: Free, MAC: c.MAC, VM: vm}}, start)
	a := table.Request(unknown(2), ip("192.0.2.100"), start)
	require.Equal(t, Ack, a.Verdict)
	require.False(t, a.VM.Known())
	require.Equal(t, NoFree, table.Offer(c, netip.Addr{}, start).Reason)
	check(t, table)
}
