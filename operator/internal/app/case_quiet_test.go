package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// reconciles of each controller so far, and how many of them failed.
func reconciles(t *testing.T) (done map[string]float64, failed float64) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	require.NoError(t, err)
	done = map[string]float64{}
	for _, f := range families {
		if f.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			done[labels["controller"]] += m.GetCounter().GetValue()
			if labels["result"] == "error" {
				failed += m.GetCounter().GetValue()
			}
		}
	}
	return done, failed
}

// children are the versions of a world's objects but the touched ones.
func children(t *testing.T, w world) map[string]string {
	t.Helper()
	out := versions(t, w)
	for k := range out {
		if strings.HasPrefix(k, "*v1alpha1.Infra ") || strings.HasPrefix(k, "*v1alpha1.InfraClusterAttachment ") {
			delete(out, k)
		}
	}
	return out
}

// case C45 (a), behaviour B8, hazard 205: the Infra and its three attachments are
// touched, and what they come from, until the Infra has been reconciled 30 times and
// each child as often; nothing is written, no status either, and every child with
// its ReplicaSet stays as it was. The pods run and their agents have reported, dhcpd
// a lease of each worker beside the address that its Machine has: between leases and
// plans there is no loop.
func TestCaseThirtyForcedReconcilesCostNoWrite(t *testing.T) {
	w := build(t, 46, "quiet-a", "quiet-b", "quiet-c")
	o := env.Operator(t, testenv.DefaultOptions())
	env.Kubelet(t, w.namespace)
	var leases []any
	for i, c := range w.clusters {
		leases = append(leases, map[string]any{
			"macAddress": fmt.Sprintf("02:00:5e:10:00:%02x", i), "ip": fmt.Sprintf("192.0.46.%d", 150+i),
			"vmNamespace": c.ControlPlane(), "vmName": c.Name + "-worker-0",
		})
	}
	env.Agents(t, w.namespace, "vlan", leases...)
	ready(t, w)
	for i := range leases {
		backend(t, w, "the leased source", hasSource(fmt.Sprintf("192.0.46.%d", 150+i)))
	}
	condition(t, w.infra, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAsExpected)
	settled(t, o)
	before := children(t, w)
	var replicaSets int
	for k := range before {
		if strings.Contains(k, "ReplicaSet") {
			replicaSets++
		}
	}
	require.Equal(t, 3, replicaSets)
	start, failures := reconciles(t)
	for i := range 30 {
		last, _ := reconciles(t)
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/touched":"%d"}}}`, i))
		touched := []client.Object{w.infra, testenv.NAD(w.namespace, "vlan")}
		for j := range w.attachments {
			touched = append(touched, w.attachments[j], w.clusters[j].Cluster())
		}
		for _, object := range touched {
			require.NoError(t, env.Client.Patch(t.Context(), object, patch))
		}
		testenv.Eventually(t, patience, func() error {
			for _, name := range []string{"infra", "dhcp", "dns", "proxy"} {
				if now, _ := reconciles(t); now[name] == last[name] {
					return fmt.Errorf("round %d: controller %s has not come yet", i, name)
				}
			}
			return nil
		})
		silent(t, o, 50*time.Millisecond)
	}
	silent(t, o, 4*time.Second)
	end, failed := reconciles(t)
	for _, name := range []string{"infra", "attachment", "dhcp", "dns", "proxy"} {
		t.Logf("%s: %.0f reconciles", name, end[name]-start[name])
		require.GreaterOrEqual(t, end[name]-start[name], 30.0, name)
	}
	require.Zero(t, failed-failures, "none failed")
	require.Equal(t, before, children(t, w), "no child has changed, and there is no new ReplicaSet")
}
