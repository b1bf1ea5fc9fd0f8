package pods

import (
	"context"
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

// deployBystanders starts what the isolation checks look at.
func (l *lab) deployBystanders(t *testing.T) {
	t.Helper()
	require.NoError(t, l.Apply(t.Context(), testdata(t, "bystander.yaml")))
	_, err := l.Kubectl(t.Context(), "wait", "pod", "-n", "bystander", "--all", "--for=condition=Ready", "--timeout=3m")
	require.NoError(t, err)
}

// nodeOf is the node that runs a process.
func (l *lab) nodeOf(t *testing.T, process string) *node.Box {
	t.Helper()
	var found *node.Box
	require.NoError(t, node.Wait(t.Context(), patience, "a node that runs "+process, func(ctx context.Context) error {
		for _, box := range l.Nodes {
			has, err := running(ctx, box, process)
			if err != nil {
				return err
			}
			if len(has) > 0 {
				found = box
				return nil
			}
		}
		return errors.New("none does")
	}))
	return found
}

// running are those of some processes that a node has, each once, sorted.
func running(ctx context.Context, box *node.Box, processes ...string) ([]string, error) {
	// By 1 pgrep says that there is none; anything else is an error.
	out, err := box.Script(ctx, `{ pgrep -lx "$NAMES" || test $? = 1; } | awk '{ print $2 }' | sort -u`, "NAMES="+strings.Join(processes, "|"))
	return strings.Fields(out), err
}

// checkScan scans the VLAN addresses from a VM (behaviour B5). What a scan misses
// on a busy machine, because it does not wait for long, is asked for again.
func (l *lab) checkScan(t *testing.T, vm *node.VM) {
	for address, open := range map[string]string{
		dhcpIP: "", dnsIP: "53", proxyIP: l.proxyPorts, unfencedIP: "9091",
	} {
		want := strings.Fields(open)
		got, err := vm.Output(t.Context(), l.standin, "scan", "tcp", address)
		require.NoError(t, err)
		known, err := vm.Output(t.Context(), "ip", "neigh", "show", address, "dev", "eth0")
		require.NoError(t, err)
		require.Contains(t, known, "lladdr", "nobody has %s, which was scanned", address)
		require.Subset(t, want, strings.Fields(got), "TCP ports of %s", address)
		for i := range want {
			want[i] = address + ":" + want[i]
		}
		require.NoError(t, node.Wait(t.Context(), patience, "the open ports of "+address, func(ctx context.Context) error {
			got, err := vm.Output(ctx, l.standin, "sweep", address)
			if err == nil && !slices.Equal(want, strings.Fields(got)) {
				err = errors.New("they are " + got)
			}
			return err
		}))
	}
	for _, address := range []string{dhcpIP, proxyIP} {
		got, err := vm.Output(t.Context(), l.standin, "scan", "udp", address)
		require.NoError(t, err)
		require.Empty(t, strings.Fields(got), "UDP ports of %s", address)
	}
	// That of DNS is found: the scan would have seen one of the others.
	require.NoError(t, node.Wait(t.Context(), patience, "the UDP ports of "+dnsIP, func(ctx context.Context) error {
		got, err := vm.Output(ctx, l.standin, "scan", "udp", dnsIP)
		require.Subset(t, []string{"53"}, strings.Fields(got), "UDP ports of %s", dnsIP)
		if err == nil && strings.TrimSpace(got) != "53" {
			err = errors.New("they are " + got)
		}
		return err
	}))
	l.progress.Say("the port scans found what they should and no more")
}

// checkCrossing routes packets of a VM through each server address towards
// what lies behind it: every pod, every Service, the nodes and the API server.
// The pod without a fence comes last and shows that the packets and the eyes are
// real (behaviour B5).
func (l *lab) checkCrossing(t *testing.T, vm *node.VM) {
	bystander := l.podIP(t, "bystander", "app=bystander")
	sinks := []string{bystander.String() + ":9999", "172.30.12.1:9999"}
	targets := l.addresses(t)
	l.watchForwarding(t)
	const mark = "through-"
	for _, via := range []string{dhcpIP, dnsIP, proxyIP} {
		l.routeThrough(t, vm, via)
		before := l.forwarded(t)
		for _, sink := range sinks {
			require.NoError(t, vm.Run(t.Context(), l.standin, "send", sink, mark+via))
		}
		got, err := vm.Output(t.Context(), l.standin, append([]string{"sweep"}, targets...)...)
		require.NoError(t, err)
		require.Empty(t, got, "reached through %s", via)
		require.Equal(t, before, l.forwarded(t), "packets that were forwarded through %s", via)
	}
	l.routeThrough(t, vm, unfencedIP)
	before := l.forwarded(t)
	own := l.podIP(t, "bystander", "app=unfenced")
	require.NoError(t, node.Wait(t.Context(), patience, "the pod without a fence on its own address", func(ctx context.Context) error {
		got, err := vm.Output(ctx, l.standin, "sweep", own.String())
		if err == nil && strings.TrimSpace(got) != own.String()+":9091" {
			err = errors.New("found " + got)
		}
		return err
	}))
	// A datagram that comes through now has those before it in front of it.
	require.NoError(t, node.Wait(t.Context(), patience, "a datagram through the pod without a fence", func(ctx context.Context) error {
		for _, sink := range sinks {
			if err := vm.Run(ctx, l.standin, "send", sink, mark+unfencedIP); err != nil {
				return err
			}
		}
		logs, err := l.Kubectl(ctx, "logs", "-n", "bystander", "bystander")
		if err == nil && !strings.Contains(logs, mark+unfencedIP) {
			err = errors.New("the bystander says " + logs)
		}
		return err
	}))
	require.NotEqual(t, before, l.forwarded(t), "the pod without a fence forwards")
	logs, err := l.Kubectl(t.Context(), "logs", "-n", "bystander", "bystander")
	require.NoError(t, err)
	for _, via := range []string{dhcpIP, dnsIP, proxyIP} {
		require.NotContains(t, logs, mark+via, "a datagram at the bystander")
	}
	l.progress.Say("nothing of %d addresses is reached through a server address", len(targets))
}

// routeThrough has a VM send all that is not on the VLAN through an address.
func (l *lab) routeThrough(t *testing.T, vm *node.VM, via string) {
	t.Helper()
	for _, route := range []string{"10.244.0.0/16", node.ServiceCIDR, node.Network} {
		require.NoError(t, vm.Run(t.Context(), "ip", "route", "replace", route, "via", via))
	}
}

// addresses are those of all pods, all Services, all nodes, and the API server's.
func (l *lab) addresses(t *testing.T) []string {
	t.Helper()
	seen := map[string]bool{node.ControlAddress: true}
	for _, query := range [][]string{
		{"pods", "jsonpath={.items[*].status.podIP}"},
		{"services", "jsonpath={.items[*].spec.clusterIP}"},
		{"nodes", `jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}`},
	} {
		out, err := l.Kubectl(t.Context(), "get", query[0], "-A", "-o", query[1])
		require.NoError(t, err)
		require.NotEmpty(t, out, query[0])
		for address := range strings.FieldsSeq(out) {
			if address != "None" {
				seen[address] = true
			}
		}
	}
	all := make([]string, 0, len(seen))
	for address := range seen {
		require.True(t, netip.MustParseAddr(address).Is4())
		all = append(all, address)
	}
	return all
}

// watchForwarding has every node count the packets that come out of a pod with a
// source on the VLAN. The pods inherit ip_forward=1, as in the field.
func (l *lab) watchForwarding(t *testing.T) {
	t.Helper()
	for _, box := range l.Nodes {
		_, err := box.Script(t.Context(), `nft -f - <<-END
			table ip lookout
			delete table ip lookout
			table ip lookout {
				counter forwarded { }
				chain seen {
					type filter hook prerouting priority -350;
					iifname "veth*" ip saddr 192.0.2.0/24 counter name forwarded
				}
			}
		END`)
		require.NoError(t, err)
	}
	for _, process := range []string{"dhcpd", "coredns", "envoy", "xds-manager"} {
		out, err := l.nodeOf(t, process).Script(t.Context(), `nsenter -t "$(pgrep -ox "$NAME")" --net cat /proc/sys/net/ipv4/ip_forward`, "NAME="+process)
		require.NoError(t, err)
		require.Equal(t, "1", strings.TrimSpace(out), "ip_forward in the pod of %s", process)
	}
}

var packets = regexp.MustCompile(`packets \d+`)

// forwarded is the count of each node.
func (l *lab) forwarded(t *testing.T) []string {
	t.Helper()
	var counts []string
	for _, box := range l.Nodes {
		out, err := box.Output(t.Context(), "nft", "list", "counter", "ip", "lookout", "forwarded")
		require.NoError(t, err)
		count := packets.FindString(out)
		require.NotEmpty(t, count, out)
		counts = append(counts, box.Name+": "+count)
	}
	return counts
}

func (l *lab) podIP(t *testing.T, ns, selector string) netip.Addr {
	t.Helper()
	out, err := l.Kubectl(t.Context(), "get", "pod", "-n", ns, "-l", selector, "-o", "jsonpath={.items[0].status.podIP}")
	require.NoError(t, err)
	return netip.MustParseAddr(out)
}

// checkSockets looks at every listening socket of the pods: it is bound to a
// device or it is the loopback's (behaviour B5).
func (l *lab) checkSockets(t *testing.T) {
	for _, process := range []string{"dhcpd", "coredns", "envoy"} {
		out, err := l.nodeOf(t, process).Script(t.Context(), `nsenter -t "$(pgrep -ox "$NAME")" --net ss -Hlntu`, "NAME="+process)
		require.NoError(t, err)
		require.NotEmpty(t, out)
		for line := range strings.Lines(out) {
			local := strings.Fields(line)[4]
			bound := strings.Contains(local, "%vlan0:") || strings.Contains(local, "%eth0:") || strings.HasPrefix(local, "127.")
			require.True(t, bound, "a socket of %s's pod is bound to no device: %s", process, line)
		}
	}
}
