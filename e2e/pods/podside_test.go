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

// checkPodSide asks from a pod, through the ClusterIPs (behaviours D1, D3,
// E1, E5): names lead to the proxy's ClusterIP, and sources mean nothing.
func (l *lab) checkPodSide(t *testing.T) {
	dns, proxy := l.clusterIP(t, l.namespace, "tenant-vlan100-dns"), l.clusterIP(t, l.namespace, "tenant-vlan100-proxy")
	box := l.nodeOf(t, "standin")
	for name, want := range map[string]string{
		"api." + domainA: proxy, "konnectivity." + domainB: proxy, "kubernetes.default.svc": proxy, "www.example.org": "203.0.113.80",
	} {
		out, err := box.Script(t.Context(), `nsenter -t "$(pgrep -ox standin)" --net dig +short +time=2 +tries=3 "@$SERVER" "$NAME" A`, "SERVER="+dns, "NAME="+name)
		require.NoError(t, err)
		require.Equal(t, want, strings.TrimSpace(out), name)
	}
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
	l.progress.Say("the NetworkPolicy was deleted by hand")
	l.reachable(t, "bystander", "bystander", api+":6443", false)
	_, err = l.Kubectl(t.Context(), "get", "networkpolicy", "-n", cluster.namespace(), "allow-infrastructure")
	require.NoError(t, err, "a deleted policy must come back")
}
