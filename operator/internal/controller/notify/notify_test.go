package notify_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/controller/notify"
)

// behaviour H2: people are told of a transition, once, under the condition's own
// reason; not of what is as it was, nor of how every object begins.
func TestTransitionsAreTold(t *testing.T) {
	t.Parallel()
	is := func(kind string, status metav1.ConditionStatus, reason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: status, Reason: reason, Message: message}}
	}
	for _, tc := range []struct {
		name          string
		before, after []metav1.Condition
		want          string
		counted       int
	}{
		{
			name:   "it works no longer",
			before: is("Ready", "True", "ReconciliationSucceeded", ""), after: is("Ready", "False", "DuplicateHostname", "domain x: a, b"),
			want: "Warning DuplicateHostname Ready is False: domain x: a, b", counted: 1,
		},
		{
			name:   "it works again",
			before: is("Ready", "False", "DuplicateHostname", ""), after: is("Ready", "True", "ReconciliationSucceeded", "as declared"),
			want: "Normal ReconciliationSucceeded Ready is True: as declared", counted: 1,
		},
		{
			name:   "the reason is another one",
			before: is("Ready", "False", "DuplicateHostname", ""), after: is("Ready", "False", "NetworkOverlap", "x"),
			want: "Warning NetworkOverlap Ready is False: x", counted: 1,
		},
		{name: "the words are other ones", before: is("Ready", "False", "NetworkOverlap", "x"), after: is("Ready", "False", "NetworkOverlap", "y")},
		{name: "nothing has changed", before: is("Ready", "True", "AsExpected", "x"), after: is("Ready", "True", "AsExpected", "x")},
		{name: "a new object works", after: is("Ready", "True", "ReconciliationSucceeded", ""), counted: 1},
		{
			name: "a new object does not", after: is("Ready", "False", "InvalidConfiguration", "dhcp.serverIP"),
			want: "Warning InvalidConfiguration Ready is False: dhcp.serverIP", counted: 1,
		},
		{name: "a new object waits", after: is("Available", "False", v1alpha1.ReasonWaitingForAgent, ""), counted: 1},
		{
			name:   "what it waited for is there",
			before: is("Ready", "False", v1alpha1.ReasonWaitingForInfra, ""), after: is("Ready", "True", v1alpha1.ReasonReconciliationSucceeded, ""),
			counted: 1,
		},
		{
			name:   "True is bad for Degraded",
			before: is("Degraded", "False", "AsExpected", ""), after: is("Degraded", "True", v1alpha1.ReasonExcluded, "b: no"),
			want: "Warning Excluded Degraded is True: b: no", counted: 1,
		},
		{
			name:   "nobody knows",
			before: is("Ready", "True", "AsExpected", ""), after: is("Ready", "Unknown", "Stale", "x"),
			want: "Normal Stale Ready is Unknown: x", counted: 1,
		},
		{name: "a condition of detail", before: is("NetworkReady", "True", "AsExpected", ""), after: is("NetworkReady", "False", "AddressNotAssigned", ""), counted: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			recorder, counted := events.NewFakeRecorder(10), 0
			n := notify.Notifier{Recorder: recorder, Count: func(string, string, string) { counted++ }}
			n.Transitions(&v1alpha1.Infra{}, v1alpha1.KindInfra, tc.before, tc.after)
			close(recorder.Events)
			require.Equal(t, tc.want, <-recorder.Events)
			require.Equal(t, tc.counted, counted)
		})
	}
}

// An event that is too long is refused by the API server.
func TestALongMessageIsCut(t *testing.T) {
	t.Parallel()
	recorder := events.NewFakeRecorder(1)
	notify.Notifier{Recorder: recorder}.Transitions(&v1alpha1.Infra{}, v1alpha1.KindInfra, nil, []metav1.Condition{
		{Type: "Ready", Status: "False", Reason: "DuplicateHostname", Message: strings.Repeat("x", 8192)},
	})
	require.Less(t, len(<-recorder.Events), 1024)
}
