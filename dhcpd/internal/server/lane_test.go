package server

import (
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/lease"
	"github.com/densityops/oooi/dhcpd/internal/netns"
)

// directory knows one machine.
type directory struct{ mac lease.MAC }

func (d directory) VMs(m lease.MAC) []lease.VM {
	if m != d.mac {
		return nil
	}
	return []lease.VM{{Namespace: "ns", Name: "vm", Interface: "net"}}
}
func (d directory) Exists(lease.VM) lease.Existence { return lease.Exists }
func (d directory) Len() int                        { return 1 }

// behaviour C6, hazard 73: known machines have a lane of their own, and each
// message is in exactly one.
func TestKnownMachinesHaveALaneOfTheirOwn(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	l := newLAN(t, nil)
	ask := func(n byte) *dhcpv4.DHCPv4 {
		l.send(station(n), "0.0.0.0", "255.255.255.255", message(t, station(n), dhcpv4.MessageTypeRequest, ask("192.0.2.150"), dhcpv4.WithBroadcast(true)))
		_, p := l.answer(clientPort)
		return p
	}
	l.server.SetDirectory(directory{station(1)}, []lease.MAC{station(1)})
	require.Equal(t, "vm", ask(1).HostName())
	require.Equal(t, dhcpv4.MessageTypeNak, ask(2).MessageType())
	require.Equal(t, 1, l.count("request probing"), "each message is handled once")
	require.Equal(t, 1, l.count("request answered"))
	require.Equal(t, 1, l.count("request taken"))
	many := make([]lease.MAC, 5000)
	for i := range many {
		many[i] = lease.MAC{2, 9, 9, 9, byte(i >> 8), byte(i)}
	}
	l.server.SetDirectory(directory{station(1)}, many)
	require.Equal(t, "vm", ask(1).HostName(), "more machines than the filter can name")
	require.Equal(t, dhcpv4.MessageTypeNak, ask(2).MessageType())
}

// behaviour C6, hazard 73: a DISCOVER of a stranger waits for everything else,
// and a message that says what it is in another way is no worse off.
func TestDISCOVERsOfStrangersAreTheLeastUrgent(t *testing.T) {
	if !netns.Enter(t) {
		return
	}
	l := newLAN(t, nil)
	discover := message(t, station(2), dhcpv4.MessageTypeDiscover, dhcpv4.WithBroadcast(true))
	odd := append(append([]byte{}, discover[:240]...), 12, 1, 'x', 53, 1, 1, 255)
	copy(odd[28:], "\x02\x00\x00\x00\x00\x03")
	short := append(append([]byte{}, discover[:240]...), 53)
	l.server.SetDirectory(directory{station(1)}, []lease.MAC{station(1)})
	l.server.mu.Lock() // meanwhile nobody is served
	for range 300 {
		l.send(station(2), "0.0.0.0", "255.255.255.255", discover)
	}
	l.send(station(3), "0.0.0.0", "255.255.255.255", odd)
	l.send(station(2), "0.0.0.0", "255.255.255.255", short)
	l.send(station(2), "0.0.0.0", "255.255.255.255", message(t, station(2), dhcpv4.MessageTypeRequest, ask("198.51.100.7"), dhcpv4.WithBroadcast(true)))
	l.send(station(1), "0.0.0.0", "255.255.255.255", message(t, station(1), dhcpv4.MessageTypeRequest, ask("198.51.100.7"), dhcpv4.WithBroadcast(true)))
	l.server.mu.Unlock()
	var macs []lease.MAC
	for range 2 {
		_, p := l.answer(clientPort)
		require.Equal(t, dhcpv4.MessageTypeNak, p.MessageType())
		macs = append(macs, lease.MAC(p.ClientHWAddr))
	}
	require.Equal(t, []lease.MAC{station(1), station(2)}, macs, "machines first")
	require.Eventually(t, func() bool { return l.count("discover wait_for_retry") == 301 && l.count("malformed options") == 1 }, time.Minute, 10*time.Millisecond)
}
