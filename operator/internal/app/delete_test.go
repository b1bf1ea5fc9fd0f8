package app_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/app"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// permutations of some things.
func permutations(of []string) [][]string {
	if len(of) < 2 {
		return [][]string{slices.Clone(of)}
	}
	var out [][]string
	for i := range of {
		rest := slices.Delete(slices.Clone(of), i, i+1)
		for _, p := range permutations(rest) {
			out = append(out, append([]string{of[i]}, p...))
		}
	}
	return out
}

// orders in which the parts of a world can go. Infra and attachment lie in the
// namespace and go with it.
func orders() [][]string {
	var out [][]string
	seen := map[string]bool{}
	for _, order := range permutations([]string{"infra", "attachment", "hostedcluster", "namespace"}) {
		at := slices.Index(order, "namespace")
		rest := slices.DeleteFunc(slices.Clone(order[at:]), func(what string) bool { return what == "infra" || what == "attachment" })
		order = slices.Concat(order[:at], rest)
		if key := strings.Join(order, " "); !seen[key] {
			seen[key] = true
			out = append(out, order)
		}
	}
	return out
}

// withoutNamespace are the six orders of the other three, and one of the namespace
// before all.
func withoutNamespace() [][]string {
	return append(permutations([]string{"infra", "attachment", "hostedcluster"}), []string{"namespace", "hostedcluster"})
}

// behaviour B6, B11, case C45 (b), hazards 204, 208, 209: Infra, attachment,
// HostedCluster and their namespace go in any order, each once the one before is
// gone, and nothing of ours stays.
func TestEveryDeletionOrderEndsClean(t *testing.T) {
	orders := orders()
	names := make([]string, len(orders))
	for i := range orders {
		names[i] = fmt.Sprintf("order%d", i)
	}
	require.NoError(t, env.Install(t.Context(), testenv.All()...))
	env.Operator(t, testenv.DefaultOptions())
	for i, order := range orders {
		t.Run(strings.Join(order, " then "), func(t *testing.T) {
			t.Parallel()
			w := build(t, 200+i, names[i])
			condition(t, w.attachments[0], v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
			policy := controlPlanePolicy(w.clusters[0])
			require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(policy), policy))
			removed(t, w, order, false)
		})
	}
}

// case C45 (b), behaviours B6, G5, hazard 137: the same orders with *.apps on, where the hosted
// API server answers in half of them and refuses in the others. Nothing is stuck
// for two minutes, and where it answers nothing stays in the hosted cluster.
func TestEveryDeletionOrderEndsCleanWithAppsOn(t *testing.T) {
	orders := withoutNamespace()
	var controlPlanes []string
	for i := range orders {
		controlPlanes = append(controlPlanes, fmt.Sprintf("clusters%d-apps%d", 220+i, i))
	}
	hosts, options := appsOn(t, controlPlanes...)
	env.Operator(t, options)
	for i, order := range orders {
		dead := i%2 == 1
		t.Run(fmt.Sprintf("%s, refusing %t", strings.Join(order, " then "), dead), func(t *testing.T) {
			t.Parallel()
			w, applied := withApps(t, hosts, 220+i, fmt.Sprintf("apps%d", i))
			if dead {
				hosts.kill(controlPlanes[i])
			}
			removed(t, w, order, false)
			for _, o := range applied {
				u := inHosted(o)
				// A HostedCluster that is gone took its objects with it.
				if !dead && slices.Index(order, "attachment") >= 0 && slices.Index(order, "attachment") < slices.Index(order, "hostedcluster") {
					testenv.Eventually(t, patience, func() error { return env.Gone(t.Context(), u) })
				}
				require.NoError(t, client.IgnoreNotFound(env.Client.Delete(t.Context(), u)))
			}
		})
	}
}

// appsOn is a hub with what *.apps need in the hosted clusters, and how an operator
// reaches them.
func appsOn(t *testing.T, controlPlanes ...string) (*tenants, app.Options) {
	t.Helper()
	require.NoError(t, env.Install(t.Context(), append(testenv.All(), testenv.HostedOLM, testenv.MetalLB)...))
	hosts := newTenants(t, env, controlPlanes...)
	worker(t)
	for _, o := range []client.Object{testenv.NamespaceObject("openshift-ingress"), testenv.NamespaceObject("metallb-system"), metalLB("metallb-system")} {
		require.NoError(t, client.IgnoreAlreadyExists(env.Client.Create(t.Context(), o)))
	}
	// Other tests begin without a MetalLB.
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(env.Client.Delete(context.WithoutCancel(t.Context()), metalLB("metallb-system"))))
	})
	options := testenv.DefaultOptions()
	options.DialHosted = hosts.dial
	return hosts, options
}

// withApps is a world whose hosted cluster has *.apps on the VLAN, and what was
// applied in it.
func withApps(t *testing.T, hosts *tenants, third int, name string) (world, []v1alpha1.AppliedObject) {
	t.Helper()
	w := build(t, third, name)
	a := w.attachments[0]
	env.Must(t, hosts.secret(t, w.clusters[0].ControlPlane()))
	merge(t, a, fmt.Sprintf(`{"spec":{"appsIngress":{"enabled":true,"metallb":{"addressPoolName":%q,"ipAddressPoolRange":"192.0.%d.200-192.0.%d.209"},"service":{"name":%q}}}}`,
		a.Name, third, third, "ingress-"+a.Name))
	var applied []v1alpha1.AppliedObject
	testenv.Eventually(t, 2*patience, func() error {
		if st := get(t, a).Status.AppsIngressStatus; st != nil {
			applied = st.Applied
		}
		if !slices.ContainsFunc(applied, func(o v1alpha1.AppliedObject) bool { return o.Kind == "Service" }) {
			return fmt.Errorf("the hosted cluster has %v: %+v", applied, a.Status.AppsIngressStatus)
		}
		return nil
	})
	return w, applied
}

// inHosted is an object that was applied in a hosted cluster.
func inHosted(o v1alpha1.AppliedObject) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(o.APIVersion)
	u.SetKind(o.Kind)
	u.SetNamespace(o.Namespace)
	u.SetName(o.Name)
	return u
}

// removed takes the parts of a world away in an order, each once the one before is
// gone, and requires that nothing is Terminating for two minutes and in the end nothing
// of ours is left. Where the hosted API server is silent the attachment waits for its
// HostedCluster to go.
func removed(t *testing.T, w world, order []string, silent bool) {
	t.Helper()
	gone := func(objects ...client.Object) {
		t.Helper()
		for _, o := range objects {
			testenv.Eventually(t, 2*time.Minute, func() error { return env.Gone(t.Context(), o) })
		}
	}
	for i, what := range order {
		deleted := remove(t, w, what)
		if what != "attachment" || !silent || slices.Contains(order[:i], "hostedcluster") {
			gone(deleted...)
		}
		if what == "infra" && i == 0 && !silent {
			// The attachment goes on without it, and goes later.
			condition(t, w.attachments[0], v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInfraNotFound)
		}
	}
	gone(w.infra, w.attachments[0], controlPlanePolicy(w.clusters[0]))
	testenv.Eventually(t, patience, func() error { return leftovers(t.Context(), w) })
}

// metalLB is one that is there before us.
func metalLB(namespace string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	u.SetAPIVersion("metallb.io/v1beta1")
	u.SetKind("MetalLB")
	u.SetNamespace(namespace)
	u.SetName("metallb")
	return u
}

// remove deletes one part of a world as its owner would: HyperShift takes the
// control plane's namespace away with the HostedCluster.
func remove(t *testing.T, w world, what string) []client.Object {
	t.Helper()
	var objects []client.Object
	switch what {
	case "infra":
		objects = []client.Object{w.infra}
	case "attachment":
		objects = []client.Object{w.attachments[0]}
	case "namespace":
		objects = []client.Object{testenv.NamespaceObject(w.namespace)}
	case "hostedcluster":
		objects = []client.Object{
			&hyperv1.HostedControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: w.clusters[0].ControlPlane(), Name: w.clusters[0].Name}},
			w.clusters[0].Cluster(), testenv.NamespaceObject(w.clusters[0].ControlPlane()),
		}
	}
	for _, o := range objects {
		require.NoError(t, client.IgnoreNotFound(env.Client.Delete(t.Context(), o)))
	}
	return objects
}

// boundInCluster finds rights at cluster scope of accounts in a namespace.
func boundInCluster(ctx context.Context, namespace string) error {
	var bindings rbacv1.ClusterRoleBindingList
	if err := env.Client.List(ctx, &bindings); err != nil {
		return err
	}
	for _, b := range bindings.Items {
		if slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool { return s.Namespace == namespace }) {
			return fmt.Errorf("there is ClusterRoleBinding %s", b.Name)
		}
	}
	return nil
}

// leftovers finds what still carries our label in the namespaces of a world, and
// in the cluster.
func leftovers(ctx context.Context, w world) error {
	ours := client.MatchingLabels{"app.kubernetes.io/managed-by": "oooi-operator"}
	for _, list := range []client.ObjectList{
		&corev1.ConfigMapList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
		&networkingv1.NetworkPolicyList{}, &v1alpha1.DHCPServerList{}, &v1alpha1.DNSServerList{}, &v1alpha1.ProxyServerList{},
	} {
		for _, ns := range []string{w.namespace, w.clusters[0].ControlPlane()} {
			if err := env.Client.List(ctx, list, client.InNamespace(ns), ours); err != nil {
				return err
			}
			if n := lenOf(list); n > 0 {
				return fmt.Errorf("%d of %T are left in %s", n, list, ns)
			}
		}
	}
	if err := boundInCluster(ctx, w.namespace); err != nil {
		return err
	}
	ns := &corev1.Namespace{}
	if err := env.Client.Get(ctx, client.ObjectKey{Name: w.namespace}, ns); err != nil {
		return client.IgnoreNotFound(err)
	}
	if v, ok := ns.Labels["hostedcluster.densityops.com/network-policy-group"]; ok {
		return fmt.Errorf("namespace %s is still labelled %s", ns.Name, v)
	}
	return nil
}

// behaviour B6, hazard 208: a namespace that is deleted whole ends.
func TestANamespaceDeletedWholeEnds(t *testing.T) {
	w := build(t, 40, "iota")
	env.Operator(t, testenv.DefaultOptions())
	condition(t, w.attachments[0], v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	ns := testenv.NamespaceObject(w.namespace)
	require.NoError(t, env.Client.Delete(t.Context(), ns))
	testenv.Eventually(t, 2*time.Minute, func() error { return env.Gone(t.Context(), ns) })
	closed(t, w.clusters[0])
}
