package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// thirdOctet keeps the scenarios' VLANs apart.
var thirdOctet atomic.Int32

// behaviour H4, hazard 206: who wrote which field of a status.
func fieldsHaveOneWriter(t *testing.T, third int) {
	w := build(t, third, "owners")
	env.Kubelet(t, w.namespace)
	env.Agents(t, w.namespace, "vlan")
	ready(t, w)
	dhcp, dns, proxy := childrenOf(w)
	condition(t, w.infra, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAsExpected)

	a := w.attachments[0]
	require.Equal(t, []string{"Programmed"}, conditionsOwned(t, get(t, a), "oooi-operator-infra"))
	require.NotContains(t, conditionsOwned(t, a, "oooi-operator"), "Programmed")
	require.Contains(t, conditionsOwned(t, a, "oooi-operator"), "Ready")
	require.Equal(t, []string{"conditions"}, statusOwned(t, a, "oooi-operator-infra"))
	for o, agent := range map[client.Object]string{dhcp: "oooi-dhcpd", dns: "oooi-coredns", proxy: "oooi-xds-manager"} {
		require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o))
		require.Equal(t, []string{"agent"}, statusOwned(t, o, agent))
		require.NotContains(t, statusOwned(t, o, "oooi-operator"), "agent")
	}
	// No field has two owners.
	for _, o := range []client.Object{w.infra, a, dhcp, dns, proxy} {
		seen := map[string]string{}
		for _, f := range o.GetManagedFields() {
			for _, path := range leaves(t, f.FieldsV1.GetRawBytes()) {
				require.Empty(t, seen[path], "%T: %s is owned by %s and by %s", o, path, seen[path], f.Manager)
				seen[path] = f.Manager
			}
		}
	}
}

func fieldsOf(t *testing.T, o client.Object, manager string) map[string]any {
	t.Helper()
	for _, f := range o.GetManagedFields() {
		if f.Manager == manager && f.Subresource == "status" {
			var fields map[string]any
			require.NoError(t, json.Unmarshal(f.FieldsV1.GetRawBytes(), &fields))
			status, _ := fields["f:status"].(map[string]any)
			return status
		}
	}
	return nil
}

func statusOwned(t *testing.T, o client.Object, manager string) []string {
	t.Helper()
	var out []string
	for k := range fieldsOf(t, o, manager) {
		out = append(out, strings.TrimPrefix(k, "f:"))
	}
	return out
}

func conditionsOwned(t *testing.T, o client.Object, manager string) []string {
	t.Helper()
	conditions, _ := fieldsOf(t, o, manager)["f:conditions"].(map[string]any)
	var out []string
	for k := range conditions {
		var key struct{ Type string }
		if text, ok := strings.CutPrefix(k, "k:"); ok {
			require.NoError(t, json.Unmarshal([]byte(text), &key))
			out = append(out, key.Type)
		}
	}
	return out
}

// leaves are the paths of a field set that name a value.
func leaves(t *testing.T, raw []byte) []string {
	t.Helper()
	var fields map[string]any
	require.NoError(t, json.Unmarshal(raw, &fields))
	var out []string
	var walk func(path string, node map[string]any)
	walk = func(path string, node map[string]any) {
		if len(node) == 0 {
			out = append(out, path)
		}
		for k, v := range node {
			if child, ok := v.(map[string]any); ok && k != "." {
				walk(path+"/"+k, child)
			}
		}
	}
	walk("", fields)
	return out
}

// behaviour F2, case C43, hazards 1, 2, 238, 240.
func namesMismatches(t *testing.T, third int) {
	w := build(t, third, "mismatch")
	ready(t, w)
	h := w.clusters[0]
	cluster := h.Cluster()
	a := w.attachments[0]
	condition(t, a, v1alpha1.ConditionEndpointMismatch, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)

	// HyperShift's own view of the two paths is mirrored.
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster))
	meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{
		Type: "DataPlaneConnectionAvailable", Status: metav1.ConditionFalse, Reason: "NoWorkerNodesAvailable", Message: "konnectivity has no agent",
	})
	require.NoError(t, env.Client.Status().Update(t.Context(), cluster))
	mirrored := condition(t, a, v1alpha1.ConditionDataPlaneConnectionAvailable, metav1.ConditionFalse, "NoWorkerNodesAvailable")
	require.Equal(t, "konnectivity has no agent", mirrored.Message)

	other := testenv.Attachment(w.namespace, "mismatch", "vlan")
	merge(t, other, `{"spec":{"dns":{"clusterName":"another"}}}`)
	c := condition(t, a, v1alpha1.ConditionEndpointMismatch, metav1.ConditionTrue, v1alpha1.ReasonEndpointMismatch)
	require.Contains(t, c.Message, "api.mismatch.clusters.example.com")
	require.Contains(t, c.Message, "api.another.clusters.example.com")
	condition(t, a, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonEndpointMismatch)
}

// behaviours A3, B6, hazard 204: a DHCPServer alone is deployed as it is, and takes
// with it what no owner reference reaches.
func childAlone(t *testing.T, third int) {
	ns := fmt.Sprintf("alone%d", third)
	t.Cleanup(func() { env.Sweep(t, ns) })
	env.Must(t, testenv.NamespaceObject(ns), testenv.NAD(ns, "vlan"))
	ip := func(last int) v1alpha1.IPv4 { return v1alpha1.IPv4(fmt.Sprintf("192.0.%d.%d", third, last)) }
	dhcp := &v1alpha1.DHCPServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "leases"},
		Spec: v1alpha1.DHCPServerSpec{
			NetworkConfig: v1alpha1.DHCPNetworkConfig{
				CIDR: v1alpha1.IPv4CIDR(fmt.Sprintf("192.0.%d.0/24", third)), Gateway: ip(1), ServerIP: ip(2), NetworkAttachmentName: "vlan",
			},
			LeaseConfig:   v1alpha1.DHCPLeaseConfig{RangeStart: ip(100), RangeEnd: ip(199)},
			VMINamespaces: []string{"*"},
		},
	}
	env.Must(t, dhcp)
	condition(t, dhcp, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	deployment := get(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "leases-dhcp"}})
	require.True(t, metav1.IsControlledBy(deployment, dhcp))
	// It reads VMs everywhere, which no owner reference would undo.
	require.Contains(t, get(t, dhcp).Finalizers, "hostedcluster.densityops.com/child")
	require.Error(t, boundInCluster(t.Context(), ns))
	require.NoError(t, env.Client.Delete(t.Context(), dhcp))
	testenv.Eventually(t, patience, func() error { return env.Gone(t.Context(), dhcp) })
	require.NoError(t, boundInCluster(t.Context(), ns))
	testenv.Eventually(t, patience, func() error { return env.Gone(t.Context(), deployment) })
}

func attachmentAlone(t *testing.T, third int) {
	ns := fmt.Sprintf("clusters%d", third)
	t.Cleanup(func() { env.Sweep(t, ns) })
	env.Must(t, testenv.Hosted{Namespace: ns, Name: "alone"}.Objects()...)
	a := testenv.Attachment(ns, "alone", "nowhere")
	env.Must(t, a)
	condition(t, a, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInfraNotFound)
	late := testenv.Attachment(ns, "late", "nowhere")
	env.Must(t, late)
	condition(t, late, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHostedClusterNotFound)
}

// behaviour G2: nothing is installed, and the phase says what is missing.
func appsAreHonest(t *testing.T, third int) {
	w := build(t, third, "apps-a", "apps-b")
	ready(t, w)
	merge(t, w.attachments[0], fmt.Sprintf(
		`{"spec":{"appsIngress":{"enabled":true,"metallb":{"addressPoolName":"apps","ipAddressPoolRange":"192.0.%d.200-192.0.%d.209"}}}}`, third, third))
	a := w.attachments[0]
	condition(t, a, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHostedClusterAccessFailed)
	require.Equal(t, v1alpha1.AppsPhaseDegraded, a.Status.AppsIngressStatus.Phase)
	// behaviour G6: the other cluster does not notice.
	condition(t, w.attachments[1], v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
}
