package dhcp

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fleet are virtual machines that have, or are to have, the addresses from
// 192.0.2.101 on.
type fleet []struct{ name, mac, ip string }

func newFleet(size int) fleet {
	out := make(fleet, size)
	for i := range out {
		out[i].name = fmt.Sprintf("worker-%03d", i)
		out[i].mac = fmt.Sprintf("02:00:5e:10:20:%02x", i)
		out[i].ip = fmt.Sprintf("192.0.2.%d", 101+i)
	}
	return out
}

// yaml is the fleet as KubeVirt shows it while it runs.
func (f fleet) yaml() string {
	var b strings.Builder
	for _, m := range f {
		b.WriteString(objects([]machine{{m.name, m.mac}}))
		fmt.Fprintf(&b, "status:\n  phase: Running\n  interfaces: [{name: net, mac: %q, infoSource: domain, ipAddress: %s, ipAddresses: [%s]}]\n", m.mac, m.ip, m.ip)
	}
	return b.String()
}

func (f fleet) addresses() []string {
	var out []string
	for _, m := range f {
		out = append(out, m.ip)
	}
	return out
}

// stored waits until the journal has the whole fleet.
func (n *network) stored(t *testing.T, f fleet) {
	t.Helper()
	require.NoError(t, waitFor(t.Context(), 4*patience, "leases", func() bool {
		has := map[string]string{}
		for _, r := range n.rows(t) {
			if r.State == "bound" {
				has[r.IP] = r.MACAddress
			}
		}
		for _, m := range f {
			if has[m.ip] != m.mac {
				return false
			}
		}
		return true
	}, n.dhcpd.Output))
}

// renewAll has every machine renew, and returns how long each waited.
func (n *network) renewAll(t *testing.T, f fleet) []time.Duration {
	t.Helper()
	var out []time.Duration
	for _, m := range f {
		in := renewal(t, m.mac, m.ip)
		began := time.Now()
		p := n.station.ask(t, n.station.unicast, in)
		out = append(out, p.at.Sub(began))
		require.Equal(t, []byte{typeAck}, option(p.payload, optType), m.name)
		require.Equal(t, m.ip, yiaddr(p), m.name)
		require.Equal(t, m.ip+":68", p.to.String())
		require.Equal(t, m.name, string(option(p.payload, optName)))
	}
	return out
}

// newcomer has a stranger ask for an address that a machine has, and returns
// what it is offered instead.
func (n *network) newcomer(t *testing.T, i int) string {
	t.Helper()
	m := with(of(t, fmt.Sprint(strangerOf, i), message(t, "dhcp-discover-bcast")), optRequested, addr("192.0.2.120")...)
	p := n.station.insist(t, n.station.broadcast, m)
	require.Equal(t, []byte{typeOffer}, option(p.payload, optType))
	return yiaddr(p)
}

// case C16, hazards 40, 47: the store is damaged, or the range moves. That the
// server starts below 10 s is what run looks at.
func TestALeaseStoreThatIsDamaged(t *testing.T) {
	t.Parallel()
	f := newFleet(40)
	n := newNetwork(t, plan{machines: f.yaml(), namespaces: []string{namespace}, addresses: f.addresses()})
	journal := filepath.Join(n.dir, "state", "leases.journal")
	free := func(ip, first string) {
		require.NotContains(t, f.addresses(), ip)
		a := netip.MustParseAddr(ip)
		require.False(t, a.Less(netip.MustParseAddr(first)), ip)
		require.False(t, netip.MustParseAddr("192.0.2.199").Less(a), ip)
	}
	n.stored(t, f)
	n.renewAll(t, f)
	n.reborn(t, func() {}) // which leaves one record of each lease
	n.renewAll(t, f[:1])

	// Cut at 60 % of what was written; zeros follow that for what comes.
	var cut []byte
	n.reborn(t, func() {
		whole, err := os.ReadFile(journal)
		require.NoError(t, err)
		whole = bytes.TrimRight(whole, "\x00")
		cut = whole[:len(whole)*6/10]
		require.NoError(t, os.WriteFile(journal, cut, 0o600))
		out, _ := n.server.Run(t.Context(), n.binary, "leases", "--state-dir", filepath.Join(n.dir, "state")) // it complains
		lost := 0
		for _, m := range f {
			if !strings.Contains(out, m.ip) {
				lost++
			}
		}
		require.Greater(t, lost, len(f)/3)
	})
	n.stored(t, f)
	n.renewAll(t, f)
	free(n.newcomer(t, 1), "192.0.2.100")
	kept, err := os.ReadFile(journal + ".damaged-1")
	require.NoError(t, err)
	require.Equal(t, cut, kept)

	// Nothing is left of it.
	n.reborn(t, func() { require.NoError(t, os.Truncate(journal, 0)) })
	n.stored(t, f)
	n.renewAll(t, f)
	free(n.newcomer(t, 2), "192.0.2.100")
	kept, err = os.ReadFile(journal + ".damaged-2")
	require.NoError(t, err)
	require.Empty(t, kept)

	// The range moves on.
	n.reborn(t, func() {
		s := n.plan.snapshot()
		s["dhcp"].(map[string]any)["range"] = map[string]string{"start": "192.0.2.150", "end": "192.0.2.199"}
		require.NoError(t, n.configure(s))
	})
	n.stored(t, f)
	n.renewAll(t, f)
	free(n.newcomer(t, 3), "192.0.2.150")
	n.stored(t, f)
}
