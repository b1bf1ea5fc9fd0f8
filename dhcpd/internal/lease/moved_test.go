package lease

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// behaviour C3: a machine that had to move (the network did) keeps the address it
// has now when its interface gets another hardware address, also after a restart.
func TestAMovedMachineKeepsItsNewAddress(t *testing.T) {
	moved := fixture()
	moved.Prefix = netip.MustParsePrefix("198.51.100.0/24")
	moved.Dynamic, moved.Excluded = span4("198.51.100.100", "198.51.100.199"), nil
	moved.Reserved = []netip.Addr{ip("198.51.100.1"), ip("198.51.100.2")}
	for _, c := range []struct {
		name    string
		restart bool
	}{{"in one life", false}, {"after a restart", true}} {
		t.Run(c.name, func(t *testing.T) {
			client, vm := machine(1, "a")
			table, now := New(fixture(), start), start
			table.Sync(directory(client), now)
			dora(t, table, client, now)
			now = now.Add(time.Minute)
			table.Configure(moved, now)
			has := dora(t, table, client, now)
			if c.restart {
				records := table.Records()
				table = New(moved, now)
				table.Restore(records, now)
			}
			changed := Client{MAC: mac(9), VMs: []VM{vm}, Near: true}
			table.Sync(directory(changed), now)
			require.Equal(t, Ack, table.Request(changed, has, now.Add(time.Minute)).Verdict)
			check(t, table)
		})
	}
}

// behaviour C5, hazard 43: a lease that the records end may have been renewed while
// nothing could be stored, or the clock was wrong: others get its address only when
// nobody answers for it.
func TestWhatHasEndedByTheRecordsIsProbed(t *testing.T) {
	table := New(small(1), start)
	has := dora(t, table, unknown(1), start)
	records := table.Records()
	later := start.Add(2 * time.Hour)
	table = New(small(1), later)
	table.Restore(records, later)
	o := table.Offer(unknown(2), netip.Addr{}, later)
	require.Equal(t, has, o.IP)
	require.True(t, o.Probe, "its client may have it still")
	require.True(t, table.Conflict(has, mac(1), later))
	r := table.Request(unknown(1), has, later)
	require.Equal(t, Ack, r.Verdict, "the client that answered keeps it: %s", r.Reason)
	check(t, table)
}

// behaviour C5: clients that name addresses which nobody has, and take none, do not
// have the whole pool set aside: it would rest after a loss of the disk.
func TestWantedAddressesAreFewBlocks(t *testing.T) {
	s := fixture()
	s.Prefix, s.Dynamic = netip.MustParsePrefix("10.0.0.0/16"), span4("10.0.1.0", "10.0.254.255")
	s.Reserved, s.Excluded = []netip.Addr{ip("10.0.0.1")}, nil
	table := New(s, start)
	table.SetMode(Mode{Allocate: true, Blocks: true})
	confirm := func() {
		table.SetAside(start)
		table.Confirm(table.Blocks())
	}
	confirm()
	for k := range uint32(4000) {
		m := MAC{2}
		binary.BigEndian.PutUint32(m[2:], k)
		table.Request(Client{MAC: m, Near: true}, address(number(s.Dynamic.Last)-k), start)
		if k%100 == 0 {
			confirm()
		}
	}
	confirm()
	require.LessOrEqual(t, table.Stats().SetAside, maxOffered*MaxBlock)
	require.False(t, table.Low(), "nothing is left to write")
	check(t, table)
}
