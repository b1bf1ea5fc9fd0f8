package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/densityops/oooi/operator/internal/app"
)

// Namespace and ServiceAccount of the operator, as the manifests have them.
const (
	Namespace      = "oooi-system"
	ServiceAccount = "oooi-operator"
)

// Env is a control plane.
type Env struct {
	// Config and Client are an administrator's.
	Config *rest.Config
	Client client.WithWatch

	env     *envtest.Environment
	dir     string
	manager *exec.Cmd
}

// Run starts a control plane, installs oooi's own manifests, runs the tests, and
// gives the exit code. With manager the garbage collector and the controllers of
// namespaces and Deployments run too.
func Run(m *testing.M, to **Env, manager bool) int {
	e, err := Start(manager)
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the control plane:", err)
		return 1
	}
	defer e.Stop()
	*to = e
	return m.Run()
}

// Start starts a control plane. Caller must stop it.
func Start(manager bool) (*Env, error) {
	ctrl.SetLogger(logr.Discard()) // an operator that is started sets its own
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil, errors.New("KUBEBUILDER_ASSETS is not set; run the tests by make")
	}
	dir, err := os.MkdirTemp("", "oooi-testenv-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	e := &Env{dir: dir, env: &envtest.Environment{
		ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: 20 * time.Second,
	}}
	server := e.env.ControlPlane.GetAPIServer()
	server.CertDir = filepath.Join(dir, "server") // it outlives a stop
	if err := os.Mkdir(server.CertDir, 0o700); err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	// Room for the Services of a thousand control planes.
	server.Configure().Set("service-cluster-ip-range", "10.96.0.0/16")
	server.Configure().Set("enable-priority-and-fairness", "false")
	server.Configure().Set("max-requests-inflight", "0")
	server.Configure().Set("max-mutating-requests-inflight", "0")
	if e.Config, err = e.env.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	e.Config.QPS, e.Config.Burst = 1000, 2000
	if err := e.prepare(manager); err != nil {
		e.Stop()
		return nil, err
	}
	return e, nil
}

// prepare installs the manifests as an administrator would.
func (e *Env) prepare(manager bool) error {
	scheme, err := app.Scheme()
	if err != nil {
		return err
	}
	if e.Client, err = client.NewWithWatch(e.Config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if manager {
		if err := e.startManager(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, pattern := range []string{"manifests/default/namespace.yaml", "manifests/crd/*.yaml", "manifests/rbac/*.yaml", "manifests/default/operator.yaml"} {
		if err := e.ApplyFiles(ctx, filepath.Join(root(), pattern)); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends everything.
func (e *Env) Stop() {
	if e.manager != nil && e.manager.Process != nil {
		_ = e.manager.Process.Kill()
		_ = e.manager.Wait()
	}
	if err := e.env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the control plane:", err)
	}
	_ = os.RemoveAll(e.dir)
}

// StopServer kills the API server; etcd runs on.
func (e *Env) StopServer() error {
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return fmt.Errorf("looking for the API server: %w", err)
	}
	for _, line := range lines {
		text, err := os.ReadFile(line)
		// Its directory of certificates tells it from those of other tests.
		if err != nil || !bytes.Contains(text, []byte(e.env.ControlPlane.GetAPIServer().CertDir+"\x00")) || !bytes.Contains(text, []byte("kube-apiserver")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(line)))
		if err != nil {
			return fmt.Errorf("reading %s: %w", line, err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return fmt.Errorf("killing the API server: %w", err)
		}
		return nil
	}
	return errors.New("the API server does not run")
}

// StartServer brings it back, with the same port and the same keys.
func (e *Env) StartServer() error {
	if err := e.env.ControlPlane.GetAPIServer().Start(); err != nil {
		return fmt.Errorf("starting the API server: %w", err)
	}
	return nil
}

// startManager runs kube-controller-manager.
func (e *Env) startManager() error {
	kubeconfig := filepath.Join(e.dir, "manager.kubeconfig")
	if err := WriteKubeconfig(kubeconfig, e.Config); err != nil {
		return err
	}
	logs, err := os.Create(filepath.Join(e.dir, "manager.log"))
	if err != nil {
		return fmt.Errorf("making a log: %w", err)
	}
	e.manager = exec.CommandContext(context.Background(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"),
		"--kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port=0", "--use-service-account-credentials=false",
		"--controllers=garbage-collector-controller,namespace-controller,deployment-controller,replicaset-controller,serviceaccount-controller",
		"--concurrent-gc-syncs=5", "--kube-api-qps=500", "--kube-api-burst=1000")
	e.manager.Stdout, e.manager.Stderr = logs, logs
	if err := e.manager.Start(); err != nil {
		return fmt.Errorf("starting kube-controller-manager: %w", err)
	}
	return nil
}

// WriteKubeconfig writes what a program needs to act as config does.
func WriteKubeconfig(path string, config *rest.Config) error {
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: server(config), CertificateAuthorityData: config.CAData}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
	}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}

// Token is a token of a ServiceAccount for an audience; none is the API server's.
func (e *Env) Token(ctx context.Context, namespace, name string, audiences ...string) (string, error) {
	hour := int64(3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences, ExpirationSeconds: &hour}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := e.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("asking for a token of %s/%s: %w", namespace, name, err)
	}
	return request.Status.Token, nil
}

// As is the config of a ServiceAccount, by a token of its own.
func (e *Env) As(ctx context.Context, namespace, name string) (*rest.Config, error) {
	token, err := e.Token(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: e.Config.Host, BearerToken: token, QPS: 500, Burst: 1000,
		TLSClientConfig: rest.TLSClientConfig{CAData: e.Config.CAData},
	}, nil
}

func server(config *rest.Config) string {
	if len(config.Host) > 8 && config.Host[:8] == "https://" {
		return config.Host
	}
	return "https://" + config.Host
}
