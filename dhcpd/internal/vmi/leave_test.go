package vmi

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"kubevirt.io/client-go/kubevirt/fake"

	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// behaviour C3, hazard 41: a cluster that is detached before it is deleted leaves no
// address behind. Its machines lose nothing as long as they run, and nothing at all
// when it comes back before others may have their addresses.
func TestANamespaceThatIsNoLongerLookedAtKeepsNoAddress(t *testing.T) {
	vm := lease.VM{Namespace: "a", Name: "one", Interface: "net"}
	known := lease.Client{MAC: mac(1), VMs: []lease.VM{vm}}
	stranger := lease.Client{MAC: mac(1)} // what it is while nobody looks at its namespace
	has := netip.MustParseAddr("192.0.2.100")
	for _, c := range []struct {
		name   string
		before time.Duration // until its server looks away, and what comes then
		then   func(t *testing.T, table *lease.Table, away, back *Index, now time.Time)
	}{
		{"it ends with its lease and what it rests for", 0, func(t *testing.T, table *lease.Table, _, _ *Index, now time.Time) {
			table.Tick(now.Add(time.Hour))
			require.Len(t, table.Bindings(), 1, "nobody else gets it yet")
			table.Tick(now.Add(2 * time.Hour))
			require.Empty(t, table.Bindings())
		}},
		{"a machine that is stopped then", 100 * time.Hour, func(t *testing.T, table *lease.Table, _, _ *Index, now time.Time) {
			require.Len(t, table.Bindings(), 1, "nobody else gets it yet")
			table.Tick(now.Add(time.Hour))
			require.Empty(t, table.Bindings())
		}},
		{"a machine that runs goes on renewing", 0, func(t *testing.T, table *lease.Table, _, _ *Index, now time.Time) {
			for range 10 {
				now = now.Add(30 * time.Minute)
				table.Tick(now)
				require.Equal(t, lease.Ack, table.Request(stranger, has, now).Verdict)
			}
		}},
		{"a machine that starts once more while it rests", 0, func(t *testing.T, table *lease.Table, _, _ *Index, now time.Time) {
			now = now.Add(90 * time.Minute)
			table.Tick(now)
			require.Equal(t, lease.Ack, table.Request(stranger, has, now).Verdict)
			table.Tick(now.Add(time.Hour))
			table.Tick(now.Add(2 * time.Hour))
			require.Empty(t, table.Bindings())
		}},
		{"it is looked at again in time", 0, func(t *testing.T, table *lease.Table, away, back *Index, now time.Time) {
			table.Tick(now.Add(90 * time.Minute))
			table.Sync(away, now.Add(90*time.Minute))
			table.Sync(back, now.Add(100*time.Minute))
			table.Tick(now.Add(100 * time.Hour))
			require.Equal(t, has, table.Offer(known, netip.Addr{}, now.Add(100*time.Hour)).IP)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := fake.NewSimpleClientset(instance("a", "one", "02:00:5e:10:00:01"), instance("b", "two", "02:00:5e:10:00:02"))
			configs, until := watched(t, client, "a", "b")
			var here, away, back *Index
			until(func(x *Index) bool {
				here = x
				return x.Len() == 2 && x.Complete(&config.Config{Namespaces: []string{"a", "b"}})
			})
			without := fixture()
			without.Namespaces = []string{"b"}
			configs <- without
			until(func(x *Index) bool { away = x; return x.Len() == 1 })
			with := fixture()
			with.Namespaces = []string{"a", "b"}
			configs <- with
			until(func(x *Index) bool { back = x; return x.Len() == 2 })

			now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
			table := lease.New(lease.Settings{
				Prefix: fixture().Prefix, LeaseTime: time.Hour,
				Dynamic: lease.Range{First: has, Last: netip.MustParseAddr("192.0.2.199")},
			}, now)
			table.Sync(here, now)
			require.Equal(t, lease.Ack, table.Request(known, has, now).Verdict)
			now = now.Add(c.before)
			table.Tick(now)
			table.Sync(away, now)
			c.then(t, table, away, back, now)
		})
	}
}

// behaviour C3: before anything is said of namespaces, and while one that is to be
// read cannot be, nobody is gone.
func TestANamespaceThatIsYetToBeReadIsUnknown(t *testing.T) {
	vm := lease.VM{Namespace: "a", Name: "one"}
	for _, c := range []struct {
		name       string
		namespaces []string
		want       lease.Existence
	}{
		{"nothing is known", nil, lease.Unknown},
		{"it is to be read", []string{"a", "b"}, lease.Unknown},
		{"all are", []string{"*"}, lease.Unknown},
		{"it is not", []string{"b"}, lease.Gone},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, build(nil, map[string]bool{"b": true}, c.namespaces).Exists(vm))
		})
	}
}
