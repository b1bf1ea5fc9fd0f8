package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/densityops/oooi/dhcpd/internal/netns"
	"github.com/densityops/oooi/dhcpd/internal/version"
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
	out, err := far(t, "busybox", "nc", "-w", "5", host, port)
	if err != nil {
		require.Contains(t, out, "timed out", "what the fence drops is not answered")
	}
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

	// What answers our own packets on the VLAN comes in.
	netns.Run(t, "busybox", "ping", "-c", "1", "-W", "2", "192.0.2.9")

	// Other devices are left alone: the pod's own side, and loopback.
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", "10.244.0.5:80")
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// behaviour B5: a machine of the VLAN that forges an answer to a question which the
// pod asked on its other side, port and all, is not heard; nor may it use the pod to
// send into the pod network.
func TestForgeries(t *testing.T) {
	if !netns.EnterWithMounts(t) {
		return
	}
	setup(t)
	netns.Run(t, "ip", "neigh", "replace", "10.244.0.53", "lladdr", "02:00:00:00:00:53", "dev", "eth0")
	_, err := far(t, "ip", "addr", "add", "10.244.0.77/32", "dev", "lo")
	require.NoError(t, err)
	for _, filter := range []string{"0", "1", "2"} {
		for _, device := range []string{"all", "net1", "eth0"} {
			require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/conf/"+device+"/rp_filter", []byte(filter), 0))
		}
		asked := ask(t, "10.244.0.5:0", "10.244.0.53:53")
		onVLAN := ask(t, "192.0.2.2:0", "192.0.2.9:53")
		if filter != "1" {
			forge(t, "10.244.0.53:53", asked)
			require.True(t, heard(asked), "without the fence, rp_filter %s", filter)
			require.True(t, reflected(t), "without the fence, rp_filter %s", filter)
		}
		install2(t)
		forge(t, "10.244.0.53:53", asked)
		require.False(t, heard(asked), "rp_filter %s", filter)
		forge(t, "192.0.2.9:53", onVLAN)
		require.True(t, heard(onVLAN), "a true answer on the VLAN")
		require.False(t, reflected(t), "rp_filter %s: an echo goes into the pod network", filter)
		netns.Run(t, "nft", "delete", "table", "inet", tableName)
	}
}

// ask sends a datagram, so that an answer to it is an established connection's.
func ask(t *testing.T, from, to string) *net.UDPConn {
	t.Helper()
	c, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(from)), net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = c.Write([]byte("question"))
	require.NoError(t, err)
	return c
}

// heard says whether an answer has come, which was sent a moment ago.
func heard(c *net.UDPConn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	for {
		_, err := c.Read(make([]byte, 64))
		if !errors.Is(err, unix.ECONNREFUSED) { // nobody there answers by himself
			return err == nil
		}
	}
}

// forge sends a datagram from the machine, as if from a source, to a socket of ours.
func forge(t *testing.T, source string, to *net.UDPConn) {
	t.Helper()
	from, dest := netip.MustParseAddrPort(source), netip.MustParseAddrPort(to.LocalAddr().String())
	const payload = "forged"
	p := make([]byte, 28, 28+len(payload))
	p[0], p[3], p[8], p[9] = 0x45, byte(28+len(payload)), 64, unix.IPPROTO_UDP
	copy(p[12:], from.Addr().AsSlice())
	copy(p[16:], dest.Addr().AsSlice())
	binary.BigEndian.PutUint16(p[20:], from.Port())
	binary.BigEndian.PutUint16(p[22:], dest.Port())
	p[25] = byte(8 + len(payload)) // no UDP checksum; the kernel writes the header's
	p = append(p, payload...)
	inPeer(t, func() {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
		require.NoError(t, err)
		defer unix.Close(fd) //nolint:errcheck // it was only written to
		// By the machine's device to the server, whatever the packet says.
		require.NoError(t, unix.Sendto(fd, p, 0, &unix.SockaddrInet4{Addr: dest.Addr().As4()}))
	})
}

// inPeer runs a function in the machine's namespace.
func inPeer(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		file, err := os.Open("/run/netns/" + peer)
		if err != nil {
			t.Error(err)
			return
		}
		defer file.Close()
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

// reflected says whether an echo that claims to come from the pod network makes the
// server send something there.
func reflected(t *testing.T) bool {
	t.Helper()
	sent := func() int {
		var names []string
		for line := range strings.SplitSeq(netns.Run(t, "cat", "/proc/net/snmp"), "\n") {
			f := strings.Fields(line)
			switch {
			case len(f) == 0 || f[0] != "Icmp:":
			case names == nil:
				names = f
			default:
				n, err := strconv.Atoi(f[slices.Index(names, "OutEchoReps")])
				require.NoError(t, err)
				return n
			}
		}
		require.Fail(t, "no ICMP counters")
		return 0
	}
	before := sent()
	_, err := far(t, "busybox", "ping", "-c", "1", "-W", "1", "-I", "10.244.0.77", server)
	require.ErrorContains(t, err, "exit status 1", "nobody answers ping")
	return sent() != before
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
	require.Eventually(t, func() bool { return established("192.0.2.9") == 5 }, time.Minute, 20*time.Millisecond)
	netns.Run(t, "ip", "netns", "exec", peer, "ip", "route", "replace", "192.0.2.0/24", "dev", "eth0", "src", "192.0.2.10")
	connect()
	require.Eventually(t, func() bool { return established("192.0.2.10") == 1 }, time.Minute, 20*time.Millisecond, "another source is not meant")
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
	var out bytes.Buffer
	require.Equal(t, 1, run([]string{"--server-ip", "203.0.113.77"}, e(nil), &out, &out))
	require.Contains(t, out.String(), "no device has the address")
	require.Equal(t, 0, run([]string{"--version"}, e(nil), &out, &out))
	require.Contains(t, out.String(), "fence "+version.Module+" contract "+version.Contract+"\n")
}

func TestOptionsThatTheFenceRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		env  map[string]string
		want string
	}{
		{"no address", nil, nil, `invalid value "" for flag -server-ip`},
		{"an address that is none", []string{"--server-ip", "x"}, nil, `invalid value "x" for flag -server-ip: want the IPv4 address`},
		{"a variable that is none", nil, map[string]string{"OOOI_SERVER_IP": "x"}, `invalid value "x" for $OOOI_SERVER_IP`},
		{"IPv6", []string{"--server-ip", "2001:db8::1"}, nil, "for flag -server-ip"},
		{"nobody's address", []string{"--server-ip", "0.0.0.0"}, nil, "for flag -server-ip"},
		{"loopback", []string{"--server-ip", "127.0.0.1"}, nil, "for flag -server-ip"},
		{"everybody's address", []string{"--server-ip", "255.255.255.255"}, nil, "for flag -server-ip"},
		{"a limit below zero", []string{"--server-ip", server, "--max-connections-per-source", "-1"}, nil, `invalid value "-1" for flag -max-connections-per-source: want a number from 0`},
		{"a limit that is too large", []string{"--server-ip", server}, map[string]string{"OOOI_MAX_CONNECTIONS_PER_SOURCE": "4294967296"}, "for $OOOI_MAX_CONNECTIONS_PER_SOURCE: want a number"},
		{"an argument", []string{"--server-ip", server, "x"}, nil, `unexpected argument "x"`},
		{"an unknown flag", []string{"--nope"}, nil, "-nope"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			require.Equal(t, 2, run(c.args, func(k string) (string, bool) { v, ok := c.env[k]; return v, ok }, &out, &errs))
			require.Contains(t, errs.String(), c.want)
			require.Equal(t, 1, strings.Count(errs.String(), "\n"), "one line")
		})
	}
}
