package app_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// behaviour H2: a pod whose network cannot be attached is stuck without a word in its
// status; the words are in an event, and come without what differs from pod to pod.
func namesWhatKeepsASandboxFromStarting(t *testing.T, third int) {
	w := build(t, third, "stuck")
	_, dns, _ := childrenOf(w)
	pod := &corev1.Pod{}
	testenv.Eventually(t, patience, func() error {
		var pods corev1.PodList
		err := env.Client.List(t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels{"app.kubernetes.io/component": "dns"})
		if err != nil || len(pods.Items) == 0 {
			return fmt.Errorf("no pod yet: %w", err)
		}
		pod = &pods.Items[0]
		return nil
	})
	says := func(kind, reason, message string, ago time.Duration) {
		env.Must(t, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: w.namespace, Name: strings.ToLower(reason)},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: w.namespace, Name: pod.Name, UID: pod.UID},
			Type:           kind, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(time.Now().Add(-ago)),
		})
	}
	says(corev1.EventTypeNormal, "Pulled", "the image is there", 0)
	says(corev1.EventTypeWarning, "FailedMount", `configmap "x" not found`, time.Hour)
	says(corev1.EventTypeWarning, "FailedCreatePodSandBox", fmt.Sprintf(
		`plugin type="multus" failed for pod "%s" in sandbox 0123456789abcdef0123: no bridge br-vlan`, pod.Name), time.Minute)
	want := `the pod cannot be started: FailedCreatePodSandBox: plugin type="multus" failed for pod "vlan-dns" in sandbox ...: no bridge br-vlan`
	for _, o := range []client.Object{dns, w.infra} {
		testenv.Eventually(t, patience, func() error {
			c := condition(t, o, v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonDeploymentUnavailable)
			if !strings.Contains(c.Message, want) {
				return fmt.Errorf("the message is %q", c.Message)
			}
			return nil
		})
	}
}

// behaviour H4: leases that come one by one change DNSServer and ProxyServer once a
// second and no more.
func gathersLeases(t *testing.T, third int) {
	const workers = 20
	w := build(t, third, "many")
	ready(t, w)
	h := w.clusters[0]
	for i := 1; i < workers; i++ {
		env.Must(t, h.Machine(i, ""))
	}
	ip := func(i int) string { return fmt.Sprintf("192.0.%d.%d", third, 110+i) }
	testenv.Eventually(t, patience, func() error {
		if n := len(get(t, w.attachments[0]).Status.Observed.Machines); n != workers {
			return fmt.Errorf("%d machines", n)
		}
		return nil
	})
	_, dns, proxy := childrenOf(w)
	before := []int64{get(t, dns).Generation, get(t, proxy).Generation}
	began := time.Now()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	stanza := testenv.Stanza("sha256:none")
	var bindings []any
	for i := 1; i < workers; i++ {
		bindings = append(bindings, map[string]any{
			"macAddress": fmt.Sprintf("02:00:5e:10:00:%02x", i), "ip": ip(i), "vmNamespace": h.ControlPlane(), "vmName": fmt.Sprintf("many-worker-%d", i),
		})
		stanza["bindings"] = bindings
		require.NoError(t, env.Report(t.Context(), v1alpha1.KindDHCPServer, w.namespace, "vlan-dhcp", stanza))
		<-tick.C
	}
	backend(t, w, "the last leased source", hasSource(ip(workers-1)))
	allowed := int64(time.Since(began).Seconds()) + 2
	after := []int64{get(t, dns).Generation, get(t, proxy).Generation}
	for i, name := range []string{"DNSServer", "ProxyServer"} {
		t.Logf("%d leases changed the %s %d times, %d are allowed", workers-1, name, after[i]-before[i], allowed)
		require.Positive(t, after[i]-before[i], name)
		require.LessOrEqual(t, after[i]-before[i], allowed, name)
	}
	for i := 1; i < workers; i++ {
		require.True(t, hasSource(ip(i))(get(t, proxy).Spec.Backends), "the source %s", ip(i))
	}
}

// told waits for an event of an object (behaviour H2), written with the operator's own
// rights.
func told(t *testing.T, o client.Object, kind, eventType, reason, words string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		var list eventsv1.EventList
		if err := env.Client.List(t.Context(), &list, client.InNamespace(o.GetNamespace())); err != nil {
			return err
		}
		var all []string
		for _, e := range list.Items {
			all = append(all, fmt.Sprintf("%s %s of %s %s: %s", e.Type, e.Reason, e.Regarding.Kind, e.Regarding.Name, e.Note))
			if e.Regarding.Kind == kind && e.Regarding.UID == o.GetUID() && e.Type == eventType && e.Reason == reason && strings.Contains(e.Note, words) {
				return nil
			}
		}
		return fmt.Errorf("no %s %s of %s %s in %q", eventType, reason, kind, o.GetName(), all)
	})
}

// behaviour H1: what waits for an object by the usual rules (its observedGeneration
// first, then Ready) is never misled by the status of an earlier generation.
func statusesAreOfTheirGeneration(t *testing.T, third int) {
	w := build(t, third, "generation")
	ready(t, w)
	condition(t, w.infra, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	require.Equal(t, v1alpha1.NamespaceName(w.clusters[0].ControlPlane()), get(t, w.attachments[0]).Status.ControlPlaneNamespace)
	merge(t, w.infra, `{"spec":{"infraComponents":{"dhcp":{"leaseTime":"30m"},"dns":{"ttlSeconds":7},"proxy":{"accessLog":false}}}}`)
	merge(t, w.attachments[0], `{"spec":{"dns":{"baseDomain":"other.example.com"}}}`)
	dhcp, dns, proxy := childrenOf(w)
	observed := map[client.Object]func() int64{
		w.infra:          func() int64 { return w.infra.Status.ObservedGeneration },
		w.attachments[0]: func() int64 { return w.attachments[0].Status.ObservedGeneration },
		dhcp:             func() int64 { return dhcp.Status.ObservedGeneration },
		dns:              func() int64 { return dns.Status.ObservedGeneration },
		proxy:            func() int64 { return proxy.Status.ObservedGeneration },
	}
	for o, of := range observed {
		testenv.Eventually(t, patience, func() error {
			switch get(t, o); {
			case o.GetGeneration() < 2:
				return fmt.Errorf("%T is not changed yet", o)
			case of() != o.GetGeneration():
				return fmt.Errorf("%T is of generation %d, its status of %d", o, o.GetGeneration(), of())
			}
			for _, c := range conditionsOf(o) {
				if c.ObservedGeneration != o.GetGeneration() {
					return fmt.Errorf("%T is of generation %d, its %s of %d", o, o.GetGeneration(), c.Type, c.ObservedGeneration)
				}
			}
			return nil
		})
	}
}

// behaviour F0: who may no longer attach a cluster loses all that leads to it: the
// routes, the way into the control plane and the external Service.
func withdrawsWhatIsNoLongerAllowed(t *testing.T, third int) {
	w := build(t, third)
	owner := fmt.Sprintf("owner%d", third)
	t.Cleanup(func() { env.Sweep(t, owner) })
	h := testenv.Hosted{Namespace: owner, Name: "lent", Workers: []string{fmt.Sprintf("192.0.%d.100", third)}}
	env.Must(t, h.Objects()...)
	cluster := h.Cluster()
	merge(t, cluster, fmt.Sprintf(`{"metadata":{"annotations":{"hostedcluster.densityops.com/allowed-namespaces":%q}}}`, w.namespace))
	a := testenv.Attachment(w.namespace, "lent", "vlan")
	a.Spec.HostedClusterRef.Namespace = v1alpha1.NamespaceName(owner)
	a.Spec.ExternalService = v1alpha1.ExternalService{Enabled: true, AddressPoolName: "public"}
	env.Must(t, a)
	condition(t, a, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	backend(t, w, "the worker's source", hasSource(h.Workers[0]))
	service := get(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "lent-proxy-external"}})
	get(t, controlPlanePolicy(h))

	merge(t, cluster, `{"metadata":{"annotations":{"hostedcluster.densityops.com/allowed-namespaces":"another"}}}`)
	condition(t, a, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHostedClusterRefNotPermitted)
	proxy := backend(t, w, "no routes", func(list []v1alpha1.ProxyBackend) bool { return len(list) == 0 })
	require.Empty(t, proxy.Spec.ExternalListeners)
	closed(t, h)
	testenv.Eventually(t, patience, func() error { return env.Gone(t.Context(), service) })
	require.Empty(t, get(t, a).Status.Observed, "what was known of it is forgotten")
}

// behaviour B11: an attachment that is moved to another control plane leaves the one
// that it had closed.
func leavesTheOldControlPlane(t *testing.T, third int) {
	w := build(t, third, "moving")
	ready(t, w)
	h := w.clusters[0]
	get(t, controlPlanePolicy(h))
	other := h.ControlPlane() + "-new"
	hcp := &hyperv1.HostedControlPlane{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: h.ControlPlane(), Name: h.Name}, hcp))
	copied := &hyperv1.HostedControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: h.Name, Annotations: hcp.Annotations}, Spec: hcp.Spec,
	}
	service := h.Service("kube-apiserver", 6443)
	service.Namespace = other
	env.Must(t, testenv.NamespaceObject(other), copied, service)
	merge(t, w.attachments[0], fmt.Sprintf(`{"spec":{"controlPlaneNamespace":%q}}`, other))
	testenv.Eventually(t, patience, func() error {
		policy := controlPlanePolicy(h)
		policy.Namespace = other
		return env.Client.Get(t.Context(), client.ObjectKeyFromObject(policy), policy)
	})
	closed(t, h)
}

// behaviour F1, hazard 7: the address of a Machine that is being deleted selects its
// cluster while the VM runs, and no longer: another cluster's VM may have it next.
func forgetsMachinesWithoutAVM(t *testing.T, third int) {
	w := build(t, third, "leaving")
	h := w.clusters[0]
	m := h.Machine(0, "")
	vmi := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: h.ControlPlane(), Name: m.GetName()}}
	vmi.SetGroupVersionKind(schema.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachineInstance"})
	whole := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}}}}}
	whole.SetGroupVersionKind(vmi.GroupVersionKind())
	whole.SetNamespace(vmi.Namespace)
	whole.SetName(vmi.Name)
	env.Must(t, whole)
	ready(t, w)
	backend(t, w, "the worker's source", hasSource(h.Workers[0]))
	merge(t, m, `{"metadata":{"finalizers":["machine.cluster.x-k8s.io"]}}`)
	t.Cleanup(func() {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		require.NoError(t, client.IgnoreNotFound(env.Client.Patch(context.WithoutCancel(t.Context()), h.Machine(0, ""), patch)))
	})
	require.NoError(t, env.Client.Delete(t.Context(), m))
	proxy := backend(t, w, "the worker's source while its VM runs", hasSource(h.Workers[0]))
	generation := proxy.Generation
	// Something else that the operator answers to has been answered by then.
	merge(t, w.infra, `{"spec":{"infraComponents":{"proxy":{"accessLog":false}}}}`)
	testenv.Eventually(t, patience, func() error {
		if get(t, proxy).Generation == generation {
			return fmt.Errorf("the ProxyServer is not changed yet")
		}
		return nil
	})
	require.True(t, hasSource(h.Workers[0])(proxy.Spec.Backends))
	require.NoError(t, env.Client.Delete(t.Context(), vmi))
	backend(t, w, "no source of a Machine without a VM", func(b []v1alpha1.ProxyBackend) bool { return !hasSource(h.Workers[0])(b) })
}
