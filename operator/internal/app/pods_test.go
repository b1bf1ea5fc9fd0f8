package app_test

import (
	"fmt"
	"strings"
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

func childrenOf(w world) (*v1alpha1.DHCPServer, *v1alpha1.DNSServer, *v1alpha1.ProxyServer) {
	named := func(component string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: w.namespace, Name: "vlan-" + component}
	}
	return &v1alpha1.DHCPServer{ObjectMeta: named("dhcp")}, &v1alpha1.DNSServer{ObjectMeta: named("dns")}, &v1alpha1.ProxyServer{ObjectMeta: named("proxy")}
}

// behaviour H2, H4: Available needs the pods and the agents' word; an agent
// writes with the rights of its pod, and only its own stanza.
func TestAvailableNeedsPodsAndAgents(t *testing.T) {
	w := build(t, 14, "epsilon")
	env.Operator(t, testenv.DefaultOptions())
	dhcp, dns, proxy := childrenOf(w)
	condition(t, w.infra, v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonDeploymentUnavailable)
	env.Kubelet(t, w.namespace)
	condition(t, dns, v1alpha1.ConditionNetworkReady, metav1.ConditionTrue, v1alpha1.ReasonAsExpected)
	condition(t, dns, v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonWaitingForAgent)
	env.Agents(t, w.namespace, "vlan")
	for _, o := range []client.Object{dhcp, dns, proxy, w.infra} {
		condition(t, o, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAsExpected)
	}

	// A problem of the agent's is Degraded, in its own words.
	require.NoError(t, env.Report(t.Context(), v1alpha1.KindProxyServer, w.namespace, "vlan-proxy",
		testenv.Stanza(proxy.Status.SnapshotVersion, v1alpha1.AgentProblem{Reason: "ConfigRejected", Message: "no such chain"})))
	rejected := condition(t, proxy, v1alpha1.ConditionConfigAccepted, metav1.ConditionFalse, v1alpha1.ReasonConfigRejected)
	require.Equal(t, "no such chain", rejected.Message)
	condition(t, proxy, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonConfigRejected)
	condition(t, w.infra, v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonConfigRejected)
	require.NotNil(t, proxy.Status.Agent, "the operator must leave the agent's stanza alone")

	// behaviour B12: the agent's account can do nothing else.
	config, err := env.As(t.Context(), w.namespace, "vlan-proxy")
	require.NoError(t, err)
	agent, err := client.New(config, client.Options{Scheme: env.Client.Scheme(), Mapper: env.Client.RESTMapper()})
	require.NoError(t, err)
	require.Error(t, agent.Get(t.Context(), client.ObjectKeyFromObject(w.infra), &v1alpha1.Infra{}))
	require.Error(t, agent.List(t.Context(), &corev1.SecretList{}, client.InNamespace(w.namespace)))
	require.Error(t, agent.Delete(t.Context(), proxy.DeepCopy()))
	require.Error(t, env.Report(t.Context(), v1alpha1.KindDNSServer, w.namespace, "vlan-proxy", testenv.Stanza("x")), "not another kind's status")
}

// behaviour B3, hazard 18: a pod without its address is neither Ready nor
// Available, and a missing network is named.
func TestAPodWithoutItsAddressIsNotReady(t *testing.T) {
	w := build(t, 15, "zeta")
	require.NoError(t, env.Client.Delete(t.Context(), testenv.NAD(w.namespace, "vlan")))
	env.Operator(t, testenv.DefaultOptions())
	_, dns, _ := childrenOf(w)
	missing := condition(t, dns, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNetworkAttachmentNotFound)
	require.Contains(t, missing.Message, w.namespace+"/vlan")
	condition(t, dns, v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonNetworkAttachmentNotFound)

	env.Must(t, testenv.NAD(w.namespace, "vlan"))
	condition(t, dns, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	testenv.Eventually(t, patience, func() error {
		var pods corev1.PodList
		err := env.Client.List(t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels{"app.kubernetes.io/component": "dns"})
		if err != nil || len(pods.Items) == 0 {
			return fmt.Errorf("no pod yet: %w", err)
		}
		return env.RunPod(t.Context(), &pods.Items[0], false)
	})
	without := condition(t, dns, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAddressNotAssigned)
	require.Contains(t, without.Message, "192.0.15.3")
	condition(t, dns, v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonAddressNotAssigned)
}

// hazard 19: a pod whose link has another MTU than its network says is served, and
// its object and the Infra name the network and both values.
func namesAnotherMTU(t *testing.T, third int) {
	w := build(t, third, "mtu")
	nad := testenv.NAD(w.namespace, "vlan")
	config := strings.Replace(nad.Spec.Config, `"ipam"`, `"mtu":9000,"ipam"`, 1)
	merge(t, nad, fmt.Sprintf(`{"spec":{"config":%q}}`, config))
	env.Kubelet(t, w.namespace)
	env.Agents(t, w.namespace, "vlan")
	_, _, proxy := childrenOf(w)
	condition(t, w.infra, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAsExpected)
	condition(t, w.infra, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)

	link := func(mtu int) {
		var pods corev1.PodList
		require.NoError(t, env.Client.List(t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels{"app.kubernetes.io/component": "proxy"}))
		require.Len(t, pods.Items, 1)
		status := fmt.Sprintf(`[{"name":"%s/vlan","interface":"vlan0","ips":["192.0.%d.4"],"mtu":%d}]`, w.namespace, third, mtu)
		merge(t, &pods.Items[0], fmt.Sprintf(`{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/network-status":%q}}}`, status))
	}
	link(1400)
	says := fmt.Sprintf("MTUMismatch: NetworkAttachmentDefinition %s/vlan says MTU 9000, but the pod's link on it has 1400", w.namespace)
	require.Equal(t, says, condition(t, proxy, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonMTUMismatch).Message)
	require.Equal(t, "proxy: "+says, condition(t, w.infra, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonMTUMismatch).Message)
	condition(t, proxy, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAsExpected)
	link(9000)
	condition(t, w.infra, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
}

// behaviour H2: what keeps a pod from being made is shown in words.
func TestWhatKeepsAPodFromRunningIsShownInWords(t *testing.T) {
	w := build(t, 16, "eta")
	ns := testenv.NamespaceObject(w.namespace)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`))
	require.NoError(t, env.Client.Patch(t.Context(), ns, patch))
	env.Operator(t, testenv.DefaultOptions())
	dhcp, dns, _ := childrenOf(w)
	refused := condition(t, dhcp, v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonDeploymentUnavailable)
	testenv.Eventually(t, patience, func() error {
		refused = condition(t, dhcp, v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonDeploymentUnavailable)
		if refused.Message == "no pod is ready" || refused.Message == "there is no Deployment yet" {
			return fmt.Errorf("no words yet")
		}
		return nil
	})
	require.Contains(t, refused.Message, "violates PodSecurity")
	require.Contains(t, refused.Message, "NET_RAW")

	// behaviour B5: --fence=auto leaves the fence out where it is not admitted.
	deployment := &appsv1.Deployment{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "vlan-dns"}, deployment))
	for _, c := range deployment.Spec.Template.Spec.InitContainers {
		require.NotEqual(t, "fence", c.Name)
	}

	testenv.Eventually(t, patience, func() error {
		var pods corev1.PodList
		err := env.Client.List(t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels{"app.kubernetes.io/component": "dns"})
		if err != nil || len(pods.Items) == 0 {
			return fmt.Errorf("no pod yet: %w", err)
		}
		p := &pods.Items[0]
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "coredns", Image: "example.com/none:1", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "back-off 10s"},
		}}}
		return env.Client.Status().Update(t.Context(), p)
	})
	testenv.Eventually(t, patience, func() error {
		c := condition(t, dns, v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonDeploymentUnavailable)
		if c.Message != "container coredns: image example.com/none:1 cannot be pulled (ImagePullBackOff)" {
			return fmt.Errorf("the message is %q", c.Message)
		}
		return nil
	})
}

// behaviour B4, hazard 243: a pod that hangs on a dead node is force-deleted
// once its successor is Ready. That it is not before has a test with a clock, beside
// what does it.
func removesHangingPods(t *testing.T, third int) {
	w := build(t, third, "theta")
	pod := func(node string) *corev1.Pod {
		var found *corev1.Pod
		testenv.Eventually(t, patience, func() error {
			var pods corev1.PodList
			if err := env.Client.List(t.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels{"app.kubernetes.io/component": "proxy"}); err != nil {
				return err
			}
			for i := range pods.Items {
				if p := &pods.Items[i]; p.DeletionTimestamp == nil && p.Spec.NodeName == "" {
					binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}
					found = p
					return env.Client.SubResource("binding").Create(t.Context(), p, binding)
				}
			}
			return fmt.Errorf("no new pod among %d", len(pods.Items))
		})
		require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(found), found))
		return found
	}
	dead := pod("node-1")
	require.NoError(t, env.RunPod(t.Context(), dead, true))
	require.NoError(t, env.Client.Delete(t.Context(), dead, client.GracePeriodSeconds(1)))
	successor := pod("node-2")
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(dead), dead), "nothing removes it on a dead node")
	require.NoError(t, env.RunPod(t.Context(), successor, true))
	testenv.Eventually(t, 100*time.Second, func() error { return env.Gone(t.Context(), dead) })
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(successor), successor))
	require.Nil(t, successor.DeletionTimestamp)
}
