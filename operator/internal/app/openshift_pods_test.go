package app_test

import (
	"fmt"
	"testing"
	"time"

	securityv1 "github.com/openshift/api/security/v1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/render"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// behaviours B2, B5, hazard 210: where SecurityContextConstraints are served, each
// mode binds what it says, with the operator's own rights, and the fence is in the
// pods whose constraints admit it.
func TestOpenShiftPodsAreBoundToTheirConstraints(t *testing.T) {
	for i, mode := range []struct {
		scc      render.SCC
		bindings map[string]string
		fenced   map[string]bool
	}{
		{
			render.SCCReference,
			map[string]string{"dhcp": "system:openshift:scc:privileged", "dns": "system:openshift:scc:anyuid", "proxy": "system:openshift:scc:privileged"},
			map[string]bool{"dhcp": true, "proxy": true},
		},
		{render.SCCMinimal, map[string]string{"dhcp": "oooi-dhcpd"}, nil},
	} {
		t.Run(string(mode.scc), func(t *testing.T) {
			w := build(t, 22+i, fmt.Sprintf("sigma%d", i))
			constraints := &unstructured.Unstructured{}
			constraints.SetGroupVersionKind(securityv1.GroupVersion.WithKind("SecurityContextConstraints"))
			constraints.SetName(render.SCCName)
			require.NoError(t, client.IgnoreNotFound(env.Client.Delete(t.Context(), constraints)))
			options := testenv.DefaultOptions()
			options.OpenShift, options.SCC = true, mode.scc
			o := env.Operator(t, options)
			dhcp, dns, proxy := childrenOf(w)
			for component, child := range map[string]client.Object{"dhcp": dhcp, "dns": dns, "proxy": proxy} {
				condition(t, child, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
				binding := &rbacv1.RoleBinding{}
				err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "vlan-" + component + "-scc"}, binding)
				role, bound := mode.bindings[component]
				if !bound {
					require.Error(t, err, "%s runs under restricted-v2, and is bound to nothing", component)
				} else {
					require.NoError(t, err)
					require.Equal(t, role, binding.RoleRef.Name)
					require.Equal(t, []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.namespace, Name: "vlan-" + component}}, binding.Subjects)
				}
				d := get(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "vlan-" + component}})
				require.Equal(t, mode.fenced[component], hasInit(d, "fence"), "the fence of %s", component)
			}
			testenv.Eventually(t, patience, func() error {
				err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(constraints), constraints)
				if (err == nil) != (mode.scc == render.SCCMinimal) {
					return fmt.Errorf("the operator's own constraints: %w", err)
				}
				return nil
			})
			settled(t, o)
			touch(t, w, 1)
			silent(t, o, 2*time.Second)
		})
	}
}

func hasInit(d *appsv1.Deployment, name string) bool {
	for _, c := range d.Spec.Template.Spec.InitContainers {
		if c.Name == name {
			return true
		}
	}
	return false
}

// A cluster that stops to bind: the binding goes when the mode is changed, and
// nothing else of the pods' rights stays behind.
func TestAChangedModeTakesTheOldBindingsBack(t *testing.T) {
	w := build(t, 24, "tau")
	options := testenv.DefaultOptions()
	options.OpenShift = true
	reference := env.Operator(t, options)
	_, dns, _ := childrenOf(w)
	condition(t, dns, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "vlan-dns-scc"}}
	testenv.Eventually(t, patience, func() error { return env.Client.Get(t.Context(), client.ObjectKeyFromObject(binding), binding) })
	require.NoError(t, reference.Stop())
	options.SCC = render.SCCMinimal
	env.Operator(t, options)
	testenv.Eventually(t, patience, func() error { return env.Gone(t.Context(), binding) })
	var left corev1.ServiceAccount
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "vlan-dns"}, &left))
}
