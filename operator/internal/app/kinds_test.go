package app_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// behaviour B9, B10, case C44, hazards 200 to 203: the operator starts on a bare
// cluster full of other people's Secrets and Pods, takes kinds up as they
// appear, and survives that they go.
func TestABareClusterAndKindsThatComeAndGo(t *testing.T) {
	bare, err := testenv.Start(true)
	require.NoError(t, err)
	t.Cleanup(bare.Stop)
	ctx := t.Context()
	require.NoError(t, bare.Create(ctx, testenv.NamespaceObject("foreign"), testenv.NamespaceObject("clusters")))
	before := heap()
	o := bare.Operator(t, testenv.DefaultOptions())
	require.NoError(t, bare.Create(ctx, testenv.Infra("clusters", "vlan", "vlan", 2), testenv.Attachment("clusters", "alpha", "vlan")))

	is := func(o client.Object, conditionType string, status metav1.ConditionStatus, reason string) {
		t.Helper()
		testenv.Eventually(t, patience, func() error {
			if err := bare.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			for _, c := range conditionsOf(o) {
				if c.Type == conditionType && c.Status == status && c.Reason == reason {
					return nil
				}
			}
			return fmt.Errorf("%s: %+v", o.GetName(), conditionsOf(o))
		})
	}
	attachment := testenv.Attachment("clusters", "alpha", "vlan")
	is(attachment, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonMissingAPI)
	dns := &v1alpha1.DNSServer{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "vlan-dns"}}
	is(dns, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonMissingAPI)

	flood(t, bare)
	grown := int64(heap()) - int64(before)
	t.Logf("heap grew by %d KiB with 5000 Secrets of 32 KiB and 2000 Pods of others", grown>>10)
	require.Less(t, grown, int64(32<<20), "foreign objects must not be cached")

	hosted := testenv.Hosted{Namespace: "clusters", Name: "alpha", Workers: []string{"192.0.2.101"}}
	for _, set := range []testenv.CRDs{testenv.Multus, testenv.HyperShift, testenv.CAPI, testenv.KubeVirt, testenv.OpenShift, testenv.OLM} {
		require.NoError(t, bare.Install(ctx, set))
	}
	require.NoError(t, bare.Create(ctx, append(hosted.Objects(), testenv.NAD("clusters", "vlan"))...))
	started := time.Now()
	is(attachment, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	require.Less(t, time.Since(started), time.Minute, "kinds are taken up within a minute")
	is(dns, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	testenv.Eventually(t, patience, func() error {
		if err := bare.Client.Get(ctx, client.ObjectKeyFromObject(attachment), attachment); err != nil {
			return err
		}
		if len(attachment.Status.Observed.Workers) != 1 {
			return fmt.Errorf("workers: %+v", attachment.Status.Observed.Workers)
		}
		return nil
	})

	// KubeVirt goes: what was known stays in force, and the proxy keeps its routes.
	proxy := &v1alpha1.ProxyServer{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "vlan-proxy"}}
	testenv.Eventually(t, patience, func() error {
		if err := bare.Client.Get(ctx, client.ObjectKeyFromObject(proxy), proxy); err != nil {
			return err
		}
		if !slices.ContainsFunc(proxy.Spec.Backends, func(b v1alpha1.ProxyBackend) bool { return b.Name == "alpha/alias-tls" }) {
			return fmt.Errorf("the worker's alias is missing in %+v", proxy.Spec.Backends)
		}
		return nil
	})
	routes := proxy.Spec.Backends
	require.NoError(t, bare.Uninstall(ctx, testenv.KubeVirt))
	missing(t, o, "VirtualMachineInstance.kubevirt.io")
	require.NoError(t, bare.Client.Get(ctx, client.ObjectKeyFromObject(attachment), attachment))
	require.Len(t, attachment.Status.Observed.Workers, 1)
	require.NoError(t, bare.Client.Get(ctx, client.ObjectKeyFromObject(proxy), proxy))
	require.Equal(t, routes, proxy.Spec.Backends, "what cannot be read withdraws nothing")

	// The others go, and with them every object of theirs: the process lives.
	require.NoError(t, bare.Uninstall(ctx, testenv.Multus, testenv.CAPI, testenv.HyperShift))
	missing(t, o, "HostedCluster.hypershift.openshift.io")
	missing(t, o, "NetworkAttachmentDefinition.k8s.cni.cncf.io")
	is(dns, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonMissingAPI)

	// And come back.
	require.NoError(t, bare.Install(ctx, testenv.HyperShift, testenv.CAPI, testenv.KubeVirt, testenv.Multus))
	require.NoError(t, bare.Create(ctx, append(hosted.Objects(), testenv.NAD("clusters", "vlan"))...))
	is(attachment, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	is(dns, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	require.NoError(t, o.Stop(), "the operator must have lived through all of it")
}

// missing waits until the operator's metrics say that a kind is missing.
func missing(t *testing.T, o *testenv.Operator, kind string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		families, err := o.Registry.Gather()
		if err != nil {
			return err
		}
		for _, f := range families {
			if f.GetName() != "oooi_operator_kind_missing" {
				continue
			}
			for _, m := range f.GetMetric() {
				if m.GetLabel()[0].GetValue() == kind {
					return nil
				}
			}
		}
		return fmt.Errorf("%s is not reported as missing", kind)
	})
}

// flood makes 5,000 Secrets of 32 KiB and 2,000 Pods that are nothing of ours.
func flood(t *testing.T, e *testenv.Env) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	value := []byte(strings.Repeat("x", 32<<10))
	for i := range 5000 {
		group.Go(func() error {
			return e.Client.Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "foreign", Name: fmt.Sprintf("s-%d", i)}, Data: map[string][]byte{"v": value},
			})
		})
	}
	for i := range 2000 {
		group.Go(func() error {
			return e.Client.Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "foreign", Name: fmt.Sprintf("p-%d", i)},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/none"}}},
			})
		})
	}
	require.NoError(t, group.Wait())
}

// heap in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
