package testenv

import (
	"context"
	"fmt"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	"github.com/openshift/hypershift/api/util/ipnet"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// Create makes objects as an administrator; their statuses too.
func (e *Env) Create(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		withStatus := o.DeepCopyObject().(client.Object)
		err := e.Client.Create(ctx, o)
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("creating %T %s: %w", o, client.ObjectKeyFromObject(o), err)
		}
		// HyperShift has set conditions by the time that anybody attaches a cluster.
		if hosted, ok := withStatus.(*hyperv1.HostedCluster); ok && len(hosted.Status.Conditions) > 0 {
			withStatus.SetResourceVersion(o.GetResourceVersion())
			withStatus.SetUID(o.GetUID())
			if err := e.Client.Status().Update(ctx, withStatus); err != nil {
				return fmt.Errorf("writing the status of %T %s: %w", o, client.ObjectKeyFromObject(o), err)
			}
		}
	}
	return nil
}

// Must creates objects or fails the test.
func (e *Env) Must(t testing.TB, objects ...client.Object) {
	t.Helper()
	require.NoError(t, e.Create(t.Context(), objects...))
}

// NamespaceObject makes a Namespace.
func NamespaceObject(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// NAD makes a NetworkAttachmentDefinition of a bridge VLAN.
func NAD(namespace, name string) *nadv1.NetworkAttachmentDefinition {
	return &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: fmt.Sprintf(
			`{"cniVersion":"0.3.1","name":%q,"type":"bridge","bridge":%q,"capabilities":{"ips":true},"ipam":{"type":"static"}}`,
			namespace+"-"+name, "br-"+namespace+"-"+name)},
	}
}

// Infra makes an Infra whose VLAN is 192.0.x.0/24.
func Infra(namespace, name, nad string, third int) *v1alpha1.Infra {
	ip := func(last int) v1alpha1.IPv4 { return v1alpha1.IPv4(fmt.Sprintf("192.0.%d.%d", third, last)) }
	i := &v1alpha1.Infra{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	i.Spec.NetworkConfig = v1alpha1.InfraNetworkConfig{
		CIDR: v1alpha1.IPv4CIDR(fmt.Sprintf("192.0.%d.0/24", third)), Gateway: ip(1),
		NetworkAttachmentDefinition: v1alpha1.ObjectName(nad), DNSServers: []v1alpha1.Upstream{"198.51.100.53"},
	}
	i.Spec.InfraComponents.DHCP = v1alpha1.InfraDHCP{ServerIP: ip(2), RangeStart: ip(100), RangeEnd: ip(199)}
	i.Spec.InfraComponents.DNS = v1alpha1.InfraDNS{ServerIP: ip(3)}
	i.Spec.InfraComponents.Proxy = v1alpha1.InfraProxy{
		ServerIP: ip(4), InternalProxyService: name + "-proxy." + namespace + ".svc.cluster.local",
	}
	return i
}

// Attachment makes an attachment of a HostedCluster in the same namespace.
func Attachment(namespace, name, infra string) *v1alpha1.InfraClusterAttachment {
	return &v1alpha1.InfraClusterAttachment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.InfraClusterAttachmentSpec{
			InfraRef:         v1alpha1.InfraRef{Name: v1alpha1.ObjectName(infra)},
			HostedClusterRef: v1alpha1.HostedClusterRef{Name: v1alpha1.ObjectName(name), Namespace: v1alpha1.NamespaceName(namespace)},
			DNS:              v1alpha1.AttachmentDNS{ClusterName: v1alpha1.DomainName(name), BaseDomain: "clusters.example.com"},
		},
	}
}

// Hosted are the objects of a hosted cluster, as HyperShift leaves them.
type Hosted struct {
	Namespace, Name string
	// Worker addresses; one Machine each.
	Workers []string
}

// ControlPlane is the namespace of its control plane.
func (h Hosted) ControlPlane() string { return h.Namespace + "-" + h.Name }

// Objects are the HostedCluster, its control plane's namespace, Services and
// HostedControlPlane, its NodePool and its Machines.
func (h Hosted) Objects() []client.Object {
	out := []client.Object{NamespaceObject(h.Namespace), NamespaceObject(h.ControlPlane()), h.Cluster(), h.controlPlane(), h.nodePool()}
	for _, s := range []struct {
		name string
		port int32
	}{{"kube-apiserver", 6443}, {"oauth-openshift", 6443}, {"ignition-server-proxy", 443}, {"konnectivity-server", 8091}} {
		out = append(out, h.Service(s.name, s.port))
	}
	for i, address := range h.Workers {
		out = append(out, h.Machine(i, address))
	}
	return out
}

// Service of the control plane.
func (h Hosted) Service(name string, port int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.ControlPlane(), Name: name},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{
			Name: "https", Port: port, TargetPort: intstr.FromInt32(port), Protocol: corev1.ProtocolTCP,
		}}},
	}
}

// Cluster is the HostedCluster, published under the attachment's own names.
func (h Hosted) Cluster() *hyperv1.HostedCluster {
	domain := h.Name + ".clusters.example.com"
	route := func(s hyperv1.ServiceType, name string) hyperv1.ServicePublishingStrategyMapping {
		return hyperv1.ServicePublishingStrategyMapping{Service: s, ServicePublishingStrategy: hyperv1.ServicePublishingStrategy{
			Type: hyperv1.Route, Route: &hyperv1.RoutePublishingStrategy{Hostname: name + "." + domain},
		}}
	}
	no := false
	return &hyperv1.HostedCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name},
		Spec: hyperv1.HostedClusterSpec{
			Release:    hyperv1.Release{Image: "quay.io/openshift-release-dev/ocp-release:4.21.0-multi"},
			PullSecret: corev1.LocalObjectReference{Name: "pull"},
			DNS:        hyperv1.DNSSpec{BaseDomain: "clusters.example.com"},
			Etcd: hyperv1.EtcdSpec{ManagementType: hyperv1.Managed, Managed: &hyperv1.ManagedEtcdSpec{
				Storage: hyperv1.ManagedEtcdStorageSpec{Type: hyperv1.PersistentVolumeEtcdStorage},
			}},
			Platform: hyperv1.PlatformSpec{Type: hyperv1.KubevirtPlatform, Kubevirt: &hyperv1.KubevirtPlatformSpec{BaseDomainPassthrough: &no}},
			Networking: hyperv1.ClusterNetworking{
				NetworkType:    hyperv1.OVNKubernetes,
				ClusterNetwork: []hyperv1.ClusterNetworkEntry{{CIDR: *ipnet.MustParseCIDR("10.132.0.0/14")}},
				ServiceNetwork: []hyperv1.ServiceNetworkEntry{{CIDR: *ipnet.MustParseCIDR("172.31.0.0/16")}},
			},
			Services: []hyperv1.ServicePublishingStrategyMapping{
				{Service: hyperv1.APIServer, ServicePublishingStrategy: hyperv1.ServicePublishingStrategy{
					Type: hyperv1.LoadBalancer, LoadBalancer: &hyperv1.LoadBalancerPublishingStrategy{Hostname: "api." + domain},
				}},
				route(hyperv1.OAuthServer, "oauth"), route(hyperv1.Konnectivity, "konnectivity"), route(hyperv1.Ignition, "ignition"),
			},
		},
	}
}

func (h Hosted) controlPlane() client.Object {
	c := h.Cluster()
	return &hyperv1.HostedControlPlane{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: h.ControlPlane(), Name: h.Name,
			Annotations: map[string]string{"hypershift.openshift.io/cluster": h.Namespace + "/" + h.Name},
		},
		Spec: hyperv1.HostedControlPlaneSpec{
			ReleaseImage: c.Spec.Release.Image, PullSecret: c.Spec.PullSecret, Etcd: c.Spec.Etcd, Platform: c.Spec.Platform,
			Networking: c.Spec.Networking, Services: c.Spec.Services, DNS: c.Spec.DNS, IssuerURL: "https://example.com", InfraID: h.Name,
			SSHKey: corev1.LocalObjectReference{Name: "ssh"}, ServiceAccountSigningKey: &corev1.LocalObjectReference{Name: "key"},
		},
	}
}

func (h Hosted) nodePool() client.Object {
	replicas := int32(len(h.Workers))
	return &hyperv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name},
		Spec: hyperv1.NodePoolSpec{
			ClusterName: h.Name, Replicas: &replicas, Release: h.Cluster().Spec.Release,
			Management: hyperv1.NodePoolManagement{UpgradeType: hyperv1.UpgradeTypeReplace},
			Platform: hyperv1.NodePoolPlatform{Type: hyperv1.KubevirtPlatform, Kubevirt: &hyperv1.KubevirtNodePoolPlatform{
				RootVolume: &hyperv1.KubevirtRootVolume{KubevirtVolume: hyperv1.KubevirtVolume{Type: hyperv1.KubevirtVolumeTypePersistent}},
			}},
		},
	}
}

// MachineKind as CAPI stores it.
var MachineKind = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"}

// Machine of a worker with an address.
func (h Hosted) Machine(i int, address string) *unstructured.Unstructured {
	name := fmt.Sprintf("%s-worker-%d", h.Name, i)
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"clusterName":       h.Name,
			"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "KubevirtMachine", "name": name},
		},
		"status": map[string]any{"phase": "Running", "addresses": []any{
			map[string]any{"type": "Hostname", "address": name},
			map[string]any{"type": "InternalIP", "address": address},
			map[string]any{"type": "InternalDNS", "address": name},
		}},
	}}
	u.SetGroupVersionKind(MachineKind)
	u.SetNamespace(h.ControlPlane())
	u.SetName(name)
	u.SetAnnotations(map[string]string{"hypershift.openshift.io/nodePool": h.Namespace + "/" + h.Name})
	return u
}

// Eventually polls until check gives no error, or fails the test with its last one.
func Eventually(t testing.TB, limit time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			require.NoError(t, err, "still so after %s", limit)
		}
		<-ticker.C
	}
}
