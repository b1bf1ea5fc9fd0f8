package pods

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/node"
)

// attach applies the Infra and one attachment a hosted cluster, and waits until
// all of it is Ready.
func (l *lab) attach(t *testing.T, clusters ...*hostedCluster) {
	t.Helper()
	require.NoError(t, l.Apply(t.Context(), testdata(t, "infra.yaml")))
	for _, cluster := range clusters {
		require.NoError(t, l.Apply(t.Context(), render(t, "attachment.yaml", cluster)))
	}
	l.expect(t, "infra/tenant-vlan100", "Ready", "True")
	for _, component := range []string{"dhcp", "dns", "proxy"} {
		l.rollout(t, "clusters", "tenant-vlan100-"+component)
	}
	l.expect(t, "infra/tenant-vlan100", "Available", "True")
	for _, cluster := range clusters {
		l.expect(t, "infraclusterattachment/"+cluster.Name, "Ready", "True")
	}
}

// expect waits for a condition of an object in the namespace clusters.
func (l *lab) expect(t *testing.T, object, condition, status string) {
	t.Helper()
	start := time.Now()
	require.NoError(t, node.Wait(t.Context(), patience, object+" to be "+condition+"="+status, func(ctx context.Context) error {
		out, err := l.Kubectl(ctx, "get", "-n", "clusters", object, "-o",
			fmt.Sprintf(`jsonpath={.status.conditions[?(@.type==%q)]}`, condition))
		if err == nil && !strings.Contains(out, fmt.Sprintf(`"status":%q`, status)) {
			err = fmt.Errorf("it says %s", out)
		}
		return err
	}))
	l.progress.Say("%s is %s=%s (waited %.1fs)", object, condition, status, time.Since(start).Seconds())
}

// worker boots the VM of a hosted cluster: it leases an address, is named as
// KubeVirt names it, and reaches its own API server in every way that a worker
// does (behaviours C3, D1, D3, E1, E2).
func (l *lab) worker(t *testing.T, cluster *hostedCluster) *node.VM {
	t.Helper()
	vm, err := l.VM(t.Context(), "vm"+cluster.Name[len(cluster.Name)-1:], cluster.MAC)
	require.NoError(t, err)
	start := time.Now()
	lease, err := vm.Boot(t.Context())
	require.NoError(t, err)
	require.Equal(t, cluster.Name+"-worker", lease["hostname"])
	for option, want := range map[string]string{"mask": "24", "router": "192.0.2.1", "dns": "192.0.2.3", "serverid": "192.0.2.2"} {
		require.Equal(t, want, lease[option], option)
	}
	l.progress.Say("%s leased %s in %.2fs", lease["hostname"], lease["ip"], time.Since(start).Seconds())
	for what, url := range map[string]string{
		"by its name": "https://api." + cluster.domain() + ":6443",
		"by alias":    "https://kubernetes.default.svc:443",
		"by address":  "https://" + proxyIP + ":6443",
	} {
		require.NoError(t, node.Wait(t.Context(), patience, "the API server "+what, func(ctx context.Context) error {
			return l.asks(ctx, vm, cluster, url)
		}))
		l.progress.Say("%s reaches its API server %s", lease["hostname"], what)
	}
	return vm
}

// asks is a real kubectl on the VM, with the cluster's own CA.
func (l *lab) asks(ctx context.Context, vm *node.VM, cluster *hostedCluster, url string) error {
	p := cluster.authority.Path
	out, err := vm.Output(ctx, filepath.Join(l.tools, "kubectl"), "--kubeconfig", os.DevNull, "--server", url,
		"--certificate-authority", p("ca.crt"), "--client-certificate", p("admin.crt"), "--client-key", p("admin.key"),
		"--request-timeout=10s", "get", "namespace", "default", "-o", "name")
	if err == nil && strings.TrimSpace(out) != "namespace/default" {
		err = fmt.Errorf("it says %q", out)
	}
	return err
}
