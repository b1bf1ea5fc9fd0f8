package node

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
)

// The addresses of the lab. They lie in namespaces of their own and so meet
// nothing of the machine's.
const (
	ServiceCIDR  = "172.30.0.0/16"
	APIServiceIP = "172.30.0.1"
	ClusterDNS   = "172.30.0.10"
	// Network is that of the nodes and the control plane.
	Network = "10.91.0.0/24"
	// ControlAddress is the control plane's there.
	ControlAddress = "10.91.0.1"
	controlIP      = ControlAddress
	worldIP        = "10.91.0.254"
	UpstreamDNS    = "198.51.100.53"
	Registry       = worldIP + ":5000"
	nodeNet        = "nodenet"
	vlanBridge     = "vlan100"
	switchBoxName  = "sw"
)

// nodeIP is the address of the node with that index, counted from 1.
func nodeIP(index int) string { return fmt.Sprintf("10.91.0.%d", 10+index) }

// podCIDR is the pod network of the node with that index.
func podCIDR(index int) string { return fmt.Sprintf("10.244.%d.0/24", index) }

// ip runs ip(8) of iproute2, one command a line.
func ip(ctx context.Context, lines ...string) error {
	for _, line := range lines {
		if _, err := output(exec.CommandContext(ctx, "ip", strings.Fields(line)...)); err != nil {
			return err
		}
	}
	return nil
}

// netns is the full name of a network namespace of this cluster.
func (c *Cluster) netns(name string) string { return c.state.ID + "-" + name }

func (c *Cluster) addNetns(ctx context.Context, name string) (string, error) {
	full := c.netns(name)
	if err := c.note(func(s *state) { s.Netns = append(s.Netns, full) }); err != nil {
		return "", err
	}
	return full, ip(ctx, "netns add "+full, "-n "+full+" link set lo up")
}

// port joins a namespace to a bridge of the switch: dev is its name inside,
// peer the name of the bridge's port.
func (c *Cluster) port(ctx context.Context, ns, dev, bridge, peer string) error {
	sw := c.netns(switchBoxName)
	return ip(ctx,
		fmt.Sprintf("-n %s link add %s type veth peer name %s netns %s", sw, peer, dev, ns),
		fmt.Sprintf("-n %s link set %s master %s up", sw, peer, bridge),
		fmt.Sprintf("-n %s link set %s up", ns, dev))
}

// buildSwitch makes the namespace that holds both bridges.
func (c *Cluster) buildSwitch(ctx context.Context) error {
	sw, err := c.addNetns(ctx, switchBoxName)
	if err != nil {
		return err
	}
	for _, bridge := range []string{nodeNet, vlanBridge} {
		if err := ip(ctx, fmt.Sprintf("-n %s link add %s type bridge", sw, bridge),
			fmt.Sprintf("-n %s link set %s up", sw, bridge)); err != nil {
			return err
		}
	}
	c.Switch, err = c.box(ctx, "switch", sw)
	return err
}

// captured is what a person wants to see of the VLAN afterwards: who has which
// address, DHCP, DNS, and how connections begin and end.
const captured = "arp or udp port 67 or port 53 or (tcp[tcpflags] & (tcp-syn|tcp-rst|tcp-fin) != 0 and (port 443 or port 6443))"

// Capture records packets of the VLAN beside the logs.
func (c *Cluster) Capture() error {
	_, err := c.Switch.Daemon("tcpdump", "tcpdump", "-Z", "root", "-n", "-U", "-s", "256", "-i", vlanBridge,
		"-w", filepath.Join(c.Switch.Logs, "vlan.pcap"), captured)
	return err
}

// member makes a namespace on the network of the nodes.
func (c *Cluster) member(ctx context.Context, name, addr string) (string, error) {
	ns, err := c.addNetns(ctx, name)
	if err != nil {
		return "", err
	}
	if err := c.port(ctx, ns, "eth0", nodeNet, name); err != nil {
		return "", err
	}
	if err := ip(ctx, fmt.Sprintf("-n %s addr add %s/24 dev eth0", ns, addr)); err != nil {
		return "", err
	}
	// kube-apiserver ends at once in a namespace without a default route.
	if addr != worldIP {
		err = ip(ctx, fmt.Sprintf("-n %s route add default via %s dev eth0", ns, worldIP))
	} else {
		err = ip(ctx, fmt.Sprintf("-n %s addr add %s/32 dev lo", ns, UpstreamDNS))
	}
	return ns, err
}

// routePods tells a namespace where the pods of every node are.
func (c *Cluster) routePods(ctx context.Context, ns string, self int) error {
	for i := 1; i <= c.opts.Nodes; i++ {
		if i == self {
			continue
		}
		if err := ip(ctx, fmt.Sprintf("-n %s route add %s via %s dev eth0", ns, podCIDR(i), nodeIP(i))); err != nil {
			return err
		}
	}
	return nil
}

// plugVLAN gives a node its two ways into the VLAN: the bridge vlan100, for
// NADs of type bridge, and vlan100u, the master of NADs of type macvlan.
func (c *Cluster) plugVLAN(ctx context.Context, ns string, index int) error {
	name := fmt.Sprintf("n%d", index)
	if err := c.port(ctx, ns, "eth1", vlanBridge, name+"t"); err != nil {
		return err
	}
	if err := c.port(ctx, ns, "vlan100u", vlanBridge, name+"u"); err != nil {
		return err
	}
	return ip(ctx,
		fmt.Sprintf("-n %s link add %s type bridge", ns, vlanBridge),
		fmt.Sprintf("-n %s link set %s up", ns, vlanBridge),
		fmt.Sprintf("-n %s link set eth1 master %s", ns, vlanBridge))
}

// Partition cuts a node off the network of the nodes, or mends it.
func (c *Cluster) Partition(ctx context.Context, index int, cut bool) error {
	state := "up"
	if cut {
		state = "down"
	}
	return ip(ctx, fmt.Sprintf("-n %s link set %s %s", c.netns(switchBoxName), Name(index), state))
}

// PodCIDR is the pod network of a node as the tests want it.
func PodCIDR(index int) netip.Prefix { return netip.MustParsePrefix(podCIDR(index)) }

// Address is the address of a node as the tests want it.
func Address(index int) netip.Addr { return netip.MustParseAddr(nodeIP(index)) }
