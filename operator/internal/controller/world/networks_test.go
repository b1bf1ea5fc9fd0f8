package world_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/controller/kinds"
	"github.com/densityops/oooi/operator/internal/controller/world"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/plan"
)

// serving are the optional kinds that are served.
type serving map[string]bool

func (s serving) Served(k kinds.Kind) (schema.GroupVersionKind, bool) {
	return schema.GroupVersionKind{Group: k.Group, Version: "v1", Kind: k.Name}, s[k.Name]
}

func (s serving) Known(context.Context) error { return nil }

// whole is an Infra that can be planned; network is what it holds.
func whole(namespace, name, nad string, created int, network *v1alpha1.NetworkInForce) *v1alpha1.Infra {
	i := &v1alpha1.Infra{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(time.Unix(int64(created), 0)),
	}}
	i.Spec.NetworkConfig = v1alpha1.InfraNetworkConfig{CIDR: "192.0.2.0/24", Gateway: "192.0.2.1", NetworkAttachmentDefinition: v1alpha1.ObjectName(nad)}
	c := &i.Spec.InfraComponents
	c.DHCP.ServerIP, c.DHCP.RangeStart, c.DHCP.RangeEnd = "192.0.2.2", "192.0.2.100", "192.0.2.199"
	c.DNS.ServerIP, c.Proxy.ServerIP = "192.0.2.3", "192.0.2.4"
	i.Status.Network = network
	return i
}

// behaviours F0, B9, B13: while NetworkAttachmentDefinitions cannot be read, what was
// known of them last stays in force: the MTU, the twins, and that another Infra is on
// the same network.
func TestWhatWasKnownOfANetworkCountsWhileItCannotBeRead(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{configv1.Install, corev1.AddToScheme, networkingv1.AddToScheme, nadv1.AddToScheme, v1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	nad := func(namespace, name, config string) client.Object {
		return &nadv1.NetworkAttachmentDefinition{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: config},
		}
	}
	holds := &v1alpha1.NetworkInForce{CIDR: "192.0.2.0/24", DHCPServerIP: "192.0.2.2", DNSServerIP: "192.0.2.3", ProxyServerIP: "192.0.2.4"}
	first, second := whole("clusters", "first", "vlan", 1, holds), whole("tenant", "second", "twin", 2, nil)
	objects := []client.Object{
		first, second, nad("clusters", "vlan", `{"name":"vlan100","mtu":1400}`), nad("tenant", "twin", `{"name":"vlan100","mtu":1400}`),
		nad("tenant", "other", `{"name":"vlan200"}`),
	}
	broken := false
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, nads := list.(*nadv1.NetworkAttachmentDefinitionList); nads && broken {
				return errors.New("the informer is being torn down")
			}
			return c.List(ctx, list, opts...)
		},
	}).WithIndex(&v1alpha1.InfraClusterAttachment{}, world.IndexInfra, func(client.Object) []string { return nil }).Build()
	served := serving{"NetworkAttachmentDefinition": true}
	r := world.New(c, served, world.NewHubNetworks(c, time.Now), world.NewBoard(time.Now))
	planned := func(i *v1alpha1.Infra) plan.Plan {
		t.Helper()
		w, err := r.ForInfra(t.Context(), i)
		require.NoError(t, err)
		return plan.For(facts.Inputs(w, i))
	}
	before := planned(first)
	require.Equal(t, int32(1400), before.DHCP.Spec.NetworkConfig.MTU)
	require.Len(t, before.DHCP.Spec.NetworkAttachments, 2)
	require.Equal(t, v1alpha1.ReasonDuplicateNetwork, planned(second).Refusal.Reason)
	yes := true
	require.NoError(t, c.Create(t.Context(), &v1alpha1.DHCPServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "first-dhcp", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindInfra, Name: "first", UID: first.UID, Controller: &yes,
		}}}, Spec: *before.DHCP.Spec,
	}))
	for _, tt := range []struct {
		name           string
		served, broken bool
	}{
		{"the kind is not served", false, false},
		{"its informer goes while it is read", true, true},
	} {
		served["NetworkAttachmentDefinition"], broken = tt.served, tt.broken
		require.Equal(t, before.DHCP.Spec, planned(first).DHCP.Spec, tt.name)
		refused := planned(second)
		require.Equal(t, v1alpha1.ReasonDuplicateNetwork, refused.Refusal.Reason, tt.name)
		require.Equal(t, plan.Keep, refused.DHCP.Action, "%s: it gets no DHCP server of its own", tt.name)
		near, err := r.ByInfra(t.Context(), first)
		require.NoError(t, err)
		require.Len(t, near, 2, "%s: what changes one changes the other", tt.name)
	}
}

// behaviour A5: what OpenShift says of the management cluster's networks is judged
// when it changes, not ten minutes later.
func TestAHubNetworkThatAppearsIsJudgedAtOnce(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{configv1.Install, corev1.AddToScheme, networkingv1.AddToScheme, v1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	network := &configv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	network.Status.ServiceNetwork = []string{"172.30.0.0/16"}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(network, node("a", "10.244.0.0/24")).WithStatusSubresource(network).Build()
	r := world.New(c, serving{"Network": true}, world.NewHubNetworks(c, time.Now), world.NewBoard(time.Now))
	knows := func(cidrs ...string) {
		t.Helper()
		w, err := r.ForInfra(t.Context(), whole("clusters", "first", "vlan", 1, nil))
		require.NoError(t, err)
		var want []netip.Prefix
		for _, s := range cidrs {
			want = append(want, netip.MustParsePrefix(s))
		}
		require.Equal(t, want, w.HubNetworks)
	}
	knows("172.30.0.0/16")
	network.Status.ClusterNetwork = []configv1.ClusterNetworkEntry{{CIDR: "10.128.0.0/14"}}
	require.NoError(t, c.Status().Update(t.Context(), network))
	knows("10.128.0.0/14", "172.30.0.0/16")
	network.Status = configv1.NetworkStatus{}
	require.NoError(t, c.Status().Update(t.Context(), network))
	knows("10.244.0.0/24")
}
