package server

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/densityops/oooi/dhcpd/internal/lease"
	"github.com/densityops/oooi/dhcpd/internal/netns"
)

// behaviour C8, hazard 73: who asks for an address holds up everybody else, so a
// device whose queue stands still is not waited for.
func TestAQuestionDoesNotWaitForTheDevice(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	netns.Run(t, "ip", "link", "add", "vlan", "type", "veth", "peer", "name", "far")
	netns.Run(t, "ip", "link", "set", "vlan", "up")
	netns.Run(t, "ip", "link", "set", "far", "up")
	netns.Run(t, "tc", "qdisc", "add", "dev", "vlan", "root", "tbf", "rate", "8bit", "burst", "100", "limit", "1mb")
	i, err := net.InterfaceByName("vlan")
	require.NoError(t, err)
	a, err := openARP(Device{Name: i.Name, Index: i.Index, MAC: lease.MAC(i.HardwareAddr)})
	require.NoError(t, err)
	t.Cleanup(a.close)
	require.NoError(t, a.rc.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 1)
	}))
	require.NoError(t, err)
	done, stuck := make(chan struct{}), false
	go func() {
		defer close(done)
		for range 100 {
			a.ask(netip.MustParseAddr(serverIP), netip.MustParseAddr("192.0.2.100"))
		}
		_ = a.rc.Control(func(fd uintptr) { stuck = !drained(int(fd), time.Millisecond) })
	}()
	select {
	case <-done:
		require.True(t, stuck, "the device takes all that it is given")
	case <-time.After(20 * time.Second):
		t.Fatal("it waits")
	}
}
