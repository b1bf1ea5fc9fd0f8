package pods

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func (l *lab) clusterIP(t *testing.T, ns, service string) string {
	t.Helper()
	out, err := l.Kubectl(t.Context(), "get", "service", "-n", ns, service, "-o", "jsonpath={.spec.clusterIP}")
	require.NoError(t, err)
	require.NotNil(t, net.ParseIP(out), out)
	return out
}

// checkPodSide comes from a pod, through the proxy's ClusterIP: names lead where
// they should, and sources mean nothing (behaviours E1, E5).
func (l *lab) checkPodSide(t *testing.T) {
	proxy := l.clusterIP(t, l.namespace, "tenant-vlan100-proxy")
	for sni, want := range map[string]string{
		"api." + domainA: l.a + "/api", "api." + domainB: l.b + "/api", "": "", "kubernetes": "", "www.example.org": "",
	} {
		out, err := l.Kubectl(t.Context(), "exec", "-n", "bystander", "bystander", "--", "/standin", "tls", proxy+":6443", sni)
		require.Equal(t, want == "", err != nil, "SNI %q: %v", sni, err)
		require.Equal(t, want, strings.TrimSpace(out), "SNI %q", sni)
	}
}

// checkPolicy asks a control plane from a pod that is not the proxy
// (behaviour B11).
func (l *lab) checkPolicy(t *testing.T, cluster *hostedCluster) {
	api := l.clusterIP(t, cluster.namespace(), "kube-apiserver")
	l.reachable(t, "bystander", "bystander", api+":6443", false)
	_, err := l.Kubectl(t.Context(), "delete", "networkpolicy", "-n", cluster.namespace(), "allow-infrastructure")
	require.NoError(t, err)
	l.progress.Say("the NetworkPolicy of %s was deleted by hand", cluster.Name)
	l.reachable(t, "bystander", "bystander", api+":6443", false)
	_, err = l.Kubectl(t.Context(), "get", "networkpolicy", "-n", cluster.namespace(), "allow-infrastructure")
	require.NoError(t, err, "a deleted policy must come back")
}
