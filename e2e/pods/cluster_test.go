package pods

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

// TestCluster is the whole product on a real cluster of two nodes: the
// operator deploys what the VMs of two hosted clusters then use.
func TestCluster(t *testing.T) {
	l := newLab(t, "cluster", 2)
	l.namespace, l.proxyPorts, l.a, l.b = "clusters", "443 6443", "example-hcp-a", "example-hcp-b"
	a := l.newHosted(t, l.a, macA)
	b := l.newHosted(t, l.b, macB)
	l.deployWorld(t, a, b)
	l.checkPolicyIsEnforced(t)
	l.deployOperator(t)
	l.attach(t, a, b)
	vmA, vmB := l.worker(t, a), l.worker(t, b)

	t.Run("TLS lands on the right control plane", func(t *testing.T) { l.checkRoutes(t, vmA, vmB) })
	t.Run("pods see the pod view", func(t *testing.T) { l.checkPodSide(t) })
	t.Run("only the proxy reaches a control plane", func(t *testing.T) { l.checkPolicy(t, a) })
	t.Run("*.apps comes and goes", func(t *testing.T) { l.checkApps(t, vmA, vmB, a) })
	t.Run("sockets are bound to one side", func(t *testing.T) { l.checkSockets(t) })
	t.Run("a port scan finds nothing else", func(t *testing.T) { l.checkScan(t, vmA) })
	t.Run("nothing is reached through a server address", func(t *testing.T) { l.checkCrossing(t, vmA) })
	t.Run("a proxy that is told to go drains", func(t *testing.T) { l.checkDrain(t, vmA) })
	t.Run("what is killed comes back", func(t *testing.T) { l.checkKills(t, vmA) })
	t.Run("nothing needs the API server", func(t *testing.T) {
		l.checkNoAPI(t, vmA)
		l.back(t)
	})
	t.Run("an attachment goes and comes", func(t *testing.T) { l.checkAttachmentChange(t, vmA, vmB, b) })
	t.Run("the operator may be replaced", func(t *testing.T) { l.checkOperatorReplaced(t, vmA) })
	t.Run("the API server is away for long", func(t *testing.T) { l.checkAPIAwayForLong(t, vmA) })
	t.Run("a node is cut off", func(t *testing.T) { l.checkNodeCut(t, vmA, a) })
	t.Run("a node is lost", func(t *testing.T) { l.checkNodeLost(t, vmA, a) })
	t.Run("nothing is left", func(t *testing.T) { l.checkUninstall(t, a, b) })
}

// deployWorld brings up all that is there before oooi.
func (l *lab) deployWorld(t *testing.T, clusters ...*hostedCluster) {
	t.Helper()
	l.applyCRDs(t)
	clusterDNS := testdata(t, "clusterdns.yaml")
	l.loadImages(t, clusterDNS, testdata(t, "hosted.yaml"))
	require.NoError(t, l.Apply(t.Context(), clusterDNS))
	require.NoError(t, l.Apply(t.Context(), testdata(t, "clusters.yaml")))
	require.NoError(t, l.Apply(t.Context(), testdata(t, "hub.yaml")))
	for _, cluster := range clusters {
		l.startHosted(t, cluster)
	}
	l.deployBystanders(t)
	l.rollout(t, "kube-system", "clusterdns")
	for _, cluster := range clusters {
		l.rollout(t, cluster.namespace(), "kube-apiserver")
		l.rollout(t, cluster.namespace(), "endpoints")
	}
}

// checkPolicyIsEnforced makes sure that a NetworkPolicy means something here,
// before one of ours is judged by it.
func (l *lab) checkPolicyIsEnforced(t *testing.T) {
	t.Helper()
	require.NoError(t, l.Apply(t.Context(), testdata(t, "policy.yaml")))
	_, err := l.Kubectl(t.Context(), "wait", "pod", "-n", "policy", "--all", "--for=condition=Ready", "--timeout=60s")
	require.NoError(t, err)
	for _, server := range []string{"server1", "server2"} {
		address, err := l.Kubectl(t.Context(), "get", "pod", "-n", "policy", server, "-o", "jsonpath={.status.podIP}")
		require.NoError(t, err)
		l.reachable(t, "policy", "allowed", address+":6443", true)
		l.reachable(t, "policy", "refused", address+":6443", false)
	}
	l.progress.Say("NetworkPolicy is enforced")
}

// reachable waits until a pod reaches a TLS server, or until it does not.
func (l *lab) reachable(t *testing.T, ns, pod, target string, want bool) {
	t.Helper()
	require.NoError(t, node.Wait(t.Context(), 20*time.Second, ns+"/"+pod+" and "+target, func(ctx context.Context) error {
		_, err := l.Kubectl(ctx, "exec", "-n", ns, pod, "--", "/standin", "tls", target)
		if want || err != nil {
			if want {
				return err
			}
			return nil
		}
		return errors.New("it came through")
	}))
}
