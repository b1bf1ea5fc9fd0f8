package lease

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// behaviour C9: what keeps clients from their addresses can be told.
func TestAReservationWaitsForWhoHasItsAddress(t *testing.T) {
	t.Parallel()
	l := New(small(2), start)
	e := dora(t, l, unknown(1), start)
	s := small(2)
	s.Fixed = map[MAC]netip.Addr{mac(1): e, mac(2): ip("192.0.2.101")}
	l.Configure(s, start)
	require.Empty(t, l.Waiting(), "it is the client's own")
	s.Fixed = map[MAC]netip.Addr{mac(7): e}
	l.Configure(s, start)
	require.Equal(t, []Waiting{{MAC: mac(7), Holder: mac(1), IP: e}}, l.Waiting())
	l.Tick(start.Add(2 * time.Hour))
	require.Empty(t, l.Waiting(), "the lease is over")
}

func TestMachinesAreCountedBesideThePool(t *testing.T) {
	t.Parallel()
	l := New(small(2), start)
	a, _ := machine(1, "a")
	b, _ := machine(2, "b")
	c, _ := machine(3, "c")
	l.Sync(directory(a, b, c), start)
	crowd := func() []int {
		interfaces, addresses := l.Crowd()
		return []int{interfaces, addresses}
	}
	require.Equal(t, []int{3, 2}, crowd())
	s := small(2)
	s.Fixed = map[MAC]netip.Addr{mac(1): ip("192.0.2.100"), mac(2): ip("192.0.2.50")}
	l.Configure(s, start)
	require.Equal(t, []int{3, 3}, crowd(), "one of the range and one outside of it are reserved")
}
