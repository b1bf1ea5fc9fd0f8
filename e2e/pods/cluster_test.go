package pods

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCluster is the whole product on a real cluster of two nodes: the
// operator deploys what the VMs of two hosted clusters then use.
func TestCluster(t *testing.T) {
	l := newLab(t, "cluster", 2)
	a := l.newHosted(t, "example-hcp-a", macA)
	b := l.newHosted(t, "example-hcp-b", macB)
	l.deployWorld(t, a, b)
}

// deployWorld brings up all that is there before oooi.
func (l *lab) deployWorld(t *testing.T, clusters ...*hostedCluster) {
	t.Helper()
	l.applyCRDs(t)
	clusterDNS := testdata(t, "clusterdns.yaml")
	l.loadImages(t, clusterDNS, testdata(t, "hosted.yaml"))
	require.NoError(t, l.Apply(t.Context(), clusterDNS))
	_, err := l.Kubectl(t.Context(), "create", "namespace", "clusters")
	require.NoError(t, err)
	for _, cluster := range clusters {
		l.startHosted(t, cluster)
	}
	l.rollout(t, "kube-system", "clusterdns")
	for _, cluster := range clusters {
		l.rollout(t, cluster.namespace(), "kube-apiserver")
		l.rollout(t, cluster.namespace(), "endpoints")
	}
}
