package ingress_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// metalLB reads the MetalLB that we made.
func (c *cluster) metalLB(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	m := foreignMetalLB("openshift-operators")
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m))
	return m
}

func (c *cluster) spec(t *testing.T) any {
	t.Helper()
	return c.metalLB(t).Object["spec"]
}

// hazard 132: speakers announce the address anew as often as the attachment says;
// one that says nothing leaves MetalLB's object as it was.
func TestTheIntervalOfGratuitousARPReachesMetalLB(t *testing.T) {
	c, a := installed(t)
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForExternalIP)
	c.assign(t, "192.0.2.200")
	c.ensure(t, a, "Ready", v1alpha1.ReasonReconciliationSucceeded)
	class := "hostedcluster.densityops.com/vlan"
	require.Equal(t, map[string]any{"loadBalancerClass": class}, c.spec(t))

	a.Spec.AppsIngress.MetalLB.GratuitousARPInterval = "1m30s"
	c.ensure(t, a, "Ready", v1alpha1.ReasonReconciliationSucceeded)
	require.Equal(t, map[string]any{"loadBalancerClass": class, "speakerGratuitousARPInterval": "1m30s"}, c.spec(t))
	require.Equal(t, "*.apps is served", a.Status.AppsIngressStatus.Message)
	c.assertQuiet(t, a)
	before := c.metalLB(t).GetResourceVersion()
	c.ensure(t, a, "Ready", v1alpha1.ReasonReconciliationSucceeded)
	require.Equal(t, before, c.metalLB(t).GetResourceVersion())

	a.Spec.AppsIngress.MetalLB.GratuitousARPInterval = ""
	c.ensure(t, a, "Ready", v1alpha1.ReasonReconciliationSucceeded)
	require.Equal(t, map[string]any{"loadBalancerClass": class}, c.spec(t))
}

// hazard 132: a metallb-operator that is older than the field is told apart, said
// in words, and written to no more often than without it.
func TestAnOlderMetalLBOperatorIsSaidToHaveNoInterval(t *testing.T) {
	c, a := installed(t)
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Name: "metallbs.metallb.io"}, crd))
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	require.NoError(t, err)
	unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", "speakerGratuitousARPInterval")
	require.NoError(t, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
	require.NoError(t, c.Client.Update(t.Context(), crd))

	a.Spec.AppsIngress.MetalLB.GratuitousARPInterval = "1m"
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForExternalIP)
	c.assign(t, "192.0.2.200")
	c.ensure(t, a, "Ready", v1alpha1.ReasonReconciliationSucceeded)
	require.Contains(t, a.Status.AppsIngressStatus.Message, "gratuitousARPInterval has no effect: the hosted cluster's metallb-operator has no spec.speakerGratuitousARPInterval")
	c.ensure(t, a, "Ready", v1alpha1.ReasonReconciliationSucceeded) // the Service is told to keep its address
	before := c.metalLB(t).GetResourceVersion()
	c.assertQuiet(t, a)
	require.Equal(t, before, c.metalLB(t).GetResourceVersion())
}
