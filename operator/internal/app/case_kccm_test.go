package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// The addresses of the case: what the hub's cloud provider gives, and what the
// attachment had of its own pool.
const (
	hubsAddress = "198.51.100.41"
	ownAddress  = "192.0.2.203"
	ownClass    = "hostedcluster.densityops.com/vlan"
)

// kccm is the case's file: the Service in the hosted cluster, and what the hub's
// cloud provider has made of it.
type kccm struct {
	service, mirror corev1.Service
	slice           discoveryv1.EndpointSlice
}

func readKCCM(t *testing.T) *kccm {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "cases", "kccm-mirror.yaml"))
	require.NoError(t, err)
	documents := bytes.Split(text, []byte("\n---\n"))
	k := &kccm{}
	require.Len(t, documents, 3)
	for i, into := range []any{&k.service, &k.mirror, &k.slice} {
		require.NoError(t, yaml.UnmarshalStrict(documents[i], into))
	}
	// A UID is the API server's to give.
	k.service.UID = ""
	return k
}

// answered makes a Service and gives it the address that it has in the file.
func answered(t *testing.T, s *corev1.Service) {
	t.Helper()
	status := s.Status
	require.Equal(t, hubsAddress, status.LoadBalancer.Ingress[0].IP)
	require.NoError(t, env.Client.Create(t.Context(), s))
	s.Status = status
	require.NoError(t, env.Client.Status().Update(t.Context(), s))
}

// publications are all specs that the children of an Infra have ever had.
type publications struct {
	mu   sync.Mutex
	list []string // guarded by mu
}

func (p *publications) add(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, text)
}

func (p *publications) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list
}

// follow records every version of the DNSServers and ProxyServers of a namespace.
func follow(t *testing.T, namespace string) *publications {
	t.Helper()
	p := &publications{}
	for _, list := range []client.ObjectList{&v1alpha1.DNSServerList{}, &v1alpha1.ProxyServerList{}} {
		w, err := env.Client.Watch(t.Context(), list, client.InNamespace(namespace))
		require.NoError(t, err)
		t.Cleanup(w.Stop)
		go func() {
			for event := range w.ResultChan() {
				if text, err := json.Marshal(event.Object); err == nil {
					p.add(string(text))
				}
			}
		}()
	}
	return p
}

// withOLM is a hosted cluster with a worker, OLM and its catalog, and MetalLB's kinds.
func withOLM(t *testing.T, h testenv.Hosted) *tenants {
	t.Helper()
	require.NoError(t, env.Install(t.Context(), append(testenv.All(), testenv.HostedOLM, testenv.MetalLB)...))
	hosts := newTenants(t, env, h.ControlPlane())
	worker(t)
	source := &operatorsv1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-marketplace", Name: "redhat-operators"},
		Spec:       operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Address: "catalog:50051"},
	}
	for _, ns := range []string{"openshift-ingress", "openshift-operators", "openshift-marketplace"} {
		env.Must(t, testenv.NamespaceObject(ns))
	}
	env.Must(t, source)
	// What another test may have left is another attachment's, or would serve in the place of ours.
	for _, left := range []struct{ version, kind, namespace string }{
		{"v1", "Service", "openshift-ingress"},
		{"operators.coreos.com/v1alpha1", "Subscription", "openshift-operators"},
		{"metallb.io/v1beta1", "MetalLB", "metallb-system"},
		{"metallb.io/v1beta1", "IPAddressPool", "metallb-system"},
		{"metallb.io/v1beta1", "L2Advertisement", "metallb-system"},
	} {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(left.version)
		o.SetKind(left.kind)
		require.NoError(t, env.Client.DeleteAllOf(t.Context(), o, client.InNamespace(left.namespace)))
	}
	t.Cleanup(func() { require.NoError(t, env.Client.Delete(context.WithoutCancel(t.Context()), source)) })
	return hosts
}

// mirrored is the world of the case before the operator is there: an attachment
// that has recorded the class-less Service as its own.
func mirrored(t *testing.T, k *kccm) (*v1alpha1.InfraClusterAttachment, *tenants) {
	t.Helper()
	h := testenv.Hosted{Namespace: "clusters", Name: "example-hcp-a", Workers: []string{"192.0.2.101"}}
	require.Equal(t, h.ControlPlane(), k.mirror.Namespace)
	hosts := withOLM(t, h)
	t.Cleanup(func() { env.Sweep(t, h.Namespace) })
	env.Must(t, h.Objects()...)
	env.Must(t, hosts.secret(t, h.ControlPlane()), testenv.NAD(h.Namespace, "vlan"), testenv.Infra(h.Namespace, "vlan", "vlan", 2))
	answered(t, &k.service)
	answered(t, &k.mirror)
	env.Must(t, &k.slice)

	a := testenv.Attachment(h.Namespace, h.Name, "vlan")
	a.Spec.AppsIngress.Enabled = true
	a.Spec.AppsIngress.MetalLB = v1alpha1.AppsMetalLB{AddressPoolName: "example-hcp-a-apps", IPAddressPoolRange: "192.0.2.200-192.0.2.209"}
	env.Must(t, a)
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"appsIngressStatus": map[string]any{
		"phase": "Ready", "reason": v1alpha1.ReasonReconciliationSucceeded, "externalIP": ownAddress,
		"applied": []any{map[string]any{
			"apiVersion": "v1", "kind": "Service", "namespace": k.service.Namespace, "name": k.service.Name, "uid": string(k.service.UID),
		}},
	}}}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.KindInfraClusterAttachment))
	u.SetNamespace(a.Namespace)
	u.SetName(a.Name)
	require.NoError(t, env.Client.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("oooi-operator"), client.ForceOwnership))
	return a, hosts
}

// case C48, hazards 116 to 119: the hub's cloud provider answers a Service of ours
// that has no class. Its address comes into neither DNS nor Envoy, the Service is
// made again with the class, MetalLB has the same one, and once the mirror is gone
// the cluster is Ready at the address that it had.
func TestCaseTheHubsCloudProviderAnswersOurService(t *testing.T) {
	k := readKCCM(t)
	a, hosts := mirrored(t, k)
	seen := follow(t, a.Namespace)
	options := testenv.DefaultOptions()
	options.DialHosted = hosts.dial
	env.Operator(t, options)

	degraded := condition(t, a, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonMirroredByHub)
	require.Equal(t, "the management cluster's cloud provider answers the Service too: "+k.mirror.Namespace+"/"+k.mirror.Name, degraded.Message)
	require.Equal(t, v1alpha1.AppsPhaseDegraded, a.Status.AppsIngressStatus.Phase)
	require.Equal(t, v1alpha1.IPv4(ownAddress), a.Status.AppsIngressStatus.ExternalIP)

	again := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: k.service.Namespace, Name: k.service.Name}}
	testenv.Eventually(t, 2*patience, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(again), again); err != nil {
			return err
		}
		if again.UID == k.service.UID {
			return errOld
		}
		return nil
	})
	require.NotNil(t, again.Spec.LoadBalancerClass)
	require.Equal(t, ownClass, *again.Spec.LoadBalancerClass)
	require.Equal(t, ownAddress, again.Annotations["metallb.io/loadBalancerIPs"])
	metal := metalLB("openshift-operators")
	testenv.Eventually(t, patience, func() error { return env.Client.Get(t.Context(), client.ObjectKeyFromObject(metal), metal) })
	class, _, err := unstructured.NestedString(metal.Object, "spec", "loadBalancerClass")
	require.NoError(t, err)
	require.Equal(t, ownClass, class, "MetalLB answers this class, and nobody else does")

	// The cloud provider takes its mirror away with the old Service, and MetalLB
	// gives what the new one asks for.
	require.NoError(t, env.Client.Delete(t.Context(), &k.mirror))
	require.NoError(t, client.IgnoreNotFound(env.Client.Delete(t.Context(), &k.slice)))
	again.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: again.Annotations["metallb.io/loadBalancerIPs"]}}
	require.NoError(t, env.Client.Status().Update(t.Context(), again))
	testenv.Eventually(t, 2*patience, func() error { return phase(t, a, v1alpha1.AppsPhaseReady) })
	condition(t, a, v1alpha1.ConditionAppsIngressReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	require.Equal(t, v1alpha1.IPv4(ownAddress), a.Status.AppsIngressStatus.ExternalIP, "the same address as before")
	require.Equal(t, again.UID, get(t, again).UID, "and it is not made a third time")

	published := strings.Join(seen.all(), "\n")
	require.Contains(t, published, ownAddress, "what was published is looked at")
	require.NotContains(t, published, hubsAddress, "neither DNS nor Envoy ever has the hub's address")
	require.NoError(t, env.Client.Delete(t.Context(), a))
	testenv.Eventually(t, 2*patience, func() error { return env.Gone(t.Context(), a) })
}

var errOld = errors.New("the Service is still the old one")

// phase says whether *.apps of an attachment is in a phase.
func phase(t *testing.T, a *v1alpha1.InfraClusterAttachment, want v1alpha1.AppsPhase) error {
	t.Helper()
	if st := get(t, a).Status.AppsIngressStatus; st == nil || st.Phase != want {
		return fmt.Errorf("*.apps is %+v, want %s", st, want)
	}
	return nil
}
