package pods

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

// checkNodeLost cuts the power of the node that runs the data plane: its pods
// start on the other node, and the VM's address is still the VM's (behaviours
// B4, C5).
func (l *lab) checkNodeLost(t *testing.T, vm *node.VM, cluster *hostedCluster) {
	l.gather(t, 1, "oooi-system", "app.kubernetes.io/name=oooi-operator", "deployment/oooi-operator")
	for _, component := range []string{"dhcp", "dns", "proxy"} {
		l.gather(t, 2, l.namespace, "app.kubernetes.io/component="+component, "deployment/tenant-vlan100-"+component)
	}
	l.expect(t, time.Minute, "infra/tenant-vlan100", "Available", "True")
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

// gather has the pods of a Deployment on one node.
func (l *lab) gather(t *testing.T, index int, ns, selector, deployment string) {
	t.Helper()
	other := node.NodeName(3 - index)
	_, err := l.Kubectl(t.Context(), "cordon", other)
	require.NoError(t, err)
	_, err = l.Kubectl(t.Context(), "delete", "pods", "-n", ns, "-l", selector, "--field-selector", "spec.nodeName="+other, "--wait", "--timeout=60s")
	require.NoError(t, err)
	_, err = l.Kubectl(t.Context(), "rollout", "status", "-n", ns, deployment, "--timeout=60s")
	require.NoError(t, err)
	_, err = l.Kubectl(t.Context(), "uncordon", other)
	require.NoError(t, err)
}
