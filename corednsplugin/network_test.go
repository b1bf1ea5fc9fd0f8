package oooi

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Behaviour D4: a route by the VLAN device, or NoVLANRoute.
func TestRouteDevice(t *testing.T) {
	// As /proc/net/route shows it on a little-endian machine.
	table := "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n" +
		"eth0\t00000000\t0100800A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n" +
		"net1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n" +
		"net1\t007100CB\t010200C0\t0003\t0\t0\t0\t00FFFFFF\t0\t0\t0\n" +
		"eth0\t807100CB\t0100800A\t0003\t0\t0\t0\t80FFFFFF\t0\t0\t0\n" +
		"junk\n"
	for addr, want := range map[string]string{
		"192.0.2.9": "net1", "203.0.113.1": "net1", "203.0.113.129": "eth0", "198.51.100.1": "eth0",
	} {
		require.Equal(t, want, routeDevice(table, netip.MustParseAddr(addr)), addr)
	}
	require.Empty(t, routeDevice("", netip.MustParseAddr("192.0.2.9")))
}

func TestForwards(t *testing.T) {
	file := filepath.Join(t.TempDir(), "forwarding")
	require.False(t, forwards(file))
	for content, want := range map[string]bool{"1\n": true, "0\n": false} {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		require.Equal(t, want, forwards(file))
	}
}

// The additional sources that have no route by the VLAN device are named, and
// nothing is said while the VLAN device is not known.
func TestNetworkProblems(t *testing.T) {
	c := fixture("127.9.0.0/24", nil)
	c.ServerIP = netip.MustParseAddr("127.9.0.3")
	c.Sources = append(c.Sources, netip.MustParsePrefix("203.0.113.0/24"))
	got := networkProblems(&c, options{fence: true})
	require.Len(t, got, 1)
	require.Equal(t, ReasonNoVLANRoute, got[0].Reason)
	c.ServerIP = netip.MustParseAddr("203.0.113.3")
	require.Empty(t, networkProblems(&c, options{fence: true}))
}

// Behaviour B5: the announcement goes to an address that nobody is known at.
func TestUnknownNeighbour(t *testing.T) {
	p := netip.MustParsePrefix("192.0.2.0/29")
	from := netip.MustParseAddr("192.0.2.3")
	require.Equal(t, "192.0.2.6", lastHost(p).String())
	a := func(last string) netip.Addr { return netip.MustParseAddr("192.0.2." + last) }
	for _, tc := range []struct {
		name  string
		start netip.Addr
		known []netip.Addr
		want  string
	}{
		{"the highest address", a("6"), nil, "192.0.2.6"},
		{"not one that is known", a("6"), []netip.Addr{a("6"), a("5")}, "192.0.2.4"},
		{"not our own", a("3"), nil, "192.0.2.2"},
		{"round at the bottom", a("0"), nil, "192.0.2.6"},
		{"none when all are known", a("6"), []netip.Addr{a("1"), a("2"), a("4"), a("5"), a("6")}, "invalid IP"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			known := map[netip.Addr]bool{}
			for _, k := range tc.known {
				known[k] = true
			}
			require.Equal(t, tc.want, unknownNeighbour(tc.start, from, p, known).String())
		})
	}
}
