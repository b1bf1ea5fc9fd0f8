package app_test

import (
	"fmt"
	"testing"

	securityv1 "github.com/openshift/api/security/v1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/render"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// behaviours B2, B9, B13: --enable-openshift means something as long as the cluster
// has SecurityContextConstraints. They are taken up, and let go, within a minute and
// without a restart.
func TestConstraintsAreFollowed(t *testing.T) {
	bare, err := testenv.Start(false)
	require.NoError(t, err)
	t.Cleanup(bare.Stop)
	require.NoError(t, bare.Install(t.Context(), testenv.Multus))
	require.NoError(t, bare.Create(t.Context(), testenv.NamespaceObject("clusters"), testenv.NAD("clusters", "vlan"), testenv.Infra("clusters", "vlan", "vlan", 2)))
	options := testenv.DefaultOptions()
	options.OpenShift, options.SCC = true, render.SCCMinimal
	o := bare.Operator(t, options)
	dhcp := &v1alpha1.DHCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "vlan-dhcp"}}
	testenv.Eventually(t, patience, func() error {
		if err := bare.Client.Get(t.Context(), client.ObjectKeyFromObject(dhcp), dhcp); err != nil {
			return err
		}
		for _, c := range dhcp.Status.Conditions {
			if c.Type == v1alpha1.ConditionReady && c.Status == metav1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("not ready: %+v", dhcp.Status.Conditions)
	})
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "vlan-dhcp-scc"}}
	require.NoError(t, bare.Gone(t.Context(), binding), "there is nothing to be bound to")

	made := &unstructured.Unstructured{}
	made.SetGroupVersionKind(securityv1.GroupVersion.WithKind("SecurityContextConstraints"))
	made.SetName(render.SCCName)
	within := func(is func() error) {
		t.Helper()
		testenv.Eventually(t, soonEnough, is)
	}
	for range 2 {
		require.NoError(t, bare.Install(t.Context(), testenv.OpenShift))
		within(func() error { return bare.Client.Get(t.Context(), client.ObjectKeyFromObject(binding), binding) })
		within(func() error { return bare.Client.Get(t.Context(), client.ObjectKeyFromObject(made), made) })
		require.NoError(t, bare.Uninstall(t.Context(), testenv.OpenShift))
		within(func() error { return bare.Gone(t.Context(), binding) })
	}
	require.NoError(t, o.Stop())
}
