package oooi

import (
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
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
		require.NoError(t, bindListeners())
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
	require.ErrorContains(t, bindListeners(), "no device holds its address")
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
