package pods

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/densityops/oooi/e2e/node"
)

// serving are the processes behind the addresses of the VLAN.
var serving = map[string]string{dhcpIP: "dhcpd", dnsIP: "coredns", proxyIP: "envoy"}

// acquaint has a VM know the hardware address of each server, and trust it for an
// hour: whatever changes that within minutes is what it is told.
func (l *lab) acquaint(t *testing.T, vm *node.VM) {
	t.Helper()
	_, err := vm.Script(t.Context(), `echo 3600000 >/proc/sys/net/ipv4/neigh/eth0/base_reachable_time_ms`)
	require.NoError(t, err)
	for address, process := range serving {
		owner, err := l.owner(t.Context(), process)
		require.NoError(t, err)
		require.NoError(t, vm.Run(t.Context(), "ip", "neigh", "replace", address, "lladdr", owner, "nud", "reachable", "dev", "eth0"))
	}
}

// learns waits until a VM that sends nothing knows the hardware address that each
// server has now, and finds in the capture how it was told.
func (l *lab) learns(t *testing.T, vm *node.VM) {
	t.Helper()
	for address, process := range serving {
		var owner string
		require.NoError(t, node.Wait(t.Context(), patience, "a neighbour to learn who is "+address, func(ctx context.Context) (err error) {
			if owner, err = l.owner(ctx, process); err != nil {
				return err
			}
			out, err := vm.Output(ctx, "ip", "neigh", "show", address, "dev", "eth0")
			if err == nil && !strings.Contains(out, "lladdr "+owner+" ") {
				err = fmt.Errorf("%s is at %s, the neighbour has %q", address, owner, out)
			}
			return err
		}))
		l.announced(t, address, owner)
	}
}

// announced looks for a broadcast by which an owner made its address known; that of
// DHCP is a gratuitous one, which asks for nobody else.
func (l *lab) announced(t *testing.T, address, owner string) {
	t.Helper()
	filter := "arp and ether src " + owner + " and ether broadcast and arp src host " + address
	if address == dhcpIP {
		filter += " and arp dst host " + address
	}
	require.NoError(t, node.Wait(t.Context(), patience, "an announcement of "+address, func(ctx context.Context) error {
		out, err := l.Switch.Output(ctx, "tcpdump", "-nr", filepath.Join(l.Switch.Logs, "vlan.pcap"), filter)
		if out == "" && err == nil {
			err = errors.New("none was captured: " + filter)
		}
		return err
	}))
}

var hardware = regexp.MustCompile(`link/ether (\S+) `)

// owner is the hardware address on the VLAN of the pod that runs a process, on the
// first node that has one.
func (l *lab) owner(ctx context.Context, process string) (string, error) {
	for _, box := range l.Nodes {
		out, err := box.Script(ctx, `pid=$(pgrep -ox "$NAME" || test $? = 1); test -z "$pid" || nsenter -t "$pid" --net ip -o link show vlan0`, "NAME="+process)
		if err != nil {
			return "", err
		}
		if found := hardware.FindStringSubmatch(out); found != nil {
			return found[1], nil
		}
	}
	return "", errors.New("no node runs " + process)
}

// oneOwnerEach waits until each server address has one owner, as a VM sees it that
// asks for it, and returns how long that took.
func (l *lab) oneOwnerEach(t *testing.T, vm *node.VM) time.Duration {
	t.Helper()
	start := time.Now()
	l.ownersEach(t, vm, 1)
	took := time.Since(start)
	l.progress.Say("each server address has one owner %.1fs after node2 is back", took.Seconds())
	return took
}

// twoOwnersEach waits until each server address has two owners.
func (l *lab) twoOwnersEach(t *testing.T, vm *node.VM) {
	t.Helper()
	l.ownersEach(t, vm, 2)
}

// ownersEach waits until each server address has so many owners, all at once: each
// time one is asked for takes a second.
func (l *lab) ownersEach(t *testing.T, vm *node.VM, count int) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	for address := range serving {
		group.Go(func() error {
			return node.Wait(ctx, patience, fmt.Sprintf("%s to have %d owners", address, count), func(ctx context.Context) error {
				owners, err := owners(ctx, vm, address)
				if err == nil && len(owners) != count {
					err = fmt.Errorf("it has %v", owners)
				}
				return err
			})
		})
	}
	require.NoError(t, group.Wait())
}

var reply = regexp.MustCompile(`reply from \S+ \[([0-9A-Fa-f:]+)\]`)

// owners are the hardware addresses that answer for an address within a second.
func owners(ctx context.Context, vm *node.VM, address string) ([]string, error) {
	out, err := vm.Output(ctx, "busybox", "arping", "-b", "-c", "1", "-w", "1", "-I", "eth0", address)
	var found []string
	for _, r := range reply.FindAllStringSubmatch(out, -1) {
		found = append(found, strings.ToLower(r[1]))
	}
	slices.Sort(found)
	return slices.Compact(found), err
}
