package ingress_test

import (
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metallbv1beta1 "go.universe.tf/metallb/api/v1beta1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// serving is a hosted cluster with a worker and MetalLB's kinds.
func serving(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t)
	for _, ns := range []string{"openshift-operators", "openshift-marketplace", "openshift-ingress"} {
		c.Must(t, testenv.NamespaceObject(ns))
	}
	c.Must(t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker-1"},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
	uncordon(t, c)
	c.Must(t, &operatorsv1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-marketplace", Name: "redhat-operators"},
		Spec:       operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeGrpc, Address: "catalog:50051"},
	})
	return c
}

// installed is one in which our Subscription has brought MetalLB's kinds.
func installed(t *testing.T) (*cluster, *v1alpha1.InfraClusterAttachment) {
	t.Helper()
	c, a := serving(t), attachment()
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForMetalLBCRDs)
	c.installMetalLB(t)
	return c, a
}

// case C50, hazards 124 and 130: MetalLB's webhook without an endpoint is waited
// for, tried every 5 to 15 seconds; its refusal is shown in its own words. Both
// are the API server's real answers.
func TestMetalLBsWebhook(t *testing.T) {
	c, a := installed(t)
	fail, none, url := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, "https://127.0.0.1:9/validate"
	pools := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"metallb.io"}, APIVersions: []string{"v1beta1"}, Resources: []string{"ipaddresspools"}},
	}}
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "metallb-webhook-configuration"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "ipaddresspoolvalidationwebhook.metallb.io", FailurePolicy: &fail, SideEffects: &none, Rules: pools,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url}, AdmissionReviewVersions: []string{"v1"},
		}},
	}
	c.Must(t, hook)
	// The API server learns of the webhook by a watch of its own.
	probe := &metallbv1beta1.IPAddressPool{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-operators", Name: "probe"}}
	probe.Spec.Addresses = []string{"198.51.100.1-198.51.100.2"}
	require.Eventually(t, func() bool {
		return apierrors.IsInternalError(c.Client.Create(t.Context(), probe.DeepCopy(), client.DryRunAll))
	}, time.Minute, 50*time.Millisecond)
	for range 3 {
		after := c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForMetalLBWebhook)
		require.GreaterOrEqual(t, after, 5*time.Second)
		require.LessOrEqual(t, after, 15*time.Second)
	}
	require.NoError(t, c.Client.Delete(t.Context(), hook))

	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "overlaps"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: pools[0]}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "CIDR 192.0.2.200/29 in pool a overlaps with b"}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "overlaps"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "overlaps", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	c.Must(t, policy, binding)
	require.Eventually(t, func() bool {
		err := c.Client.Create(t.Context(), probe.DeepCopy(), client.DryRunAll)
		return err != nil && !apierrors.IsInternalError(err)
	}, time.Minute, 50*time.Millisecond)
	c.ensure(t, a, "Degraded", v1alpha1.ReasonMetalLBInstallFailed)
	require.Contains(t, a.Status.AppsIngressStatus.Message, "CIDR 192.0.2.200/29 in pool a overlaps with b")

	require.NoError(t, c.Client.Delete(t.Context(), binding))
	require.Eventually(t, func() bool { return c.Client.Create(t.Context(), probe.DeepCopy(), client.DryRunAll) == nil }, time.Minute, 50*time.Millisecond)
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForExternalIP)
}

// case C49, hazard 120: the Job of ours that OLM gave up is taken away with its
// ConfigMap once OLM has had ten minutes; nobody else's is. Jobs and ConfigMaps
// have the shape that OLM v0.46 gives them.
func TestOLMsFailedJobIsTakenAway(t *testing.T) {
	c, a := serving(t), attachment()
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForMetalLBCRDs)
	s := &operatorsv1alpha1.Subscription{}
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Namespace: "openshift-operators", Name: "metallb-operator"}, s))
	s.Status.LastUpdated = metav1.Now()
	s.Status.Conditions = []operatorsv1alpha1.SubscriptionCondition{{
		Type: operatorsv1alpha1.SubscriptionBundleUnpackFailed, Status: corev1.ConditionTrue, Reason: "BundleUnpackFailed",
		Message: "Bundle unpacking failed - DeadlineExceeded: Job was active longer than specified deadline",
	}}
	require.NoError(t, c.Client.Status().Update(t.Context(), s))
	c.failedUnpack(t, "ours", "redhat-operators")
	c.failedUnpack(t, "theirs", "certified-operators")

	c.now = time.Now().Add(9 * time.Minute)
	c.ensure(t, a, "Degraded", v1alpha1.ReasonBundleUnpackFailed)
	require.Contains(t, a.Status.AppsIngressStatus.Message, "Job was active longer than specified deadline")
	require.ElementsMatch(t, []string{"ours", "theirs"}, c.names(t, &batchv1.JobList{}))
	c.now = time.Now().Add(11 * time.Minute)
	c.ensure(t, a, "Degraded", v1alpha1.ReasonBundleUnpackFailed)
	require.Equal(t, []string{"theirs"}, c.names(t, &batchv1.JobList{}))
	require.True(t, apierrors.IsNotFound(c.Client.Get(t.Context(), client.ObjectKey{Namespace: "openshift-marketplace", Name: "ours"}, &corev1.ConfigMap{})))
	subscriptions := &operatorsv1alpha1.SubscriptionList{}
	require.NoError(t, c.Client.List(t.Context(), subscriptions))
	require.Len(t, subscriptions.Items, 1, "no second Subscription")
}

// failedUnpack is what OLM leaves of a bundle that it could not unpack.
func (c *cluster) failedUnpack(t *testing.T, name, source string) {
	t.Helper()
	yes := true
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "openshift-marketplace", Name: name, Labels: map[string]string{"olm.managed": "true"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "operators.coreos.com/v1alpha1", Kind: "CatalogSource", Name: source, UID: "uid-of-the-source", Controller: &yes, BlockOwnerDeletion: &yes,
		}},
	}}
	c.Must(t, m)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Namespace, Name: name, Labels: map[string]string{"olm.managed": "true", "operatorframework.io/bundle-unpack-ref": name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: m.UID, Controller: &yes, BlockOwnerDeletion: &yes}},
		},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "extract", Image: "opm"}},
		}}},
	}
	require.NoError(t, c.Client.Create(t.Context(), job))
	now := metav1.Now()
	job.Status.StartTime = &now
	job.Status.Conditions = []batchv1.JobCondition{
		{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonDeadlineExceeded, LastTransitionTime: now},
		{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonDeadlineExceeded, LastTransitionTime: now},
	}
	require.NoError(t, c.Client.Status().Update(t.Context(), job))
}

// names of all objects of a list's kind.
func (c *cluster) names(t *testing.T, list client.ObjectList) []string {
	t.Helper()
	require.NoError(t, c.Client.List(t.Context(), list))
	var names []string
	require.NoError(t, meta.EachListItem(list, func(o runtime.Object) error {
		names = append(names, o.(client.Object).GetName())
		return nil
	}))
	return names
}

// behaviour G5: another pool, Service name or namespace replaces what was made,
// and disabling leaves nothing; foreign objects of the old names stay.
func TestAChangedDeclarationReplacesWhatWasMade(t *testing.T) {
	c, a := installed(t)
	c.Must(t, testenv.NamespaceObject("tenant-ingress"))
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForExternalIP)
	c.assign(t, "192.0.2.200")
	c.ensure(t, a, "Ready", v1alpha1.ReasonReconciliationSucceeded)
	foreign := &metallbv1beta1.L2Advertisement{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-operators", Name: "somebody-elses"}}
	c.Must(t, foreign)

	apps := &a.Spec.AppsIngress
	apps.MetalLB.AddressPoolName, apps.Service.Name, apps.Service.Namespace = "other-pool", "other", "tenant-ingress"
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForExternalIP)
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForExternalIP)
	require.Equal(t, []string{"other-pool"}, c.names(t, &metallbv1beta1.IPAddressPoolList{}))
	services := &corev1.ServiceList{}
	require.NoError(t, c.Client.List(t.Context(), services, client.MatchingLabels{"app.kubernetes.io/managed-by": "oooi"}))
	require.Len(t, services.Items, 1)
	require.Equal(t, client.ObjectKey{Namespace: "tenant-ingress", Name: "other"}, client.ObjectKeyFromObject(&services.Items[0]))
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign))

	require.NoError(t, c.step.Remove(t.Context(), a))
	require.Empty(t, c.names(t, &metallbv1beta1.IPAddressPoolList{}))
	require.NoError(t, c.Client.List(t.Context(), services, client.MatchingLabels{"app.kubernetes.io/managed-by": "oooi"}))
	require.Empty(t, services.Items)
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign))
}

// hazard 127: a speaker that may not run is named, with the counts of its
// DaemonSet, and the address stays.
func TestASpeakerThatDoesNotRunIsNamed(t *testing.T) {
	c, a := installed(t)
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForExternalIP)
	c.assign(t, "192.0.2.200")
	speaker := c.speakers(t, "openshift-operators", 0)
	c.ensure(t, a, "Degraded", v1alpha1.ReasonSpeakerNotRunning)
	require.Contains(t, a.Status.AppsIngressStatus.Message, "openshift-operators/speaker of the hosted cluster has 0 of 2 pods ready")
	require.Equal(t, v1alpha1.IPv4("192.0.2.200"), a.Status.AppsIngressStatus.ExternalIP)
	speaker.Status.NumberReady = 2
	require.NoError(t, c.Client.Status().Update(t.Context(), speaker))
	c.ensure(t, a, "Ready", v1alpha1.ReasonReconciliationSucceeded)
}

// case C49, hazards 121 to 123: what keeps OLM from going on is told in its own
// words, nothing is approved, and no second Subscription made. The states are
// those of a hosted cluster in which another Subscription made the plan manual,
// a version was left behind, the catalog source has gone.
func TestWhatKeepsOLMFromGoingOnIsTold(t *testing.T) {
	c, a := serving(t), attachment()
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForMetalLBCRDs)
	plan := &operatorsv1alpha1.InstallPlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-operators", Name: "install-x7k2d"},
		Spec: operatorsv1alpha1.InstallPlanSpec{
			Approval: operatorsv1alpha1.ApprovalManual, ClusterServiceVersionNames: []string{"metallb-operator.v4.21.0-202608010000", "foreign-operator.v1.4.2"},
		},
	}
	c.Must(t, plan)
	c.ensure(t, a, "Pending", v1alpha1.ReasonInstallPlanNeedsApproval)
	require.Contains(t, a.Status.AppsIngressStatus.Message, "foreign-operator.v1.4.2")
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(plan), plan))
	require.False(t, plan.Spec.Approved)
	require.NoError(t, c.Client.Delete(t.Context(), plan))

	for _, state := range []struct {
		kind            operatorsv1alpha1.SubscriptionConditionType
		message, reason string
	}{
		{
			operatorsv1alpha1.SubscriptionResolutionFailed,
			"constraints not satisfiable: @existing/openshift-operators//metallb-operator.v4.20.0 exists and is not referenced by a subscription",
			v1alpha1.ReasonResolutionFailed,
		},
		{
			operatorsv1alpha1.SubscriptionCatalogSourcesUnhealthy, "targeted catalogsource openshift-marketplace/redhat-operators missing",
			v1alpha1.ReasonCatalogSourceMissing,
		},
	} {
		s := &operatorsv1alpha1.Subscription{}
		require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Namespace: "openshift-operators", Name: "metallb-operator"}, s))
		s.Status.LastUpdated = metav1.Now()
		s.Status.Conditions = []operatorsv1alpha1.SubscriptionCondition{{Type: state.kind, Status: corev1.ConditionTrue, Message: state.message}}
		require.NoError(t, c.Client.Status().Update(t.Context(), s))
		c.ensure(t, a, "Degraded", state.reason)
		require.Equal(t, state.message, a.Status.AppsIngressStatus.Message)
	}
	subscriptions := &operatorsv1alpha1.SubscriptionList{}
	require.NoError(t, c.Client.List(t.Context(), subscriptions))
	require.Len(t, subscriptions.Items, 1)
}

// behaviour G2: what is wrong with the Service or its address is named, and
// hazard 119: an address outside the range is never published.
func TestWhatIsWrongWithTheServiceIsNamed(t *testing.T) {
	c, a := installed(t)
	require.NoError(t, c.Client.Delete(t.Context(), testenv.NamespaceObject("openshift-ingress")))
	c.ensure(t, a, "Degraded", v1alpha1.ReasonIngressServiceFailed)
	a.Spec.AppsIngress.Service.Namespace = "default"
	c.ensure(t, a, "Pending", v1alpha1.ReasonWaitingForExternalIP)
	s := &corev1.Service{}
	for _, state := range []struct {
		ip, reason string
		phase      v1alpha1.AppsPhase
		published  v1alpha1.IPv4
	}{
		{"192.0.2.201", v1alpha1.ReasonReconciliationSucceeded, "Ready", "192.0.2.201"},
		{"198.51.100.41", v1alpha1.ReasonExternalIPNotInPool, "Degraded", ""},
		{"2001:db8::1", v1alpha1.ReasonExternalIPDiscoveryFailed, "Degraded", ""},
	} {
		require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "oooi-ingress"}, s))
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: state.ip}}
		require.NoError(t, c.Client.Status().Update(t.Context(), s))
		c.ensure(t, a, state.phase, state.reason)
		require.Equal(t, state.published, a.Status.AppsIngressStatus.ExternalIP)
	}
}
