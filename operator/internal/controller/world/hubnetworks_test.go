package world_test

import (
	"context"
	"errors"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/densityops/oooi/operator/internal/controller/world"
)

// cluster is a management cluster that does not serve the missing kinds. A list of
// Nodes has one at a time.
func cluster(t *testing.T, missing []client.Object, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{configv1.Install, corev1.AddToScheme, networkingv1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	served := func(o runtime.Object) error {
		for _, m := range missing {
			_, network := o.(*configv1.Network)
			_, services := o.(*networkingv1.ServiceCIDRList)
			_, noNetwork := m.(*configv1.Network)
			_, noServices := m.(*networkingv1.ServiceCIDR)
			if network && noNetwork || services && noServices {
				return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "theirs"}}
			}
		}
		return nil
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := served(o); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := served(list); err != nil {
				return err
			}
			if err := c.List(ctx, list, opts...); err != nil {
				return err
			}
			if nodes, ok := list.(*corev1.NodeList); ok {
				onePage(nodes, opts)
			}
			return nil
		},
	}).Build()
}

// onePage leaves the Node that comes after the one that the request goes on from.
func onePage(nodes *corev1.NodeList, opts []client.ListOption) {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	for i, n := range nodes.Items {
		if n.Name <= o.Continue {
			continue
		}
		if i+1 < len(nodes.Items) {
			nodes.Continue = n.Name
		}
		nodes.Items = nodes.Items[i : i+1]
		return
	}
	nodes.Items = nil
}

func node(name string, cidrs ...string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: cidrs}}
}

func serviceCIDR(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

// behaviour A5, hazard 242: the management cluster's networks are those that OpenShift
// names, else those of the Services and of every Node; what nothing tells of is none.
func TestTheHubsNetworksAreFoundOnAnyCluster(t *testing.T) {
	t.Parallel()
	openShift := &configv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Status: configv1.NetworkStatus{
		ClusterNetwork: []configv1.ClusterNetworkEntry{{CIDR: "10.128.0.0/14"}, {CIDR: "fd01::/48"}}, ServiceNetwork: []string{"172.30.0.0/16"},
	}}
	installing := &configv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	plain := []client.Object{
		node("a", "10.244.0.0/24"), node("b", "10.244.1.0/24", "fd00:1::/64"), node("c"), node("d", "10.244.3.0/24"),
		serviceCIDR("kubernetes", "10.96.0.0/12"), serviceCIDR("more", "10.112.0.0/16"),
	}
	nodes := []string{"10.244.0.0/24", "10.244.1.0/24", "10.244.3.0/24"}
	all := append([]string{"10.96.0.0/12", "10.112.0.0/16"}, nodes...)
	for _, c := range []struct {
		name    string
		missing []client.Object
		objects []client.Object
		want    []string
	}{
		{"OpenShift names them", nil, append([]client.Object{openShift}, plain...), []string{"10.128.0.0/14", "172.30.0.0/16"}},
		{"OpenShift does not name them yet", nil, append([]client.Object{installing}, plain...), all},
		{"a cluster that is no OpenShift", []client.Object{&configv1.Network{}}, plain, all},
		{"one whose API server has no ServiceCIDRs", []client.Object{&configv1.Network{}, &networkingv1.ServiceCIDR{}}, plain, nodes},
		{"one that tells nothing", []client.Object{&configv1.Network{}, &networkingv1.ServiceCIDR{}}, []client.Object{node("a")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found, err := world.NewHubNetworks(cluster(t, c.missing, c.objects...), time.Now).Prefixes(t.Context())
			require.NoError(t, err)
			var got []string
			for _, p := range found {
				got = append(got, p.String())
			}
			require.Equal(t, c.want, got)
		})
	}
}

// behaviours A5, B9: what was found is asked for again after ten minutes, or when the
// served kinds change; an API server that does not answer is no cluster without networks.
func TestTheHubsNetworksAreLookedUpAgain(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	c := cluster(t, nil, node("a", "10.244.0.0/24"))
	h := world.NewHubNetworks(c, func() time.Time { return now })
	has := func(want int) {
		t.Helper()
		found, err := h.Prefixes(t.Context())
		require.NoError(t, err)
		require.Len(t, found, want)
	}
	has(1)
	require.NoError(t, c.Create(t.Context(), node("b", "10.244.1.0/24")))
	now = now.Add(9 * time.Minute)
	has(1)
	now = now.Add(2 * time.Minute)
	has(2)
	require.NoError(t, c.Create(t.Context(), node("c", "10.244.2.0/24")))
	h.Forget()
	has(3)

	away := interceptor.NewClient(c, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("connection refused")
	}})
	_, err := world.NewHubNetworks(away, time.Now).Prefixes(t.Context())
	require.ErrorContains(t, err, "connection refused")
}
