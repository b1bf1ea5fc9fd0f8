package oooi

import (
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/densityops/oooi/corednsplugin/internal/report"
)

func deviceOf(t *testing.T, c syscall.Conn) string {
	t.Helper()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	var device string
	var optErr error
	require.NoError(t, raw.Control(func(fd uintptr) {
		device, optErr = unix.GetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE)
	}))
	require.NoError(t, optErr)
	return device
}

// Behaviour B5: what listens is bound to its device, what does not listen is
// left alone, and a second pass (a reload) changes nothing.
func TestListenersAreBoundToTheirDevice(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer pc.Close()
	l, err := net.Listen("tcp", "127.7.7.7:0")
	require.NoError(t, err)
	defer l.Close()
	out, err := net.Dial("udp", pc.LocalAddr().String())
	require.NoError(t, err)
	defer out.Close()
	for range 2 {
		to, err := bindListeners()
		require.NoError(t, err)
		lo, err := net.InterfaceByName("lo")
		require.NoError(t, err)
		require.Equal(t, bound{netip.MustParseAddr("127.0.0.1"): lo.Index, netip.MustParseAddr("127.7.7.7"): lo.Index}, to)
		require.Equal(t, "lo", deviceOf(t, pc.(*net.UDPConn)))
		require.Equal(t, "lo", deviceOf(t, l.(*net.TCPListener)))
		require.Empty(t, deviceOf(t, out.(*net.UDPConn)))
	}
}

// A socket on every address can be bound to no device: the server has to stay
// silent.
func TestListenerOnEveryAddressIsAnError(t *testing.T) {
	pc, err := net.ListenPacket("udp4", "0.0.0.0:0")
	require.NoError(t, err)
	defer pc.Close()
	_, err = bindListeners()
	require.ErrorContains(t, err, "no device holds its address")
}

func TestDevices(t *testing.T) {
	held, err := listDevices()
	require.NoError(t, err)
	device, ok := held.holding(netip.MustParseAddr("127.1.2.3"))
	require.True(t, ok)
	require.Equal(t, "lo", device)
	_, ok = held.holding(netip.MustParseAddr("203.0.113.1"))
	require.False(t, ok)
}

// Behaviour B5: an address that has gone is one thing, one that came back on
// another device a second one.
func TestWhatSocketsHear(t *testing.T) {
	vlan, pod := netip.MustParseAddr("192.0.2.3"), netip.MustParseAddr("10.128.0.5")
	to := bound{vlan: 7, pod: 2}
	holds := func(vlans ...device) devices {
		return devices{byAddr: map[netip.Addr][]device{vlan: vlans, pod: {{"eth0", 2}}}}
	}
	for _, c := range []struct {
		name       string
		held       devices
		away, deaf string
	}{
		{"all is as it was", holds(device{"net1", 7}), "", ""},
		{"the device has another name now", holds(device{"net2", 7}), "", ""},
		{"another device has the address too", holds(device{"net1", 7}, device{"net2", 8}), "", ""},
		{"the device has gone", holds(), "listener 192.0.2.3: no device holds its address any more", ""},
		{"it was made anew", holds(device{"net1", 9}), "", "listener 192.0.2.3: its device was made anew, and an open socket cannot follow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for want, got := range map[string]error{c.away: to.away(c.held), c.deaf: to.deaf(c.held)} {
				if want == "" {
					require.NoError(t, got)
				} else {
					require.EqualError(t, got, want)
				}
			}
		})
	}
}

// Behaviour B5: what can be waited for is reported and waited for, and what
// cannot ends the process.
func TestLostDevicesAreFollowed(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	require.NoError(t, err)
	e, written := engineFor(t)
	var ended error
	e.end = func(why error) { ended = why }
	hears := func(b bound) {
		e.mu.Lock()
		e.bound = b
		e.mu.Unlock()
		e.followDevices()
	}
	e.apply(state(t, 1))
	hears(bound{netip.MustParseAddr("127.0.0.1"): lo.Index, netip.MustParseAddr("203.0.113.1"): 4711})
	a := written.until(t, func(a report.Agent) bool { return len(a.Problems) == 1 })
	require.Equal(t, []report.Problem{{Reason: ReasonListenerNotBound, Message: "listener 203.0.113.1: no device holds its address any more"}}, a.Status.Agent.Problems)
	require.True(t, e.o.Ready(), "the other side is served")
	hears(bound{netip.MustParseAddr("127.0.0.1"): lo.Index})
	written.until(t, func(a report.Agent) bool { return len(a.Problems) == 0 })
	require.NoError(t, ended)
	hears(bound{netip.MustParseAddr("127.0.0.1"): lo.Index + 4711})
	require.ErrorContains(t, ended, "was made anew")
	require.False(t, e.o.Ready())
}
