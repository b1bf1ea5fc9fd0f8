package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
