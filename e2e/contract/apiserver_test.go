package contract_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

// token is the one that the API server knows, of a member of system:masters.
const token = "contract-test-token"

// cluster is etcd and kube-apiserver on a host of their own, with our CRDs.
type cluster struct {
	host *lab.Host
	tool func(string) string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	ctx, host, dir := t.Context(), lab.ForTest(t).MustHost(t, "control"), t.TempDir()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = root(t, "bin", "tools")
	}
	c := &cluster{host: host, tool: func(name string) string { return filepath.Join(assets, name) }}
	// The API server publishes the address of its default route.
	require.NoError(t, host.Bridge(ctx, "eth0"))
	require.NoError(t, host.Addr(ctx, "eth0", netip.MustParsePrefix("10.88.0.2/24")))
	require.NoError(t, host.Route(ctx, "default via 10.88.0.1"))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	write(t, filepath.Join(dir, "sa.key"), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
	write(t, filepath.Join(dir, "tokens.csv"), token+",admin,admin,system:masters\n")
	c.start(t, c.tool("etcd"), "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=error")
	c.start(t, c.tool("kube-apiserver"),
		"--etcd-servers=http://127.0.0.1:2379", "--cert-dir="+filepath.Join(dir, "certs"), "--secure-port=6443",
		"--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC", "--token-auth-file="+filepath.Join(dir, "tokens.csv"),
		"--service-account-key-file="+filepath.Join(dir, "sa.key"), "--service-account-signing-key-file="+filepath.Join(dir, "sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--disable-admission-plugins=ServiceAccount")
	require.NoError(t, lab.Until(ctx, 2*time.Minute, "the API server", func(ctx context.Context) error {
		_, err := c.kubectl(ctx, "", "get", "--raw", "/readyz")
		return err
	}))
	c.must(t, "", "apply", "--server-side", "-f", root(t, "manifests", "crd"))
	require.NoError(t, lab.Established(ctx, func(ctx context.Context, args ...string) (string, error) { return c.kubectl(ctx, "", args...) }))
	return c
}

func (c *cluster) start(t *testing.T, args ...string) {
	t.Helper()
	_, err := c.host.Start(lab.Spec{Args: args})
	require.NoError(t, err)
}

func (c *cluster) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	return c.host.Exec(ctx, lab.Spec{
		Args: append([]string{
			c.tool("kubectl"), "--server=https://127.0.0.1:6443", "--insecure-skip-tls-verify", "--token=" + token,
			"--cache-dir=/run/kubectl",
		}, args...),
		Stdin: strings.NewReader(stdin),
	})
}

func (c *cluster) must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := c.kubectl(t.Context(), stdin, args...)
	require.NoError(t, err)
	return out
}

// root is a path in the repository.
func root(t *testing.T, parts ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", ".."}, parts...)...))
	require.NoError(t, err)
	return path
}

// binary is one of the product's programs, as `make build` leaves it.
func binary(t *testing.T, name string) string {
	t.Helper()
	path := root(t, "bin", name)
	_, err := os.Stat(path)
	require.NoError(t, err, "make build")
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// find lists the files below dir for which keep is true.
func find(t *testing.T, dir string, keep func(path string) bool) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && keep(path) {
			out = append(out, path)
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}))
	return out
}
