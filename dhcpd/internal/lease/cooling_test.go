package lease

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hazard 7, behaviour C6: an address leaves a cluster only after quarantine.
func TestAnAddressLeavesAClusterOnlyAfterQuarantine(t *testing.T) {
	table := New(small(1), start)
	a, vm := machine(1, "cluster-a")
	b, _ := machine(2, "cluster-b")
	sibling, _ := machine(3, "cluster-a")
	d := directory(a, b, sibling)
	table.Sync(d, start)
	addr := dora(t, table, a, start)
	d.state[vm] = Gone
	table.Sync(d, start)

	end := start.Add(time.Hour)
	require.Equal(t, NoFree, table.Offer(b, netip.Addr{}, end.Add(time.Second)).Reason)
	require.Equal(t, NoFree, table.Offer(unknown(9), netip.Addr{}, end.Add(time.Second)).Reason)
	require.Len(t, table.Bindings(), 1, "a successor of this process must know it too")
	require.Equal(t, addr, table.Offer(sibling, netip.Addr{}, end.Add(time.Second)).IP, "its own cluster may have it at once")

	table = New(small(1), start)
	table.Sync(d, start)
	d.state[vm] = Exists
	dora(t, table, a, start)
	d.state[vm] = Gone
	table.Sync(d, start)
	table.Tick(end.Add(time.Second))
	table.Tick(end.Add(time.Hour + time.Second))
	require.Equal(t, addr, dora(t, table, b, end.Add(time.Hour+time.Second)), "one lease time later anybody may")
}

// hazard 7: an offer that nobody takes does not end the quarantine, whoever it
// was made to, and whoever asks for the address by name then.
func TestAnOfferThatLapsesLeavesAnAddressCoolingDown(t *testing.T) {
	for _, sibling := range []bool{false, true} {
		a, vm := machine(1, "cluster-a")
		b, _ := machine(2, "cluster-b")
		again := a
		if sibling {
			again, _ = machine(3, "cluster-a")
		}
		table := New(small(1), start)
		d := directory(a, b, again)
		table.Sync(d, start)
		addr := dora(t, table, a, start)
		d.state[vm] = Gone
		table.Sync(d, start)
		end := start.Add(time.Hour)
		table.Tick(end)
		require.Equal(t, addr, table.Offer(again, netip.Addr{}, end).IP)
		stored := table.Records()
		later := end.Add(2 * OfferTime)
		table.Tick(later)
		check(t, table)
		require.Equal(t, []Binding{{MAC: a.MAC, IP: addr, VM: vm}}, table.Bindings())
		require.Equal(t, Nak, table.Request(b, addr, later).Verdict)
		require.Equal(t, NoFree, table.Offer(unknown(9), netip.Addr{}, later).Reason)
		restarted := New(small(1), later)
		restarted.Restore(stored, later)
		require.Equal(t, NoFree, restarted.Offer(b, netip.Addr{}, later).Reason, "over a restart in the middle of it too")
		done := end.Add(time.Hour)
		table.Tick(done)
		require.Equal(t, Ack, table.Request(b, addr, done).Verdict)
		check(t, table)
	}
}

// hazard 7, behaviour C5: a binding that could not be stored does not end the
// quarantine either, whether its client asked by name or took an offer.
func TestABindingThatIsRevokedLeavesAnAddressCoolingDown(t *testing.T) {
	for _, offered := range []bool{false, true} {
		a, vm := machine(1, "cluster-a")
		b, _ := machine(2, "cluster-b")
		table := New(small(1), start)
		d := directory(a, b)
		table.Sync(d, start)
		addr := dora(t, table, a, start)
		d.state[vm] = Gone
		table.Sync(d, start)
		end := start.Add(time.Hour)
		table.Tick(end)
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
		require.Equal(t, NoFree, table.Offer(b, netip.Addr{}, later).Reason)
		require.Equal(t, NoFree, table.Offer(unknown(9), netip.Addr{}, later).Reason)
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
