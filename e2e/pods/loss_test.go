package pods

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

// What case C46 gives: the time for a lost node's services to be back, and for
// two pods with one address.
const (
	lostAtMost  = 90 * time.Second
	twiceAtMost = 15 * time.Second
)

// checkNodeLost cuts the power of the node that runs the data plane: its pods
// start on the other node, and the VM's address is still the VM's. A neighbour
// that says nothing learns where the addresses are now (behaviours B4, B5, C5;
// case C46; hazards 182, 243).
func (l *lab) checkNodeLost(t *testing.T, vm, neighbour *node.VM, cluster *hostedCluster) {
	l.gatherDataPlane(t)
	before, err := vm.Boot(t.Context())
	require.NoError(t, err)
	l.acquaint(t, neighbour)

	start := time.Now()
	require.NoError(t, l.KillNode(t.Context(), 2))
	l.progress.Say("node2 is lost")
	for _, service := range []struct {
		what    string
		answers func(context.Context) error
	}{
		{"DNS", l.resolves(vm, "api."+domainA, proxyIP)},
		{"the proxy", l.reaches(vm, "", l.a+"/api")},
		{"DHCP", func(ctx context.Context) error {
			after, err := vm.Boot(ctx)
			if err == nil {
				require.Equal(t, before, after, "a lost node must not cost a VM its address")
			}
			return err
		}},
	} {
		require.NoError(t, node.Wait(t.Context(), lostAtMost-time.Since(start), service.what+" on the other node", service.answers))
		l.progress.Say("%s answers %.0fs after the loss", service.what, time.Since(start).Seconds())
	}
	l.learns(t, neighbour)
	l.progress.Say("a silent neighbour knows all three %.0fs after the loss", time.Since(start).Seconds())
	require.NoError(t, node.Wait(t.Context(), patience, "the VM's API server", func(ctx context.Context) error {
		return l.asks(ctx, vm, cluster, "https://api."+cluster.domain()+":6443")
	}))

	require.NoError(t, l.StartNode(t.Context(), 2))
	l.whole(t)
	l.expect(t, "infra/tenant-vlan100", "Available", "True")
}

// checkNodePaused stops the kubelet and the container runtime of the node that runs
// the data plane, whose pods live on: their successors come, and once both go on
// there are no longer two of each than the case allows (case C46, hazard 244).
func (l *lab) checkNodePaused(t *testing.T, vm, neighbour *node.VM, cluster *hostedCluster) {
	l.gatherDataPlane(t)
	before, err := vm.Boot(t.Context())
	require.NoError(t, err)
	pause := func(paused bool) {
		t.Helper()
		// What the kubelet asks for first is to be there.
		for _, daemon := range []string{"containerd", "kubelet"} {
			require.NoError(t, l.Nodes[1].Pause(daemon, paused))
		}
	}
	start := time.Now()
	pause(true)
	l.progress.Say("kubelet and container runtime of node2 are stopped")
	l.successors(t, vm, before)
	l.twoOwnersEach(t, neighbour)
	l.progress.Say("each server address has two owners %.0fs later", time.Since(start).Seconds())
	require.NoError(t, node.Wait(t.Context(), patience, "either owner to serve", func(ctx context.Context) error {
		return l.asks(ctx, vm, cluster, "https://api."+cluster.domain()+":6443")
	}))
	pause(false)
	require.Less(t, l.oneOwnerEach(t, neighbour), twiceAtMost)
	l.oneOfEach(t)
	after, err := vm.Boot(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, after)
	l.welcomes(t, "newcomer", "02:00:5e:10:00:77")
}

// welcomes waits until a VM that nobody knows is given an address, as is so once
// no other station has been heard with the server's address for a while.
func (l *lab) welcomes(t *testing.T, name, mac string) {
	t.Helper()
	vm, err := l.VM(t.Context(), name, mac)
	require.NoError(t, err)
	start := time.Now()
	require.NoError(t, node.Wait(t.Context(), patience, "an address for "+name, func(ctx context.Context) error {
		_, err := vm.Boot(ctx)
		return err
	}))
	l.progress.Say("%s is given an address after %.0fs", name, time.Since(start).Seconds())
}

// checkNodeCut cuts the node that runs the data plane off the others while both
// stay on the VLAN: two of everything live there. Whoever answers gives the VM
// its own address, and after mending there is one of each again, as soon as the
// node's kubelet tries its API server again (behaviour C6, hazard 244).
func (l *lab) checkNodeCut(t *testing.T, vm, neighbour *node.VM, cluster *hostedCluster) {
	l.gatherDataPlane(t)
	before, err := vm.Boot(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Partition(t.Context(), 2, true))
	l.progress.Say("node2 is cut off")
	l.successors(t, vm, before)
	require.NoError(t, l.Partition(t.Context(), 2, false))
	l.oneOwnerEach(t, neighbour)
	l.oneOfEach(t)
	require.NoError(t, node.Wait(t.Context(), patience, "the VM to be served", func(ctx context.Context) error {
		after, err := vm.Boot(ctx)
		if err != nil {
			return err
		}
		require.Equal(t, before, after)
		return l.asks(ctx, vm, cluster, "https://api."+cluster.domain()+":6443")
	}))
	l.progress.Say("node2 is mended and the VM is served")
}

// successors waits until node1 runs all of the data plane, for as long as case C46
// allows, while a VM is given its own address by whoever answers.
func (l *lab) successors(t *testing.T, vm *node.VM, before node.Lease) {
	t.Helper()
	start := time.Now()
	require.NoError(t, node.Wait(t.Context(), lostAtMost, "the successors on node1", func(ctx context.Context) error {
		if lease, err := vm.Boot(ctx); err == nil {
			require.Equal(t, before["ip"], lease["ip"], "another address while two servers live")
		}
		running, err := running(ctx, l.Nodes[0], daemons...)
		if err == nil && !slices.Equal(running, daemons) {
			err = fmt.Errorf("node1 runs %v", running)
		}
		return err
	}))
	l.progress.Say("the successors run %.0fs later", time.Since(start).Seconds())
}

// oneOfEach waits until node2 runs nothing of the data plane any more, and the
// operator is content.
func (l *lab) oneOfEach(t *testing.T) {
	t.Helper()
	l.left(t, 2)
	l.whole(t)
	l.expect(t, "infra/tenant-vlan100", "Available", "True")
}

// left waits until a node runs nothing of the data plane any more, whatever the API
// server says of its pods.
func (l *lab) left(t *testing.T, index int) {
	t.Helper()
	require.NoError(t, node.Wait(t.Context(), patience, "the data plane to leave "+node.Name(index), func(ctx context.Context) error {
		running, err := running(ctx, l.Nodes[index-1], daemons...)
		if err == nil && len(running) > 0 {
			err = fmt.Errorf("%s still runs %v", node.Name(index), running)
		}
		return err
	}))
}

// daemons are the processes with an address on the VLAN, sorted.
var daemons = []string{"coredns", "dhcpd", "envoy"}

// gatherDataPlane has the operator on node1 and everything else on node2.
func (l *lab) gatherDataPlane(t *testing.T) {
	t.Helper()
	l.gather(t, 1, "oooi-system", "app.kubernetes.io/name=oooi-operator", "oooi-operator")
	l.gather(t, 2, l.namespace, "app.kubernetes.io/managed-by=oooi-operator", "tenant-vlan100-dhcp", "tenant-vlan100-dns", "tenant-vlan100-proxy")
	l.left(t, 1)
	l.whole(t)
	l.expect(t, "infra/tenant-vlan100", "Available", "True")
}

// gather has the pods of Deployments on one node.
func (l *lab) gather(t *testing.T, index int, ns, selector string, deployments ...string) {
	t.Helper()
	other := node.Name(3 - index)
	_, err := l.Kubectl(t.Context(), "cordon", other)
	require.NoError(t, err)
	_, err = l.Kubectl(t.Context(), "delete", "pods", "-n", ns, "-l", selector, "--field-selector", "spec.nodeName="+other, "--wait", "--timeout=3m")
	require.NoError(t, err)
	for _, deployment := range deployments {
		l.rollout(t, ns, deployment)
	}
	_, err = l.Kubectl(t.Context(), "uncordon", other)
	require.NoError(t, err)
}
