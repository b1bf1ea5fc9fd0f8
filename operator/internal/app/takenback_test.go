package app_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// behaviour B11: the policy goes with the last attachment that needs it: one that was
// never admitted needs none, and one that could not be removed at first is removed later.
func TestAPolicyThatNobodyNeedsIsTakenBack(t *testing.T) {
	deleted, moved := build(t, 93, "deleted"), build(t, 94, "moved")
	o := env.Operator(t, testenv.DefaultOptions())
	ready(t, deleted)
	ready(t, moved)

	tenant := "tenant93"
	env.Must(t, testenv.NamespaceObject(tenant), testenv.NAD(tenant, "vlan"), testenv.Infra(tenant, "vlan", "vlan", 193))
	t.Cleanup(func() { env.Sweep(t, tenant) })
	env.Must(t, testenv.Hosted{Namespace: tenant, Name: "own"}.Objects()...)
	other := testenv.Attachment(tenant, "own", "vlan")
	other.Spec.ControlPlaneNamespace = v1alpha1.NamespaceName(deleted.clusters[0].ControlPlane())
	env.Must(t, other)
	condition(t, other, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonControlPlaneNamespaceMismatch)
	settled(t, o)
	left := get(t, controlPlanePolicy(deleted.clusters[0]))
	require.NoError(t, env.Client.Delete(t.Context(), deleted.attachments[0]))
	testenv.Eventually(t, patience, func() error { return env.Gone(t.Context(), left) })

	kept := get(t, controlPlanePolicy(moved.clusters[0]))
	hook := undeletable(t, kept)
	merge(t, moved.attachments[0], `{"spec":{"controlPlaneNamespace":"nowhere93"}}`)
	condition(t, moved.attachments[0], v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonControlPlaneNamespaceNotFound)
	settled(t, o)
	require.Equal(t, v1alpha1.NamespaceName("nowhere93"), get(t, moved.attachments[0]).Status.ControlPlaneNamespace)
	require.Equal(t, kept.UID, get(t, kept).UID)
	require.NoError(t, env.Client.Delete(t.Context(), hook))
	testenv.Eventually(t, patience, func() error { return env.Gone(t.Context(), kept) })
}

// undeletable makes the API server ask a webhook that nobody serves before it deletes a
// policy of the namespace.
func undeletable(t *testing.T, policy client.Object) *admissionregistrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	fail, none, url := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, "https://127.0.0.1:9/validate"
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "undeletable-policies"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "policies.example.com", FailurePolicy: &fail, SideEffects: &none,
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": policy.GetNamespace()}},
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url},
			AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"networking.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"networkpolicies"}},
			}},
		}},
	}
	env.Must(t, hook)
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(env.Client.Delete(context.WithoutCancel(t.Context()), hook)))
	})
	testenv.Eventually(t, patience, func() error {
		err := env.Client.Delete(t.Context(), policy.DeepCopyObject().(client.Object), client.DryRunAll)
		if apierrors.IsInternalError(err) {
			return nil
		}
		return fmt.Errorf("the webhook is not asked yet: %w", err)
	})
	return hook
}
