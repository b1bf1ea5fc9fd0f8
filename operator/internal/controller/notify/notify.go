// Package notify tells people and Prometheus of a condition that has changed.
//
// It refuses to repeat itself: an event is made on a transition alone, and its
// reason is the condition's (behaviour H2).
package notify

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/outcome"
)

// Notifier makes events and counts transitions.
type Notifier struct {
	Recorder events.EventRecorder
	// Count is told each transition; may be nil.
	Count func(kind, conditionType, reason string)
}

// told are the conditions that are worth an event, and whether True is good.
var told = map[string]bool{
	v1alpha1.ConditionReady: true, v1alpha1.ConditionAvailable: true,
	v1alpha1.ConditionDegraded: false, v1alpha1.ConditionDuplicateSourceIP: false,
	v1alpha1.ConditionEndpointMismatch: false, v1alpha1.ConditionClusterProxyBypassesVLAN: false,
}

// Transitions compares two lists of conditions of one object.
func (n Notifier) Transitions(o client.Object, kind string, before, after []metav1.Condition) {
	for _, c := range after {
		was := meta.FindStatusCondition(before, c.Type)
		if was != nil && was.Status == c.Status && was.Reason == c.Reason {
			continue
		}
		if n.Count != nil {
			n.Count(kind, c.Type, c.Reason)
		}
		good, tell := told[c.Type]
		// What has never been otherwise is no news, unless it is bad.
		bad := (c.Status == metav1.ConditionTrue) != good && c.Status != metav1.ConditionUnknown
		if !tell || (was == nil && !bad) || beginning(was, c) {
			continue
		}
		eventType := corev1.EventTypeNormal
		if bad {
			eventType = corev1.EventTypeWarning
		}
		n.Recorder.Eventf(o, nil, eventType, c.Reason, c.Type, "%s is %s: %s", c.Type, c.Status, outcome.Cut(c.Message, maxNote))
	}
}

// beginning: an object that has just been made waits for others, and then has
// what it waited for. That is no news, and with many objects a flood.
func beginning(was *metav1.Condition, is metav1.Condition) bool {
	waits := func(reason string) bool {
		return reason == v1alpha1.ReasonWaitingForInfra || reason == v1alpha1.ReasonWaitingForAgent
	}
	return (was == nil && waits(is.Reason)) || (was != nil && waits(was.Reason) && is.Reason == v1alpha1.ReasonReconciliationSucceeded)
}

// maxNote keeps a note within what an event may hold (1,024 bytes).
const maxNote = 900
