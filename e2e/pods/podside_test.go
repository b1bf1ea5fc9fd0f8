package pods

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
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
	const closed = "closed"
	for sni, want := range map[string]string{
		"api." + domainA: l.a + "/api", "api." + domainB: l.b + "/api", "": closed, "kubernetes": closed, "www.example.org": closed,
	} {
		out, err := l.Kubectl(t.Context(), "exec", "-n", "bystander", "bystander", "--", "/standin", "tls", proxy+":6443", sni)
		require.NoError(t, err, "SNI %q", sni)
		require.Equal(t, want, strings.TrimSpace(out), "SNI %q", sni)
	}
}

// checkPolicy asks a control plane from pods that are not the proxy, one of them in
// the proxy's namespace, with the policy that is ours, and after that was deleted
// (behaviour B11). The proxy goes on reaching it: there is somebody who would answer.
func (l *lab) checkPolicy(t *testing.T, vm *node.VM, cluster *hostedCluster) {
	var targets []string
	for service, port := range map[string]string{
		"kube-apiserver": "6443", "oauth-openshift": "6443", "konnectivity-server": "8091", "ignition-server-proxy": "443",
	} {
		targets = append(targets, l.clusterIP(t, cluster.namespace(), service)+":"+port)
	}
	keeps := func() {
		t.Helper()
		for _, target := range targets {
			l.reachable(t, "bystander", "bystander", target, refused)
			l.reachable(t, "clusters", "passer-by", target, refused)
		}
		require.NoError(t, node.Wait(t.Context(), patience, "the proxy to reach "+cluster.Name, l.reaches(vm, "api."+cluster.domain(), cluster.Name+"/api")))
	}
	uid := func(ctx context.Context) (string, error) {
		return l.Kubectl(ctx, "get", "networkpolicy", "-n", cluster.namespace(), "allow-infrastructure", "-o", "jsonpath={.metadata.uid}")
	}
	keeps()
	before, err := uid(t.Context())
	require.NoError(t, err)
	_, err = l.Kubectl(t.Context(), "delete", "networkpolicy", "-n", cluster.namespace(), "allow-infrastructure")
	require.NoError(t, err)
	l.progress.Say("the NetworkPolicy of %s was deleted by hand", cluster.Name)
	require.NoError(t, node.Wait(t.Context(), patience, "the deleted policy to come back", func(ctx context.Context) error {
		after, err := uid(ctx)
		if err == nil && after == before {
			err = errors.New("it is still the old one")
		}
		return err
	}))
	keeps()
}
