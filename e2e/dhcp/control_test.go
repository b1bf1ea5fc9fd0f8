package dhcp

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

// The pod network.
const (
	podIP      = "198.18.0.2"
	podGateway = "198.18.0.1"
	token      = "dhcp-test-token"
)

func link(dev, mac string, addrs ...string) lab.Link {
	out := lab.Link{Device: dev, MAC: mac}
	for _, a := range addrs {
		out.Addresses = append(out.Addresses, netip.MustParsePrefix(a))
	}
	return out
}

// control is etcd and kube-apiserver on a host of their own, which is the
// switch of a pod network too.
type control struct {
	host *lab.Host
	pods atomic.Int32
}

func newControl(t *testing.T) *control {
	t.Helper()
	ctx, dir := t.Context(), t.TempDir()
	c := &control{host: lab.ForTest(t).MustHost(t, "control")}
	require.NoError(t, c.host.Bridge(ctx, "pods"))
	// Its own would change as pods come, and theirs would not learn of it.
	require.NoError(t, sh(ctx, c.host, "ip link set pods address 02:00:5e:10:ff:01"))
	require.NoError(t, c.host.Addr(ctx, "pods", netip.MustParsePrefix(podGateway+"/24")))
	// The API server publishes the address of its default route.
	require.NoError(t, c.host.Route(ctx, "default via 198.18.0.254"))
	key := filepath.Join(dir, "sa.key")
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(secret)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600))
	tokens := filepath.Join(dir, "tokens.csv")
	require.NoError(t, os.WriteFile(tokens, []byte(token+",admin,admin,system:masters\n"), 0o600))
	for _, args := range [][]string{
		{"etcd", "--data-dir=" + filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=error"},
		{
			"kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--cert-dir=" + filepath.Join(dir, "certs"), "--secure-port=6443",
			"--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC", "--token-auth-file=" + tokens,
			"--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
			"--service-account-issuer=https://kubernetes.default.svc", "--disable-admission-plugins=ServiceAccount",
		},
	} {
		args[0], err = tool(args[0])
		require.NoError(t, err)
		_, err = c.host.Start(lab.Spec{Args: args})
		require.NoError(t, err)
	}
	require.NoError(t, lab.Until(ctx, 2*time.Minute, "the API server", func(ctx context.Context) error {
		_, err := c.kubectl(ctx, "", "get", "--raw", "/readyz")
		return err
	}))
	for _, crds := range []string{"../pods/testdata/crds/kubevirt.yaml", "../../manifests/crd/hostedcluster.densityops.com_dhcpservers.yaml"} {
		b, err := os.ReadFile(crds)
		require.NoError(t, err)
		c.must(t, string(b), "apply", "--server-side", "-f", "-")
	}
	require.NoError(t, lab.Established(ctx, func(ctx context.Context, args ...string) (string, error) { return c.kubectl(ctx, "", args...) }))
	return c
}

// tool is a program that `make` has built.
func tool(name string) (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return filepath.Join(dir, name), nil
	}
	return filepath.Abs(filepath.Join("../../bin/tools", name))
}

func (c *control) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	path, err := tool("kubectl")
	if err != nil {
		return "", err
	}
	return c.host.Exec(ctx, lab.Spec{
		Args: append([]string{
			path, "--server=https://127.0.0.1:6443", "--insecure-skip-tls-verify", "--token=" + token, "--cache-dir=/run/kubectl",
		}, args...),
		Stdin: strings.NewReader(stdin),
	})
}

func (c *control) must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := c.kubectl(t.Context(), stdin, args...)
	require.NoError(t, err)
	return out
}

// kubeconfig leads to the API server from the pod network.
const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: hub, cluster: {server: "https://` + podGateway + `:6443", insecure-skip-tls-verify: true}}]
users: [{name: pod, user: {token: ` + token + `}}]
contexts: [{name: pod, context: {cluster: hub, user: pod}}]
current-context: pod
`

// server is a DHCPServer and the Lease that the operator makes beside it; dhcpd
// gets its configuration by the snapshot.
const server = `apiVersion: hostedcluster.densityops.com/v1alpha1
kind: DHCPServer
metadata: {name: ` + serverName + `, namespace: %[1]s}
spec:
  networkConfig: {cidr: 192.0.2.0/24, gateway: 192.0.2.1, serverIP: ` + serverIP + `, dnsServers: [192.0.2.3], networkAttachmentName: vlan100}
  leaseConfig: {rangeStart: 192.0.2.100, rangeEnd: 192.0.2.199, leaseTime: 1h}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: ` + serverName + `, namespace: %[1]s}
`

// home is the namespace of a network's DHCPServer.
func home(n *network) string { return "infra-" + strconv.Itoa(n.server.PID()) }

// admit joins a network's server to the pod network and gives it a DHCPServer of
// its own.
func (c *control) admit(t *testing.T, n *network) {
	t.Helper()
	ip := netip.MustParseAddr(podIP)
	for range c.pods.Add(1) {
		ip = ip.Next()
	}
	require.NoError(t, n.server.Plug(t.Context(), c.host, "pods", link("eth0", "", ip.String()+"/24")))
	c.must(t, "", "create", "namespace", home(n))
	c.must(t, fmt.Sprintf(server, home(n)), "apply", "-f", "-")
	path := filepath.Join(n.dir, "kubeconfig")
	require.NoError(t, os.WriteFile(path, []byte(kubeconfig), 0o644))
	n.args = append(n.args, "--kubeconfig", path, "--child", home(n)+"/"+serverName)
}

// cut parts a network's server from the API server; nothing is refused, nothing
// arrives. mend joins them again.
func (c *control) cut(t *testing.T, n *network) { c.port(t, n, "nomaster") }

func (c *control) mend(t *testing.T, n *network) { c.port(t, n, "master", "pods") }

func (c *control) port(t *testing.T, n *network, args ...string) {
	t.Helper()
	name := fmt.Sprintf("%deth0", n.server.PID()) // as lab.Host.Plug names it
	_, err := c.host.Run(t.Context(), append([]string{"ip", "link", "set", name}, args...)...)
	require.NoError(t, err)
}

// agent is what the tests look at of status.agent.
type agent struct {
	Problems []struct{ Reason, Message string }
	Bindings []struct{ MACAddress, IP, VMNamespace, VMName string }
}

func (c *control) status(ctx context.Context, n *network) (agent, error) {
	out, err := c.kubectl(ctx, "", "-n", home(n), "get", "dhcpserver", serverName, "-o", "json")
	if err != nil {
		return agent{}, err
	}
	var object struct{ Status struct{ Agent agent } }
	return object.Status.Agent, json.Unmarshal([]byte(out), &object)
}

// until waits for a status.
func (c *control) until(t *testing.T, n *network, what string, ok func(agent) bool) agent {
	t.Helper()
	var out agent
	require.NoError(t, lab.Until(t.Context(), 2*time.Minute, what, func(ctx context.Context) error {
		var err error
		if out, err = c.status(ctx, n); err == nil && !ok(out) {
			err = fmt.Errorf("status is %+v", out)
		}
		return err
	}))
	return out
}

// problem waits until the status has a problem of this reason, and says how.
func (c *control) problem(t *testing.T, n *network, reason string) string {
	t.Helper()
	var said string
	c.until(t, n, "problem "+reason, func(a agent) bool {
		for _, p := range a.Problems {
			if p.Reason == reason {
				said = p.Message
				return true
			}
		}
		return false
	})
	return said
}
