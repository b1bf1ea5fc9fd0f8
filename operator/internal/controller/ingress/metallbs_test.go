package ingress_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// foreignMetalLB is one that somebody else has made.
func foreignMetalLB(namespace string) *unstructured.Unstructured {
	m := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"loadBalancerClass": "vendor.example/lb"}}}
	m.SetAPIVersion("metallb.io/v1beta1")
	m.SetKind("MetalLB")
	m.SetNamespace(namespace)
	m.SetName("metallb")
	return m
}

// speakers makes the DaemonSet of a MetalLB and gives it its counts.
func (c *cluster) speakers(t *testing.T, namespace string, ready int32) *appsv1.DaemonSet {
	t.Helper()
	labels := map[string]string{"component": "speaker"}
	d := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "speaker"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "speaker", Image: "speaker"}}},
			},
		},
	}
	require.NoError(t, c.Client.Create(t.Context(), d))
	d.Status.DesiredNumberScheduled, d.Status.NumberReady = 2, ready
	require.NoError(t, c.Client.Status().Update(t.Context(), d))
	return d
}

// hazards 126, 127: where ours and somebody else's MetalLB stand in one hosted
// cluster, theirs serves our pool, and its speakers are the ones that count.
func TestTheSpeakersThatServeThePoolCount(t *testing.T) {
	c, a := installed(t)
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForExternalIP) // ours is made
	idle := c.speakers(t, "openshift-operators", 0)
	c.Must(t, testenv.NamespaceObject("tenant-metallb"), foreignMetalLB("tenant-metallb"))
	theirs := c.speakers(t, "tenant-metallb", 2)
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForExternalIP)
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForExternalIP)
	require.Equal(t, "vendor.example/lb", *c.service(t).Spec.LoadBalancerClass)
	c.assign(t, "192.0.2.200")
	c.ensure(t, a, "Ready", v1alpha1.ReasonReconciliationSucceeded)

	theirs.Status.NumberReady, idle.Status.NumberReady = 0, 2
	for _, d := range []*appsv1.DaemonSet{theirs, idle} {
		require.NoError(t, c.Client.Status().Update(t.Context(), d))
	}
	c.ensure(t, a, "Degraded", v1alpha1.ReasonSpeakerNotRunning)
	require.Contains(t, a.Status.AppsIngressStatus.Message, "tenant-metallb/speaker of the hosted cluster has 0 of 2 pods ready")
}
