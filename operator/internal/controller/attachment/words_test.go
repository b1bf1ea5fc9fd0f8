package attachment

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// told is an attachment whose hosted cluster has said that.
func told(reason, message string, change ...func(*v1alpha1.InfraClusterAttachment)) *v1alpha1.InfraClusterAttachment {
	a := &v1alpha1.InfraClusterAttachment{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: 3}}
	a.Status.ObservedGeneration = 3
	a.Status.AppsIngressStatus = &v1alpha1.AppsIngressStatus{Phase: v1alpha1.AppsPhaseDegraded, Reason: reason, Message: message}
	for _, t := range []string{v1alpha1.ConditionAppsIngressReady, v1alpha1.ConditionReady, v1alpha1.ConditionDegraded} {
		meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{Type: t, Status: metav1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: 3})
	}
	for _, f := range change {
		f(a)
	}
	return a
}

func messages(a *v1alpha1.InfraClusterAttachment) []string {
	out := []string{a.Status.AppsIngressStatus.Message}
	for _, c := range a.Status.Conditions {
		out = append(out, c.Message)
	}
	return out
}

// behaviour B8: what a hosted cluster words differently each time is told anew now
// and then; what says something else is told at once.
func TestOtherWordsForTheSameAreRarelyTold(t *testing.T) {
	t.Parallel()
	var w wording
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rewrites := 0
	before := told(v1alpha1.ReasonHostedClusterAccessFailed, "no, for the first time")
	for i := range 4 * 60 {
		after := told(v1alpha1.ReasonHostedClusterAccessFailed, fmt.Sprintf("no, for the %dth time", i))
		require.Equal(t, 4, reworded(before, after))
		if w.allow("u", now) {
			rewrites++
			before = after
		} else {
			keepWords(before, after)
			require.Equal(t, messages(before), messages(after))
			require.Zero(t, reworded(before, after))
		}
		now = now.Add(15 * time.Second)
	}
	require.LessOrEqual(t, rewrites, rewriteAtOnce+12, "in an hour")
	require.Greater(t, rewrites, 10, "and not never")

	for name, after := range map[string]*v1alpha1.InfraClusterAttachment{
		"another reason": told(v1alpha1.ReasonMetalLBInstallFailed, "other words"),
		"our own words":  told(v1alpha1.ReasonOverlappingRange, "other words"),
		"another generation": told(v1alpha1.ReasonHostedClusterAccessFailed, "other words", func(a *v1alpha1.InfraClusterAttachment) {
			a.Generation = 4
		}),
	} {
		require.Zero(t, reworded(before, after), name)
	}
}
