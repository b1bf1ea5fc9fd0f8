package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// What the case gives: until when the operator is ready and attachments work.
const soonEnough = time.Minute

// behaviour B9, B10, case C44, hazards 200 to 203: the operator starts on a bare
// cluster full of other people's Secrets and Pods, is ready within a minute and stays
// so, takes kinds up as they appear, survives that they go, and never has more memory
// than its Deployment allows.
func TestABareClusterAndKindsThatComeAndGo(t *testing.T) {
	bare, err := testenv.Start(true)
	require.NoError(t, err)
	t.Cleanup(bare.Stop)
	ctx := t.Context()
	shipped := &appsv1.Deployment{}
	require.NoError(t, bare.Client.Get(ctx, client.ObjectKey{Namespace: testenv.Namespace, Name: "oooi-operator"}, shipped))
	limit := shipped.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value()
	require.Positive(t, limit)
	require.NoError(t, bare.Create(ctx, testenv.NamespaceObject("foreign"), testenv.NamespaceObject("clusters")))
	started := time.Now()
	o := startApart(t, bare, nil, "--leader-elect=lease")
	o.isReady(t)
	require.Less(t, time.Since(started), soonEnough, "it is ready within a minute")
	stays := o.staysReady(t)
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

	before := o.memory(t, "VmRSS")
	flood(t, bare)
	grown := o.memory(t, "VmRSS") - before
	t.Logf("%d KiB grew by %d KiB with 5000 Secrets of 32 KiB and 2000 Pods of others", before>>10, grown>>10)
	require.Less(t, grown, int64(64<<20), "160 MiB of foreign objects must not be cached")

	hosted := testenv.Hosted{Namespace: "clusters", Name: "alpha", Workers: []string{"192.0.2.101"}}
	for _, set := range []testenv.CRDs{testenv.Multus, testenv.HyperShift, testenv.CAPI, testenv.KubeVirt, testenv.OpenShift, testenv.OLM} {
		require.NoError(t, bare.Install(ctx, set))
	}
	served := time.Now()
	require.NoError(t, bare.Create(ctx, append(hosted.Objects(), testenv.NAD("clusters", "vlan"))...))
	is(attachment, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	require.Less(t, time.Since(served), soonEnough, "kinds are taken up within a minute")
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
	routes := proxy.DeepCopy().Spec.Backends
	require.NoError(t, bare.Uninstall(ctx, testenv.KubeVirt))
	o.missing(t, "VirtualMachineInstance.kubevirt.io")
	require.NoError(t, bare.Client.Get(ctx, client.ObjectKeyFromObject(attachment), attachment))
	require.Len(t, attachment.Status.Observed.Workers, 1)
	require.NoError(t, bare.Client.Get(ctx, client.ObjectKeyFromObject(proxy), proxy))
	require.Equal(t, routes, proxy.Spec.Backends, "what cannot be read withdraws nothing")

	// The others go, and with them every object of theirs: the process lives.
	require.NoError(t, bare.Uninstall(ctx, testenv.Multus, testenv.CAPI, testenv.HyperShift))
	o.missing(t, "HostedCluster.hypershift.openshift.io")
	o.missing(t, "NetworkAttachmentDefinition.k8s.cni.cncf.io")
	is(dns, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonMissingAPI)

	// And come back.
	require.NoError(t, bare.Install(ctx, testenv.HyperShift, testenv.CAPI, testenv.KubeVirt, testenv.Multus))
	require.NoError(t, bare.Create(ctx, append(hosted.Objects(), testenv.NAD("clusters", "vlan"))...))
	is(attachment, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	is(dns, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	require.NoError(t, stays(), "it was ready all the time")
	height := o.memory(t, "VmHWM")
	t.Logf("at its height it had %d MiB of %d", height>>20, limit>>20)
	require.Less(t, height, limit)
	o.stop(t)
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
