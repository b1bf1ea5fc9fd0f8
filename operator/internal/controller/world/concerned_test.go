package world_test

import (
	"context"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/controller/kinds"
	"github.com/densityops/oooi/operator/internal/controller/world"
	"github.com/densityops/oooi/operator/internal/facts"
)

// served serves NetworkAttachmentDefinitions.
type served struct{}

func (served) Served(k kinds.Kind) (schema.GroupVersionKind, bool) {
	return nadv1.SchemeGroupVersion.WithKind(k.Name), k.Name == kinds.NetworkAttachmentDefinition.Name
}

func (served) Known(context.Context) error { return nil }

func infra(name, nad string, onRecord ...string) *v1alpha1.Infra {
	i := &v1alpha1.Infra{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	i.Spec.NetworkConfig.NetworkAttachmentDefinition = v1alpha1.ObjectName(nad)
	for _, a := range onRecord {
		i.Status.InForce = append(i.Status.InForce, v1alpha1.AttachmentInForce{Attachment: v1alpha1.ObjectName(a)})
	}
	return i
}

func attached(name, infra, cluster string) *v1alpha1.InfraClusterAttachment {
	a := &v1alpha1.InfraClusterAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	a.Spec.InfraRef.Name = v1alpha1.ObjectName(infra)
	a.Spec.HostedClusterRef = v1alpha1.HostedClusterRef{Namespace: "clusters", Name: v1alpha1.ObjectName(cluster)}
	return a
}

func nad(name, network string) *nadv1.NetworkAttachmentDefinition {
	return &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: `{"name":"` + network + `"}`},
	}
}

// behaviours F0, F4, F5: who may collide hears of it, and nobody else.
func TestWhoIsConcerned(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	require.NoError(t, nadv1.AddToScheme(scheme))
	moved := attached("moved", "far", "m")
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource().WithObjects(
		infra("own", "vlan1", "moved"), infra("twin", "vlan1-too"), infra("far", "vlan2"), infra("other", "vlan3"),
		nad("vlan1", "one"), nad("vlan1-too", "one"), nad("vlan2", "two"), nad("vlan3", "three"),
		attached("a", "own", "a"), attached("b", "other", "b"), attached("thief", "far", "b"), moved,
	)
	for name, value := range map[string]func(*v1alpha1.InfraClusterAttachment) string{
		world.IndexInfra: func(a *v1alpha1.InfraClusterAttachment) string {
			return a.Namespace + "/" + string(a.Spec.InfraRef.Name)
		},
		world.IndexHostedCluster: func(a *v1alpha1.InfraClusterAttachment) string { return facts.ClusterOf(a).String() },
	} {
		builder = builder.WithIndex(&v1alpha1.InfraClusterAttachment{}, name, func(o client.Object) []string {
			return []string{value(o.(*v1alpha1.InfraClusterAttachment))}
		})
	}
	r := world.New(builder.Build(), served{}, nil, nil)
	tests := []struct {
		name string
		ask  func() ([]types.NamespacedName, error)
		want []string
	}{
		{"an attachment concerns its network", func() ([]types.NamespacedName, error) { return r.ByAttachment(t.Context(), attached("a", "own", "a")) }, []string{"own", "twin"}},
		{"and who wants its HostedCluster", func() ([]types.NamespacedName, error) {
			return r.ByAttachment(t.Context(), attached("b", "other", "b"))
		}, []string{"far", "other"}},
		{"and who has it on record", func() ([]types.NamespacedName, error) { return r.ByAttachment(t.Context(), moved) }, []string{"far", "own", "twin"}},
		{"an Infra concerns its network", func() ([]types.NamespacedName, error) { return r.ByInfra(t.Context(), infra("twin", "vlan1-too")) }, []string{"own", "twin"}},
		{"and who wants its HostedClusters", func() ([]types.NamespacedName, error) { return r.ByInfra(t.Context(), infra("other", "vlan3")) }, []string{"far", "other"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			found, err := tt.ask()
			require.NoError(t, err)
			var names []string
			for _, n := range found {
				names = append(names, n.Name)
			}
			require.ElementsMatch(t, tt.want, names)
		})
	}
}
