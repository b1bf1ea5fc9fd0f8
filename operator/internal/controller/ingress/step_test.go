package ingress_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metallbv1beta1 "go.universe.tf/metallb/api/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/controller/ingress"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/hosted"
	"github.com/densityops/oooi/operator/internal/outcome"
	"github.com/densityops/oooi/operator/internal/testenv"
)

const controlPlane = "clusters-example-hcp-a"

// cluster is a hosted cluster: a real API server that answers under the name of
// its Service in the control-plane namespace.
type cluster struct {
	*testenv.Env
	step *ingress.Step
	hub  client.WithWatch
	now  time.Time
	way  *way
}

// hostedScheme is what the operator's client of a hosted cluster knows.
func hostedScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, operatorsv1alpha1.AddToScheme, metallbv1beta1.AddToScheme, v1alpha1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	return scheme
}

// newCluster starts a hosted cluster with its kubeconfig Secret on the hub. The
// hub's side is a fake client: all that the step reads there is that Secret and
// the cloud provider's Services.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	require.NotEmpty(t, os.Getenv("KUBEBUILDER_ASSETS"), "run the tests by make")
	dir := t.TempDir()
	name := "kube-apiserver." + controlPlane + ".svc"
	ca := certificate(t, dir, name)
	env := &envtest.Environment{ControlPlaneStartTimeout: time.Minute}
	env.ControlPlane.GetAPIServer().Configure().Append("tls-sni-cert-key", filepath.Join(dir, "tls.crt")+","+filepath.Join(dir, "tls.key")+":"+name)
	config, err := env.Start()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, env.Stop()) })
	scheme := hostedScheme(t)
	admin, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	c := &cluster{Env: &testenv.Env{Config: config, Client: admin}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	require.NoError(t, c.Install(t.Context(), testenv.HostedOLM))

	raw, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "c", Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		Clusters:  map[string]*clientcmdapi.Cluster{"c": {Server: "https://kube-apiserver:6443", CertificateAuthorityData: ca}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
	})
	require.NoError(t, err)
	c.hub = fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: controlPlane, Name: "service-network-admin-kubeconfig"},
		Data:       map[string][]byte{"kubeconfig": raw},
	}).Build()
	server, err := url.Parse(config.Host)
	require.NoError(t, err)
	c.way = &way{address: server.Host, done: t.Context().Done()}
	c.step = ingress.New(hosted.New(c.hub, scheme, c.way.dial), c.hub, func() time.Time { return c.now })
	return c
}

// certificate writes a self-signed server certificate of that name into dir.
func certificate(t *testing.T, dir, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), 0o600))
	return cert
}

func attachment() *v1alpha1.InfraClusterAttachment {
	return &v1alpha1.InfraClusterAttachment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "example-hcp-a", UID: "uid-a", Generation: 1},
		Spec: v1alpha1.InfraClusterAttachmentSpec{AppsIngress: v1alpha1.AppsIngress{
			Enabled: true, MetalLB: v1alpha1.AppsMetalLB{AddressPoolName: "example-hcp-a-apps", IPAddressPoolRange: "192.0.2.200-192.0.2.209"},
		}},
		Status: v1alpha1.InfraClusterAttachmentStatus{
			ControlPlaneNamespace: controlPlane, Observed: v1alpha1.ObservedFacts{Services: apiServices()},
		},
	}
}

func apiServices() []v1alpha1.ObservedService {
	return []v1alpha1.ObservedService{{Role: v1alpha1.ServiceRoleAPIServer, Name: "kube-apiserver", ClusterIP: "172.30.10.1", Port: 6443}}
}

// recorded is the Infra that holds the attachment's range and ports.
func recorded() []v1alpha1.Infra {
	return []v1alpha1.Infra{{Status: v1alpha1.InfraStatus{InForce: []v1alpha1.AttachmentInForce{{
		Attachment: "example-hcp-a", Range: "192.0.2.200-192.0.2.209", HTTPPort: 80, HTTPSPort: 443,
	}}}}}
}

// ensure runs the step and wants the phase and the reason; it gives when to come
// again.
func (c *cluster) ensure(t *testing.T, a *v1alpha1.InfraClusterAttachment, phase v1alpha1.AppsPhase, reason string) time.Duration {
	t.Helper()
	f := facts.Attachment{ControlPlaneNamespace: controlPlane, Admitted: true, Observed: v1alpha1.ObservedFacts{Services: apiServices()}}
	after, err := c.step.Ensure(t.Context(), a, f, recorded())
	st := a.Status.AppsIngressStatus
	require.Equal(t, fmt.Sprint(phase, " ", reason), fmt.Sprint(st.Phase, " ", st.Reason), st.Message)
	if phase == v1alpha1.AppsPhaseReady {
		require.NoError(t, err)
		return after
	}
	var w outcome.Waiting
	ok := errors.As(err, &w)
	require.True(t, ok, "%v", err)
	require.Positive(t, w.After)
	return w.After
}

// behaviours G1 to G5: the whole way, from a cluster without a worker to an
// endpoint and back, on a real API server with OLM's and MetalLB's real CRDs.
// What stands in for OLM, metallb-operator and MetalLB is the test itself: it
// serves the kinds once there is a Subscription, and assigns the address.
func TestAppsIngressFromNothingToAnEndpointAndBack(t *testing.T) {
	c, a := newCluster(t), attachment()
	for _, ns := range []string{"openshift-operators", "openshift-marketplace", "openshift-ingress"} {
		c.Must(t, testenv.NamespaceObject(ns))
	}
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForHostedClusterNodes)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker-1"},
		Spec:       corev1.NodeSpec{Unschedulable: true},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	c.Must(t, node)
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForHostedClusterNodes)
	uncordon(t, c)
	c.ensure(t, a, "Degraded", v1alpha1.ReasonCatalogSourceMissing)
	c.Must(t, &operatorsv1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-marketplace", Name: "redhat-operators"},
		Spec:       operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Address: "catalog:50051"},
	})
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForMetalLBCRDs)
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForMetalLBCRDs)
	subscriptions := &operatorsv1alpha1.SubscriptionList{}
	require.NoError(t, c.Client.List(t.Context(), subscriptions))
	require.Len(t, subscriptions.Items, 1)
	require.Equal(t, operatorsv1alpha1.ApprovalAutomatic, subscriptions.Items[0].Spec.InstallPlanApproval)

	c.installMetalLB(t)
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForExternalIP)
	pool, advertisement := &metallbv1beta1.IPAddressPool{}, &metallbv1beta1.L2Advertisement{}
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Namespace: "openshift-operators", Name: "example-hcp-a-apps"}, pool))
	require.Equal(t, []string{"192.0.2.200-192.0.2.209"}, pool.Spec.Addresses)
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Namespace: "openshift-operators", Name: "advertise-example-hcp-a-apps"}, advertisement))
	service := c.service(t)
	require.Equal(t, "hostedcluster.densityops.com/vlan", *service.Spec.LoadBalancerClass)

	c.assign(t, "192.0.2.200")
	c.ensure(t, a, "Ready", v1alpha1.ReasonReconciliationSucceeded)
	require.Equal(t, v1alpha1.IPv4("192.0.2.200"), a.Status.AppsIngressStatus.ExternalIP)
	// The next pass asks for the address that the Service now has.
	c.ensure(t, a, "Ready", v1alpha1.ReasonReconciliationSucceeded)
	c.assertQuiet(t, a)
	c.assertKeptWhenAway(t, a)
	c.assertAlone(t, a)

	removed := a.DeepCopy()
	require.NoError(t, c.step.Remove(t.Context(), removed))
	require.Error(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(service), &corev1.Service{}))
	require.NoError(t, c.Client.List(t.Context(), subscriptions))
	require.Empty(t, subscriptions.Items)
	pools := &metallbv1beta1.IPAddressPoolList{}
	require.NoError(t, c.Client.List(t.Context(), pools))
	require.Empty(t, pools.Items)
}

// assertQuiet: a settled cluster is written to no more (behaviour B8).
func (c *cluster) assertQuiet(t *testing.T, a *v1alpha1.InfraClusterAttachment) {
	t.Helper()
	before, status := c.service(t).ResourceVersion, a.Status.DeepCopy()
	c.now = c.now.Add(time.Hour)
	for range 5 {
		c.ensure(t, a, "Ready", v1alpha1.ReasonReconciliationSucceeded)
	}
	require.Equal(t, before, c.service(t).ResourceVersion)
	require.Equal(t, status, &a.Status)
}

// assertKeptWhenAway: a kubeconfig that vanishes withdraws nothing (behaviour G4).
func (c *cluster) assertKeptWhenAway(t *testing.T, a *v1alpha1.InfraClusterAttachment) {
	t.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: controlPlane, Name: "service-network-admin-kubeconfig"}
	require.NoError(t, c.hub.Get(t.Context(), key, secret))
	require.NoError(t, c.hub.Delete(t.Context(), secret))
	c.ensure(t, a, "Degraded", v1alpha1.ReasonHostedClusterAccessFailed)
	require.Equal(t, v1alpha1.IPv4("192.0.2.200"), a.Status.AppsIngressStatus.ExternalIP)
	secret.ResourceVersion = ""
	require.NoError(t, c.hub.Create(t.Context(), secret))
	c.ensure(t, a, "Ready", v1alpha1.ReasonReconciliationSucceeded)
}

// assertAlone: a cluster that cannot be reached touches no other (behaviour G6).
func (c *cluster) assertAlone(t *testing.T, a *v1alpha1.InfraClusterAttachment) {
	t.Helper()
	other, before := attachment(), a.Status.DeepCopy()
	other.Name, other.UID = "example-hcp-b", "uid-b"
	infras := []v1alpha1.Infra{{Status: v1alpha1.InfraStatus{InForce: []v1alpha1.AttachmentInForce{{
		Attachment: "example-hcp-b", Range: "192.0.2.200-192.0.2.209", HTTPPort: 80, HTTPSPort: 443,
	}}}}}
	f := facts.Attachment{ControlPlaneNamespace: "clusters-example-hcp-b", Admitted: true, Observed: v1alpha1.ObservedFacts{Services: apiServices()}}
	_, err := c.step.Ensure(t.Context(), other, f, infras)
	require.ErrorContains(t, err, v1alpha1.ReasonHostedClusterAccessFailed)
	c.ensure(t, a, "Ready", v1alpha1.ReasonReconciliationSucceeded)
	require.Equal(t, before, &a.Status)
}

// cases C48, hazards 37, 116 to 118: a class-less Service of ours that the hub
// answers is made again with the class, and the hub's address never published.
func TestServiceThatTheHubAnswersIsMadeAgain(t *testing.T) {
	c, a := newCluster(t), attachment()
	for _, ns := range []string{"openshift-operators", "openshift-ingress"} {
		c.Must(t, testenv.NamespaceObject(ns))
	}
	c.installMetalLB(t)
	c.Must(t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker-1"},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
	uncordon(t, c)
	metalLB := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"loadBalancerClass": "hostedcluster.densityops.com/vlan"}}}
	metalLB.SetAPIVersion("metallb.io/v1beta1")
	metalLB.SetKind("MetalLB")
	metalLB.SetNamespace("openshift-operators")
	metalLB.SetName("metallb")
	c.Must(t, metalLB)
	old := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-ingress", Name: "oooi-ingress"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
	require.NoError(t, c.Client.Create(t.Context(), old))
	c.ensure(t, a, "Degraded", v1alpha1.ReasonServiceNotOwned)

	a.Status.AppsIngressStatus.Applied = []v1alpha1.AppliedObject{{
		APIVersion: "v1", Kind: "Service", Namespace: old.Namespace, Name: old.Name, UID: string(old.UID),
	}}
	a.Status.AppsIngressStatus.ExternalIP = "192.0.2.203"
	c.assign(t, "198.51.100.41")
	require.NoError(t, c.hub.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: controlPlane, Name: "a5d1b0c1e7f0a4e0e9a510c7b1e3f9a1",
		Labels: map[string]string{"cluster.x-k8s.io/tenant-service-name": "oooi-ingress", "cluster.x-k8s.io/tenant-service-namespace": "openshift-ingress"},
	}}))
	c.ensure(t, a, "Degraded", v1alpha1.ReasonMirroredByHub)
	require.Equal(t, v1alpha1.IPv4("192.0.2.203"), a.Status.AppsIngressStatus.ExternalIP)
	c.ensure(t, a, "Degraded", v1alpha1.ReasonMirroredByHub)
	again := c.service(t)
	require.NotEqual(t, old.UID, again.UID)
	require.Equal(t, "hostedcluster.densityops.com/vlan", *again.Spec.LoadBalancerClass)
	require.Equal(t, "192.0.2.203", again.Annotations["metallb.io/loadBalancerIPs"])
}

// installMetalLB serves MetalLB's kinds, also in the discovery of all groups at
// once, which follows that of a single group.
func (c *cluster) installMetalLB(t *testing.T) {
	t.Helper()
	require.NoError(t, c.Install(t.Context(), testenv.MetalLB))
	disco, err := discovery.NewDiscoveryClientForConfig(c.Config)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, lists, err := disco.ServerGroupsAndResources()
		served := map[string]bool{}
		for _, l := range lists {
			for _, r := range l.APIResources {
				served[l.GroupVersion+" "+r.Name] = true
			}
		}
		return err == nil && served["metallb.io/v1beta1 metallbs"] && served["metallb.io/v1beta1 ipaddresspools"] && served["metallb.io/v1beta1 l2advertisements"]
	}, time.Minute, 50*time.Millisecond)
}

// uncordon lets pods in; the API server taints a new node.
func uncordon(t *testing.T, c *cluster) {
	t.Helper()
	node := &corev1.Node{}
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Name: "worker-1"}, node))
	node.Spec.Unschedulable = false
	node.Spec.Taints = nil
	require.NoError(t, c.Client.Update(t.Context(), node))
}

func (c *cluster) service(t *testing.T) *corev1.Service {
	t.Helper()
	s := &corev1.Service{}
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Namespace: "openshift-ingress", Name: "oooi-ingress"}, s))
	return s
}

// assign gives the Service an address, as MetalLB's controller does.
func (c *cluster) assign(t *testing.T, ip string) {
	t.Helper()
	s := c.service(t)
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
	require.NoError(t, c.Client.Status().Update(t.Context(), s))
}
