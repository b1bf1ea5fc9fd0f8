package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// TestScenarios runs side by side under one operator; each has a world of its own.
func TestScenarios(t *testing.T) {
	require.NoError(t, env.Install(t.Context(), testenv.All()...))
	env.Operator(t, testenv.DefaultOptions())
	for _, s := range []struct {
		name string
		run  func(*testing.T, int)
	}{
		{"a hanging pod is removed once its successor is ready", removesHangingPods}, // waits for a minute
		{"a control plane that is re-created is followed", followsServices},
		{"a worker's address that flickers is held", holdsFlickeringAddresses},
		{"a lease counts before the Machine has an address", countsLeases},
		{"two attachments claim one domain", excludesDuplicates},
		{"with KeepOldest the one in force stays", keepsOldest},
		{"the external Service leads to its own listener", externalService},
		{"internalProxyService is followed and its last good value kept", internalProxyService},
		{"a disabled component is kept, or deleted on request", retainsDisabled},
		{"the policy and the label are repaired", repairsPolicy},
		{"who may attach what", refusesForeignClusters},
		{"what is not ours is not touched", refusesTakenNames},
		{"what others change of ours is put back, and theirs is kept", repairsDrift},
		{"every field has one writer", fieldsHaveOneWriter},
		{"a HostedCluster that does not point at us is named", namesMismatches},
		{"a child alone works without an Infra", childAlone},
		{"an attachment without an Infra says so", attachmentAlone},
		{"an attachment that moves leaves the old control plane closed", leavesTheOldControlPlane},
		{"a Machine without a VM selects nothing", forgetsMachinesWithoutAVM},
		{"who may no longer attach loses everything", withdrawsWhatIsNoLongerAllowed},
		{"a status says of which generation it is", statusesAreOfTheirGeneration},
		{"a network that cannot be attached is named", namesWhatKeepsASandboxFromStarting},
		{"leases that come one by one are gathered", gathersLeases},
		{"a link of another MTU than its network's is named", namesAnotherMTU},
		{"apps ingress says what it waits for", appsAreHonest},
	} {
		third := 50
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.run(t, third+int(thirdOctet.Add(1)))
		})
	}
}

func get[T client.Object](t *testing.T, o T) T {
	t.Helper()
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	return o
}

// merge patches an object as an administrator.
func merge(t *testing.T, o client.Object, patch string) {
	t.Helper()
	require.NoError(t, env.Client.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// ready waits until every attachment of a world is Ready.
func ready(t *testing.T, w world) {
	t.Helper()
	for _, a := range w.attachments {
		condition(t, a, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	}
}

// backend waits until the proxy has, or has not, a backend that matches.
func backend(t *testing.T, w world, what string, matches func([]v1alpha1.ProxyBackend) bool) *v1alpha1.ProxyServer {
	t.Helper()
	_, _, proxy := childrenOf(w)
	testenv.Eventually(t, patience, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(proxy), proxy); err != nil {
			return err
		}
		if !matches(proxy.Spec.Backends) {
			return fmt.Errorf("%s: %+v", what, proxy.Spec.Backends)
		}
		return nil
	})
	return proxy
}

func leadsTo(name string, ip v1alpha1.ListedIPv4) func([]v1alpha1.ProxyBackend) bool {
	return func(list []v1alpha1.ProxyBackend) bool {
		for _, b := range list {
			if b.Name == name {
				return len(b.Endpoints) == 1 && b.Endpoints[0].IP == ip
			}
		}
		return false
	}
}

func hasSource(address string) func([]v1alpha1.ProxyBackend) bool {
	return func(list []v1alpha1.ProxyBackend) bool {
		for _, b := range list {
			if slices.Contains(b.SourcePrefixRanges, address+"/32") {
				return true
			}
		}
		return false
	}
}

// hazards 27, 257: ports come from live Services, re-created ones are followed.
func followsServices(t *testing.T, third int) {
	w := build(t, third, "follow")
	ready(t, w)
	h := w.clusters[0]
	old := get(t, h.Service("kube-apiserver", 6443))
	backend(t, w, "the API's backend", leadsTo("follow/api", v1alpha1.ListedIPv4(old.Spec.ClusterIP)))
	require.NoError(t, env.Client.Delete(t.Context(), old))
	again := h.Service("kube-apiserver", 7443)
	require.NoError(t, env.Client.Create(t.Context(), again))
	made := time.Now()
	require.NotEqual(t, old.Spec.ClusterIP, again.Spec.ClusterIP)
	proxy := backend(t, w, "the API's backend after the Service was made anew", leadsTo("follow/api", v1alpha1.ListedIPv4(again.Spec.ClusterIP)))
	require.Less(t, time.Since(made), 30*time.Second)
	for _, b := range proxy.Spec.Backends {
		if b.Name == "follow/api" {
			require.Equal(t, v1alpha1.Port(7443), b.Endpoints[0].Port)
			require.Equal(t, v1alpha1.Port(6443), b.Port, "clients connect as before: no listener changes")
		}
	}
	policy := controlPlanePolicy(h)
	testenv.Eventually(t, patience, func() error {
		for _, p := range get(t, policy).Spec.Ingress[0].Ports {
			if p.Port.IntValue() == 7443 {
				return nil
			}
		}
		return fmt.Errorf("the policy's ports are %+v", policy.Spec.Ingress[0].Ports)
	})
}

// setAddresses writes a Machine's status, as CAPK does.
func setAddresses(t *testing.T, h testenv.Hosted, i int, addresses ...string) {
	t.Helper()
	m := &unstructured.Unstructured{}
	m.SetGroupVersionKind(testenv.MachineKind)
	key := client.ObjectKeyFromObject(h.Machine(i, ""))
	require.NoError(t, env.Client.Get(t.Context(), key, m))
	var list []any
	for _, a := range addresses {
		list = append(list, map[string]any{"type": "InternalIP", "address": a})
	}
	require.NoError(t, unstructured.SetNestedSlice(m.Object, list, "status", "addresses"))
	require.NoError(t, env.Client.Update(t.Context(), m))
}

// behaviour F1, case C42, hazard 6: an address that vanishes is held while its
// Machine exists.
func holdsFlickeringAddresses(t *testing.T, third int) {
	w := build(t, third, "flicker")
	ready(t, w)
	address := fmt.Sprintf("192.0.%d.100", third)
	a, proxy := w.attachments[0], backend(t, w, "the worker's source", hasSource(address))
	published, accessLog := proxy.DeepCopy().Spec.Backends, true
	// Seen, as held or not, it has changed nothing: what is published next differs in
	// what somebody changes of the Infra alone.
	pushesNothing := func(held bool) {
		t.Helper()
		testenv.Eventually(t, patience, func() error {
			if workers := get(t, a).Status.Observed.Workers; len(workers) != 1 || (workers[0].LastSeen != nil) != held {
				return fmt.Errorf("workers are %+v", workers)
			}
			return nil
		})
		before := get(t, proxy).Generation
		accessLog = !accessLog
		merge(t, w.infra, fmt.Sprintf(`{"spec":{"infraComponents":{"proxy":{"accessLog":%t}}}}`, accessLog))
		testenv.Eventually(t, patience, func() error {
			if get(t, proxy).Generation == before {
				return fmt.Errorf("the ProxyServer is not changed yet")
			}
			return nil
		})
		require.Equal(t, published, proxy.Spec.Backends)
		require.Equal(t, before+1, proxy.Generation)
	}
	setAddresses(t, w.clusters[0], 0)
	pushesNothing(true)
	setAddresses(t, w.clusters[0], 0, address)
	pushesNothing(false)

	// hazard 250: an address of another network is told apart from none.
	setAddresses(t, w.clusters[0], 0, "10.132.0.2")
	pushesNothing(true)
	condition(t, a, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
	stray := w.clusters[0].Machine(1, "10.132.0.3")
	env.Must(t, stray)
	c := condition(t, a, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonWorkersOffVLAN)
	require.True(t, strings.HasSuffix(c.Message, ": flicker-worker-1"), c.Message)
	require.NoError(t, env.Client.Delete(t.Context(), stray))
	condition(t, a, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)

	// The Machine is gone: so is its address.
	require.NoError(t, env.Client.Delete(t.Context(), w.clusters[0].Machine(0, "")))
	backend(t, w, "no source", func(b []v1alpha1.ProxyBackend) bool { return !hasSource(address)(b) })
}

// behaviour F1, hazard 239: what dhcpd has leased to a VM of the cluster counts at once.
func countsLeases(t *testing.T, third int) {
	w := build(t, third, "lease")
	ready(t, w)
	setAddresses(t, w.clusters[0], 0)
	stanza := testenv.Stanza("sha256:none")
	leased := fmt.Sprintf("192.0.%d.150", third)
	stanza["bindings"] = []any{
		map[string]any{"macAddress": "02:00:5e:10:00:0a", "ip": leased, "vmNamespace": w.clusters[0].ControlPlane(), "vmName": "lease-worker-0"},
		map[string]any{"macAddress": "02:00:5e:10:00:0b", "ip": fmt.Sprintf("192.0.%d.151", third), "vmNamespace": "elsewhere", "vmName": "lease-worker-0"},
	}
	testenv.Eventually(t, patience, func() error {
		return env.Report(t.Context(), v1alpha1.KindDHCPServer, w.namespace, "vlan-dhcp", stanza)
	})
	proxy := backend(t, w, "the leased source", hasSource(leased))
	require.False(t, hasSource(fmt.Sprintf("192.0.%d.151", third))(proxy.Spec.Backends), "a VM elsewhere is none of the cluster's")
}

// behaviour F4: both are excluded, say why, and DNS and DHCP go on.
func excludesDuplicates(t *testing.T, third int) {
	w := build(t, third, "dup-a", "dup-b")
	ready(t, w)
	merge(t, w.attachments[1], `{"spec":{"dns":{"clusterName":"dup-a"}}}`)
	for _, a := range w.attachments {
		condition(t, a, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDuplicateHostname)
	}
	c := condition(t, w.infra, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDuplicateHostname)
	require.Contains(t, c.Message, "dup-a")
	require.Contains(t, c.Message, "dup-b")
	told(t, w.infra, v1alpha1.KindInfra, corev1.EventTypeWarning, v1alpha1.ReasonDuplicateHostname, "domain dup-a.clusters.example.com: dup-a, dup-b")
	told(t, w.attachments[0], v1alpha1.KindInfraClusterAttachment, corev1.EventTypeWarning, v1alpha1.ReasonDuplicateHostname, "")
	backend(t, w, "no routes", func(b []v1alpha1.ProxyBackend) bool { return len(b) == 0 })
	for _, h := range w.clusters {
		closed(t, h)
	}
	testenv.Eventually(t, patience, func() error {
		if s := get(t, w.infra).Status.ComponentStatus; s.ProxyReady || !s.DNSReady || !s.DHCPReady {
			return fmt.Errorf("componentStatus is %+v", s)
		}
		return nil
	})
	dhcp, dns, _ := childrenOf(w)
	require.NotEmpty(t, get(t, dns).Spec.UpstreamServers)
	require.NotEmpty(t, get(t, dhcp).Spec.LeaseConfig.RangeStart)
	merge(t, w.attachments[1], `{"spec":{"dns":{"clusterName":"dup-b"}}}`)
	ready(t, w)
	for _, h := range w.clusters {
		get(t, controlPlanePolicy(h)) // it is there before the attachment is Ready
	}
}

func controlPlanePolicy(h testenv.Hosted) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: h.ControlPlane(), Name: "allow-infrastructure"}}
}

// closed waits until no proxy is let into a control plane.
func closed(t *testing.T, h testenv.Hosted) {
	t.Helper()
	testenv.Eventually(t, patience, func() error { return env.Gone(t.Context(), controlPlanePolicy(h)) })
}

// behaviours F4, B11: KeepOldest keeps the one that is in force.
func keepsOldest(t *testing.T, third int) {
	w := build(t, third, "old-a", "old-b")
	merge(t, w.infra, `{"spec":{"conflictPolicy":"KeepOldest"}}`)
	ready(t, w)
	merge(t, w.attachments[1], `{"spec":{"dns":{"clusterName":"old-a"}}}`)
	condition(t, w.attachments[1], v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDuplicateHostname)
	condition(t, w.attachments[0], v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	backend(t, w, "the oldest one's routes alone", func(list []v1alpha1.ProxyBackend) bool {
		for _, b := range list {
			if strings.HasPrefix(b.Name, "old-b/") {
				return false
			}
		}
		return len(list) > 0
	})
	closed(t, w.clusters[1])
	get(t, controlPlanePolicy(w.clusters[0]))
}

// behaviour F3: only this attachment's names, node ports and foreign metadata kept.
func externalService(t *testing.T, third int) {
	w := build(t, third, "ext-a", "ext-b")
	for _, a := range w.attachments {
		merge(t, a, `{"spec":{"externalService":{"enabled":true,"addressPoolName":"public","labels":{"team":"blue"}}}}`)
	}
	ready(t, w)
	ports := map[int]bool{}
	for _, a := range w.attachments {
		service := get(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: a.Name + "-proxy-external"}})
		require.Len(t, service.Spec.Ports, 1)
		require.Equal(t, int32(443), service.Spec.Ports[0].Port)
		require.Equal(t, "public", service.Annotations["metallb.universe.tf/address-pool"])
		require.Equal(t, "blue", service.Labels["team"])
		require.True(t, metav1.IsControlledBy(service, a))
		ports[service.Spec.Ports[0].TargetPort.IntValue()] = true
	}
	require.Len(t, ports, 2, "each attachment has a listener of its own")

	service := get(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "ext-a-proxy-external"}})
	node := service.Spec.Ports[0].NodePort
	merge(t, service, `{"metadata":{"annotations":{"example.com/theirs":"kept"}}}`)
	merge(t, w.attachments[0], `{"spec":{"externalService":{"labels":{"team":"red"}}}}`)
	testenv.Eventually(t, patience, func() error {
		s := get(t, service)
		if s.Labels["team"] != "red" || s.Annotations["example.com/theirs"] != "kept" || s.Spec.Ports[0].NodePort != node {
			return fmt.Errorf("the Service is %+v %+v", s.ObjectMeta, s.Spec.Ports)
		}
		return nil
	})
	merge(t, w.attachments[0], `{"spec":{"externalService":{"enabled":false}}}`)
	testenv.Eventually(t, patience, func() error { return env.Gone(t.Context(), service) })
}

// behaviour D9: by name, re-created, and gone.
func internalProxyService(t *testing.T, third int) {
	w := build(t, third, "inner")
	ready(t, w)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "vlan-proxy"}}
	ip := func() v1alpha1.IPv4 { return get(t, w.infra).Status.InternalProxyIP }
	testenv.Eventually(t, patience, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(service), service); err != nil {
			return err
		}
		if string(ip()) != service.Spec.ClusterIP {
			return fmt.Errorf("internalProxyIP is %q, the Service's %s", ip(), service.Spec.ClusterIP)
		}
		return nil
	})
	// Another name, that does not exist: the last good value is kept, and said.
	last := ip()
	merge(t, w.infra, fmt.Sprintf(`{"spec":{"infraComponents":{"proxy":{"internalProxyService":"other.%s.svc.cluster.local"}}}}`, w.namespace))
	condition(t, w.infra, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonInternalProxyServiceUnresolved)
	require.Equal(t, last, ip())
	other := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "other"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(443)}}},
	}
	again, holder := other.DeepCopy(), other.DeepCopy()
	follows := func(s *corev1.Service) {
		t.Helper()
		require.NoError(t, env.Client.Create(t.Context(), s))
		testenv.Eventually(t, patience, func() error {
			if got := ip(); string(got) != s.Spec.ClusterIP {
				return fmt.Errorf("internalProxyIP is %q, want %s", got, s.Spec.ClusterIP)
			}
			return nil
		})
		condition(t, w.infra, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
	}
	follows(other)
	// It goes, and comes back with another address: the old one is somebody else's by then.
	require.NoError(t, env.Client.Delete(t.Context(), other))
	condition(t, w.infra, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonInternalProxyServiceUnresolved)
	require.Equal(t, other.Spec.ClusterIP, string(ip()))
	holder.Name, holder.Spec.ClusterIP = "holder", other.Spec.ClusterIP
	if err := env.Client.Create(t.Context(), holder); err != nil {
		require.ErrorContains(t, err, "already allocated")
	}
	follows(again)
	require.NotEqual(t, other.Spec.ClusterIP, again.Spec.ClusterIP)
}

// behaviour B7, hazard 212.
func retainsDisabled(t *testing.T, third int) {
	w := build(t, third, "kept")
	ready(t, w)
	_, dns, _ := childrenOf(w)
	version := get(t, dns).UID
	merge(t, w.infra, `{"spec":{"infraComponents":{"dns":{"enabled":false}}}}`)
	condition(t, w.infra, v1alpha1.ConditionRetained, metav1.ConditionTrue, v1alpha1.ReasonRetained)
	require.Equal(t, version, get(t, dns).UID)

	// It is not reconciled any more: neither a change of the Infra's nor its own is.
	dhcp, _, _ := childrenOf(w)
	merge(t, dns, `{"spec":{"ttlSeconds":7}}`)
	generation := get(t, dns).Generation
	merge(t, w.infra, `{"spec":{"networkConfig":{"dnsServers":["198.51.100.54"]}}}`)
	testenv.Eventually(t, patience, func() error {
		if got := get(t, dhcp).Spec.NetworkConfig.DNSServers; len(got) != 1 || got[0] != "198.51.100.54" {
			return fmt.Errorf("resolvers are %v", got)
		}
		return nil
	})
	require.Equal(t, int32(7), get(t, dns).Spec.TTLSeconds)
	require.Equal(t, generation, dns.Generation)
	merge(t, w.infra, `{"spec":{"retainDisabled":false}}`)
	testenv.Eventually(t, patience, func() error { return env.Gone(t.Context(), dns) })
	condition(t, w.infra, v1alpha1.ConditionRetained, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
}

// behaviour B11, hazards 28, 29.
func repairsPolicy(t *testing.T, third int) {
	w := build(t, third, "policy")
	ready(t, w)
	policy := controlPlanePolicy(w.clusters[0])
	good := get(t, policy).DeepCopy().Spec
	peer := good.Ingress[0].From[0]
	require.Equal(t, w.namespace, peer.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"])
	require.Equal(t, "infrastructure", peer.NamespaceSelector.MatchLabels["hostedcluster.densityops.com/network-policy-group"])
	require.NotEmpty(t, peer.PodSelector.MatchLabels)
	merge(t, policy, `{"spec":{"ingress":[{}]}}`)
	testenv.Eventually(t, patience, func() error {
		if got := get(t, policy).Spec; len(got.Ingress) != 1 || len(got.Ingress[0].From) != 1 {
			return fmt.Errorf("the policy is still open: %+v", got.Ingress)
		}
		return nil
	})
	require.NoError(t, env.Client.Delete(t.Context(), policy))
	testenv.Eventually(t, patience, func() error { return env.Client.Get(t.Context(), client.ObjectKeyFromObject(policy), policy) })
	require.Equal(t, good, policy.Spec)

	ns := testenv.NamespaceObject(w.namespace)
	merge(t, ns, `{"metadata":{"labels":{"hostedcluster.densityops.com/network-policy-group":null}}}`)
	testenv.Eventually(t, patience, func() error {
		if get(t, ns).Labels["hostedcluster.densityops.com/network-policy-group"] != "infrastructure" {
			return fmt.Errorf("labels are %v", ns.Labels)
		}
		return nil
	})
}
