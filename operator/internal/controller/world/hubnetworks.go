package world

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hubNetworksAge is how long the management cluster's networks are remembered:
// they hardly ever change, and a Node is a big object.
const hubNetworksAge = 10 * time.Minute

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list
// +kubebuilder:rbac:groups=networking.k8s.io,resources=servicecidrs,verbs=list

// HubNetworks finds the pod and service networks of a management cluster that has no
// Network resource whose changes are followed. Unknown is skipped: what cannot be read names no network.
type HubNetworks struct {
	live  client.Reader
	clock func() time.Time

	mu    sync.Mutex
	until time.Time      // guarded by mu
	known []netip.Prefix // guarded by mu
}

// NewHubNetworks reads from the API server, not from the cache.
func NewHubNetworks(live client.Reader, clock func() time.Time) *HubNetworks {
	return &HubNetworks{live: live, clock: clock}
}

// Forget makes the next call look again.
func (h *HubNetworks) Forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = time.Time{}
}

// Prefixes gives the networks, sorted.
func (h *HubNetworks) Prefixes(ctx context.Context) ([]netip.Prefix, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock()
	if now.Before(h.until) {
		return h.known, nil
	}
	found, err := h.openShift(ctx)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		if found, err = h.plain(ctx); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b netip.Prefix) int { return a.Compare(b) })
	h.known, h.until = slices.Compact(found), now.Add(hubNetworksAge)
	return h.known, nil
}

// openShift asks the cluster's own Network resource.
func (h *HubNetworks) openShift(ctx context.Context) ([]netip.Prefix, error) {
	network := &configv1.Network{}
	err := h.live.Get(ctx, client.ObjectKey{Name: "cluster"}, network)
	if notThere(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Network cluster: %w", err)
	}
	return named(network), nil
}

// named are the networks that OpenShift names, sorted.
func named(network *configv1.Network) []netip.Prefix {
	var out []netip.Prefix
	for _, n := range network.Status.ClusterNetwork {
		out = add(out, n.CIDR)
	}
	for _, n := range network.Status.ServiceNetwork {
		out = add(out, n)
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int { return a.Compare(b) })
	return slices.Compact(out)
}

// plain asks ServiceCIDRs and the Nodes.
func (h *HubNetworks) plain(ctx context.Context) ([]netip.Prefix, error) {
	var out []netip.Prefix
	var services networkingv1.ServiceCIDRList
	if err := h.live.List(ctx, &services); err != nil && !notThere(err) {
		return nil, fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	for _, s := range services.Items {
		for _, c := range s.Spec.CIDRs {
			out = add(out, c)
		}
	}
	token := ""
	for {
		var nodes corev1.NodeList
		err := h.live.List(ctx, &nodes, client.Limit(100), client.Continue(token))
		if err != nil {
			return nil, fmt.Errorf("listing Nodes: %w", err)
		}
		for _, n := range nodes.Items {
			for _, c := range n.Spec.PodCIDRs {
				out = add(out, c)
			}
		}
		if token = nodes.Continue; token == "" {
			return out, nil
		}
	}
}

func add(list []netip.Prefix, cidr string) []netip.Prefix {
	p, err := netip.ParsePrefix(cidr)
	if err != nil || !p.Addr().Is4() {
		return list
	}
	return append(list, p.Masked())
}

func notThere(err error) bool {
	return err != nil && (apierrors.IsNotFound(err) || meta.IsNoMatchError(err))
}
