package world

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	configv1 "github.com/openshift/api/config/v1"
	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/controller/kinds"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/plan"
)

// optionalTimeout bounds a read of an optional kind: its informer may be torn
// down at any time.
const optionalTimeout = 5 * time.Second

var errNotServed = errors.New("the kind is not served")

// Served tells which optional kinds can be read.
type Served interface {
	Served(kinds.Kind) (gvk schema.GroupVersionKind, ok bool)
	// Known waits until it is known which kinds are served.
	Known(context.Context) error
}

// +kubebuilder:rbac:groups=hostedcluster.densityops.com,resources=infras;infraclusterattachments;dhcpservers;dnsservers;proxyservers,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=services;namespaces,verbs=get;list;watch

// Reader reads the world.
type Reader struct {
	cached client.Reader
	served Served
	hub    *HubNetworks
	board  *Board
}

// New makes a Reader. board holds what is not written yet.
func New(cached client.Reader, served Served, hub *HubNetworks, board *Board) *Reader {
	return &Reader{cached: cached, served: served, hub: hub, board: board}
}

// Board is where the attachment controller posts what it has not written yet.
func (r *Reader) Board() *Board { return r.board }

// AttachmentsTo lists the attachments that name a control-plane namespace, with
// what is known of them and not written yet. The objects are the cache's own:
// caller must not change them.
func (r *Reader) AttachmentsTo(ctx context.Context, namespace string) ([]v1alpha1.InfraClusterAttachment, error) {
	list, err := AttachmentsBy(ctx, r.cached, IndexControlPlane, namespace)
	return r.board.Over(list), err
}

// LivingInfra tells whether an Infra exists and is not being deleted.
func (r *Reader) LivingInfra(ctx context.Context, name types.NamespacedName) (bool, error) {
	infra := &v1alpha1.Infra{}
	err := r.cached.Get(ctx, name, infra)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading Infra %s: %w", name, err)
	}
	return err == nil && infra.DeletionTimestamp == nil, nil
}

// ForInfra reads what the plan of an Infra is made from. The objects are the
// cache's own: caller must not change them.
func (r *Reader) ForInfra(ctx context.Context, infra *v1alpha1.Infra) (facts.World, error) {
	w := facts.World{Unreadable: map[string]bool{}}
	if err := r.served.Known(ctx); err != nil {
		return w, err
	}
	var infras v1alpha1.InfraList
	var attachments v1alpha1.InfraClusterAttachmentList
	for _, list := range []client.ObjectList{&infras, &attachments} {
		if err := r.cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return w, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	w.Infras, w.Attachments = infras.Items, r.board.Over(attachments.Items)
	if err := r.children(ctx, &w); err != nil {
		return w, err
	}
	if err := r.services(ctx, &w, ServiceNamespaces(infra)...); err != nil {
		return w, err
	}
	if err := r.networkAttachments(ctx, &w); err != nil {
		return w, err
	}
	var proxies configv1.ProxyList
	if r.optional(ctx, &w, kinds.OpenShiftProxy, &proxies) {
		for i := range proxies.Items {
			if proxies.Items[i].Name == "cluster" {
				w.HubProxy = &proxies.Items[i]
			}
		}
	}
	var network configv1.Network
	if r.optionalOne(ctx, &w, kinds.OpenShiftNetwork, types.NamespacedName{Name: "cluster"}, &network) {
		w.HubNetworks = named(&network)
	}
	if len(w.HubNetworks) > 0 {
		return w, nil
	}
	var err error
	w.HubNetworks, err = r.hub.Prefixes(ctx)
	return w, err
}

func (r *Reader) children(ctx context.Context, w *facts.World, where ...client.ListOption) error {
	var dhcp v1alpha1.DHCPServerList
	var dns v1alpha1.DNSServerList
	var proxies v1alpha1.ProxyServerList
	for _, list := range []client.ObjectList{&dhcp, &dns, &proxies} {
		if err := r.cached.List(ctx, list, append(where, client.UnsafeDisableDeepCopy)...); err != nil {
			return fmt.Errorf("listing %T: %w", list, err)
		}
	}
	w.DHCPServers, w.DNSServers, w.ProxyServers = dhcp.Items, dns.Items, proxies.Items
	return nil
}

func (r *Reader) services(ctx context.Context, w *facts.World, namespaces ...string) error {
	for _, ns := range namespaces {
		var list corev1.ServiceList
		if err := r.cached.List(ctx, &list, client.InNamespace(ns), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing Services of %s: %w", ns, err)
		}
		w.Services = append(w.Services, list.Items...)
	}
	return nil
}

// ServiceNamespaces are where internalProxyService may lie.
func ServiceNamespaces(infra *v1alpha1.Infra) []string {
	out := []string{infra.Namespace}
	labels := strings.Split(infra.Spec.InfraComponents.Proxy.InternalProxyService, ".")
	if len(labels) > 1 && labels[1] != infra.Namespace {
		out = append(out, labels[1])
	}
	return out
}

// ForAttachment reads what the facts of an attachment are made from. The
// objects are the cache's own: caller must not change them.
func (r *Reader) ForAttachment(ctx context.Context, a *v1alpha1.InfraClusterAttachment) (facts.World, error) {
	w := facts.World{Unreadable: map[string]bool{}, Attachments: []v1alpha1.InfraClusterAttachment{*a}}
	if err := r.served.Known(ctx); err != nil {
		return w, err
	}
	infra := &v1alpha1.Infra{}
	err := r.cached.Get(ctx, types.NamespacedName{Namespace: a.Namespace, Name: string(a.Spec.InfraRef.Name)}, infra)
	if client.IgnoreNotFound(err) != nil {
		return w, fmt.Errorf("reading Infra %s: %w", a.Spec.InfraRef.Name, err)
	}
	if err == nil {
		w.Infras = []v1alpha1.Infra{*infra}
		if err := r.children(ctx, &w, client.InNamespace(infra.Namespace)); err != nil {
			return w, err
		}
	}
	ns := facts.ControlPlaneOf(a)
	namespace := &corev1.Namespace{}
	err = r.cached.Get(ctx, types.NamespacedName{Name: ns}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return w, fmt.Errorf("reading Namespace %s: %w", ns, err)
	}
	if err == nil {
		w.Namespaces = []corev1.Namespace{*namespace}
	}
	if err := r.services(ctx, &w, ns); err != nil {
		return w, err
	}
	r.hosted(ctx, a, ns, &w)
	return w, nil
}

// hosted reads what HyperShift, CAPI and KubeVirt know of the cluster.
func (r *Reader) hosted(ctx context.Context, a *v1alpha1.InfraClusterAttachment, ns string, w *facts.World) {
	cluster := facts.ClusterOf(a)
	var hosted hyperv1.HostedCluster
	if r.optionalOne(ctx, w, kinds.HostedCluster, types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}, &hosted) {
		w.HostedClusters = []hyperv1.HostedCluster{hosted}
	}
	var controlPlanes hyperv1.HostedControlPlaneList
	if r.optional(ctx, w, kinds.HostedControlPlane, &controlPlanes, client.InNamespace(ns)) {
		w.HostedControlPlanes = controlPlanes.Items
	}
	var pools hyperv1.NodePoolList
	if r.optional(ctx, w, kinds.NodePool, &pools, client.MatchingFields{kinds.IndexCluster: cluster.String()}) {
		w.NodePools = pools.Items
	}
	var machines unstructured.UnstructuredList
	if r.optional(ctx, w, kinds.Machine, &machines, client.InNamespace(ns)) {
		for i := range machines.Items {
			w.Machines = append(w.Machines, facts.MachineOf(&machines.Items[i]))
		}
	}
	var vmis metav1.PartialObjectMetadataList
	if r.optional(ctx, w, kinds.VirtualMachineInstance, &vmis, client.InNamespace(ns)) {
		w.VMIs = map[plan.Key]bool{}
		for _, vmi := range vmis.Items {
			w.VMIs[plan.Key{Namespace: vmi.Namespace, Name: vmi.Name}] = true
		}
	}
}

// optional lists a kind that may not be served, and says whether it could.
func (r *Reader) optional(ctx context.Context, w *facts.World, k kinds.Kind, list client.ObjectList, opts ...client.ListOption) bool {
	gvk, ok := r.served.Served(k)
	if ok {
		gvk.Kind += "List"
		list.GetObjectKind().SetGroupVersionKind(gvk)
		ctx, cancel := context.WithTimeout(ctx, optionalTimeout)
		defer cancel()
		ok = r.cached.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...) == nil
	}
	if !ok {
		w.Unreadable[k.Name] = true
	}
	return ok
}

// optionalOne reads one object of a kind that may not be served, and says
// whether it is there.
func (r *Reader) optionalOne(ctx context.Context, w *facts.World, k kinds.Kind, name types.NamespacedName, o client.Object) bool {
	err := errNotServed
	if _, ok := r.served.Served(k); ok {
		ctx, cancel := context.WithTimeout(ctx, optionalTimeout)
		defer cancel()
		err = r.cached.Get(ctx, name, o, client.UnsafeDisableDeepCopy)
	}
	if client.IgnoreNotFound(err) != nil {
		w.Unreadable[k.Name] = true
	}
	return err == nil
}

// NetworkAttachment tells whether a NetworkAttachmentDefinition exists, and its MTU,
// 0 where it names none; known is false where the kind cannot be read.
func (r *Reader) NetworkAttachment(ctx context.Context, name types.NamespacedName) (mtu int, exists, known bool) {
	if r.served.Known(ctx) != nil {
		return 0, false, false
	}
	if _, ok := r.served.Served(kinds.NetworkAttachmentDefinition); !ok {
		return 0, false, false
	}
	ctx, cancel := context.WithTimeout(ctx, optionalTimeout)
	defer cancel()
	nad := &nadv1.NetworkAttachmentDefinition{}
	err := r.cached.Get(ctx, name, nad)
	return facts.LinkMTU(nad), err == nil, err == nil || apierrors.IsNotFound(err)
}
