package lease

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// behaviour C5: a lease time that was made shorter says nothing of what clients
// were told before. Whoever starts after that, with the records or without, gives
// no address of theirs to others.
func TestAShorterLeaseTimeEndsNoLongerLease(t *testing.T) {
	long, short := small(1), small(1)
	long.LeaseTime = 24 * time.Hour
	for _, c := range []struct {
		name  string
		begin func(table *Table, old *Table, now time.Time)
		// known: the end of the lease is, so that clients need not be probed for.
		known bool
	}{
		{"a restart", func(table, old *Table, now time.Time) { table.Restore(old.Records(), now) }, true},
		{"a lost disk", func(table, old *Table, now time.Time) { table.Merge(old.Bindings(), now) }, false},
		{"a restart, and what another pod has written", func(table, old *Table, now time.Time) {
			table.Restore(old.Records(), now)
			table.Merge(old.Bindings(), now)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := New(long, start)
			has := dora(t, old, unknown(1), start)
			old.Configure(short, start.Add(time.Hour))
			began := start.Add(2 * time.Hour)
			table := New(short, began)
			c.begin(table, old, began)
			later := start.Add(12 * time.Hour)
			table.Tick(later)
			check(t, table)
			if c.known {
				require.Equal(t, NoFree, table.Offer(Client{MAC: mac(2)}, netip.Addr{}, later).Reason)
			} else {
				require.True(t, table.Offer(unknown(2), netip.Addr{}, later).Probe, "its client may have it still")
				require.True(t, table.Conflict(has, mac(1), later))
			}
			require.Equal(t, Ack, table.Request(unknown(1), has, later).Verdict)
			require.False(t, table.Request(unknown(1), has, later.Add(time.Second)).Probe)
			check(t, table)
		})
	}
}

// A renewal is never kept waiting, whatever came before.
func TestARenewalAfterARestartIsNotProbed(t *testing.T) {
	c, _ := machine(1, "cluster-a")
	for _, who := range []Client{unknown(1), c} {
		old := New(small(1), start)
		has := dora(t, old, who, start)
		restarted, rebuilt := New(small(1), start), New(small(1), start)
		restarted.Restore(old.Records(), start)
		rebuilt.Merge(old.Bindings(), start)
		for _, table := range []*Table{restarted, rebuilt} {
			table.Sync(directory(c), start)
			require.False(t, table.Offer(who, netip.Addr{}, start).Probe)
			require.Equal(t, Answer{Verdict: Ack, Reason: OK, IP: has, VM: table.byMAC[who.MAC].vm}, table.Request(who, has, start))
		}
	}
}

// behaviour C5: a renewal whose ACK is lost leaves its client with the lease that
// it was told of before, even if leases are shorter now.
func TestALostACKEndsNoLongerLease(t *testing.T) {
	long, short := small(1), small(1)
	long.LeaseTime = 24 * time.Hour
	table := New(long, start)
	has := dora(t, table, unknown(1), start)
	table.Configure(short, start)
	require.Equal(t, Ack, table.Request(unknown(1), has, start.Add(time.Hour)).Verdict)
	require.Equal(t, NoFree, table.Offer(Client{MAC: mac(2)}, netip.Addr{}, start.Add(12*time.Hour)).Reason)
	require.Equal(t, Ack, table.Request(unknown(1), has, start.Add(12*time.Hour)).Verdict)
	require.Equal(t, has, dora(t, table, Client{MAC: mac(2)}, start.Add(24*time.Hour)))
}

// hazard 71: that nobody but its own client answered for an address says nothing of
// that client, which may have it still when it does not take what it is offered.
func TestAProbeForAClientSaysNothingOfThatClient(t *testing.T) {
	old := New(small(1), start)
	has := dora(t, old, unknown(1), start)
	now := start.Add(2 * time.Hour)
	table := New(small(1), now)
	table.Restore(old.Records(), now)
	require.True(t, table.Offer(unknown(1), netip.Addr{}, now).Probe)
	table.Probed(has)
	require.False(t, table.Offer(unknown(1), netip.Addr{}, now).Probe, "once is enough")
	now = now.Add(2 * OfferTime)
	require.True(t, table.Offer(unknown(2), netip.Addr{}, now).Probe)
	check(t, table)
}

// hazard 78: under a clock that was wrong what is no running lease is held no longer
// than it would be today.
func TestWhatIsNoLeaseEndsInTime(t *testing.T) {
	table := New(fixture(), start)
	far := start.Add(20 * 24 * time.Hour)
	table.Restore([]Record{
		{IP: ip("192.0.2.100"), State: Bound, MAC: mac(1), Until: far},
		{IP: ip("192.0.2.101"), State: Quarantined, MAC: mac(2), Until: far},
		{IP: ip("192.0.2.102"), State: Cooling, Until: far},
		{IP: ip("192.0.2.103"), State: Resting, Until: far},
	}, start)
	check(t, table)
	table.Tick(start.Add(fixture().LeaseTime))
	require.Equal(t, Stats{Total: table.Stats().Total, Active: 1, Free: table.Stats().Total - 1}, table.Stats())
}

// hazard 41: a machine that was taken for gone, while nobody looked, and of which
// nothing is known again, keeps its address.
func TestNothingKnownIsNotGone(t *testing.T) {
	table := New(fixture(), start)
	client, vm := machine(1, "a")
	addr := dora(t, table, client, start)
	table.Sync(everyone{state: map[VM]Existence{vm: Gone}}, start)
	table.Sync(away{}, start.Add(time.Minute))
	later := start.Add(10 * fixture().LeaseTime)
	for now := start; now.Before(later); now = now.Add(10 * time.Minute) {
		table.Tick(now)
	}
	require.Equal(t, Nak, table.Request(unknown(9), addr, later).Verdict)
	require.Equal(t, addr, dora(t, table, client, later))
}
