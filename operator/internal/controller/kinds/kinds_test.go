package kinds

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// multus is a cluster that serves NetworkAttachmentDefinitions or does not, and
// has their CRD or not.
type multus struct {
	discovery.DiscoveryInterface
	informertest.FakeInformers

	served, defined bool
}

func (m *multus) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if m.defined && key.Name == "network-attachment-definitions.k8s.cni.cncf.io" {
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "customresourcedefinitions"}, o.GetName())
}

func (m *multus) ServerGroups() (*metav1.APIGroupList, error) {
	if !m.served {
		return &metav1.APIGroupList{}, nil
	}
	v1 := metav1.GroupVersionForDiscovery{GroupVersion: "k8s.cni.cncf.io/v1", Version: "v1"}
	return &metav1.APIGroupList{Groups: []metav1.APIGroup{{
		Name: "k8s.cni.cncf.io", PreferredVersion: v1, Versions: []metav1.GroupVersionForDiscovery{v1},
	}}}, nil
}

func (m *multus) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
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
		require.True(t, r.probe(context.Background()))
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
