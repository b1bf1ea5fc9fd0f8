package dhcp

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

// hazard 51, behaviour C4: NetworkManager as an initrd runs it, then a system
// with another client-id on the same hardware address.
func TestInitrdThenSystem(t *testing.T) {
	ctx := t.Context()
	l := lab.ForTest(t)
	m := machine{name: "worker-initrd", mac: "02:00:5e:10:02:01"}
	r, err := newRig(ctx, l, t.TempDir(), 3600, []machine{m})
	require.NoError(t, err)
	h := l.MustHost(t, m.name)
	require.NoError(t, r.plug(ctx, h, "eth0", m.mac))
	require.NoError(t, sh(ctx, h, `mount -o remount,ro,bind /sys
mkdir -p /run/NetworkManager/conf.d /run/initrd; : >/run/empty.conf /var/lib/NetworkManager
mount -t tmpfs tmpfs /var/lib/NetworkManager
/usr/lib/NetworkManager/nm-initrd-generator -c /run/NetworkManager/system-connections -i /run/NetworkManager/initrd -- ip=eth0:dhcp rd.neednet=1
NetworkManager --configure-and-quit=initrd --debug --config /run/empty.conf --config-dir /run/NetworkManager/conf.d --system-config-dir /run/initrd >/run/nm.log 2>&1 || { tail -20 /run/nm.log >&2; exit 1; }`))
	first, err := address(ctx, h)
	require.NoError(t, err)
	s := &seat{client: networkd("networkd", "'ClientIdentifier=duid'"), machine: m, host: h}
	require.NoError(t, s.prepare(ctx, h))
	require.NoError(t, r.boot(ctx, s))
	require.Equal(t, first, s.ip)
	rows, err := r.leases(ctx)
	require.NoError(t, err)
	require.Len(t, rows, 1, "one machine, one address")
}

// behaviours C1, C8; hazards 58, 59: a client behind a relay of another subnet.
func TestThroughARelay(t *testing.T) {
	t.Parallel()
	for _, relay := range [][]string{
		{"dhcrelay", "-d", "-4", "-id", "eth1", "-iu", "eth0", serverIP},
		{"dnsmasq", "-k", "--conf-file=/dev/null", "--port=0", "--user=root", "--pid-file=", "--dhcp-relay=" + remoteIP + "," + serverIP, "-i", "eth1"},
	} {
		t.Run(relay[0], func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			l := lab.ForTest(t)
			m := machine{name: "worker-far", mac: "02:00:5e:10:03:01"}
			r, err := newRig(ctx, l, t.TempDir(), 60, []machine{m})
			require.NoError(t, err)
			require.NoError(t, r.sw.Bridge(ctx, "br1"))
			router := l.MustHost(t, "router")
			require.NoError(t, r.plug(ctx, router, "eth0", "", relayIP+"/24"))
			require.NoError(t, router.Plug(ctx, r.sw, "br1", lab.Link{Device: "eth1", Addresses: []netip.Prefix{netip.MustParsePrefix(remoteIP + "/24")}}))
			require.NoError(t, r.server.Route(ctx, "203.0.113.0/24 via "+relayIP+" dev "+device))
			p, err := router.Start(lab.Spec{Args: relay})
			require.NoError(t, err)
			h := l.MustHost(t, m.name)
			require.NoError(t, h.Plug(ctx, r.sw, "br1", lab.Link{Device: "eth0", MAC: m.mac}))
			s := &seat{client: udhcpc("udhcpc"), machine: m, host: h}
			require.NoError(t, s.prepare(ctx, h))
			require.NoError(t, r.boot(ctx, s), p.Output())
			require.True(t, strings.HasPrefix(s.ip, "192.0.2."))
			// By unicast it cannot reach the server from there, so it rebinds.
			require.NoError(t, r.renewed(ctx, s, leaseTime+45*time.Second), p.Output())
			for _, e := range r.log(m.mac) {
				if e.Msg == "message" {
					require.Equal(t, remoteIP, e.Relay)
				}
			}
		})
	}
}

// behaviour C8, hazard 53: without NET_RAW it says so once, and broadcasts to
// clients that have no address yet.
func TestWithoutTheRightToPacketSockets(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l := lab.ForTest(t)
	m := machine{name: "worker-plain", mac: "02:00:5e:10:05:01"}
	r, err := newRig(ctx, l, t.TempDir(), 60, []machine{m})
	require.NoError(t, err)
	require.NoError(t, r.dhcpd.Stop(time.Minute))
	require.NoError(t, r.withoutNetRaw(ctx))
	require.NoError(t, r.start(ctx))
	h := l.MustHost(t, m.name)
	require.NoError(t, r.plug(ctx, h, "eth0", m.mac))
	s := &seat{client: udhcpc("udhcpc"), machine: m, host: h}
	require.NoError(t, s.prepare(ctx, h))
	require.NoError(t, r.boot(ctx, s))
	require.NoError(t, r.renewed(ctx, s, leaseTime/2+45*time.Second))
	require.Equal(t, 1, strings.Count(r.dhcpd.Output(), "answers to clients without an address are broadcast"))
}

// behaviour C5, hazard 48, case C16: the disk fills up under a running server,
// and becomes writable again.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l := lab.ForTest(t)
	known, later := machine{name: "worker-known", mac: "02:00:5e:10:06:01"}, machine{name: "worker-later", mac: "02:00:5e:10:06:02"}
	r, err := newRig(ctx, l, t.TempDir(), 60, []machine{known, later})
	require.NoError(t, err)
	require.NoError(t, r.dhcpd.Stop(time.Minute))
	state := filepath.Join(r.dir, "state")
	_, err = r.server.Run(ctx, "mount", "-t", "tmpfs", "-o", "size=512k,mode=0755", "tmpfs", state)
	require.NoError(t, err)
	require.NoError(t, r.start(ctx))
	boot := func(m machine) (*seat, error) {
		s := &seat{client: udhcpc("udhcpc", "-t", "30", "-T", "1"), machine: m, host: l.MustHost(t, m.name)}
		require.NoError(t, r.plug(ctx, s.host, "eth0", m.mac))
		require.NoError(t, s.prepare(ctx, s.host))
		return s, r.boot(ctx, s)
	}
	s, err := boot(known)
	require.NoError(t, err)
	// All that is left goes, and with it the room that the journal has made ahead.
	_, err = r.server.Run(ctx, "/bin/sh", "-c", "cd "+state+"; : >leases.journal; dd if=/dev/zero of=filler bs=4k 2>/dev/null; true")
	require.NoError(t, err)
	require.NoError(t, lab.Until(ctx, 2*time.Minute, "JournalUnwritable", func(context.Context) error {
		if !strings.Contains(r.dhcpd.Output(), "lease journal cannot be written to") {
			return fmt.Errorf("not yet: %s", r.dhcpd.Output())
		}
		return nil
	}))
	acks := r.acks(known.mac)
	late := &seat{client: udhcpc("udhcpc", "-t", "60", "-T", "1"), machine: later, host: l.MustHost(t, later.name)}
	require.NoError(t, r.plug(ctx, late.host, "eth0", later.mac))
	require.NoError(t, late.prepare(ctx, late.host))
	late.process, err = late.start(late.host)
	require.NoError(t, err)
	require.NoError(t, waitFor(ctx, leaseTime, "a renewal", func() bool { return r.acks(known.mac) > acks }, r.dhcpd.Output))
	_, err = address(ctx, late.host)
	require.ErrorIs(t, err, errNoAddress, "nobody new is given what cannot be stored")
	_, err = r.server.Run(ctx, "rm", filepath.Join(state, "filler"))
	require.NoError(t, err)
	require.NoError(t, lab.Until(ctx, 2*time.Minute, "an address", func(ctx context.Context) error {
		var err error
		late.ip, err = address(ctx, late.host)
		return err
	}))
	require.NotEqual(t, s.ip, late.ip)
}

// behaviours C6, C10; hazards 64, 66, 68, 73: a hostile machine sends all that
// it can. Known machines boot and renew, memory is bounded, nothing is freed.
func TestAHostileMachine(t *testing.T) {
	ctx := t.Context()
	l := lab.ForTest(t)
	var machines []machine
	for i := range 4 {
		machines = append(machines, machine{name: fmt.Sprintf("worker-%d", i), mac: fmt.Sprintf("02:00:5e:10:04:%02x", i)})
	}
	r, err := newRig(ctx, l, t.TempDir(), 60, machines)
	require.NoError(t, err)
	var seats []*seat
	boot := func(m machine) *seat {
		s := &seat{client: udhcpc("udhcpc", "-t", "20", "-T", "2"), machine: m, host: l.MustHost(t, m.name)}
		require.NoError(t, r.plug(ctx, s.host, "eth0", m.mac))
		require.NoError(t, s.prepare(ctx, s.host))
		require.NoError(t, r.boot(ctx, s))
		seats = append(seats, s)
		return s
	}
	boot(machines[0])
	// A line for each message would be most of the work.
	require.NoError(t, r.dhcpd.Stop(time.Minute))
	r.level = "info"
	require.NoError(t, r.start(ctx))

	hostile := l.MustHost(t, "hostile")
	require.NoError(t, r.plug(ctx, hostile, "eth0", "02:66:66:66:66:66", "192.0.2.66/24"))
	victim := seats[0]
	flood, err := hostile.Start(lab.Spec{Args: []string{os.Args[0]}, Env: []string{floodEnv + "=" + victim.mac + " " + victim.ip + " " + serverMAC}})
	require.NoError(t, err)
	require.NoError(t, lab.Until(ctx, time.Minute, "the flood", func(context.Context) error {
		if sent(flood) < 50000 {
			return fmt.Errorf("%d packets: %s", sent(flood), flood.Output())
		}
		return nil
	}))
	for _, m := range machines[1:] {
		began := time.Now()
		s := boot(m)
		t.Logf("%s has its address after %s", m.name, time.Since(began).Round(time.Millisecond))
		require.NotEqual(t, victim.ip, s.ip)
	}
	for _, s := range seats {
		before, err := r.until(ctx, s.mac)
		require.NoError(t, err)
		require.NoError(t, lab.Until(ctx, 50*time.Second, "a renewal", func(ctx context.Context) error {
			if now, err := r.until(ctx, s.mac); err != nil || now == before {
				return fmt.Errorf("still until %s: %w", now, err)
			}
			return nil
		}))
	}
	require.NoError(t, flood.Running())
	pid, err := r.dhcpd.PID()
	require.NoError(t, err)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	require.Less(t, kb, 100<<10, "memory")
	t.Logf("%d packets sent, %d MB", sent(flood), kb>>10)
	rows, err := r.leases(ctx)
	require.NoError(t, err)
	taken := map[string]bool{}
	for _, x := range rows {
		require.False(t, taken[x.IP], "%s twice", x.IP)
		taken[x.IP] = true
	}
	ip, err := r.bound(ctx, victim.mac)
	require.NoError(t, err)
	require.Equal(t, victim.ip, ip, "nobody released or declined it away")
	out, err := r.server.Run(ctx, "busybox", "wget", "-q", "-O", "-", "http://"+health+"/metrics")
	require.NoError(t, err)
	for _, want := range []string{`outcome="spoofed"`, `outcome="hardware_address"`, `outcome="wait_for_retry"`, `outcome="not_bootp"`} {
		require.Contains(t, out, want, "no metric with %s", want)
	}
}

// behaviour C5: the process is killed again and again while it gives leases.
// No address is given twice, and no acknowledged lease is forgotten.
func TestAProcessThatIsKilledForgetsNothing(t *testing.T) {
	ctx := t.Context()
	l := lab.ForTest(t)
	r, err := newRig(ctx, l, t.TempDir(), 3600, nil)
	require.NoError(t, err)
	h := l.MustHost(t, "clients")
	require.NoError(t, r.plug(ctx, h, "eth0", ""))
	told := map[string]string{} // address -> hardware address
	for round := range 25 {
		swarm, err := h.Start(lab.Spec{Args: []string{os.Args[0]}, Env: []string{swarmEnv + "=" + strconv.Itoa(round)}})
		require.NoError(t, err)
		require.NoError(t, lab.Until(ctx, time.Minute, "some leases", func(context.Context) error {
			if n := strings.Count(swarm.Output(), "ack "); n < 1+round%3 {
				return fmt.Errorf("%d", n)
			}
			return nil
		}))
		require.NoError(t, r.dhcpd.Kill())
		require.NoError(t, swarm.Kill())
		for line := range strings.Lines(swarm.Output()) {
			f := strings.Fields(line)
			if len(f) != 3 || f[0] != "ack" {
				continue
			}
			before, twice := told[f[2]]
			require.False(t, twice && before != f[1], "%s was given to %s and to %s", f[2], before, f[1])
			told[f[2]] = f[1]
		}
		rows, err := r.leases(ctx)
		require.NoError(t, err)
		stored := map[string]string{}
		for _, x := range rows {
			stored[x.IP] = x.MACAddress
		}
		for ip, mac := range told {
			require.Equal(t, mac, stored[ip], "round %d: %s is forgotten", round, ip)
		}
		require.NoError(t, r.start(ctx))
	}
	require.Greater(t, len(told), 25)
	t.Logf("%d leases over 25 kills", len(told))
	require.NoFileExists(t, filepath.Join(r.dir, "state", "leases.journal.damaged-1"))
}

// behaviours B5, C8: the server's socket is on the VLAN's device alone.
func TestTheServerListensOnItsDeviceAlone(t *testing.T) {
	ctx := t.Context()
	l := lab.ForTest(t)
	r, err := newRig(ctx, l, t.TempDir(), 3600, nil)
	require.NoError(t, err)
	out, err := r.server.Run(ctx, "ss", "-H", "-l", "-n", "-u")
	require.NoError(t, err)
	require.Contains(t, out, serverIP+"%"+device+":67")
	require.Equal(t, 1, strings.Count(out, "\n"))
	pid, err := r.dhcpd.PID()
	require.NoError(t, err)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	require.Contains(t, string(status), "CapEff:\t0000000000002000", "NET_RAW and nothing else")
}
