package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// settled waits until the operator has written nothing for a while.
func settled(t *testing.T, o *testenv.Operator) {
	t.Helper()
	o.Writes.Taken()
	quiet := time.Now()
	testenv.Eventually(t, patience, func() error {
		if list := o.Writes.Taken(); len(list) > 0 {
			quiet = time.Now()
			return fmt.Errorf("still writing: %v", list)
		}
		if time.Since(quiet) < 2500*time.Millisecond {
			return fmt.Errorf("not quiet for long enough")
		}
		return nil
	})
}

// silent requires that the operator writes nothing for a while.
func silent(t *testing.T, o *testenv.Operator, while time.Duration) {
	t.Helper()
	end := time.After(while)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		require.Empty(t, o.Writes.Taken(), "the operator must write nothing in an unchanged world")
		select {
		case <-end:
			return
		case <-tick.C:
		}
	}
}

// versions of everything in a world that the operator writes.
func versions(t *testing.T, w world) map[string]string {
	t.Helper()
	out := map[string]string{}
	namespaces := []string{w.namespace}
	for _, c := range w.clusters {
		namespaces = append(namespaces, c.ControlPlane())
	}
	for _, ns := range namespaces {
		for _, list := range []client.ObjectList{
			&v1alpha1.InfraList{}, &v1alpha1.InfraClusterAttachmentList{}, &v1alpha1.DHCPServerList{}, &v1alpha1.DNSServerList{}, &v1alpha1.ProxyServerList{},
			&appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{},
			&rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &networkingv1.NetworkPolicyList{},
		} {
			require.NoError(t, env.Client.List(t.Context(), list, client.InNamespace(ns)))
			items, err := meta.ExtractList(list)
			require.NoError(t, err)
			for _, item := range items {
				o := item.(client.Object)
				out[fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())] = o.GetResourceVersion()
			}
		}
	}
	return out
}

// touch makes the informers deliver the oooi objects again: an annotation that
// nobody reads.
func touch(t *testing.T, w world, i int) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/touched":"%d"}}}`, i))
	for _, c := range w.clusters {
		require.NoError(t, env.Client.Patch(t.Context(), c.Cluster(), patch))
		require.NoError(t, env.Client.Patch(t.Context(), testenv.NamespaceObject(c.ControlPlane()), patch))
		require.NoError(t, env.Client.Patch(t.Context(), c.Service("kube-apiserver", 6443), patch))
	}
}

// behaviour B8, case C45 (a), hazard 205: an unchanged world costs no write.
func TestAnUnchangedWorldCostsNoWrite(t *testing.T) {
	w := build(t, 11, "one", "two", "three")
	o := env.Operator(t, testenv.DefaultOptions())
	for _, a := range w.attachments {
		condition(t, a, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	}
	settled(t, o)
	before := versions(t, w)
	for i := range 30 {
		touch(t, w, i)
		silent(t, o, 100*time.Millisecond)
	}
	silent(t, o, 3*time.Second)
	after := versions(t, w)
	for k := range before {
		if strings.Contains(k, "kube-apiserver") {
			delete(before, k)
			delete(after, k)
		}
	}
	require.Equal(t, before, after, "30 reconciles of an unchanged world must change nothing")

	// behaviour B13, hazard 220: nor does a restart of the operator change anything.
	require.NoError(t, o.Stop())
	again := env.Operator(t, testenv.DefaultOptions())
	settled(t, again)
	after = versions(t, w)
	for k := range after {
		if strings.Contains(k, "kube-apiserver") {
			delete(after, k)
		}
	}
	require.Equal(t, before, after, "a restart of the operator must change nothing")
}
