package app_test

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/internal/testenv"
)

// tenants answer as the API servers of hosted clusters, each under the name of its
// Service: behind all of them is the one real API server of the tests.
type tenants struct {
	server *httptest.Server
	ca     []byte

	mu   sync.Mutex
	dead map[string]bool       // guarded by mu, by control-plane namespace
	hung map[string]string     // guarded by mu, by control-plane namespace: what is dialled instead
	open map[string][]net.Conn // guarded by mu, by control-plane namespace
}

func newTenants(t *testing.T, e *testenv.Env, controlPlanes ...string) *tenants {
	t.Helper()
	target, err := url.Parse(e.Config.Host)
	require.NoError(t, err)
	transport, err := rest.TransportFor(e.Config)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Authorization")
	}}
	cert, ca := selfSigned(t, controlPlanes)
	s := &tenants{server: httptest.NewUnstartedServer(http.Handler(proxy)), ca: ca, dead: map[string]bool{}, hung: map[string]string{}, open: map[string][]net.Conn{}}
	s.server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	return s
}

func selfSigned(t *testing.T, controlPlanes []string) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tenants"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, ns := range controlPlanes {
		template.DNSNames = append(template.DNSNames, "kube-apiserver."+ns+".svc")
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// kill makes a hosted cluster's API server refuse, and ends its connections.
func (s *tenants) kill(controlPlane string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead[controlPlane] = true
	for _, c := range s.open[controlPlane] {
		_ = c.Close()
	}
	delete(s.open, controlPlane)
}

// hang makes a hosted cluster's API server one that takes connections and says
// nothing: the kernel takes them, and nobody reads. Those that are open end.
func (s *tenants) hang(t *testing.T, controlPlane string) {
	t.Helper()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, silent.Close()) })
	s.kill(controlPlane)
	s.mu.Lock()
	s.hung[controlPlane] = silent.Addr().String()
	s.mu.Unlock()
	s.revive(controlPlane)
}

// revive undoes kill.
func (s *tenants) revive(controlPlane string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.dead, controlPlane)
}

// dial is the operator's way to them.
func (s *tenants) dial(ctx context.Context, network, address string) (net.Conn, error) {
	_, rest, _ := strings.Cut(address, ".")
	controlPlane, _, _ := strings.Cut(rest, ".")
	s.mu.Lock()
	to := cmp.Or(s.hung[controlPlane], s.server.Listener.Addr().String())
	s.mu.Unlock()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, to)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead[controlPlane] {
		return nil, errors.Join(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, conn.Close())
	}
	s.open[controlPlane] = append(s.open[controlPlane], conn)
	return conn, nil
}

// secret is the kubeconfig that HyperShift leaves.
func (s *tenants) secret(t *testing.T, controlPlane string) *corev1.Secret {
	t.Helper()
	raw, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "c", Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		Clusters:  map[string]*clientcmdapi.Cluster{"c": {Server: "https://kube-apiserver:6443", CertificateAuthorityData: s.ca}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: "tenant"}},
	})
	require.NoError(t, err)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: controlPlane, Name: "service-network-admin-kubeconfig"}, Data: map[string][]byte{"kubeconfig": raw},
	}
}

// worker is a Ready node of the hosted clusters.
func worker(t *testing.T) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-of-tenants"}}
	env.Must(t, node)
	t.Cleanup(func() { require.NoError(t, env.Client.Delete(context.WithoutCancel(t.Context()), node)) })
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node))
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	require.NoError(t, env.Client.Status().Update(t.Context(), node))
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node))
	node.Spec.Taints = nil
	require.NoError(t, env.Client.Update(t.Context(), node))
}
