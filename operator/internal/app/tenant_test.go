package app_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// tenantOf is the client of a namespace's administrator, who may write everything
// of oooi's there as well: what OLM's roles give.
func tenantOf(t *testing.T, namespace string) client.Client {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tenant"}}
	subject := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "tenant"}}
	env.Must(t, account,
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tenant-oooi"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"hostedcluster.densityops.com", "hypershift.openshift.io", "k8s.cni.cncf.io"}, Resources: []string{"*"}, Verbs: []string{"*"}},
			{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets", "services", "pods", "serviceaccounts"}, Verbs: []string{"*"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tenant-oooi"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "tenant-oooi"}, Subjects: subject})
	config, err := env.As(t.Context(), namespace, "tenant")
	require.NoError(t, err)
	c, err := client.New(config, client.Options{Scheme: env.Client.Scheme(), Mapper: env.Client.RESTMapper()})
	require.NoError(t, err)
	return c
}

// behaviours F0, B6, B11, B12: a namespace's administrator who forges a status, our
// labels, or a namespace that is called like another's control plane, opens and
// removes nothing of anybody else's.
func TestATenantWhoForges(t *testing.T) {
	w := build(t, 28, "omega")
	o := env.Operator(t, testenv.DefaultOptions())
	ready(t, w)
	settled(t, o)
	victim := w.clusters[0].ControlPlane()
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: victim, Name: "allow-infrastructure"}}
	before := get(t, policy).DeepCopy().Spec
	tenant := "evil28"
	env.Must(t, testenv.NamespaceObject(tenant), testenv.NAD(tenant, "vlan"))
	t.Cleanup(func() { env.Sweep(t, tenant) })
	c := tenantOf(t, tenant)

	t.Run("a status that names the victim's cluster as its own", func(t *testing.T) {
		infra := testenv.Infra(tenant, "vlan", "vlan", 128)
		require.NoError(t, c.Create(t.Context(), infra))
		thief := testenv.Attachment(tenant, "ghost", "vlan")
		thief.Spec.ControlPlaneNamespace = v1alpha1.NamespaceName(victim)
		require.NoError(t, c.Create(t.Context(), thief))
		condition(t, thief, v1alpha1.ConditionAdmitted, metav1.ConditionFalse, v1alpha1.ReasonHostedClusterNotFound)
		forged := get(t, w.attachments[0]).Status.Observed
		testenv.Eventually(t, patience, func() error {
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(thief), thief); err != nil {
				return err
			}
			thief.Status.Observed, thief.Status.ControlPlaneNamespace = forged, v1alpha1.NamespaceName(victim)
			return c.Status().Update(t.Context(), thief) // the operator may write at the same time
		})
		merge(t, thief, `{"metadata":{"annotations":{"example.com/poke":"1"}},"spec":{"dns":{"clusterName":"poke"}}}`)
		testenv.Eventually(t, patience, func() error {
			if uid := get(t, thief).Status.Observed.HostedClusterUID; uid != "" {
				return fmt.Errorf("the forged status stands: %s", uid)
			}
			return nil
		})
		require.Equal(t, before, get(t, policy).Spec, "its proxy is not let in")
	})
	t.Run("a cluster whose control plane would be called like the victim's", func(t *testing.T) {
		// "clusters28" and "omega" and "clusters28-omega" and "" cannot collide, but
		// namespaces with dashes can: a-b and c, a and b-c.
		hosted := testenv.Hosted{Namespace: tenant, Name: "omega"}.Cluster()
		require.NoError(t, c.Create(t.Context(), hosted))
		liar := testenv.Attachment(tenant, "omega", "vlan")
		liar.Spec.ControlPlaneNamespace = v1alpha1.NamespaceName(victim)
		require.NoError(t, c.Create(t.Context(), liar))
		condition(t, liar, v1alpha1.ConditionAdmitted, metav1.ConditionFalse, v1alpha1.ReasonControlPlaneNamespaceMismatch)
		require.Equal(t, before, get(t, policy).Spec)
		require.Error(t, c.Get(t.Context(), client.ObjectKey{Namespace: victim, Name: "service-network-admin-kubeconfig"}, &corev1.Secret{}))
	})
	t.Run("allowing itself by an annotation", func(t *testing.T) {
		cluster := &hyperv1.HostedCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "omega"}}
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{"hostedcluster.densityops.com/allowed-namespaces":%q}}}`, tenant))
		require.Error(t, c.Patch(t.Context(), cluster, patch), "the annotation is the cluster owner's")
	})
	t.Run("labels of the victim's objects on its own", func(t *testing.T) {
		config := get(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "vlan-dns"}})
		decoy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "decoy", Labels: config.Labels}}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "decoy", Labels: config.Labels}}
		require.NoError(t, c.Create(t.Context(), decoy))
		require.NoError(t, c.Create(t.Context(), secret))
		touch(t, w, 1)
		settled(t, o)
		require.Equal(t, config.UID, get(t, config).UID)
		get(t, decoy)
		get(t, secret)
	})
	condition(t, w.attachments[0], v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
}

// alsoOn attaches the first cluster of a world to a second Infra of its namespace.
func alsoOn(t *testing.T, w world, third int) *v1alpha1.InfraClusterAttachment {
	t.Helper()
	a := testenv.Attachment(w.namespace, "second", "second")
	a.Spec.HostedClusterRef.Name, a.Spec.DNS.ClusterName = w.attachments[0].Spec.HostedClusterRef.Name, w.attachments[0].Spec.DNS.ClusterName
	env.Must(t, testenv.NAD(w.namespace, "second"), testenv.Infra(w.namespace, "second", "second", third), a)
	return a
}

// letIn waits until the proxies of these Infras, and no others, may reach a control plane.
func letIn(t *testing.T, h testenv.Hosted, infras ...string) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		policy := controlPlanePolicy(h)
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		var found []string
		for _, rule := range policy.Spec.Ingress {
			for _, peer := range rule.From {
				found = append(found, peer.PodSelector.MatchLabels["hostedcluster.densityops.com/infra"])
			}
		}
		if !slices.Equal(found, infras) {
			return fmt.Errorf("the proxies of %v are let in, want %v", found, infras)
		}
		return nil
	})
}

// behaviours B6, B11: what goes while no operator runs is gone at once, or as soon
// as the operator is back, and a control plane whose attachment has gone is open to
// the one that came meanwhile.
func TestWhatWentWhileTheOperatorWasAwayIsTakenBack(t *testing.T) {
	gone, deleted := build(t, 29, "away"), build(t, 44, "infraless")
	first := env.Operator(t, testenv.DefaultOptions())
	ready(t, gone)
	ready(t, deleted)
	shared := build(t, 90, "shared")
	ready(t, shared)
	letIn(t, shared.clusters[0], "vlan")
	require.NoError(t, first.Stop())
	second := alsoOn(t, shared, 91)
	require.NoError(t, env.Client.Delete(t.Context(), shared.attachments[0]))
	testenv.Eventually(t, patience, func() error { return env.Gone(t.Context(), shared.attachments[0]) })
	require.NoError(t, env.Client.Delete(t.Context(), gone.attachments[0]))
	testenv.Eventually(t, patience, func() error { return env.Gone(t.Context(), gone.attachments[0]) })
	require.NoError(t, env.Client.Delete(t.Context(), deleted.infra))
	require.Error(t, env.Gone(t.Context(), deleted.infra), "the Infra waits for the operator")
	policies := []*networkingv1.NetworkPolicy{
		{ObjectMeta: metav1.ObjectMeta{Namespace: gone.clusters[0].ControlPlane(), Name: "allow-infrastructure"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: deleted.clusters[0].ControlPlane(), Name: "allow-infrastructure"}},
	}
	for _, p := range policies {
		get(t, p)
	}
	env.Operator(t, testenv.DefaultOptions())
	for _, p := range policies {
		testenv.Eventually(t, patience, func() error { return env.Gone(t.Context(), p) })
	}
	letIn(t, shared.clusters[0], "second")
	condition(t, second, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	testenv.Eventually(t, patience, func() error { return env.Gone(t.Context(), deleted.infra) })
	condition(t, deleted.attachments[0], v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInfraNotFound)
	testenv.Eventually(t, patience, func() error {
		var bindings rbacv1.RoleBindingList
		for _, p := range policies {
			if err := env.Client.List(t.Context(), &bindings, client.InNamespace(p.Namespace), client.MatchingLabels{"app.kubernetes.io/managed-by": "oooi-operator"}); err != nil {
				return err
			}
			if len(bindings.Items) > 0 {
				return fmt.Errorf("%d bindings are left in %s", len(bindings.Items), p.Namespace)
			}
		}
		return nil
	})
}

// behaviour H4, hazard 206: a status is written once where the Infra's word comes soon, and all
// the same where it does not.
func TestAStatusIsWrittenOnce(t *testing.T) {
	w := build(t, 45, "once", "twice", "thrice")
	o := env.Operator(t, testenv.DefaultOptions())
	ready(t, w)
	settled(t, o)
	o.Writes.Taken()
	h := testenv.Hosted{Namespace: w.namespace, Name: "late", Workers: []string{"192.0.45.150"}}
	env.Must(t, h.Objects()...)
	late := testenv.Attachment(w.namespace, "late", "vlan")
	env.Must(t, late)
	condition(t, late, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded)
	writes := o.Writes.Taken()
	own := 0
	for _, write := range writes {
		if write == "PATCH /apis/hostedcluster.densityops.com/v1alpha1/namespaces/"+w.namespace+"/infraclusterattachments/late/status" {
			own++
		}
	}
	require.Equal(t, 2, own, "its own status and the Infra's word, each once: %v", writes)

	lonely := testenv.Attachment(w.namespace, "lonely", "nowhere")
	env.Must(t, lonely)
	started := time.Now()
	condition(t, lonely, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHostedClusterNotFound)
	require.Less(t, time.Since(started), 5*time.Second)
}
