package packaging_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTheOperatorRunsWithItsOwnRightsAlone: behaviours B9 and B12, hazards 226
// and 255, case C51. On a cluster that has nothing but oooi's CRDs, without
// OLM's variable, as the ServiceAccount that manifests/default makes, the
// operator gets ready, provisions the samples and asks for nothing that it may
// not.
func TestTheOperatorRunsWithItsOwnRightsAlone(t *testing.T) {
	c := newCluster(t)
	c.must(t, "apply", "--server-side", "-k", filepath.Join(root, "manifests/default"))
	c.established(t)
	token := strings.TrimSpace(c.must(t, "create", "token", "-n", "oooi-system", "oooi-operator", "--duration=1h"))
	admin, err := os.ReadFile(c.kubeconfig)
	require.NoError(t, err)
	kubeconfig := c.write(t, "operator.kubeconfig", strings.Replace(string(admin), "token: secret", "token: "+token, 1))
	binary, err := filepath.Abs(filepath.Join(root, "bin/operator"))
	require.NoError(t, err)
	require.FileExists(t, binary, "make build")
	health := "127.0.0.1:" + freePort(t)
	_, set := os.LookupEnv("OPERATOR_CONDITION_NAME")
	require.False(t, set, "OLM's variable is not there at all, as without OLM")
	operator := c.daemonEnv(t, []string{"POD_NAMESPACE=oooi-system"}, binary, "--kubeconfig="+kubeconfig,
		"--hub-bind-address=127.0.0.1:"+freePort(t), "--metrics-bind-address=0", "--health-probe-bind-address="+health)
	eventually(t, 2*time.Minute, "the operator is ready", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+health+"/readyz", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			err = errors.New(answer.Status)
		}
		return errors.Join(err, answer.Body.Close())
	})
	c.must(t, "create", "namespace", "clusters")
	c.must(t, "apply", "--server-side", "-f", filepath.Join(root, "manifests/samples"))
	eventually(t, 2*time.Minute, "the Infra's children have what they need", func(ctx context.Context) error {
		for _, name := range []string{"dhcp", "dns", "proxy"} {
			if _, err := c.try(ctx, "", "get", "-n", "clusters", name+"server/tenant-vlan100-"+name); err != nil {
				return err
			}
		}
		return nil
	})
	eventually(t, 2*time.Minute, "the lone DHCP server has a status", func(ctx context.Context) error {
		words, err := c.try(ctx, "", "get", "-n", "default", "dhcpserver/lab", "-o", "jsonpath={.status.conditions[*].type}")
		if err == nil && !strings.Contains(words, "Ready") {
			err = fmt.Errorf("it has the conditions %q", words)
		}
		return err
	})
	log, err := os.ReadFile(operator.Stdout.(*os.File).Name())
	require.NoError(t, err)
	for line := range strings.Lines(string(log)) {
		require.NotContains(t, line, "forbidden")
	}
}
