package app_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// behaviour B13, hazards 220, 249: new images reach the pods, one Infra and one
// component at a time.
func TestAnUpgradeRollsOneComponentAtATime(t *testing.T) {
	worlds := []world{build(t, 18, "kappa"), build(t, 19, "lambda")}
	for _, w := range worlds {
		env.Kubelet(t, w.namespace)
		env.Agents(t, w.namespace, "vlan")
	}
	old := env.Operator(t, testenv.DefaultOptions())
	for _, w := range worlds {
		condition(t, w.infra, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAsExpected)
	}
	require.NoError(t, old.Stop())

	options := testenv.DefaultOptions()
	options.Images.DHCPD, options.Images.CoreDNS, options.Images.Envoy = "example.com/dhcpd:2", "example.com/coredns:2", "example.com/envoy:2"
	env.Operator(t, options)
	var order []string
	testenv.Eventually(t, 3*time.Minute, func() error {
		moving, done := 0, 0
		for _, w := range worlds {
			for _, component := range []string{"proxy", "dns", "dhcp"} {
				d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "vlan-" + component}}
				if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
					return err
				}
				renewed := slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
					return c.Image == "example.com/dhcpd:2" || c.Image == "example.com/coredns:2" || c.Image == "example.com/envoy:2"
				})
				name := w.namespace + "/" + component
				if renewed && !slices.Contains(order, name) {
					order = append(order, name)
				}
				if d.Status.ObservedGeneration < d.Generation || d.Status.AvailableReplicas == 0 {
					moving++
				} else if renewed {
					done++
				}
			}
		}
		require.LessOrEqual(t, moving, 1, "two components must never be replaced at once; so far %v", order)
		if done < 6 {
			return fmt.Errorf("%d of 6 are renewed: %v", done, order)
		}
		return nil
	})
	require.Equal(t, []string{
		"clusters18/proxy", "clusters18/dns", "clusters18/dhcp", "clusters19/proxy", "clusters19/dns", "clusters19/dhcp",
	}, order)
}

// behaviour B11: without --label-namespaces the operator says what to do.
func TestANamespaceThatIsNotLabelledIsNamed(t *testing.T) {
	w := build(t, 20, "mu")
	options := testenv.DefaultOptions()
	options.LabelNamespaces = false
	env.Operator(t, options)
	c := condition(t, w.infra, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonNamespaceNotLabelled)
	require.Contains(t, c.Message, "kubectl label namespace "+w.namespace+" hostedcluster.densityops.com/network-policy-group=infrastructure")
	merge(t, testenv.NamespaceObject(w.namespace), `{"metadata":{"labels":{"hostedcluster.densityops.com/network-policy-group":"infrastructure"}}}`)
	condition(t, w.infra, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
}
