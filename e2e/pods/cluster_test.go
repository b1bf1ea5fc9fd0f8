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
	a := l.newHosted(t, "example-hcp-a", macA)
	b := l.newHosted(t, "example-hcp-b", macB)
	l.deployWorld(t, a, b)
	l.checkPolicyIsEnforced(t)
	l.deployOperator(t)
	l.attach(t, a, b)
	l.worker(t, a)
	l.worker(t, b)
}

// deployWorld brings up all that is there before oooi.
func (l *lab) deployWorld(t *testing.T, clusters ...*hostedCluster) {
	t.Helper()
	l.applyCRDs(t)
	clusterDNS := testdata(t, "clusterdns.yaml")
	l.loadImages(t, clusterDNS, testdata(t, "hosted.yaml"))
	require.NoError(t, l.Apply(t.Context(), clusterDNS))
	require.NoError(t, l.Apply(t.Context(), testdata(t, "clusters.yaml")))
	for _, cluster := range clusters {
		l.startHosted(t, cluster)
	}
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
		ask := func(ctx context.Context, client string) error {
			_, err := l.Kubectl(ctx, "exec", "-n", "policy", client, "--", "/standin", "tls", address+":6443")
			return err
		}
		require.NoError(t, node.Wait(t.Context(), 20*time.Second, "a client that the policy allows", func(ctx context.Context) error {
			return ask(ctx, "allowed")
		}))
		require.NoError(t, node.Wait(t.Context(), 20*time.Second, "a client to be refused by the policy", func(ctx context.Context) error {
			if ask(ctx, "refused") == nil {
				return errors.New("it came through")
			}
			return nil
		}))
	}
	l.progress.Say("NetworkPolicy is enforced")
}
