package agent

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1 "github.com/densityops/oooi/operator/api/agent/v1"
	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// Components by the names that agents give of themselves.
const (
	ComponentDHCP  = "dhcpd"
	ComponentDNS   = "coredns"
	ComponentProxy = "xds-manager"
)

// Contract is the version of the contract that the hub speaks.
const Contract = "agent.v1"

// childKey is a child of one kind.
type childKey struct {
	component string
	name      types.NamespacedName
}

// Hub hands out the snapshots of the children that the informer cache holds.
type Hub struct {
	reader client.Reader
	encode func(client.Object) (*agentv1.Snapshot, error)

	mu      sync.Mutex
	streams map[childKey]map[chan struct{}]bool // guarded by mu
}

// NewHub makes a hub that reads children from reader.
func NewHub(reader client.Reader, encode func(client.Object) (*agentv1.Snapshot, error)) *Hub {
	return &Hub{reader: reader, encode: encode, streams: map[childKey]map[chan struct{}]bool{}}
}

// Changed wakes the streams of a child. It never blocks, so an informer may
// call it.
func (h *Hub) Changed(o client.Object) {
	component := componentOf(o)
	if component == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.streams[childKey{component, client.ObjectKeyFromObject(o)}] {
		select {
		case ch <- struct{}{}:
		default: // a wake-up is already waiting
		}
	}
}

// Streams counts the open streams by component.
func (h *Hub) Streams() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]int{ComponentDHCP: 0, ComponentDNS: 0, ComponentProxy: 0}
	for k, chans := range h.streams {
		out[k.component] += len(chans)
	}
	return out
}

// watch calls send with each new snapshot of the child until the context ends
// or the child is gone.
func (h *Hub) watch(ctx context.Context, k childKey, send func(*agentv1.Snapshot) error) error {
	wake, stop, err := h.subscribe(k)
	if err != nil {
		return err
	}
	defer stop()
	var sent *agentv1.Snapshot
	for {
		snapshot, err := h.snapshot(ctx, k, sent)
		if err != nil {
			return err
		}
		if !same(sent, snapshot) {
			if err := send(snapshot); err != nil {
				return err
			}
			sent = snapshot
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		}
	}
}

// same compares what an agent would tell apart.
func same(a, b *agentv1.Snapshot) bool {
	return a != nil && a.GetVersion() == b.GetVersion() && a.GetChild().GetUid() == b.GetChild().GetUid() &&
		a.GetChild().GetGeneration() == b.GetChild().GetGeneration()
}

// maxStreams bounds the streams of one child: the pod's own, one of a pod that
// is on its way out, and room for half-open ones.
const maxStreams = 8

func (h *Hub) subscribe(k childKey) (<-chan struct{}, func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.streams[k]) >= maxStreams {
		return nil, nil, errTooManyStreams
	}
	ch := make(chan struct{}, 1)
	if h.streams[k] == nil {
		h.streams[k] = map[chan struct{}]bool{}
	}
	h.streams[k][ch] = true
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.streams[k], ch)
		if len(h.streams[k]) == 0 {
			delete(h.streams, k)
		}
	}, nil
}

// snapshot of the child as it is; the one that was sent where its spec is still
// the same: most changes of a child are of its status. The child is the cache's
// own.
func (h *Hub) snapshot(ctx context.Context, k childKey, sent *agentv1.Snapshot) (*agentv1.Snapshot, error) {
	child := childOf(k.component)
	if child == nil {
		return nil, errNoSuchChild
	}
	err := h.reader.Get(ctx, k.name, child, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) || (err == nil && child.GetDeletionTimestamp() != nil) {
		return nil, errNoSuchChild
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", k.component, k.name, err)
	}
	if c := sent.GetChild(); c != nil && c.GetUid() == string(child.GetUID()) && c.GetGeneration() == child.GetGeneration() {
		return sent, nil
	}
	snapshot, err := h.encode(child)
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s: %w", k.component, k.name, err)
	}
	return snapshot, nil
}

func childOf(component string) client.Object {
	switch component {
	case ComponentDHCP:
		return &v1alpha1.DHCPServer{}
	case ComponentDNS:
		return &v1alpha1.DNSServer{}
	case ComponentProxy:
		return &v1alpha1.ProxyServer{}
	}
	return nil
}

func componentOf(o client.Object) string {
	switch o.(type) {
	case *v1alpha1.DHCPServer:
		return ComponentDHCP
	case *v1alpha1.DNSServer:
		return ComponentDNS
	case *v1alpha1.ProxyServer:
		return ComponentProxy
	}
	return ""
}
