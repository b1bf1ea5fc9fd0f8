package app

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/xds-manager/internal/routes"
)

// hazard 131: a VIP that takes no connection is named with its backend once it
// was missed twice, and no more once it answers; what lies in the pod network is
// never asked.
func TestAVIPThatTakesNoConnectionIsNamed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	vip := netip.MustParseAddrPort(listener.Addr().String())
	table := routes.Table{CIDR: netip.MustParsePrefix("127.0.0.0/8"), Backends: []routes.Backend{
		{Name: "a.apps-https", Endpoints: []routes.Endpoint{{Addr: vip.Addr(), Port: vip.Port()}}},
		{Name: "a.apps-again", Endpoints: []routes.Endpoint{{Addr: vip.Addr(), Port: vip.Port()}}},
		{Name: "a.api", Endpoints: []routes.Endpoint{{Addr: netip.MustParseAddr("172.30.0.1"), Port: 6443}, {Host: "lb.example.com", Port: 443}}},
	}}
	require.Equal(t, []netip.AddrPort{vip}, vips(table))

	p, now := newProber(), time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	round := func() []routes.Problem {
		now = now.Add(probeInterval)
		p.start(t.Context(), now, vips(table))
		require.True(t, p.busy)
		p.start(t.Context(), now, vips(table))
		p.take(<-p.answers)
		p.start(t.Context(), now.Add(time.Second), vips(table))
		require.False(t, p.busy, "not more often than every 30 s")
		return p.problems(table)
	}
	require.Empty(t, round())
	require.NoError(t, listener.Close())
	require.Empty(t, round(), "one miss is a VIP that moves")
	problems := round()
	require.Len(t, problems, 2)
	require.Equal(t, ReasonVIPUnreachable, problems[0].Reason)
	require.Contains(t, problems[0].Message, `backend "a.apps-https": `+vip.String()+" on the VLAN takes no connection")

	listener, err = net.Listen("tcp", vip.String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	require.Empty(t, round())
}
