package outcome_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/outcome"
)

var (
	conflict   = apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "x", errors.New("resourceVersion 17"))
	errFailure = errors.New("connection refused")
)

func TestResultMergesWhatStepsEndedWith(t *testing.T) {
	for _, c := range []struct {
		name  string
		errs  []error
		after time.Duration
		fails bool
	}{
		{"nothing to say", []error{nil, nil}, 0, false},
		{"the shortest wait counts", []error{outcome.Waiting{After: time.Minute}, outcome.Waiting{After: time.Second}}, time.Second, false},
		{"a wait for a watch needs no time", []error{outcome.Waiting{Reason: "R"}}, 0, false},
		{"an invalid declaration is not tried again", []error{outcome.Invalid{Reason: "R"}}, 0, false},
		{"what no watch tells of is looked at again", []error{outcome.Invalid{Reason: "R", After: time.Minute}}, time.Minute, false},
		{"a conflict is tried again quietly", []error{conflict}, 500 * time.Millisecond, false},
		{"a failure is returned", []error{outcome.Waiting{After: time.Second}, errFailure}, 0, true},
		{"joined errors are looked into", []error{errors.Join(nil, errors.Join(outcome.Waiting{After: 2 * time.Second}, outcome.Invalid{}))}, 2 * time.Second, false},
		{"a wrapped wait is a wait", []error{fmt.Errorf("reaching: %w", outcome.Waiting{After: time.Second})}, time.Second, false},
		{"a failed call is returned", []error{outcome.Failed{Err: errFailure}}, 0, true},
		{"a failed call that was a conflict is not", []error{outcome.Failed{Err: conflict}}, 500 * time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, err := outcome.Result(c.errs...)
			require.Equal(t, c.fails, err != nil)
			require.Equal(t, c.after, res.RequeueAfter)
		})
	}
}

func TestAConditionSaysWhyAndHoldsNothingVolatile(t *testing.T) {
	for _, c := range []struct {
		name            string
		err             error
		reason, message string
	}{
		{"a wait", outcome.Waiting{Reason: "W", Message: "not yet"}, "W", "not yet"},
		{"a mistake", outcome.Invalid{Reason: "I", Message: "wrong"}, "I", "wrong"},
		{"a failed call", outcome.Failed{Reason: "F", Message: "asking", Err: errFailure}, "F", "asking: connection refused"},
		{"any other error", errFailure, v1alpha1.ReasonReconciliationFailed, "connection refused"},
		{"a conflict names no version", conflict, v1alpha1.ReasonReconciliationFailed, "an object was changed by another writer"},
		{"our port of a connection is another one each time", outcome.Waiting{
			Reason: "W", Message: "a: read tcp 10.0.0.1:36450->10.0.0.2:6443: reset, read tcp [2001:db8::1]:36452->[2001:db8::2]:6443: reset",
		}, "W", "a: read tcp 10.0.0.2:6443: reset, read tcp [2001:db8::2]:6443: reset"},
		{"the time of day is another one each time", outcome.Waiting{
			Reason: "W", Message: "x509: certificate has expired or is not yet valid: current time 2026-11-30T21:30:00Z is after 2026-01-01T00:00:00Z",
		}, "W", "x509: certificate has expired or is not yet valid: is after 2026-01-01T00:00:00Z"},
		{"the first of several", errors.Join(outcome.Invalid{Reason: "I", Message: "wrong"}, errFailure), "I", "wrong"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cond := outcome.Condition("T", 3, c.err)
			require.Equal(t, metav1.ConditionFalse, cond.Status)
			require.Equal(t, c.reason, cond.Reason)
			require.Equal(t, c.message, cond.Message)
			require.Equal(t, int64(3), cond.ObservedGeneration)
		})
	}
	require.Equal(t, metav1.ConditionTrue, outcome.Condition("T", 1, nil).Status)
	for name, text := range map[string]string{
		"long": strings.Repeat("x", 5000), "long, of several bytes": strings.Repeat("é", 3000), "no text": strings.Repeat("\xff\xfe", 3000),
	} {
		for _, err := range []error{errors.New(text), outcome.Waiting{Message: text}, outcome.Invalid{Message: text}, outcome.Failed{Err: errors.New(text)}} {
			message := outcome.Condition("T", 1, err).Message
			require.Less(t, len(message), 1100, "%s, %T", name, err)
			require.True(t, utf8.ValidString(message), "%s, %T", name, err)
		}
	}
}
