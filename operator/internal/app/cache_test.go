package app

import (
	"fmt"
	"maps"
	"testing"

	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/render"
)

// behaviour B10, hazard 203: of the kinds that a cluster is full of, objects with our
// label are cached and no others, and of Secrets none; what nobody watches is not
// watched because somebody reads it.
func TestOfWhatIsNotOursNothingIsCached(t *testing.T) {
	t.Parallel()
	options := cacheOptions()
	require.True(t, options.ReaderFailOnMissingInformer)
	var kinds []string
	for o, by := range options.ByObject {
		kind := fmt.Sprintf("%T", o)
		kinds = append(kinds, kind)
		require.NotNil(t, by.Label, kind)
		require.True(t, by.Label.Matches(labels.Set{"app.kubernetes.io/managed-by": "oooi-operator", "a": "b"}), kind)
		require.False(t, by.Label.Matches(labels.Set{"app.kubernetes.io/managed-by": "Helm"}), kind)
		require.False(t, by.Label.Matches(labels.Set{}), kind)
	}
	require.ElementsMatch(t, []string{
		"*v1.ConfigMap", "*v1.ServiceAccount", "*v1.Role", "*v1.RoleBinding", "*v1.ClusterRoleBinding", "*v1.NetworkPolicy", "*v1.Lease",
		"*v1.Deployment", "*v1.Pod",
	}, kinds)
	foreign := &corev1.Service{ObjectMeta: metadata(nil)}
	got, err := options.DefaultTransform(foreign)
	require.NoError(t, err)
	require.Empty(t, got.(client.Object).GetManagedFields(), "what is never read is dropped")
}

// metadata of an object as others write it.
func metadata(of map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "ns", Name: "n", UID: "uid", Labels: of, Annotations: map[string]string{"a": "b"}, Finalizers: []string{"f"},
		OwnerReferences: []metav1.OwnerReference{{Name: "o"}}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
	}
}

// bare is the same with a part of it taken out.
func bare(o metav1.ObjectMeta, without ...func(*metav1.ObjectMeta)) metav1.ObjectMeta {
	o.ManagedFields = nil
	for _, w := range without {
		w(&o)
	}
	return o
}

// behaviour B10: what is cached of others' objects is what the operator reads of them.
func TestWhatIsNeverReadIsDropped(t *testing.T) {
	t.Parallel()
	ours, theirs := metadata(map[string]string{render.LabelManagedBy: render.ManagedBy}), metadata(map[string]string{"app": "x"})
	annotations := func(o *metav1.ObjectMeta) { o.Annotations = nil }
	all := func(o *metav1.ObjectMeta) {
		o.Annotations, o.Labels, o.OwnerReferences, o.Finalizers = nil, nil, nil, nil
	}
	service := corev1.ServiceSpec{ClusterIP: "172.30.0.9"}
	pool := hyperv1.NodePoolSpec{ClusterName: "a", Platform: hyperv1.NodePoolPlatform{Type: hyperv1.KubevirtPlatform}}
	fullPool := *pool.DeepCopy()
	fullPool.Platform.Kubevirt, fullPool.Config = &hyperv1.KubevirtNodePoolPlatform{}, []corev1.LocalObjectReference{{Name: "c"}}
	for _, tc := range []struct {
		name     string
		in, want any
	}{
		{"of ours nothing", &corev1.Service{ObjectMeta: ours, Spec: service}, &corev1.Service{ObjectMeta: ours, Spec: service}},
		{"a Service's annotations", &corev1.Service{ObjectMeta: theirs, Spec: service}, &corev1.Service{ObjectMeta: bare(theirs, annotations), Spec: service}},
		{"not a Namespace's labels", &corev1.Namespace{ObjectMeta: theirs}, &corev1.Namespace{ObjectMeta: bare(theirs)}},
		{
			"all but the name of what only has to exist",
			&metav1.PartialObjectMetadata{ObjectMeta: theirs}, &metav1.PartialObjectMetadata{ObjectMeta: bare(theirs, all)},
		},
		{
			"all but the annotations of a control plane",
			&hyperv1.HostedControlPlane{
				ObjectMeta: theirs, Spec: hyperv1.HostedControlPlaneSpec{ClusterID: "id"}, Status: hyperv1.HostedControlPlaneStatus{Ready: true},
			},
			&hyperv1.HostedControlPlane{ObjectMeta: bare(theirs)},
		},
		{
			"all but the cluster and the platform of a NodePool",
			&hyperv1.NodePool{ObjectMeta: theirs, Spec: fullPool, Status: hyperv1.NodePoolStatus{Version: "4.21.0"}},
			&hyperv1.NodePool{ObjectMeta: bare(theirs), Spec: pool},
		},
		{"nothing of what is no object", "gone", "gone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := strip(tc.in)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

// behaviour B10: a Machine is what MachineOf reads, and no more.
func TestAMachineIsWhatIsReadOfIt(t *testing.T) {
	t.Parallel()
	machine := func(annotations map[string]any, spec, status map[string]any, more map[string]any) *unstructured.Unstructured {
		meta := map[string]any{"namespace": "clusters-a", "name": "m", "uid": "uid", "resourceVersion": "7", "annotations": annotations}
		maps.Copy(meta, more)
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": meta, "spec": spec, "status": status,
		}}
	}
	pool := map[string]any{facts.AnnotationNodePool: "clusters/a"}
	vm := map[string]any{"infrastructureRef": map[string]any{"name": "vm"}}
	addresses := map[string]any{"addresses": []any{map[string]any{"address": "192.0.2.101"}, map[string]any{"address": "fd00::1"}}}
	whole := machine(
		map[string]any{facts.AnnotationNodePool: "clusters/a", "other": "x"},
		map[string]any{"infrastructureRef": map[string]any{"name": "vm", "kind": "KubevirtMachine"}, "bootstrap": map[string]any{"dataSecretName": "s"}},
		map[string]any{"phase": "Running", "addresses": []any{
			map[string]any{"type": "InternalDNS", "address": "vm"},
			map[string]any{"type": "InternalIP", "address": "192.0.2.101"},
			map[string]any{"type": "InternalIP", "address": "fd00::1"},
			"nonsense",
		}},
		map[string]any{"labels": map[string]any{"l": "x"}, "managedFields": []any{map[string]any{"manager": "m"}}, "deletionTimestamp": "2026-01-02T12:00:00Z"},
	)
	read := facts.MachineOf(whole)
	got, err := strip(whole.DeepCopy())
	require.NoError(t, err)
	require.Equal(t, machine(pool, vm, addresses, map[string]any{"deletionTimestamp": "2026-01-02T12:00:00Z"}), got)
	// A name is nobody's address.
	read.Addresses = read.Addresses[1:]
	require.Equal(t, read, facts.MachineOf(got.(*unstructured.Unstructured)))
	empty, err := strip(machine(nil, nil, nil, nil))
	require.NoError(t, err)
	require.Equal(t, facts.MachineOf(machine(nil, nil, nil, nil)), facts.MachineOf(empty.(*unstructured.Unstructured)))
}
