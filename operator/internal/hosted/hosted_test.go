package hosted_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/hosted"
	"github.com/densityops/oooi/operator/internal/lead"
	"github.com/densityops/oooi/operator/internal/outcome"
)

const controlPlane = "clusters-a"

var target = hosted.Target{Namespace: controlPlane, Service: "kube-apiserver", Port: 6443}

// stand is a hosted API server on loopback, whose certificate has the Service's name.
type stand struct {
	server *httptest.Server
	ca     []byte
	dialed atomic.Pointer[string]
	auth   atomic.Pointer[string]
	handle atomic.Pointer[http.HandlerFunc]
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{}
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth := r.Header.Get("Authorization")
		s.auth.Store(&auth)
		if h := s.handle.Load(); h != nil {
			(*h)(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}`)
	}))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"kube-apiserver." + controlPlane + ".svc"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	s.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	return s
}

func (s *stand) dial(ctx context.Context, network, address string) (net.Conn, error) {
	s.dialed.Store(&address)
	var d net.Dialer
	return d.DialContext(ctx, network, s.server.Listener.Addr().String())
}

// kubeconfig as HyperShift writes it: the server is a short name.
func (s *stand) kubeconfig(change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	cluster := &clientcmdapi.Cluster{Server: "https://kube-apiserver:6443", CertificateAuthorityData: s.ca}
	user := &clientcmdapi.AuthInfo{Token: "tok-1"}
	change(cluster, user)
	c := clientcmdapi.NewConfig()
	c.Clusters["c"], c.AuthInfos["u"] = cluster, user
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	text, err := clientcmd.Write(*c)
	if err != nil {
		panic(err)
	}
	return text
}

func secret(name string, kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: controlPlane, Name: name}, Data: map[string][]byte{"kubeconfig": kubeconfig}}
}

func unchanged(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo) {}

func (s *stand) clients(objects ...client.Object) (*hosted.Clients, client.Client) {
	hub := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build()
	return hosted.New(hub, clientgoscheme.Scheme, s.dial), hub
}

func node() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}} }

// serveNodes answers discovery and a Node.
func serveNodes(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/api":
		fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
	case "/apis":
		fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	case "/api/v1":
		fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"nodes","kind":"Node","namespaced":false,"verbs":["get"]}]}`)
	default:
		fmt.Fprint(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"}}`)
	}
}

// behaviour G7, hazards 23, 24: the Service of the control plane is dialled, whatever
// the kubeconfig says: no name of the VLAN, whose certificates may lack it.
func TestTheServiceIsDialledWhateverTheKubeconfigSays(t *testing.T) {
	s := newStand(t)
	handler := http.HandlerFunc(serveNodes)
	s.handle.Store(&handler)
	t.Setenv("HTTPS_PROXY", "http://192.0.2.1:3128")
	clients, _ := s.clients(
		secret("admin-kubeconfig", s.kubeconfig(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server = "https://attacker.example.com" })))
	c, err := clients.For(t.Context(), target)
	require.NoError(t, err)
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "n"}, node()))
	require.Equal(t, "kube-apiserver.clusters-a.svc:6443", *s.dialed.Load())
	require.Equal(t, "Bearer tok-1", *s.auth.Load())
}

// hazard 214: what holds back the writes of who may not lead any more holds back
// those to hosted clusters, and nothing else.
func TestWhoIsNotSureToLeadWritesNothing(t *testing.T) {
	s := newStand(t)
	written := &atomic.Int32{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			written.Add(1)
		}
		serveNodes(w, r)
	})
	s.handle.Store(&handler)
	clients, _ := s.clients(secret("admin-kubeconfig", s.kubeconfig(unchanged)))
	term := lead.NewTerm()
	c, err := clients.Through(term.Now).For(t.Context(), target)
	require.NoError(t, err)
	for _, tc := range []struct {
		name   string
		happen func()
		want   error
	}{
		{"it leads", func() { term.Renewed(time.Now()) }, nil},
		{"it has not renewed its lock", func() { term.Renewed(time.Now().Add(-lead.Window)) }, lead.ErrUnsure},
		{"it has renewed it again", func() { term.Renewed(time.Now()) }, nil},
		{"another one leads", term.End, lead.ErrUnsure},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.happen()
			written.Store(0)
			require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "n"}, node()))
			require.ErrorIs(t, c.Update(t.Context(), node()), tc.want)
			require.ErrorIs(t, c.Delete(t.Context(), node()), tc.want)
			require.Equal(t, tc.want == nil, written.Load() == 2)
			require.Equal(t, tc.want != nil, written.Load() == 0)
		})
	}
}

// hazard 214: one that does not even shake hands takes less than a call's time, and is
// known again as soon as it does.
func TestWhoDoesNotShakeHandsIsNotCalled(t *testing.T) {
	s := newStand(t)
	var calls atomic.Int32
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		serveNodes(w, r)
	})
	s.handle.Store(&handler)
	hub := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
		WithObjects(secret("admin-kubeconfig", s.kubeconfig(unchanged))).Build()
	var silent atomic.Bool
	mute, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mute.Close()) })
	clients := hosted.New(hub, clientgoscheme.Scheme, func(ctx context.Context, network, address string) (net.Conn, error) {
		if silent.Load() && address == "kube-apiserver.clusters-a.svc:6443" {
			// Its kernel takes the connection, and nobody reads.
			return (&net.Dialer{}).DialContext(ctx, network, mute.Addr().String())
		}
		return s.dial(ctx, network, address)
	})
	silent.Store(true)
	began := time.Now()
	_, err = clients.For(t.Context(), target)
	require.ErrorContains(t, err, "the hosted API server does not answer")
	require.Greater(t, time.Since(began), 5*time.Second, "who answers by then has refused")
	require.Less(t, time.Since(began), 10*time.Second)
	silent.Store(false)
	c, err := clients.For(t.Context(), target)
	require.NoError(t, err)
	require.Zero(t, calls.Load(), "a handshake is no call")
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "n"}, node()))
}

// hazard 25: a rotation is followed, and an unchanged Secret gives the same client.
func TestARotationIsFollowed(t *testing.T) {
	s := newStand(t)
	handler := http.HandlerFunc(serveNodes)
	s.handle.Store(&handler)
	clients, hub := s.clients(secret("service-network-admin-kubeconfig", s.kubeconfig(unchanged)))
	one, err := clients.For(t.Context(), target)
	require.NoError(t, err)
	again, err := clients.For(t.Context(), target)
	require.NoError(t, err)
	require.Same(t, one, again)
	require.NoError(t, hub.Update(t.Context(), secret("service-network-admin-kubeconfig",
		s.kubeconfig(func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Token = "tok-2" }))))
	two, err := clients.For(t.Context(), target)
	require.NoError(t, err)
	require.NoError(t, two.Get(t.Context(), client.ObjectKey{Name: "n"}, node()))
	require.Equal(t, "Bearer tok-2", *s.auth.Load())
}

// hazard 25: a control plane with a new CA is not trusted until the Secret has it.
func TestANewCAIsFollowed(t *testing.T) {
	before, after := newStand(t), newStand(t)
	handler := http.HandlerFunc(serveNodes)
	before.handle.Store(&handler)
	after.handle.Store(&handler)
	current := before
	hub := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
		WithObjects(secret("service-network-admin-kubeconfig", before.kubeconfig(unchanged))).Build()
	clients := hosted.New(hub, clientgoscheme.Scheme, func(ctx context.Context, network, address string) (net.Conn, error) {
		return current.dial(ctx, network, address)
	})
	get := func() error {
		c, err := clients.For(t.Context(), target)
		if err != nil {
			return err
		}
		return c.Get(t.Context(), client.ObjectKey{Name: "n"}, node())
	}
	require.NoError(t, get())
	current = after
	before.server.CloseClientConnections()
	require.ErrorContains(t, get(), "certificate signed by unknown authority")
	require.NoError(t, hub.Update(t.Context(), secret("service-network-admin-kubeconfig", after.kubeconfig(unchanged))))
	require.NoError(t, get())
}

// behaviour G7: what would make us run, read, trust or reach something that the
// author of a kubeconfig chose.
func TestAHostileKubeconfigIsRefused(t *testing.T) {
	s := newStand(t)
	for _, c := range []struct {
		name, field string
		change      func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)
	}{
		{"it runs a program", "exec", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Exec = &clientcmdapi.ExecConfig{Command: "/bin/sh", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		}},
		{"it names an auth provider", "auth-provider", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "gcp"}
		}},
		{"it names a proxy", "proxy-url", func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.ProxyURL = "http://attacker.example.com" }},
		{"it skips verification", "insecure-skip-tls-verify", func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.InsecureSkipTLSVerify, c.CertificateAuthorityData = true, nil
		}},
		{"it names another server name", "tls-server-name", func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.TLSServerName = "x" }},
		{"it reads a CA file", "certificate-authority", func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthority = "/etc/ca" }},
		{"it reads a certificate file", "client-certificate", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.ClientCertificate = "/etc/crt" }},
		{"it reads a key file", "client-key", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.ClientKey = "/etc/key" }},
		{"it reads a token file", "tokenFile", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.TokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"
		}},
		{"it has a password", "username", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Username, u.Password = "a", "b" }},
		{"it impersonates", "as", func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Impersonate = "system:admin" }},
		{"it has no CA", "certificate-authority-data", func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthorityData = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			clients, _ := s.clients(secret("admin-kubeconfig", s.kubeconfig(c.change)))
			_, err := clients.For(t.Context(), target)
			reason, message := outcome.Describe(err)
			require.Equal(t, v1alpha1.ReasonHostedClusterAccessFailed, reason)
			require.Contains(t, message, c.field)
			require.NotContains(t, message, "tok-1", "no credential goes into a message")
			_, failure := outcome.Result(err)
			require.NoError(t, failure, "only another Secret can cure it")
		})
	}
	clients, _ := s.clients(secret("admin-kubeconfig", []byte("token: tok-1\n- x")))
	_, err := clients.For(t.Context(), target)
	_, message := outcome.Describe(err)
	require.NotContains(t, message, "tok-1")
	clients, _ = s.clients()
	_, err = clients.For(t.Context(), target)
	require.ErrorContains(t, err, "service-network-admin-kubeconfig")
}

// behaviour G7: a tenant's warnings do not fill our log.
func TestWarningsAreNotLogged(t *testing.T) {
	s := newStand(t)
	warns := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Warning", `299 - "theirs"`)
		serveNodes(w, r)
	})
	s.handle.Store(&warns)
	clients, _ := s.clients(secret("admin-kubeconfig", s.kubeconfig(unchanged)))
	var logged []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{}))
	c, err := clients.For(ctx, target)
	require.NoError(t, err)
	require.NoError(t, c.Get(ctx, client.ObjectKey{Name: "n"}, node()))
	require.Empty(t, logged)
}

// behaviour G7: a hosted API server is its tenant's.
func TestAHostileServerIsBounded(t *testing.T) {
	s := newStand(t)
	clients, _ := s.clients(secret("admin-kubeconfig", s.kubeconfig(unchanged)))
	redirect := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stolen" {
			serveNodes(w, r)
			return
		}
		http.Redirect(w, r, "https://attacker.example.com/stolen", http.StatusFound)
	})
	s.handle.Store(&redirect)
	c, err := clients.For(t.Context(), target)
	require.NoError(t, err)
	require.ErrorContains(t, c.Get(t.Context(), client.ObjectKey{Name: "n"}, node()), "redirect")
	require.Equal(t, "kube-apiserver.clusters-a.svc:6443", *s.dialed.Load(), "nothing else is dialled")

	endless := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/nodes/n" {
			serveNodes(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		block := make([]byte, 1<<20)
		for i := range block {
			block[i] = ' '
		}
		for range 200 {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	s.handle.Store(&endless)
	clients.Forget(target)
	c, err = clients.For(t.Context(), target)
	require.NoError(t, err)
	require.ErrorContains(t, c.Get(t.Context(), client.ObjectKey{Name: "n"}, node()), "too long")
}
