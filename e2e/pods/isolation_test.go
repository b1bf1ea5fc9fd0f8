package pods

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

// deployBystanders starts what the isolation checks look at.
func (l *lab) deployBystanders(t *testing.T) {
	t.Helper()
	require.NoError(t, l.Apply(t.Context(), testdata(t, "bystander.yaml")))
	_, err := l.Kubectl(t.Context(), "wait", "pod", "-n", "bystander", "--all", "--for=condition=Ready", "--timeout=60s")
	require.NoError(t, err)
}

// nodeOf is the node that runs a process.
func (l *lab) nodeOf(t *testing.T, process string) *node.Box {
	t.Helper()
	for _, box := range l.Nodes {
		if box.Run(t.Context(), "pgrep", "-x", process) == nil {
			return box
		}
	}
	require.Fail(t, "no node runs "+process)
	return nil
}

// checkScan scans the VLAN addresses from a VM (behaviour B5).
func (l *lab) checkScan(t *testing.T, vm *node.VM) {
	for address, want := range map[string]string{
		dhcpIP: "", dnsIP: "53", proxyIP: l.proxyPorts, unfencedIP: "9091",
	} {
		got, err := vm.Output(t.Context(), l.standin, "scan", "tcp", address)
		require.NoError(t, err)
		require.Equal(t, want, strings.Join(strings.Fields(got), " "), "TCP ports of %s", address)
	}
	for address, allowed := range map[string][]string{dhcpIP: nil, dnsIP: {"53"}, proxyIP: nil} {
		got, err := vm.Output(t.Context(), l.standin, "scan", "udp", address)
		require.NoError(t, err)
		require.Subset(t, allowed, strings.Fields(got), "UDP ports of %s", address)
	}
	l.progress.Say("the port scans found what they should and no more")
}

// checkCrossing routes packets of a VM through each server address towards
// what lies behind it. The pod without a fence shows that the packets and the
// eyes are real (behaviour B5).
func (l *lab) checkCrossing(t *testing.T, vm *node.VM) {
	bystander := l.podIP(t, "bystander", "app=bystander")
	for via, selector := range map[string]string{
		unfencedIP: "app=unfenced",
		dhcpIP:     "app.kubernetes.io/component=dhcp", dnsIP: "app.kubernetes.io/component=dns", proxyIP: "app.kubernetes.io/component=proxy",
	} {
		open, where := via == unfencedIP, l.namespace
		if open {
			where = "bystander"
		}
		own := l.podIP(t, where, selector)
		routes := []string{own.String() + "/32", bystander.String() + "/32", "172.30.0.0/16"}
		targets := []string{bystander.String() + ":8080", "172.30.12.1:8080", "172.30.0.1:443"}
		for i := range l.Nodes {
			routes = append(routes, node.Address(i+1).String()+"/32")
			targets = append(targets, node.Address(i+1).String()+":10250")
		}
		for _, route := range routes {
			require.NoError(t, vm.Run(t.Context(), "ip", "route", "replace", route, "via", via))
		}
		got, err := vm.Output(t.Context(), l.standin, "scan", "known", own.String())
		require.NoError(t, err)
		require.Equal(t, open, strings.TrimSpace(got) != "", "the pod's own address through %s: %q", via, got)
		mark := "through-" + via
		for target, port := range map[string]int{bystander.String(): 9999, "172.30.12.1": 9999} {
			require.NoError(t, vm.Run(t.Context(), l.standin, "send", target+":"+strconv.Itoa(port), mark))
		}
		for _, target := range targets {
			require.Error(t, vm.Run(t.Context(), l.standin, "tls", target), "%s through %s", target, via)
		}
		l.expectDatagram(t, mark, open)
		for _, route := range routes {
			require.NoError(t, vm.Run(t.Context(), "ip", "route", "del", route))
		}
	}
	l.progress.Say("nothing passes through a server address")
}

// expectDatagram looks into the bystander's log. The datagram was sent seconds
// ago: what is not there now never arrived.
func (l *lab) expectDatagram(t *testing.T, mark string, want bool) {
	t.Helper()
	logs, err := l.Kubectl(t.Context(), "logs", "-n", "bystander", "bystander")
	require.NoError(t, err)
	require.Equal(t, want, strings.Contains(logs, mark), "a datagram %q at the bystander", mark)
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
