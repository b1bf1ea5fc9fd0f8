package facts_test

import (
	"testing"

	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/facts"
)

// behaviours B6, F0, G5: which hosted cluster is gone, and which is another one by now.
func TestWhereabouts(t *testing.T) {
	t.Parallel()
	a := attachment(inForce)
	in := facts.HostedCluster(a, facts.ControlPlaneOf(a), facts.ForAttachment(world(), a, noon).Observed)
	require.Equal(t, v1alpha1.AppliedIn{
		Namespace: "clusters", Name: "example-hcp-a", UID: "uid-a", ControlPlaneNamespace: "clusters-example-hcp-a", Service: "kube-apiserver", Port: 6443,
	}, in)
	nobody := in
	nobody.UID = ""
	noCluster := func(w *facts.World) { w.HostedClusters = nil }
	noControlPlane := func(w *facts.World) { w.HostedControlPlanes = nil }
	for _, tt := range []struct {
		name           string
		in             v1alpha1.AppliedIn
		world          facts.World
		gone, replaced bool
	}{
		{"it is there", in, world(), false, false},
		{"its control plane is not there yet, or any more", in, world(noControlPlane), false, false},
		{"nobody allows it any more", in, world(func(w *facts.World) { w.HostedClusters[0].Annotations = nil }), false, false},
		{"it is being deleted", in, world(func(w *facts.World) { w.HostedClusters[0].DeletionTimestamp = &metav1.Time{Time: noon} }), true, false},
		{"it is deleted, its control plane is still there", in, world(noCluster), true, false},
		{"it is deleted with its control plane", in, world(noCluster, noControlPlane), true, false},
		{"another one has its name", in, world(func(w *facts.World) { w.HostedClusters[0].UID = "uid-b" }), true, true},
		{"another one has its control-plane namespace", in, world(noCluster, func(w *facts.World) {
			w.HostedControlPlanes[0].Annotations = map[string]string{"hypershift.openshift.io/cluster": "clusters/victim"}
		}), true, true},
		{"there is one of another name", in, world(func(w *facts.World) {
			w.HostedClusters = []hyperv1.HostedCluster{{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "b", UID: "uid-a"}}}
		}), true, false},
		{"it cannot be read", in, world(noCluster, func(w *facts.World) { w.Unreadable = map[string]bool{facts.KindHostedCluster: true} }), false, false},
		{"its control plane cannot be read", in, world(noCluster, func(w *facts.World) { w.Unreadable = map[string]bool{facts.KindHostedControlPlane: true} }), false, false},
		{"nobody knows which one it was", nobody, world(noCluster), false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			gone, replaced := facts.Whereabouts(tt.world, tt.in)
			require.Equal(t, tt.gone, gone)
			require.Equal(t, tt.replaced, replaced)
		})
	}
}

// behaviours B6, G5: what was recorded counts, also where the attachment is admitted no
// more, or names another hosted cluster; without a record what is known of its own does.
func TestWhereObjectsAreIsWhatWasRecorded(t *testing.T) {
	t.Parallel()
	a := attachment(inForce)
	a.Status.AppsIngressStatus = &v1alpha1.AppsIngressStatus{}
	a.Status.Observed = facts.ForAttachment(world(), a, noon).Observed
	in := facts.AppliedIn(a)
	require.Equal(t, "uid-a", in.UID)
	require.Equal(t, "kube-apiserver", in.Service)
	a.Status.AppsIngressStatus.AppliedIn = in
	a.Spec.HostedClusterRef.Name, a.Spec.ControlPlaneNamespace = "b", "elsewhere"
	a.Status.Observed, a.Status.ControlPlaneNamespace = v1alpha1.ObservedFacts{}, "elsewhere"
	require.Equal(t, in, facts.AppliedIn(a))
	a.Status.AppsIngressStatus.AppliedIn = v1alpha1.AppliedIn{}
	require.Empty(t, facts.AppliedIn(a).UID)
	require.Empty(t, facts.AppliedIn(a).Service)
}
