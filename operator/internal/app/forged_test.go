package app_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// behaviours B12, F0, F5: a namespace's administrator whose Infra is older, and who
// forges its status and its servers so that it seems to hold another's network, takes
// nothing from who has it in force.
func TestATenantWhoForgesANetwork(t *testing.T) {
	const third = 97
	require.NoError(t, env.Install(t.Context(), testenv.All()...))
	o := env.Operator(t, testenv.DefaultOptions())
	tenant := fmt.Sprintf("evil%d", third)
	env.Must(t, testenv.NamespaceObject(tenant), testenv.NAD(tenant, "mine"))
	t.Cleanup(func() { env.Sweep(t, tenant) })
	c := tenantOf(t, tenant)
	// It is refused for a reason of its own, so that the operator leaves its record alone.
	older := testenv.Infra(tenant, "older", "mine", 197)
	require.NoError(t, c.Create(t.Context(), testenv.Infra(tenant, "first", "mine", 197)))
	condition(t, testenv.Infra(tenant, "first", "mine", 197), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	require.NoError(t, c.Create(t.Context(), older))
	condition(t, older, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDuplicateNetwork)
	w := build(t, third, "phi")
	ready(t, w)
	require.False(t, w.infra.CreationTimestamp.Before(&older.CreationTimestamp))
	victims := get(t, w.infra).Status.Network
	dhcp, _, proxy := childrenOf(w)

	logs := true
	still := func(t *testing.T) {
		t.Helper()
		generation := get(t, proxy).Generation
		logs = !logs
		// What the operator answers to is answered by then, with the forgery in view.
		merge(t, w.infra, fmt.Sprintf(`{"spec":{"infraComponents":{"proxy":{"accessLog":%t}}}}`, logs))
		testenv.Eventually(t, patience, func() error {
			if get(t, proxy).Generation == generation {
				return fmt.Errorf("the ProxyServer is not changed: %+v", get(t, w.infra).Status.Conditions)
			}
			return nil
		})
		settled(t, o)
		condition(t, w.infra, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
		condition(t, w.attachments[0], v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
		require.Equal(t, victims, get(t, w.infra).Status.Network)
	}
	nad := testenv.NAD(w.namespace, "vlan")
	t.Run("a NetworkAttachmentDefinition that says it is the victim's network, and a status that says it is served", func(t *testing.T) {
		merge(t, testenv.NAD(tenant, "mine"), fmt.Sprintf(`{"spec":{"config":%q}}`, nad.Spec.Config))
		get(t, older).Status.Network = victims.DeepCopy()
		require.NoError(t, c.Status().Update(t.Context(), older))
		still(t)
		degraded := condition(t, w.infra, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonDuplicateNetwork)
		require.Contains(t, degraded.Message, tenant+"/", "who says so is named")
	})
	t.Run("a spec that asks for what the status says", func(t *testing.T) {
		spec := get(t, w.infra).Spec.DeepCopy()
		get(t, older)
		spec.NetworkConfig.NetworkAttachmentDefinition, spec.NetworkConfig.NetworkAttachmentNamespace = "mine", v1alpha1.NamespaceName(tenant)
		older.Spec = *spec
		require.NoError(t, c.Update(t.Context(), older))
		still(t)
	})
	t.Run("one of its own in place of a server of the victim's address", func(t *testing.T) {
		forged := &v1alpha1.DHCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "forged", OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(get(t, older), v1alpha1.GroupVersion.WithKind(v1alpha1.KindInfra)),
		}}, Spec: get(t, dhcp).Spec}
		require.NoError(t, c.Create(t.Context(), forged))
		still(t)
	})
	t.Run("and the victim may still change its addresses", func(t *testing.T) {
		merge(t, w.infra, fmt.Sprintf(`{"spec":{"infraComponents":{"proxy":{"serverIP":"192.0.%d.14"}}}}`, third))
		testenv.Eventually(t, patience, func() error {
			if ip := get(t, proxy).Spec.NetworkConfig.ServerIP; ip != v1alpha1.IPv4(fmt.Sprintf("192.0.%d.14", third)) {
				return fmt.Errorf("the proxy is at %s: %+v", ip, get(t, w.infra).Status.Conditions)
			}
			return nil
		})
		condition(t, w.attachments[0], v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	})
}
