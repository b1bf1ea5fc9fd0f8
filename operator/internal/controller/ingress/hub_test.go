package ingress_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/controller/ingress"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/hosted"
)

// unhurried is a management cluster's API server that may be away for as long as it
// likes: whoever asks it must not give up.
type unhurried struct {
	client.Reader
	t     *testing.T
	asked int
}

func (u *unhurried) patient(ctx context.Context) {
	u.t.Helper()
	u.asked++
	_, hurried := ctx.Deadline()
	require.False(u.t, hurried, "an outage of the management cluster would be reported as a fault of the hosted one")
}

// Get implements client.Reader.
func (u *unhurried) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	u.patient(ctx)
	return u.Reader.Get(ctx, key, o, opts...)
}

// List implements client.Reader.
func (u *unhurried) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	u.patient(ctx)
	return u.Reader.List(ctx, list, opts...)
}

// answering is a hosted API server that answers so: the Secret with its kubeconfig, and
// the way to it.
func answering(t *testing.T, answer http.HandlerFunc) (*corev1.Secret, hosted.Dialer) {
	t.Helper()
	dir := t.TempDir()
	ca := certificate(t, dir, "kube-apiserver."+controlPlane+".svc")
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	require.NoError(t, err)
	starting := httptest.NewUnstartedServer(answer)
	starting.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	starting.StartTLS()
	t.Cleanup(starting.Close)
	raw, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "c", Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		Clusters:  map[string]*clientcmdapi.Cluster{"c": {Server: "https://kube-apiserver:6443", CertificateAuthorityData: ca}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {Token: "t"}},
	})
	require.NoError(t, err)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: controlPlane, Name: "service-network-admin-kubeconfig"}, Data: map[string][]byte{"kubeconfig": raw},
	}
	return secret, func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, starting.Listener.Addr().String())
	}
}

// behaviour G4: the API server of the management cluster is waited for, so that its
// outage changes no status and gives up no hosted cluster.
func TestAnOutageOfTheManagementClusterIsNoFaultOfTheHostedOne(t *testing.T) {
	scheme := hostedScheme(t)
	secret, dial := answering(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	hub := &unhurried{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(secret).Build(), t: t}
	step := ingress.New(hosted.New(hub, scheme, dial), hub, func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) })
	a := attachment()
	f := facts.Attachment{ControlPlaneNamespace: controlPlane, Admitted: true, Observed: a.Status.Observed}
	_, err := step.Ensure(t.Context(), a, f, recorded())
	require.ErrorContains(t, err, "HostedClusterAccessFailed")
	require.Equal(t, 2, hub.asked, "the Secret, and the cloud provider's Services")
	a.Status.AppsIngressStatus.Applied = []v1alpha1.AppliedObject{{APIVersion: "v1", Kind: "Service", Namespace: "openshift-ingress", Name: "oooi-ingress"}}
	require.Error(t, step.Remove(t.Context(), a))
	require.Equal(t, 3, hub.asked)
}
