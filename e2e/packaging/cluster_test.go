package packaging_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/demo/actor"
	"github.com/densityops/oooi/e2e/lab"
)

const root = "../.."

// tool is a program that make builds into bin/tools.
func tool(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		dir = filepath.Join(root, "bin/tools")
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	require.NoError(t, err)
	require.FileExists(t, path, "make %s", path)
	return path
}

// cluster is an API server with nothing behind it.
type cluster struct {
	dir, kubeconfig string
	processes       []*exec.Cmd
}

// newCluster starts one that ends with the test.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{dir: t.TempDir()}
	t.Cleanup(c.stop)
	c.start(t)
	return c
}

func (c *cluster) start(t *testing.T) {
	t.Helper()
	etcd := "http://127.0.0.1:" + freePort(t)
	c.daemon(t, tool(t, "etcd"), "--data-dir="+filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls=http://127.0.0.1:"+freePort(t))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	keyFile := c.write(t, "sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
	tokens := c.write(t, "tokens.csv", "secret,admin,admin,system:masters\n")
	port := freePort(t)
	c.daemon(t, tool(t, "kube-apiserver"), "--etcd-servers="+etcd, "--secure-port="+port, "--bind-address=127.0.0.1",
		"--cert-dir="+filepath.Join(c.dir, "certs"), "--token-auth-file="+tokens, "--authorization-mode=RBAC",
		"--service-account-key-file="+keyFile, "--service-account-signing-key-file="+keyFile,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=172.30.0.0/16",
		"--allow-privileged=true", "--profiling=false")
	c.kubeconfig = c.write(t, "kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:%s", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: secret}}]
contexts: [{name: c, context: {cluster: c, user: admin}}]
current-context: c
`, port))
	eventually(t, 4*time.Minute, "the API server is ready", func(ctx context.Context) error {
		_, err := c.try(ctx, "", "get", "--raw", "/readyz")
		return err
	})
}

// shared is one cluster for all tests that leave nothing behind.
var shared struct {
	once sync.Once
	c    *cluster
}

func sharedCluster(t *testing.T) *cluster {
	t.Helper()
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("", "oooi-packaging-") //nolint:usetesting // It outlives the first test that asks for it.
		require.NoError(t, err)
		c := &cluster{dir: dir}
		stops = append(stops, func() { _ = os.RemoveAll(dir) }, c.stop)
		c.start(t)
		c.must(t, "apply", "--server-side", "-k", filepath.Join(root, "manifests/default"))
		c.established(t)
		shared.c = c
	})
	require.NotNil(t, shared.c, "the API server did not start")
	return shared.c
}

// stops run when all tests have.
var stops []func()

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == actor.Name {
		os.Exit(actor.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	code := m.Run()
	for _, stop := range slices.Backward(stops) {
		stop()
	}
	os.Exit(code)
}

func (c *cluster) stop() {
	for _, process := range slices.Backward(c.processes) {
		_ = process.Process.Kill()
		_ = process.Wait()
	}
}

// daemon starts a program that dies with the tests; its words are shown if the
// test fails.
func (c *cluster) daemon(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	return c.daemonEnv(t, nil, name, args...)
}

func (c *cluster) daemonEnv(t *testing.T, env []string, name string, args ...string) *exec.Cmd {
	t.Helper()
	log, err := os.Create(filepath.Join(c.dir, fmt.Sprintf("%s.%d.log", filepath.Base(name), len(c.processes))))
	require.NoError(t, err)
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, log, log
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	c.processes = append(c.processes, cmd)
	t.Cleanup(func() {
		if t.Failed() {
			words, _ := os.ReadFile(log.Name())
			t.Logf("%s:\n%s", filepath.Base(name), lastLines(string(words), 30))
		}
	})
	return cmd
}

func (c *cluster) write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(c.dir, name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// try runs kubectl.
func (c *cluster) try(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.kubectlPath(), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "HOME="+c.dir)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

func (c *cluster) kubectlPath() string {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return filepath.Join(dir, "kubectl")
	}
	path, _ := filepath.Abs(filepath.Join(root, "bin/tools/kubectl"))
	return path
}

// must runs kubectl, which has to succeed.
func (c *cluster) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.try(t.Context(), "", args...)
	require.NoError(t, err)
	return out
}

// established waits until every kind is served.
func (c *cluster) established(t *testing.T) {
	t.Helper()
	require.NoError(t, lab.Established(t.Context(), func(ctx context.Context, args ...string) (string, error) { return c.try(ctx, "", args...) }))
}

// apply applies objects written as YAML.
func (c *cluster) apply(t *testing.T, manifests string, args ...string) string {
	t.Helper()
	out, err := c.try(t.Context(), manifests, append([]string{"apply", "--server-side", "-f", "-"}, args...)...)
	require.NoError(t, err)
	return out
}

// freePort is a port below those that the kernel gives to clients, so that none
// takes it before the program that is told of it.
func freePort(t *testing.T) string {
	t.Helper()
	for range 50 {
		n, err := rand.Int(rand.Reader, big.NewInt(17000))
		require.NoError(t, err)
		address := fmt.Sprintf("127.0.0.1:%d", 15000+n.Int64())
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if err == nil {
			require.NoError(t, listener.Close())
			_, port, _ := strings.Cut(address, ":")
			return port
		}
	}
	require.FailNow(t, "no port is free")
	return ""
}

// eventually asks again and again until an answer comes or time is up.
func eventually(t *testing.T, most time.Duration, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	var last error
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			require.NoError(t, last, "not within %s: %s", most, what)
		case <-again.C:
		}
	}
}

func lastLines(words string, n int) string {
	lines := strings.Split(strings.TrimSpace(words), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
