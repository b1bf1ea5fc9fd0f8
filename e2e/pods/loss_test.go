package pods

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

// checkNodeLost cuts the power of the node that runs the data plane: its pods
// start on the other node, and the VM's address is still the VM's (behaviours
// B4, C5).
func (l *lab) checkNodeLost(t *testing.T, vm *node.VM, cluster *hostedCluster) {
	l.gatherDataPlane(t)
	before, err := vm.Boot(t.Context())
	require.NoError(t, err)

	start := time.Now()
	require.NoError(t, l.KillNode(t.Context(), 2))
	l.progress.Say("node2 is lost")
	require.NoError(t, node.Wait(t.Context(), 3*time.Minute, "DNS on the other node", l.resolves(vm, "api."+domainA, proxyIP)))
	l.progress.Say("DNS answers %.0fs after the loss", time.Since(start).Seconds())
	require.NoError(t, node.Wait(t.Context(), time.Minute, "the proxy on the other node", l.reaches(vm, "", l.a+"/api")))
	l.progress.Say("the proxy answers %.0fs after the loss", time.Since(start).Seconds())
	require.NoError(t, node.Wait(t.Context(), time.Minute, "a lease from the other node", func(ctx context.Context) error {
		after, err := vm.Boot(ctx)
		if err == nil {
			require.Equal(t, before, after, "a lost node must not cost a VM its address")
		}
		return err
	}))
	l.progress.Say("the VM has its lease again %.0fs after the loss", time.Since(start).Seconds())
	require.NoError(t, l.asks(t.Context(), vm, cluster, "https://api."+cluster.domain()+":6443"))

	require.NoError(t, l.StartNode(t.Context(), 2))
	l.expect(t, 2*time.Minute, "infra/tenant-vlan100", "Available", "True")
}

// checkNodeCut cuts the node that runs the data plane off the others while both
// stay on the VLAN: two of everything live there. Whoever answers gives the VM
// its own address, and after mending there is one of each again (behaviour C6).
func (l *lab) checkNodeCut(t *testing.T, vm *node.VM, cluster *hostedCluster) {
	l.gatherDataPlane(t)
	before, err := vm.Boot(t.Context())
	require.NoError(t, err)
	start := time.Now()
	require.NoError(t, l.Partition(t.Context(), 2, true))
	l.progress.Say("node2 is cut off")
	require.NoError(t, node.Wait(t.Context(), 3*time.Minute, "the successors on node1", func(ctx context.Context) error {
		if lease, err := vm.Boot(ctx); err == nil {
			require.Equal(t, before["ip"], lease["ip"], "another address while two servers live")
		}
		for _, process := range []string{"dhcpd", "coredns", "envoy"} {
			if err := l.Nodes[0].Run(ctx, "pgrep", "-x", process); err != nil {
				return err
			}
		}
		return nil
	}))
	l.progress.Say("the successors run %.0fs after the cut", time.Since(start).Seconds())
	require.NoError(t, l.Partition(t.Context(), 2, false))
	require.NoError(t, node.Wait(t.Context(), 2*time.Minute, "one of each", func(ctx context.Context) error {
		out, err := l.Nodes[1].Output(ctx, "bash", "-c", "pgrep -x dhcpd; pgrep -x coredns; pgrep -x envoy; true")
		if err == nil && out != "" {
			err = errors.New("the cut-off pods still run")
		}
		return err
	}))
	l.expect(t, 2*time.Minute, "infra/tenant-vlan100", "Available", "True")
	require.NoError(t, node.Wait(t.Context(), time.Minute, "the VM to be served", func(ctx context.Context) error {
		after, err := vm.Boot(ctx)
		if err != nil {
			return err
		}
		require.Equal(t, before, after)
		return l.asks(ctx, vm, cluster, "https://api."+cluster.domain()+":6443")
	}))
	l.progress.Say("node2 is mended and the VM is served")
}

// gatherDataPlane has the operator on node1 and everything else on node2.
func (l *lab) gatherDataPlane(t *testing.T) {
	t.Helper()
	l.gather(t, 1, "oooi-system", "app.kubernetes.io/name=oooi-operator", "oooi-operator")
	l.gather(t, 2, l.namespace, "app.kubernetes.io/managed-by=oooi-operator", "tenant-vlan100-dhcp", "tenant-vlan100-dns", "tenant-vlan100-proxy")
	l.whole(t)
	l.expect(t, time.Minute, "infra/tenant-vlan100", "Available", "True")
}

// gather has the pods of Deployments on one node.
func (l *lab) gather(t *testing.T, index int, ns, selector string, deployments ...string) {
	t.Helper()
	other := node.Name(3 - index)
	_, err := l.Kubectl(t.Context(), "cordon", other)
	require.NoError(t, err)
	_, err = l.Kubectl(t.Context(), "delete", "pods", "-n", ns, "-l", selector, "--field-selector", "spec.nodeName="+other, "--wait", "--timeout=150s")
	require.NoError(t, err)
	for _, deployment := range deployments {
		l.rollout(t, ns, deployment)
	}
	_, err = l.Kubectl(t.Context(), "uncordon", other)
	require.NoError(t, err)
}
