package app_test

import (
	"fmt"
	"testing"

	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// behaviour F0: an attachment in a tenant's namespace cannot take another's
// cluster, nor harm the attachment that has it.
func refusesForeignClusters(t *testing.T, third int) {
	w := build(t, third, "victim")
	ready(t, w)
	tenant := fmt.Sprintf("tenant%d", third)
	env.Must(t, testenv.NamespaceObject(tenant), testenv.NAD(tenant, "vlan"))
	t.Cleanup(func() { env.Sweep(t, tenant) })
	infra := testenv.Infra(tenant, "vlan", "vlan", third+100)
	thief := testenv.Attachment(tenant, "thief", "vlan")
	thief.Spec.HostedClusterRef = v1alpha1.HostedClusterRef{Name: "victim", Namespace: v1alpha1.NamespaceName(w.namespace)}
	thief.Spec.DNS.ClusterName = "victim"
	env.Must(t, infra, thief)
	refused := condition(t, thief, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHostedClusterRefNotPermitted)
	require.Contains(t, refused.Message, "hostedcluster.densityops.com/allowed-namespaces")
	require.Empty(t, thief.Finalizers, "nothing was written for it, so nothing needs to be undone")
	require.Empty(t, thief.Status.Observed, "nothing is told of what is not theirs")
	condition(t, w.attachments[0], v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	policy := get(t, controlPlanePolicy(w.clusters[0]))
	require.Len(t, policy.Spec.Ingress[0].From, 1, "the thief's proxy is not let in")

	// A cluster of its own that claims the victim's control plane.
	own := testenv.Hosted{Namespace: tenant, Name: "own"}
	env.Must(t, own.Objects()...)
	liar := testenv.Attachment(tenant, "own", "vlan")
	liar.Spec.ControlPlaneNamespace = v1alpha1.NamespaceName(w.clusters[0].ControlPlane())
	env.Must(t, liar)
	condition(t, liar, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonControlPlaneNamespaceMismatch)
	require.Len(t, get(t, policy).Spec.Ingress[0].From, 1)

	// The owner allows it, and takes it back.
	cluster := &hyperv1.HostedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "victim"}}
	merge(t, cluster, fmt.Sprintf(`{"metadata":{"annotations":{"hostedcluster.densityops.com/allowed-namespaces":"%s"}}}`, tenant))
	condition(t, thief, v1alpha1.ConditionAdmitted, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	merge(t, cluster, `{"metadata":{"annotations":{"hostedcluster.densityops.com/allowed-namespaces":null}}}`)
	condition(t, thief, v1alpha1.ConditionAdmitted, metav1.ConditionFalse, v1alpha1.ReasonHostedClusterRefNotPermitted)
	testenv.Eventually(t, patience, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		if n := len(policy.Spec.Ingress[0].From); n != 1 {
			return fmt.Errorf("the policy has %d peers", n)
		}
		return nil
	})
	condition(t, w.attachments[0], v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
}

// hazard 213: an object of our name that somebody else made is left alone.
func refusesTakenNames(t *testing.T, third int) {
	require.NoError(t, env.Install(t.Context(), testenv.All()...))
	ns := fmt.Sprintf("clusters%d", third)
	t.Cleanup(func() { env.Sweep(t, ns) })
	h := testenv.Hosted{Namespace: ns, Name: "taken"}
	env.Must(t, h.Objects()...)
	dns := &v1alpha1.DNSServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "vlan-dns"},
		Spec:       v1alpha1.DNSServerSpec{NetworkConfig: v1alpha1.DNSNetworkConfig{CIDR: "198.51.100.0/24", ServerIP: "198.51.100.3"}},
	}
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.ControlPlane(), Name: "allow-infrastructure"},
		Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "vlan-dhcp"}, Data: map[string]string{"theirs": "yes"}}
	env.Must(t, testenv.NAD(ns, "vlan"), dns, policy, config)
	infra, attachment := testenv.Infra(ns, "vlan", "vlan", third), testenv.Attachment(ns, "taken", "vlan")
	env.Must(t, testenv.Hosted{Namespace: ns, Name: "beside"}.Objects()...)
	beside := testenv.Attachment(ns, "beside", "vlan")
	env.Must(t, infra, attachment, beside)
	c := condition(t, infra, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	require.Contains(t, c.Message, "vlan-dns")
	condition(t, attachment, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	// behaviour H3: nor is one Ready that has all of its own: it is not served.
	for _, conditionType := range []string{v1alpha1.ConditionProgrammed, v1alpha1.ConditionReady} {
		c := condition(t, beside, conditionType, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
		require.Contains(t, c.Message, "vlan-dns")
	}
	dhcp := &v1alpha1.DHCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "vlan-dhcp"}}
	condition(t, dhcp, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	// behaviour H2: the Infra says which of its children it is, whose the object is,
	// and does not take another's DNSServer for its own.
	degraded := condition(t, infra, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonNameTaken)
	require.Contains(t, degraded.Message, fmt.Sprintf("dhcp: ConfigMap %s/vlan-dhcp exists and was not made by oooi for this object (it was written by ", ns))
	available := condition(t, infra, v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonDeploymentUnavailable)
	require.Contains(t, available.Message, "dns: not made yet")
	require.Equal(t, v1alpha1.IPv4("198.51.100.3"), get(t, dns).Spec.NetworkConfig.ServerIP)
	require.Nil(t, get(t, policy).Spec.Ingress)
	require.Equal(t, map[string]string{"theirs": "yes"}, get(t, config).Data)
	// The other components do not wait for it.
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "vlan-proxy"}, &v1alpha1.ProxyServer{}))

	// Once it is renamed or removed, nothing is wrong any more.
	require.NoError(t, env.Client.Delete(t.Context(), config))
	require.NoError(t, env.Client.Delete(t.Context(), dns))
	condition(t, infra, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	condition(t, infra, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
	condition(t, beside, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
}

// behaviour B8: a field of ours that is changed is put back, one that is not
// ours is kept.
func repairsDrift(t *testing.T, third int) {
	w := build(t, third, "drift")
	ready(t, w)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "vlan-dhcp"}}
	testenv.Eventually(t, patience, func() error { return env.Client.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment) })
	merge(t, deployment, `{"metadata":{"annotations":{"example.com/theirs":"kept"}},"spec":{"replicas":5,"strategy":{"type":"RollingUpdate"}}}`)
	testenv.Eventually(t, patience, func() error {
		d := get(t, deployment)
		if *d.Spec.Replicas != 1 || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
			return fmt.Errorf("replicas %d, strategy %s", *d.Spec.Replicas, d.Spec.Strategy.Type)
		}
		return nil
	})
	require.Equal(t, "kept", deployment.Annotations["example.com/theirs"])
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "vlan-dhcp"}}
	good := get(t, role).Rules
	merge(t, role, `{"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["*"]}]}`)
	testenv.Eventually(t, patience, func() error {
		if got := get(t, role).Rules; len(got) != len(good) {
			return fmt.Errorf("rules are %+v", got)
		}
		return nil
	})
	_, _, proxy := childrenOf(w)
	merge(t, proxy, `{"spec":{"backends":null}}`)
	backend(t, w, "the routes again", func(b []v1alpha1.ProxyBackend) bool { return len(b) > 0 })
}

// behaviour B12, hazards 210, 251: what the operator's own account may not do; it
// could not lead hosted clusters' traffic past the VLAN either.
func TestTheOperatorsAccountHasNoMoreRightsThanItNeeds(t *testing.T) {
	config, err := env.As(t.Context(), testenv.Namespace, testenv.ServiceAccount)
	require.NoError(t, err)
	c, err := client.New(config, client.Options{Scheme: env.Client.Scheme()})
	require.NoError(t, err)
	for _, a := range []authorizationv1.ResourceAttributes{
		{Verb: "list", Resource: "secrets"},
		{Verb: "watch", Resource: "secrets"},
		{Verb: "get", Resource: "secrets", Namespace: "kube-system", Name: "anything"},
		{Verb: "get", Resource: "secrets", Namespace: "default", Name: "other-kubeconfig"},
		{Verb: "create", Resource: "secrets", Namespace: "default"},
		{Verb: "create", Resource: "pods"},
		{Verb: "create", Resource: "pods", Subresource: "exec"},
		{Verb: "bind", Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "cluster-admin"},
		{Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
		{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
		{Verb: "impersonate", Resource: "users"},
		{Verb: "delete", Resource: "namespaces"},
		{Verb: "patch", Group: "hypershift.openshift.io", Resource: "hostedclusters"},
		{Verb: "delete", Group: "hostedcluster.densityops.com", Resource: "infras"},
		{Verb: "create", Group: "hostedcluster.densityops.com", Resource: "infraclusterattachments"},
		{Verb: "patch", Resource: "nodes"},
		{Verb: "create", Group: "k8s.cni.cncf.io", Resource: "network-attachment-definitions"},
		{Verb: "patch", Group: "k8s.cni.cncf.io", Resource: "network-attachment-definitions"},
		{Verb: "delete", Group: "k8s.cni.cncf.io", Resource: "network-attachment-definitions"},
		{Verb: "patch", Group: "kubevirt.io", Resource: "virtualmachines"},
		{Verb: "delete", Group: "kubevirt.io", Resource: "virtualmachineinstances"},
		{Verb: "patch", Group: "cluster.x-k8s.io", Resource: "machines"},
		{Verb: "patch", Group: "hypershift.openshift.io", Resource: "nodepools"},
		{Verb: "patch", Group: "hypershift.openshift.io", Resource: "hostedcontrolplanes"},
		{Verb: "patch", Resource: "pods"},
		{Verb: "bind", Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "admin"},
		{Verb: "bind", Group: "rbac.authorization.k8s.io", Resource: "roles", Namespace: "default"},
		{Verb: "use", Group: "security.openshift.io", Resource: "securitycontextconstraints", Name: "hostaccess"},
		{Verb: "create", Resource: "endpoints"},
		{Verb: "create", Group: "discovery.k8s.io", Resource: "endpointslices"},
		{Verb: "patch", Group: "discovery.k8s.io", Resource: "endpointslices"},
		{Verb: "*", Group: "*", Resource: "*"},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + testenv.Namespace + ":" + testenv.ServiceAccount,
			Groups: []string{"system:serviceaccounts", "system:authenticated"}, ResourceAttributes: &a,
		}}
		require.NoError(t, env.Client.Create(t.Context(), review))
		require.False(t, review.Status.Allowed, "the operator may %s %s/%s %s", a.Verb, a.Group, a.Resource, a.Name)
	}
	grab := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "grab"}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: testenv.Namespace, Name: testenv.ServiceAccount}},
	}
	require.True(t, apierrors.IsForbidden(c.Create(t.Context(), grab)), "it cannot make itself an administrator")
}
