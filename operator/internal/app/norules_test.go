package app_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/render"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// withoutRules takes the CEL rules out of a schema.
func withoutRules(node any) {
	switch node := node.(type) {
	case map[string]any:
		delete(node, "x-kubernetes-validations")
		for _, child := range node {
			withoutRules(child)
		}
	case []any:
		for _, child := range node {
			withoutRules(child)
		}
	}
}

// behaviour A5: on an API server that does not know the rules, what they refuse is
// stored, and nothing comes of it: the condition names the field and both values, what
// runs stays as it is, and once it is mended all goes on.
func TestAnAPIServerWithoutTheRules(t *testing.T) {
	bare, err := testenv.Start(false)
	require.NoError(t, err)
	t.Cleanup(bare.Stop)
	var crds unstructured.UnstructuredList
	crds.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	require.NoError(t, bare.Client.List(t.Context(), &crds))
	for i := range crds.Items {
		crd := &crds.Items[i]
		testenv.Eventually(t, patience, func() error { // the API server writes to it too
			if err := bare.Client.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
				return err
			}
			withoutRules(crd.Object)
			return bare.Client.Update(t.Context(), crd)
		})
	}
	require.NoError(t, bare.Install(t.Context(), testenv.Multus))
	bare.Operator(t, testenv.DefaultOptions())
	require.NoError(t, bare.Create(t.Context(), testenv.NamespaceObject("clusters"), testenv.NAD("clusters", "vlan")))

	eventually := func(o client.Object, check func() error) {
		t.Helper()
		testenv.Eventually(t, patience, func() error {
			if err := bare.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			return check()
		})
	}
	ready := func(o client.Object, status metav1.ConditionStatus, reason string) *metav1.Condition {
		t.Helper()
		var c *metav1.Condition
		eventually(o, func() error {
			c = meta.FindStatusCondition(conditionsOf(o), v1alpha1.ConditionReady)
			if c == nil || c.Status != status || c.Reason != reason || c.ObservedGeneration != o.GetGeneration() {
				return apierrors.NewBadRequest("not yet")
			}
			return nil
		})
		return c
	}
	stores := func(o client.Object) {
		t.Helper()
		testenv.Eventually(t, patience, func() error { return client.IgnoreAlreadyExists(bare.Client.Create(t.Context(), o)) })
	}
	gone := func(o client.Object, name string) {
		t.Helper()
		o.SetNamespace("clusters")
		o.SetName(name)
		require.NoError(t, bare.Gone(t.Context(), o), "nothing is made of it")
	}

	infra := testenv.Infra("clusters", "vlan", "vlan", 2)
	infra.Spec.NetworkConfig.Gateway = "198.51.100.1"
	stores(infra)
	says := ready(infra, metav1.ConditionFalse, v1alpha1.ReasonInvalidConfiguration).Message
	require.Contains(t, says, "networkConfig.gateway 198.51.100.1")
	gone(&v1alpha1.DNSServer{}, "vlan-dns")

	dns := &v1alpha1.DNSServer{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "alone"}}
	moves := func(serverIP string) {
		t.Helper()
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"networkConfig":{"serverIP":%q}}}`, serverIP))
		require.NoError(t, bare.Client.Patch(t.Context(), dns, patch))
	}
	dns.Spec.NetworkConfig = v1alpha1.DNSNetworkConfig{CIDR: "198.51.100.0/24", ServerIP: "192.0.2.3"}
	stores(dns)
	says = ready(dns, metav1.ConditionFalse, v1alpha1.ReasonInvalidConfiguration).Message
	require.Contains(t, says, "192.0.2.3")
	gone(&appsv1.Deployment{}, render.WorkloadName("alone", render.ComponentDNS))

	moves("198.51.100.3")
	ready(dns, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: render.WorkloadName("alone", render.ComponentDNS)}}
	require.NoError(t, bare.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
	template := deployment.Spec.Template
	moves("198.51.100.255")
	ready(dns, metav1.ConditionFalse, v1alpha1.ReasonInvalidConfiguration)
	require.NoError(t, bare.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
	require.Equal(t, template, deployment.Spec.Template, "what runs stays as it is")
}
