package dhcp

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/densityops/oooi/e2e/lab"
)

// client is a program that gets an address for eth0 of its host.
type client struct {
	name string
	// prepare makes the host ready, once.
	prepare func(ctx context.Context, h *lab.Host) error
	// start runs the client until it is stopped.
	start func(h *lab.Host) (*lab.Process, error)
	// release has it give its lease back; nil = it never does.
	release func(ctx context.Context, h *lab.Host, p *lab.Process) error
	// reboot ends it as a machine's power would and leaves what a disk keeps;
	// nil = it keeps nothing.
	reboot func(ctx context.Context, h *lab.Host, p *lab.Process) error
	// hostName is a command that says the host name that the server told it.
	hostName string
	// asks is what its first message is when it starts again with what it
	// kept: a REQUEST for its address, or DISCOVER.
	asks string // empty: its own choice
}

// udhcpcScript sets the address as a distribution's script does.
const udhcpcScript = `#!/bin/sh
case $1 in
deconfig) ip addr flush dev "$interface"; ip link set "$interface" up ;;
bound | renew) ip addr replace "$ip/$mask" dev "$interface"; [ -z "$hostname" ] || hostname "$hostname" ;;
esac
`

func run(args ...string) func(*lab.Host) (*lab.Process, error) {
	return func(h *lab.Host) (*lab.Process, error) { return h.Start(lab.Spec{Args: args}) }
}

func sh(ctx context.Context, h *lab.Host, script string) error {
	_, err := h.Run(ctx, "/bin/sh", "-ec", script)
	return err
}

// kill is the power going: of what the kernel knows nothing stays.
func kill(ctx context.Context, h *lab.Host, p *lab.Process) error {
	if err := p.Kill(); err != nil {
		return err
	}
	return sh(ctx, h, "rm -rf /run/NetworkManager /run/dhcpcd /run/dhclient.pid; mkdir /run/dhcpcd; ip addr flush dev eth0; ip link set eth0 down")
}

func udhcpc(name string, flags ...string) client {
	return client{
		name: name,
		prepare: func(ctx context.Context, h *lab.Host) error {
			if err := h.WriteFile(ctx, "/run/udhcpc", udhcpcScript); err != nil {
				return err
			}
			return sh(ctx, h, "chmod +x /run/udhcpc")
		},
		start:    run(append([]string{"busybox", "udhcpc", "-f", "-i", "eth0", "-s", "/run/udhcpc", "-O", "mtu", "-x", "hostname:wrong"}, flags...)...),
		release:  func(_ context.Context, _ *lab.Host, p *lab.Process) error { return p.Signal(syscall.SIGUSR2) },
		reboot:   kill,
		hostName: "hostname",
		asks:     "discover",
	}
}

func dhclient() client {
	files := []string{"-4", "-cf", "/run/dhclient.conf", "-pf", "/run/dhclient.pid", "-lf", "/run/dhclient.leases"}
	return client{
		name: "dhclient",
		prepare: func(ctx context.Context, h *lab.Host) error {
			return sh(ctx, h, `echo 'send host-name "wrong"; request subnet-mask, routers, domain-name-servers, host-name, interface-mtu;' >/run/dhclient.conf
: >/run/dhclient.leases`)
		},
		start: run(append(append([]string{"dhclient", "-d", "-v"}, files...), "eth0")...),
		release: func(ctx context.Context, h *lab.Host, _ *lab.Process) error {
			_, err := h.Run(ctx, append(append([]string{"dhclient", "-r", "-v"}, files...), "eth0")...)
			return err
		},
		reboot:   kill,
		hostName: `sed -n 's/.*host-name "\(.*\)";/\1/p' /run/dhclient.leases | tail -1`,
		asks:     "request",
	}
}

func dhcpcd(name string, flags ...string) client {
	return client{
		name: name,
		prepare: func(ctx context.Context, h *lab.Host) error {
			return sh(ctx, h, `mkdir -p /var/lib/dhcpcd; mount -t tmpfs tmpfs /var/lib/dhcpcd; mkdir -p /run/dhcpcd`)
		},
		start: run(append(append([]string{"dhcpcd", "-B", "-4", "-d", "--noarp", "-h", "wrong"}, flags...), "eth0")...),
		release: func(ctx context.Context, h *lab.Host, _ *lab.Process) error {
			_, err := h.Run(ctx, "dhcpcd", "-4", "-k", "eth0")
			return err
		},
		reboot:   kill,
		hostName: `dhcpcd -4 -U eth0 2>/dev/null | sed -n "s/^host_name='*\([^']*\)'*$/\1/p"`,
		asks:     "request",
	}
}

func networkd(name, options string) client {
	return client{
		name: name,
		prepare: func(ctx context.Context, h *lab.Host) error {
			return sh(ctx, h, `mount -o remount,ro,bind /sys
mkdir -p /run/systemd/network
printf '%s\n' '[Match]' 'Name=eth0' '[Network]' 'DHCP=ipv4' 'LinkLocalAddressing=no' 'IPv6AcceptRA=no' '[DHCPv4]' `+options+` >/run/systemd/network/10-eth0.network`)
		},
		start: func(h *lab.Host) (*lab.Process, error) {
			return h.Start(lab.Spec{Args: []string{"/lib/systemd/systemd-networkd"}, Env: []string{"SYSTEMD_LOG_TARGET=console", "SYSTEMD_LOG_LEVEL=info"}})
		},
		release:  func(_ context.Context, _ *lab.Host, p *lab.Process) error { return p.Stop(time.Minute) },
		hostName: "sed -n s/^HOSTNAME=//p /run/systemd/netif/leases/*",
	}
}

// nmConfig is the part of NetworkManager's configuration that keeps it to its
// own files.
const nmConfig = `[main]
plugins=keyfile
dhcp=internal
rc-manager=file
auth-polkit=false
no-auto-default=*
[keyfile]
path=/run/nm
`

func networkManager(name, options string) client {
	return client{
		name: name,
		prepare: func(ctx context.Context, h *lab.Host) error {
			if err := h.WriteFile(ctx, "/run/nm.conf", nmConfig); err != nil {
				return err
			}
			return sh(ctx, h, `mount -o remount,ro,bind /sys
mkdir -p /run/dbus /run/nm /var/lib/NetworkManager
mount -t tmpfs tmpfs /var/lib/NetworkManager
printf '%s\n' '[connection]' 'id=eth0' 'type=ethernet' 'interface-name=eth0' 'autoconnect=true' '[ipv4]' 'method=auto' `+options+` '[ipv6]' 'method=disabled' >/run/nm/eth0.nmconnection
chmod 600 /run/nm/eth0.nmconnection
dbus-daemon --system --fork`)
		},
		start:    run("NetworkManager", "--debug", "--config", "/run/nm.conf", "--config-dir", "/run/nm.d", "--system-config-dir", "/run/nm.d"),
		reboot:   kill,
		hostName: `nmcli -f DHCP4 device show eth0 | sed -n 's/.* host_name = //p'`,
		// It may find its stored lease too old to ask for: then it discovers.
		asks: "",
	}
}

// everyClient is one of each.
func everyClient() []client {
	return []client{
		udhcpc("udhcpc"),
		udhcpc("udhcpc-broadcast", "-B", "-C"),
		dhclient(),
		dhcpcd("dhcpcd"),
		dhcpcd("dhcpcd-broadcast", "-J", "-I", ""),
		networkd("networkd", "'ClientIdentifier=duid'"),
		networkd("networkd-broadcast", "'ClientIdentifier=mac' 'RequestBroadcast=yes'"),
		networkManager("nm", ""),
		networkManager("nm-duid", "'dhcp-client-id=duid'"),
	}
}

// block keeps a client from reaching the server by unicast, until the returned
// function is called.
func block(ctx context.Context, h *lab.Host) (func() error, error) {
	err := sh(ctx, h, `nft add table ip block
nft 'add chain ip block out { type filter hook output priority 0; }'
nft add rule ip block out ip daddr `+serverIP+` udp dport 67 drop
nft 'add table netdev block'
nft 'add chain netdev block out { type filter hook egress device eth0 priority 0; }'
nft add rule netdev block out ip daddr `+serverIP+` udp dport 67 drop`)
	return func() error {
		return sh(ctx, h, "nft delete table ip block; nft delete table netdev block")
	}, err
}

// waitFor is lab.Until for a condition that says itself why it does not hold.
func waitFor(ctx context.Context, limit time.Duration, what string, ok func() bool, why func() string) error {
	return lab.Until(ctx, limit, what, func(context.Context) error {
		if ok() {
			return nil
		}
		return fmt.Errorf("not yet: %s", strings.TrimSpace(why()))
	})
}
