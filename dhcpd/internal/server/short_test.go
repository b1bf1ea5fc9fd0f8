package server

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/agentpb"
	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// behaviour C9: machines that the pool has no room for, and a reservation that
// cannot be met, are told.
func TestAPoolThatIsTooSmallAndAReservationThatWaitsAreTold(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := New(Options{Log: quiet(), Now: func() time.Time { return now }, Observe: func(string, string) {}}, configure(t, nil), nil)
	require.True(t, s.table.Request(lease.Client{MAC: station(1)}, netip.MustParseAddr("192.0.2.100"), now).New)
	s.SetDirectory(pair{station(1), station(2)}, nil)
	require.Empty(t, s.Problems())
	s.Configure(configure(t, func(c *agentpb.DHCPConfig) {
		c.Range.End = "192.0.2.100"
		c.Reservations = []*agentpb.DHCPReservation{{MacAddress: station(7).String(), Ip: "192.0.2.100"}}
	}))
	require.Equal(t, []config.Problem{
		{Reason: "PoolTooSmall", Message: "there are 2 interfaces of machines and 1 addresses: those without one come before all other clients"},
		{Reason: "ReservationWaits", Message: "another client has the address that is reserved: 192.0.2.100 for 02:00:00:00:00:07 is with 02:00:00:00:00:01"},
	}, s.Problems())
}
