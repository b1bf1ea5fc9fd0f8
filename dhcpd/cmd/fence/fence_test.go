package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/netns"
)

const server = "192.0.2.2"

// peer is a second namespace, in which a test is a machine of the VLAN.
const peer = "far"

func install2(t *testing.T, args ...string) {
	t.Helper()
	var out bytes.Buffer
	code := run(append([]string{"--server-ip", server}, args...), func(string) (string, bool) { return "", false }, &out, &out)
	require.Zero(t, code, out.String())
}

// far runs a command in the VLAN's machine.
func far(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ip", append([]string{"netns", "exec", peer}, args...)...).CombinedOutput()
	return string(out), err
}

func setup(t *testing.T) {
	t.Helper()
	for _, line := range []string{
		"mount --make-rprivate /", "mount -t tmpfs tmpfs /run", "ip netns add far",
		"ip link add net1 type veth peer name eth0 netns far", "ip addr add 192.0.2.2/24 dev net1", "ip link set net1 up",
		"ip netns exec far ip addr add 192.0.2.9/24 dev eth0", "ip netns exec far ip link set eth0 up",
		"ip link add eth0 type veth peer name pod", "ip addr add 10.244.0.5/24 dev eth0", "ip link set eth0 up", "ip link set pod up",
		"ip netns exec far ip route add 10.244.0.0/24 via 192.0.2.2",
	} {
		netns.Run(t, strings.Fields(line)...)
	}
	require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
}

// reach says whether the machine can open a TCP connection.
func reach(t *testing.T, address string) bool {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	_, err = far(t, "busybox", "nc", "-w", "1", host, port)
	return err == nil
}

func listen(t *testing.T, address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(t.Context(), func() { _ = c.Close() })
			if strings.HasSuffix(address, ":80") {
				_ = c.Close()
			}
		}
	}()
}

// behaviour B5, hazard 254: what a machine of the VLAN reaches.
func TestTheFence(t *testing.T) {
	if !netns.EnterWithMounts(t) {
		return
	}
	setup(t)
	listen(t, server+":80")
	listen(t, "10.244.0.5:80")
	require.True(t, reach(t, "10.244.0.5:80"), "without the fence the pod's own address can be reached")
	install2(t)
	install2(t) // twice is once
	require.True(t, reach(t, server+":80"))
	require.False(t, reach(t, "10.244.0.5:80"), "the pod's own address")
	rules := netns.Run(t, "nft", "list", "ruleset")
	require.Equal(t, 1, strings.Count(rules, "table inet oooi-fence"))
	require.Contains(t, rules, "hook forward priority filter; policy drop;")

	// What answers our own packets comes in, to whichever address.
	netns.Run(t, "busybox", "ping", "-c", "1", "-W", "2", "-I", "10.244.0.5", "192.0.2.9")

	// Other devices are left alone: the pod's own side, and loopback.
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", "10.244.0.5:80")
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// behaviour B5, E7: connections are limited per source.
func TestConnectionsPerSource(t *testing.T) {
	if !netns.EnterWithMounts(t) {
		return
	}
	setup(t)
	listen(t, server+":443")
	install2(t, "--max-connections-per-source", "5")
	netns.Run(t, "ip", "netns", "exec", peer, "ip", "addr", "add", "192.0.2.10/24", "dev", "eth0")
	connect := func() {
		c := exec.CommandContext(t.Context(), "ip", "netns", "exec", peer, "busybox", "nc", server, "443")
		in, err := c.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		t.Cleanup(func() {
			_ = in.Close()
			_ = c.Process.Kill()
			_ = c.Wait() // killed
		})
	}
	established := func(source string) int {
		return strings.Count(netns.Run(t, "ss", "-H", "-t", "-n", "state", "established"), " "+source+":")
	}
	for range 8 {
		connect()
	}
	require.Eventually(t, func() bool { return established("192.0.2.9") == 5 }, 5*time.Second, 20*time.Millisecond)
	netns.Run(t, "ip", "netns", "exec", peer, "ip", "route", "replace", "192.0.2.0/24", "dev", "eth0", "src", "192.0.2.10")
	connect()
	require.Eventually(t, func() bool { return established("192.0.2.10") == 1 }, 5*time.Second, 20*time.Millisecond, "another source is not meant")
	require.Equal(t, 5, established("192.0.2.9"))
}

func TestOptionsOfTheFence(t *testing.T) {
	e := func(m map[string]string) func(string) (string, bool) {
		return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
	}
	o, err := parse(nil, e(map[string]string{"OOOI_SERVER_IP": server}), os.Stderr)
	require.NoError(t, err)
	require.Equal(t, options{server: netip.MustParseAddr(server), maxConnections: defaultMaxConnections}, o)
	o, err = parse([]string{"--max-connections-per-source=0"}, e(map[string]string{"OOOI_SERVER_IP": server, "OOOI_MAX_CONNECTIONS_PER_SOURCE": "7"}), os.Stderr)
	require.NoError(t, err)
	require.Zero(t, o.maxConnections)
	for _, args := range [][]string{nil, {"--server-ip", "x"}, {"--server-ip", "2001:db8::1"}, {"--server-ip", server, "--max-connections-per-source", "-1"}} {
		_, err := parse(args, e(nil), os.Stderr)
		require.Error(t, err, fmt.Sprint(args))
	}
	var out bytes.Buffer
	require.Equal(t, 1, run([]string{"--server-ip", "203.0.113.77"}, e(nil), &out, &out))
	require.Contains(t, out.String(), "no device has the address")
	require.Equal(t, 0, run([]string{"--version"}, e(nil), &out, &out))
}
