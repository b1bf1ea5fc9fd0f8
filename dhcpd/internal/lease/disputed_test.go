package lease

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hazard 71: where everything answers, a machine gets an address all the same,
// and what the answers cost is bounded; clients that nothing is known of are
// given nothing that answers.
func TestWhereEveryAddressAnswersAMachineGetsOneInTheEnd(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   Settings
		block bool
		tries int // addresses that are put to rest first
	}{
		{"a pool of 100", fixture(), false, 25},
		{"a pool of 100, in blocks", fixture(), true, 25},
		{"a pool of 4", small(4), false, 1},
		{"a pool of 60,000", func() Settings {
			s := fixture()
			s.Prefix, s.Dynamic = netip.MustParsePrefix("10.0.0.0/16"), span4("10.0.1.0", "10.0.235.95")
			return s
		}(), false, maxDisputed},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := New(c.set, start)
			table.SetMode(Mode{Allocate: true, Blocks: c.block})
			vm, _ := machine(1, "cluster-a")
			table.Sync(directory(vm), start)
			ask := func(who Client) Answer {
				if c.block {
					table.Confirm(table.SetAside(start))
				}
				return table.Offer(who, netip.Addr{}, start)
			}
			a, tries := ask(vm), 0
			for ; a.Probe; a = ask(vm) {
				require.True(t, table.Conflict(a.IP, MAC{2, 1, 1, 1, 1, byte(tries)}, start))
				tries++
				require.LessOrEqual(t, tries, c.tries)
			}
			require.Equal(t, c.tries, tries)
			require.Equal(t, a.IP, table.Request(vm, a.IP, start).IP)
			require.Len(t, table.Take(nil), c.tries+1)

			other := ask(unknown(7))
			require.True(t, other.Probe, "a stranger is not given what may be another's")
			require.True(t, table.Conflict(other.IP, mac(9), start))
			require.Empty(t, table.Take(nil), "nothing more is stored")
			require.Equal(t, c.tries, table.Stats().Declined)
			if len(table.pool.spans) > 0 && table.pool.size > 4 {
				require.NotEqual(t, other.IP, ask(unknown(7)).IP, "and the next one is tried")
			}
			check(t, table)
			require.Equal(t, Ack, ask(Client{MAC: mac(8), VMs: []VM{{Namespace: "cluster-a", Name: "new"}}, Near: true}).Verdict)
			table.Tick(start.Add(2 * time.Hour))
			require.False(t, table.Disputed(), "it passes")
		})
	}
}
