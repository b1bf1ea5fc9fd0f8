package app_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	if args, ok := os.LookupEnv(podArgs); ok {
		os.Exit(runAsPod(strings.Fields(args)))
	}
	os.Exit(testenv.Run(m, &env, true))
}

const patience = 60 * time.Second

// condition waits until an object's condition has a status and a reason.
func condition(t *testing.T, o client.Object, conditionType string, status metav1.ConditionStatus, reason string) *metav1.Condition {
	t.Helper()
	var found *metav1.Condition
	testenv.Eventually(t, patience, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		found = meta.FindStatusCondition(conditionsOf(o), conditionType)
		if found == nil || found.Status != status || found.Reason != reason {
			return fmt.Errorf("%T %s: %s is %+v, want %s %s; all: %+v", o, o.GetName(), conditionType, found, status, reason, conditionsOf(o))
		}
		return nil
	})
	return found
}

func conditionsOf(o client.Object) []metav1.Condition {
	switch o := o.(type) {
	case *v1alpha1.Infra:
		return o.Status.Conditions
	case *v1alpha1.InfraClusterAttachment:
		return o.Status.Conditions
	case *v1alpha1.DHCPServer:
		return o.Status.Conditions
	case *v1alpha1.DNSServer:
		return o.Status.Conditions
	case *v1alpha1.ProxyServer:
		return o.Status.Conditions
	}
	return nil
}

// world is a namespace with an Infra on a VLAN of its own and hosted clusters.
type world struct {
	namespace   string
	infra       *v1alpha1.Infra
	clusters    []testenv.Hosted
	attachments []*v1alpha1.InfraClusterAttachment
}

// build makes a world. third is the VLAN's third octet, unique in the test binary.
func build(t *testing.T, third int, names ...string) world {
	t.Helper()
	require.NoError(t, env.Install(t.Context(), testenv.All()...))
	w := world{namespace: fmt.Sprintf("clusters%d", third)}
	env.Must(t, testenv.NamespaceObject(w.namespace), testenv.NAD(w.namespace, "vlan"))
	w.infra = testenv.Infra(w.namespace, "vlan", "vlan", third)
	env.Must(t, w.infra)
	for i, name := range names {
		h := testenv.Hosted{Namespace: w.namespace, Name: name, Workers: []string{fmt.Sprintf("192.0.%d.%d", third, 100+i)}}
		env.Must(t, h.Objects()...)
		a := testenv.Attachment(w.namespace, name, "vlan")
		env.Must(t, a)
		w.clusters, w.attachments = append(w.clusters, h), append(w.attachments, a)
	}
	t.Cleanup(func() { env.Sweep(t, w.namespace) })
	return w
}

// behaviour B1, H1, H3: two hosted clusters on one Infra.
func TestTwoHostedClustersArePlannedAppliedAndReported(t *testing.T) {
	w := build(t, 10, "alpha", "beta")
	env.Operator(t, testenv.DefaultOptions())

	condition(t, w.infra, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	for _, a := range w.attachments {
		condition(t, a, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
		require.Equal(t, v1alpha1.DomainName(a.Name+".clusters.example.com"), a.Status.Domain)
	}
	testenv.Eventually(t, patience, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(w.infra), w.infra); err != nil {
			return err
		}
		if got := w.infra.Status.Attachments.ReadyOfTotal; got != "2/2" {
			return fmt.Errorf("attachments are %s", got)
		}
		return nil
	})
	require.Equal(t, v1alpha1.InfraComponentStatus{DHCPReady: true, DNSReady: true, ProxyReady: true}, w.infra.Status.ComponentStatus)

	proxy := &v1alpha1.ProxyServer{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "vlan-proxy"}, proxy))
	require.True(t, metav1.IsControlledBy(proxy, w.infra))
	require.Greater(t, len(proxy.Spec.Backends), 8)
	for _, name := range []string{"vlan-dhcp", "vlan-dns", "vlan-proxy"} {
		// They are rolled out one after the other.
		testenv.Eventually(t, patience, func() error {
			return env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, &appsv1.Deployment{})
		})
	}
	policy := &networkingv1.NetworkPolicy{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.clusters[0].ControlPlane(), Name: "allow-infrastructure"}, policy))
	require.Len(t, policy.Spec.Ingress, 1)
}

func lenOf(list client.ObjectList) int { return meta.LenList(list) }
