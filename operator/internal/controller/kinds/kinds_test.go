package kinds

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// multus is a cluster that serves NetworkAttachmentDefinitions or does not, and
// has their CRD or not.
type multus struct {
	discovery.DiscoveryInterface
	informertest.FakeInformers

	mu              sync.Mutex
	served, defined bool
	// fails is how often asking for resources fails, unsynced how often an informer does.
	fails, unsynced int
}

func (m *multus) become(served, defined bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.served, m.defined = served, defined
}

func (m *multus) GetInformer(ctx context.Context, o client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	if _, nad := o.(*nadv1.NetworkAttachmentDefinition); nad && m.unsynced > 0 {
		m.unsynced--
		return nil, errors.New("conversion webhook: connection refused")
	}
	// That of CustomResourceDefinitions brings nothing here.
	return m.FakeInformers.GetInformer(ctx, &nadv1.NetworkAttachmentDefinition{}, opts...)
}

func (m *multus) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.defined && key.Name == "network-attachment-definitions.k8s.cni.cncf.io" {
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "customresourcedefinitions"}, o.GetName())
}

func (m *multus) ServerGroups() (*metav1.APIGroupList, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.served {
		return &metav1.APIGroupList{}, nil
	}
	v1 := metav1.GroupVersionForDiscovery{GroupVersion: "k8s.cni.cncf.io/v1", Version: "v1"}
	return &metav1.APIGroupList{Groups: []metav1.APIGroup{{
		Name: "k8s.cni.cncf.io", PreferredVersion: v1, Versions: []metav1.GroupVersionForDiscovery{v1},
	}}}, nil
}

func (m *multus) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	if m.fails > 0 {
		m.fails--
		return nil, apierrors.NewServiceUnavailable("starting")
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "network-attachment-definitions", Kind: "NetworkAttachmentDefinition"}}}, nil
}

// Behaviour B9: what a watch of a kind brings is judged while the kind is known to
// be served. An API server that has just started does not serve it for seconds, and
// nothing else would look again.
func TestAKindIsKnownToBeServedBeforeItsWatchesBring(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, nadv1.AddToScheme(scheme))
	cluster := &multus{served: true, defined: true, FakeInformers: informertest.FakeInformers{Scheme: scheme}}
	r := New(cluster, cluster, slog.New(slog.DiscardHandler), NetworkAttachmentDefinition)
	var known []bool
	var refuses error
	r.Watch(NetworkAttachmentDefinition, func(client.Object) error {
		_, served := r.Served(NetworkAttachmentDefinition)
		known = append(known, served)
		return refuses
	})
	look := func() bool {
		looked, _ := r.probe(context.Background())
		require.True(t, looked)
		_, served := r.Served(NetworkAttachmentDefinition)
		return served
	}
	require.True(t, look())
	cluster.served = false
	require.True(t, look(), "an API server that has just started does not serve what is defined yet")
	cluster.defined = false
	require.False(t, look(), "its CRD is gone")
	cluster.served, cluster.defined = true, true
	require.True(t, look())
	require.Equal(t, []bool{true, true}, known)

	now := time.Now()
	r.now = func() time.Time { return now }
	cluster.served = false
	require.True(t, look())
	now = now.Add(startTimeout)
	require.False(t, look(), "no version that we read is served any more")
	cluster.served, refuses = true, errors.New("no watch")
	require.False(t, look(), "a kind without its watches is not served")
}

// behaviours B9, B13: an operator that starts beside an API server that has just
// started makes nothing of what it cannot see yet, and waits for no kind for ever.
func TestWhatIsServedIsKnownOnceItIsCertain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		now    *multus
		later  func(*multus) // after three seconds
		served bool
		least  time.Duration
		most   time.Duration
	}{
		{"a kind that is served", &multus{served: true, defined: true}, nil, true, 0, 0},
		{"a kind that does not exist", &multus{}, nil, false, 0, 0},
		{"a group that is not available for a moment", &multus{served: true, defined: true, fails: 2}, nil, true, time.Second, 3 * time.Second},
		{"a kind that is defined and not served yet", &multus{defined: true}, func(m *multus) { m.become(true, true) }, true, 3 * time.Second, 5 * time.Second},
		{"a kind whose informer does not sync at once", &multus{served: true, defined: true, unsynced: 2}, nil, true, time.Second, 3 * time.Second},
		{"a kind in no version that is served", &multus{defined: true}, nil, false, startTimeout, startTimeout + 2*time.Second},
		{"a group that is never available", &multus{served: true, defined: true, fails: 1000}, nil, false, startTimeout, startTimeout + 2*time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				scheme := runtime.NewScheme()
				require.NoError(t, nadv1.AddToScheme(scheme))
				cluster := tt.now
				cluster.FakeInformers = informertest.FakeInformers{Scheme: scheme}
				r := New(cluster, cluster, slog.New(slog.DiscardHandler), NetworkAttachmentDefinition)
				if tt.later != nil {
					time.AfterFunc(3*time.Second, func() { tt.later(cluster) })
				}
				started := time.Now()
				go func() { _ = r.Start(t.Context()) }()
				require.NoError(t, r.Known(t.Context()))
				took := time.Since(started)
				require.GreaterOrEqual(t, took, tt.least)
				require.LessOrEqual(t, took, tt.most)
				_, served := r.Served(NetworkAttachmentDefinition)
				require.Equal(t, tt.served, served)
			})
		})
	}
}

// hazard 200: what waits to lead follows the kinds and watches none: the watch of one
// that has gone by then would keep its controllers from starting.
func TestOnlyALeaderWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		require.NoError(t, nadv1.AddToScheme(scheme))
		cluster := &multus{served: true, defined: true, FakeInformers: informertest.FakeInformers{Scheme: scheme}}
		r := New(cluster, cluster, slog.New(slog.DiscardHandler), NetworkAttachmentDefinition)
		elected := make(chan struct{})
		r.WatchAs(elected)
		watches := 0
		r.Watch(NetworkAttachmentDefinition, func(client.Object) error { watches++; return nil })
		go func() { _ = r.Start(t.Context()) }()
		require.NoError(t, r.Known(t.Context()))
		serves := func(want bool) {
			t.Helper()
			cluster.become(want, want)
			<-time.After(lookAround + time.Second)
			_, served := r.Served(NetworkAttachmentDefinition)
			require.Equal(t, want, served)
		}
		serves(false)
		serves(true)
		require.Zero(t, watches, "nobody leads")
		serves(false)
		close(elected)
		synctest.Wait()
		require.Zero(t, watches, "the kind is not there")
		serves(true)
		require.Equal(t, 1, watches)
	})
}

// behaviour B9: a kind of which no object is read is there as long as it is defined,
// whoever serves it now.
func TestAKindThatIsOnlyLookedForIsThereAsLongAsItIsDefined(t *testing.T) {
	cluster := &multus{}
	looked := NetworkAttachmentDefinition
	looked.New = nil
	r := New(cluster, cluster, slog.New(slog.DiscardHandler), looked)
	for _, tt := range []struct {
		served, defined bool
		fails           int
		want, sure      bool
	}{
		{want: false, sure: true},
		{served: true, want: true, sure: true},
		{served: true, fails: 1, want: true, sure: false},
		{defined: true, want: true, sure: true},
		{served: true, defined: true, fails: 1, want: true, sure: true},
		{want: false, sure: true},
	} {
		cluster.served, cluster.defined, cluster.fails = tt.served, tt.defined, tt.fails
		_, sure := r.probe(t.Context())
		_, there := r.Served(looked)
		require.Equal(t, tt.want, there, "%+v", tt)
		require.Equal(t, tt.sure, sure, "%+v", tt)
		cluster.fails = 0
	}
}
