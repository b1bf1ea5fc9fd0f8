package attachment_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/apply"
	"github.com/densityops/oooi/operator/internal/controller/attachment"
	"github.com/densityops/oooi/operator/internal/controller/coalesce"
	"github.com/densityops/oooi/operator/internal/controller/kinds"
	"github.com/densityops/oooi/operator/internal/controller/policy"
	"github.com/densityops/oooi/operator/internal/controller/world"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/hosted"
	"github.com/densityops/oooi/operator/internal/outcome"
)

// slowCluster is a hosted cluster that let us wait, with an attachment whose *.apps
// were brought to it.
type slowCluster struct {
	client.Client
	turns      *attachment.Turns
	controller *attachment.Controller
	err        error
	// seen is the attachment as it is written while the cluster is asked.
	seen *v1alpha1.InfraClusterAttachment
}

var slowKey = client.ObjectKey{Namespace: "clusters", Name: "a"}

// Ensure implements attachment.Apps.
func (s *slowCluster) Ensure(ctx context.Context, _ *v1alpha1.InfraClusterAttachment, _ facts.Attachment, _ []v1alpha1.Infra) (time.Duration, error) {
	s.seen = &v1alpha1.InfraClusterAttachment{}
	if err := s.Get(ctx, slowKey, s.seen); err != nil {
		return 0, err
	}
	return 0, s.err
}

// Remove implements attachment.Apps.
func (s *slowCluster) Remove(context.Context, *v1alpha1.InfraClusterAttachment) error { return s.err }

// Drop implements attachment.Apps.
func (s *slowCluster) Drop(*v1alpha1.InfraClusterAttachment) {}

// away is HyperShift for now: who was admitted stays so.
type away struct{ everything }

func (away) Served(kinds.Kind) (schema.GroupVersionKind, bool) {
	return schema.GroupVersionKind{}, false
}

// newSlow makes one. It is admitted, unless it is gone.
func newSlow(t *testing.T, gone bool, change func(*v1alpha1.InfraClusterAttachment)) *slowCluster {
	t.Helper()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	a := &v1alpha1.InfraClusterAttachment{ObjectMeta: metav1.ObjectMeta{
		Namespace: slowKey.Namespace, Name: slowKey.Name, UID: "u", Generation: 2, Finalizers: []string{attachment.Finalizer},
	}}
	a.Spec.HostedClusterRef = v1alpha1.HostedClusterRef{Namespace: "clusters", Name: "a"}
	a.Spec.AppsIngress.Enabled = true
	a.Status.ObservedGeneration, a.Status.ControlPlaneNamespace, a.Status.Observed.HostedClusterUID = 2, "clusters-a", "hc"
	a.Status.AppsIngressStatus = &v1alpha1.AppsIngressStatus{
		Phase: v1alpha1.AppsPhaseReady, Reason: v1alpha1.ReasonReconciliationSucceeded, ExternalIP: "192.0.2.200",
		Applied: []v1alpha1.AppliedObject{{APIVersion: "v1", Kind: "Service", Name: "oooi-ingress"}},
	}
	change(a)
	s := &slowCluster{turns: attachment.NewTurns(), err: outcome.Waiting{Reason: v1alpha1.ReasonHostedClusterAccessFailed, Message: "no answer"}}
	s.Client = fake.NewClientBuilder().WithScheme(newDeletion(t, false, 0).Scheme()).WithObjects(a).WithStatusSubresource(a).
		WithIndex(a, world.IndexControlPlane, func(o client.Object) []string {
			return []string{facts.ControlPlaneOf(o.(*v1alpha1.InfraClusterAttachment))}
		}).Build()
	clock := func() time.Time { return now }
	var served world.Served = away{}
	if gone {
		served = everything{}
	}
	applier, reader := apply.New(s, s), world.New(s, served, world.NewHubNetworks(s, clock), world.NewBoard(clock))
	s.controller = &attachment.Controller{
		Client: s, Applier: applier, World: reader, Policies: &policy.Policies{Applier: applier, World: reader}, Apps: s,
		Gatherer: coalesce.New(clock), Clock: clock, Turns: s.turns,
	}
	s.turns.WasSlow(slowKey)
	return s
}

// pass reconciles once, and gives what is written then and how many writes it took.
func (s *slowCluster) pass(t *testing.T) (a *v1alpha1.InfraClusterAttachment, writes int) {
	t.Helper()
	a = &v1alpha1.InfraClusterAttachment{}
	require.NoError(t, s.Get(t.Context(), slowKey, a))
	s.controller.Events = func(before, after *v1alpha1.InfraClusterAttachment) {
		for _, c := range after.Status.Conditions {
			if was := meta.FindStatusCondition(before.Status.Conditions, c.Type); was == nil || *was != c {
				writes++
				return
			}
		}
	}
	_, err := s.controller.Reconcile(t.Context(), a)
	require.NoError(t, err)
	require.NoError(t, s.Get(t.Context(), slowKey, a))
	return a, writes
}

// behaviour B8: the status of an attachment whose hosted cluster was slow is not
// written back and forth, whether that was asked or not.
func TestTheStatusOfASlowClusterIsNotWrittenBackAndForth(t *testing.T) {
	for _, tt := range []struct {
		name     string
		gone     bool
		change   func(*v1alpha1.InfraClusterAttachment)
		degraded string
		slow     bool
	}{
		{
			"it is switched off, with something applied", false, func(a *v1alpha1.InfraClusterAttachment) { a.Spec.AppsIngress.Enabled = false },
			v1alpha1.ReasonHostedClusterAccessFailed, true,
		},
		{"it is not admitted any more", true, func(*v1alpha1.InfraClusterAttachment) {}, v1alpha1.ReasonWaitingForInfra, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSlow(t, tt.gone, tt.change)
			first, writes := s.pass(t)
			require.Equal(t, 1, writes)
			require.Equal(t, tt.degraded, meta.FindStatusCondition(first.Status.Conditions, v1alpha1.ConditionDegraded).Reason)
			require.Equal(t, tt.slow, s.turns.Slow(slowKey), "it is still asked")
			said := s.err
			for _, err := range []error{said, hosted.ErrNotAsked, said} {
				s.err = err
				again, writes := s.pass(t)
				require.Zero(t, writes, "%v", err)
				require.Equal(t, first.Status, again.Status)
			}
			s.err = nil
			s.pass(t)
			require.False(t, s.turns.Slow(slowKey), "nothing is asked any more")
		})
	}
}

// behaviour G5: who declares another hosted cluster leaves the first one before anything
// is brought to the other.
func TestWhoDeclaresAnotherHostedClusterLeavesTheFirstOne(t *testing.T) {
	first := v1alpha1.AppliedIn{Namespace: "clusters", Name: "b", UID: "hc-b", ControlPlaneNamespace: "clusters-b", Service: "kube-apiserver", Port: 6443}
	s := newSlow(t, false, func(a *v1alpha1.InfraClusterAttachment) { a.Status.AppsIngressStatus.AppliedIn = first })
	a, _ := s.pass(t)
	require.Nil(t, s.seen, "the other one is not asked yet")
	require.Equal(t, first, a.Status.AppsIngressStatus.AppliedIn)
	require.Equal(t, v1alpha1.ReasonHostedClusterAccessFailed, meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionAppsIngressReady).Reason)
	s.err = nil
	a, _ = s.pass(t)
	require.NotNil(t, s.seen)
	require.Nil(t, a.Status.AppsIngressStatus, "nothing is known of the other one yet")
}

// behaviour H1: before a hosted cluster that was slow is asked, nothing is said of a new
// generation; of the one that is written all that is known.
func TestNothingIsSaidOfANewGenerationBeforeItIsAskedFor(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stored int64
		phase  v1alpha1.AppsPhase
		reason string
		ready  metav1.ConditionStatus
	}{
		{"the same generation", 2, v1alpha1.AppsPhaseReady, v1alpha1.ReasonReconciliationSucceeded, metav1.ConditionTrue},
		{"a new one", 1, v1alpha1.AppsPhasePending, v1alpha1.ReasonWaitingForHostedClusterNodes, metav1.ConditionFalse},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSlow(t, false, func(a *v1alpha1.InfraClusterAttachment) { a.Status.ObservedGeneration = tt.stored })
			s.pass(t)
			require.NotNil(t, s.seen)
			st, c := s.seen.Status.AppsIngressStatus, meta.FindStatusCondition(s.seen.Status.Conditions, v1alpha1.ConditionAppsIngressReady)
			require.Equal(t, int64(2), s.seen.Status.ObservedGeneration)
			require.Equal(t, tt.phase, st.Phase)
			require.Equal(t, tt.reason, st.Reason)
			require.Equal(t, tt.ready, c.Status)
			require.Equal(t, v1alpha1.IPv4("192.0.2.200"), st.ExternalIP, "it stays published")
			require.Len(t, st.Applied, 1)
			if tt.ready != metav1.ConditionTrue {
				require.Equal(t, hosted.NotAskedYet, st.Message)
				require.Equal(t, hosted.NotAskedYet, c.Message)
			}
		})
	}
}
