package lease

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// behaviour C5: what cools down is given only once it is written down as possibly
// given, and as nobody's, so that a pod that lost everything lets it rest, and its
// new machine keeps it.
func TestWhatCoolsDownIsLentOnlyWhenThatIsWrittenDown(t *testing.T) {
	sibling, _ := machine(3, "cluster-a")
	table, addr, now := written(true).cooled(t, sibling)
	require.Equal(t, NotSetAside, table.Offer(sibling, netip.Addr{}, now).Reason)
	require.True(t, table.Low())
	named := table.SetAside(now)
	require.Equal(t, []Range{{addr, addr}}, named)
	require.Empty(t, table.Bindings(), "no successor is to hold it for a machine that is gone")
	require.True(t, table.Unconfirmed())
	require.Equal(t, NotSetAside, table.Offer(sibling, netip.Addr{}, now).Reason, "written is not yet confirmed")
	table.Confirm(named)
	require.False(t, table.Unconfirmed())
	require.Equal(t, addr, dora(t, table, sibling, now))

	successor := written(true).table(small(1))
	successor.Rest(named, now)
	successor.Sync(directory(sibling), now)
	a := successor.Request(sibling, addr, now)
	require.True(t, a.Probe, "as with all that rests")
	successor.Probed(addr)
	require.Equal(t, Ack, successor.Request(sibling, addr, now).Verdict)
	check(t, successor)

	d := directory(sibling)
	d.state[sibling.VMs[0]] = Gone
	table.Sync(d, now)
	table.Tick(now.Add(time.Hour))
	other, _ := machine(4, "cluster-a")
	require.Equal(t, NotSetAside, table.Offer(other, netip.Addr{}, now.Add(time.Hour)).Reason, "what was written of it then is over")
}

// replaced is a full table of seven machines of two clusters that were deleted, and
// those that replace them.
func replaced(t *testing.T, s Settings) (table *Table, fresh []Client, now time.Time) {
	t.Helper()
	table = clustered(s)
	var old []Client
	for i := range byte(7) {
		namespace := []string{"cluster-a", "cluster-b"}[i/5]
		c, _ := machine(i, namespace)
		old = append(old, c)
		c, _ = machine(100+i, namespace)
		fresh = append(fresh, c)
	}
	d := directory(old...)
	for _, c := range old {
		table.Confirm(table.SetAside(start))
		dora(t, table, c, start)
		d.state[c.VMs[0]] = Gone
	}
	table.Sync(d, start)
	now = start.Add(time.Hour)
	table.Tick(now)
	return table, fresh, now
}

// hazard 35: a NodePool that replaces its machines in a full pool gets as many
// addresses as it lacks, and none of other clusters.
func TestAFullPoolLendsAClusterAsManyAddressesAsItLacks(t *testing.T) {
	table, fresh, now := replaced(t, small(7))
	for range 3 {
		for _, c := range fresh[:3] {
			require.Equal(t, NotSetAside, table.Offer(c, netip.Addr{}, now).Reason)
		}
	}
	blocks := table.SetAside(now)
	require.Len(t, table.Bindings(), 4, "three are lent, however often their machines asked")
	table.Confirm(blocks)
	for i, c := range fresh[:3] {
		require.Equal(t, address(number(ip("192.0.2.100"))+uint32(i)), dora(t, table, c, now))
	}
	require.Equal(t, NotSetAside, table.Offer(fresh[6], netip.Addr{}, now).Reason)
	table.Confirm(table.SetAside(now))
	require.Equal(t, ip("192.0.2.105"), dora(t, table, fresh[6], now))
	table.Relinquish()
	require.Equal(t, NotSetAside, table.Offer(fresh[3], netip.Addr{}, now).Reason)
	check(t, table)
}

// hazards 35, 71: a declined address that is still in use does not stop that.
func TestADeclinedAddressInUseKeepsNoMachineFromWhatIsLent(t *testing.T) {
	table, fresh, now := replaced(t, small(8))
	table.Confirm(table.SetAside(now))
	declined := dora(t, table, unknown(200), now)
	require.Equal(t, OK, table.Decline(mac(200), declined, now))
	tries := 0
	for a := (Answer{Probe: true}); a.Probe || a.Verdict != Ack; tries++ {
		require.Less(t, tries, 6)
		if a.IP.IsValid() {
			require.True(t, table.Conflict(a.IP, mac(200), now))
		} else {
			table.Confirm(table.SetAside(now))
		}
		a = table.Offer(fresh[0], netip.Addr{}, now)
	}
	require.Equal(t, ip("192.0.2.100"), dora(t, table, fresh[0], now))
}
