package proxy

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/densityops/oooi/e2e/lab"
)

const (
	apiPort = 16443
	hubName = "oooi-hub.oooi-system.svc"
	admin   = "proxy-admin-token"
	crds    = "manifests/crd"
	object  = "/apis/hostedcluster.densityops.com/v1alpha1/namespaces/infra/proxyservers/" + resourceName
	// resourceName is the one ProxyServer's, in the namespace infra.
	resourceName = "vlan-proxy"
)

// Cluster is a real API server with the operator, and one ProxyServer.
type Cluster struct {
	host    *lab.Host
	address netip.Addr
	dir     string
	root    string
	client  *http.Client

	APIServer, Operator *lab.Process
}

// NewCluster starts etcd, kube-apiserver and the operator on an address of the
// host, and makes the ProxyServer. Dir must be readable for all.
func NewCluster(ctx context.Context, host *lab.Host, address netip.Addr, dir string, spec map[string]any) (*Cluster, error) {
	c := &Cluster{host: host, address: address, dir: dir}
	c.client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialTLSContext: c.dial}}
	var err error
	if c.root, err = repository(); err != nil {
		return nil, err
	}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	if _, err := host.Start(lab.Spec{Args: []string{c.tool("etcd"), "--data-dir=" + c.path("etcd"), "--unsafe-no-fsync", "--log-level=error"}}); err != nil {
		return nil, err
	}
	if err := c.StartAPI(ctx); err != nil {
		return nil, err
	}
	if err := c.install(ctx); err != nil {
		return nil, err
	}
	if err := c.StartOperator(); err != nil {
		return nil, err
	}
	_, err = c.do(ctx, http.MethodPost, filepath.Dir(object), "application/json", map[string]any{
		"apiVersion": "hostedcluster.densityops.com/v1alpha1", "kind": "ProxyServer", "metadata": map[string]any{"name": resourceName}, "spec": spec,
	})
	return c, err
}

// install makes what the operator finds: its own kinds and two namespaces.
func (c *Cluster) install(ctx context.Context) error {
	if _, err := c.kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(c.root, crds)); err != nil {
		return err
	}
	if err := lab.Established(ctx, c.kubectl); err != nil {
		return err
	}
	for _, namespace := range []string{"oooi-system", "infra"} {
		if _, err := c.kubectl(ctx, "create", "namespace", namespace); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *Cluster) tool(name string) string {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		return filepath.Join(assets, name)
	}
	return filepath.Join(c.root, "bin/tools", name)
}

// write puts a file where the pods' user can read it.
func (c *Cluster) write(name, content string) error {
	return os.WriteFile(c.path(name), []byte(content), 0o644)
}

func (c *Cluster) prepare() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		c.write("sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))),
		c.write("tokens.csv", admin+",admin,admin,system:masters\n"),
		c.write("admin.kubeconfig", c.kubeconfig(admin)),
	)
}

func (c *Cluster) kubeconfig(token string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"https://%s:%d","insecure-skip-tls-verify":true}}],`+
		`"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{"token":%q}}]}`, c.address, apiPort, token)
}

// StartAPI starts the API server and waits until it is ready.
func (c *Cluster) StartAPI(ctx context.Context) (err error) {
	c.APIServer, err = c.host.Start(lab.Spec{Args: []string{
		c.tool("kube-apiserver"), "--etcd-servers=http://127.0.0.1:2379", "--cert-dir=" + c.path("certs"), fmt.Sprintf("--secure-port=%d", apiPort),
		"--bind-address=" + c.address.String(), "--advertise-address=" + c.address.String(), "--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=RBAC", "--token-auth-file=" + c.path("tokens.csv"), "--service-account-key-file=" + c.path("sa.key"),
		"--service-account-signing-key-file=" + c.path("sa.key"), "--service-account-issuer=https://kubernetes.default.svc",
		"--disable-admission-plugins=ServiceAccount",
	}})
	if err != nil {
		return err
	}
	return lab.Until(ctx, 2*time.Minute, "the API server", func(ctx context.Context) error {
		if err := c.APIServer.Running(); err != nil {
			return err
		}
		_, err := c.do(ctx, http.MethodGet, "/readyz", "", nil)
		return err
	})
}

// StartOperator starts the operator that `make build` has built.
func (c *Cluster) StartOperator() (err error) {
	binary := filepath.Join(c.root, "bin/operator")
	if !exists(binary) {
		return fmt.Errorf("no operator at %s: run `make build`", binary)
	}
	c.Operator, err = c.host.Start(lab.Spec{Args: []string{
		binary, "serve", "--kubeconfig=" + c.path("admin.kubeconfig"), "--leader-elect=off", "--fence=off", fmt.Sprintf("--hub-bind-address=%s:8443", c.address),
		"--metrics-bind-address=0", fmt.Sprintf("--health-probe-bind-address=%s:8081", c.address),
	}})
	return err
}

func (c *Cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	return c.host.Exec(ctx, lab.Spec{Args: append([]string{c.tool("kubectl"), "--kubeconfig=" + c.path("admin.kubeconfig"), "--cache-dir=/run/kubectl"}, args...)})
}

func (c *Cluster) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := Dial(ctx, c.host, netip.Addr{}, netip.AddrPortFrom(c.address, apiPort))
	if err != nil {
		return nil, err
	}
	return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}), nil //nolint:gosec // the API server made its own certificate a moment ago
}

// do asks the API server as an administrator.
func (c *Cluster) do(ctx context.Context, method, path, contentType string, body any) ([]byte, error) {
	content, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "https://"+c.address.String()+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Authorization", "Bearer "+admin)
	resp, err := c.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return answer, err
}

// Join gives a pod what the kubelet would: the operator's trust anchor and the
// two tokens of the ServiceAccount that the operator made. It returns the
// arguments of a manager that serves this cluster's ProxyServer.
func (c *Cluster) Join(ctx context.Context, pod *lab.Host) ([]string, error) {
	err := lab.Until(ctx, time.Minute, "what the operator makes for the pod", func(ctx context.Context) error {
		ca, err := c.kubectl(ctx, "get", "-n", "infra", "configmap", resourceName, "-o", `jsonpath={.data.ca\.crt}`)
		if err == nil && !strings.Contains(ca, "BEGIN CERTIFICATE") {
			err = errors.New("no trust anchor yet")
		}
		if err == nil {
			_, err = c.kubectl(ctx, "get", "-n", "infra", "rolebinding", resourceName)
		}
		return errors.Join(err, c.write("ca.crt", ca))
	})
	if err != nil {
		return nil, err
	}
	stream, err := c.kubectl(ctx, "create", "token", "-n", "infra", resourceName, "--audience=oooi-hub")
	if err != nil {
		return nil, err
	}
	api, err := c.kubectl(ctx, "create", "token", "-n", "infra", resourceName)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.write("token", stream), c.write("agent.kubeconfig", c.kubeconfig(strings.TrimSpace(api))),
		c.write("hosts", fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", c.address, hubName)), os.Mkdir(c.path("state"), 0o777), os.Chmod(c.path("state"), 0o777)); err != nil {
		return nil, err
	}
	if _, err := pod.Run(ctx, "mount", "--bind", c.path("hosts"), "/etc/hosts"); err != nil {
		return nil, err
	}
	return []string{
		"--snapshot", "", "--child", "infra/" + resourceName, "--kubeconfig", c.path("agent.kubeconfig"), "--hub", hubName + ":8443",
		"--hub-ca", c.path("ca.crt"), "--token", c.path("token"), "--state-dir", c.path("state"),
	}, nil
}

// Operation is one of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Patch changes the ProxyServer.
func (c *Cluster) Patch(ctx context.Context, ops ...Operation) error {
	_, err := c.do(ctx, http.MethodPatch, object, "application/json-patch+json", ops)
	return err
}

// Resource is as much of the ProxyServer as is looked at.
type Resource struct {
	Metadata struct{ Generation int64 }
	Status   struct {
		// Agent is what the manager says.
		Agent struct {
			ObservedVersion, AcceptedVersion string
			ObservedGeneration               int64
			Problems                         []struct{ Reason, Message string }
		}
		Conditions []struct{ Type, Status, Reason, Message string }
	}
}

// Settled says that Envoy has accepted the resource as it is.
func (r Resource) Settled() bool {
	a := r.Status.Agent
	return a.ObservedGeneration == r.Metadata.Generation && a.AcceptedVersion != "" && a.AcceptedVersion == a.ObservedVersion && len(a.Problems) == 0
}

// Resource reads the ProxyServer.
func (c *Cluster) Resource(ctx context.Context) (Resource, error) {
	var r Resource
	answer, err := c.do(ctx, http.MethodGet, object, "", nil)
	if err == nil {
		err = json.Unmarshal(answer, &r)
	}
	return r, err
}
