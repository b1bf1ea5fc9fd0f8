package outcome

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// conflictRetry is when a write that lost against another one is tried again:
// the informer has the newer object by then.
const conflictRetry = 500 * time.Millisecond

// Waiting is an error that says: not yet. After is zero where a watch will
// bring the reconcile back.
type Waiting struct {
	Reason  string
	Message string
	After   time.Duration
}

// Error implements error.
func (w Waiting) Error() string { return fmt.Sprintf("%s: %s", w.Reason, w.Message) }

// Invalid is an error that only the user's change can cure. After is zero where a
// watch will tell of that change, else when to look again.
type Invalid struct {
	Reason  string
	Message string
	After   time.Duration
}

// Error implements error.
func (i Invalid) Error() string { return fmt.Sprintf("%s: %s", i.Reason, i.Message) }

// Failed is a call that went wrong and is tried again, under a reason of its own.
type Failed struct {
	Reason  string
	Message string
	Err     error
}

// Error implements error.
func (f Failed) Error() string { return fmt.Sprintf("%s: %v", f.Message, f.Err) }

// Unwrap gives the call's own error.
func (f Failed) Unwrap() error { return f.Err }

// Result merges what the steps of a reconcile ended with: the shortest wait and
// every failure. A step that waits or is invalid is no failure.
func Result(errs ...error) (reconcile.Result, error) {
	var after time.Duration
	var failures []error
	for _, err := range errs {
		wait, failure := one(err)
		if wait > 0 && (after == 0 || wait < after) {
			after = wait
		}
		if failure != nil {
			failures = append(failures, failure)
		}
	}
	if len(failures) > 0 {
		return reconcile.Result{}, errors.Join(failures...)
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

func one(err error) (time.Duration, error) {
	if err == nil {
		return 0, nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		res, err := Result(joined.Unwrap()...)
		return res.RequeueAfter, err
	}
	if w, ok := errors.AsType[Waiting](err); ok {
		return w.After, nil
	}
	if i, ok := errors.AsType[Invalid](err); ok {
		return i.After, nil
	}
	if apierrors.IsConflict(err) {
		return conflictRetry, nil
	}
	return 0, err
}

// Condition describes err in a condition of that type; without an error the
// condition is true.
func Condition(conditionType string, generation int64, err error) metav1.Condition {
	c := metav1.Condition{
		Type: conditionType, Status: metav1.ConditionFalse, ObservedGeneration: generation,
	}
	if err == nil {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonReconciliationSucceeded, ""
		return c
	}
	c.Reason, c.Message = Describe(err)
	return c
}

// Describe gives the reason and the words for a condition.
func Describe(err error) (reason, message string) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok && len(joined.Unwrap()) > 0 {
		return Describe(joined.Unwrap()[0])
	}
	if w, ok := errors.AsType[Waiting](err); ok {
		return w.Reason, Message(w.Message)
	}
	if i, ok := errors.AsType[Invalid](err); ok {
		return i.Reason, Message(i.Message)
	}
	if f, ok := errors.AsType[Failed](err); ok {
		return f.Reason, Message(f.Message + ": " + stable(f.Err))
	}
	return v1alpha1.ReasonReconciliationFailed, Message(stable(err))
}

// stable takes from an API error only what does not change from try to try.
func stable(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		if apierrors.IsConflict(err) {
			return "an object was changed by another writer"
		}
		return status.Status().Message
	}
	return err.Error()
}

// volatile is what differs from try to try: our side of a connection, as net.OpError
// tells it, with another port each time; and the time of day, as x509 tells it of a
// certificate that has expired.
var volatile = regexp.MustCompile(`(?:\d+\.\d+\.\d+\.\d+|\[[0-9a-f:]+\]):\d+->|current time \S+ `)

// maxMessage is the length of one text of a stranger's. A condition holds 32,768
// bytes: so there is room for one of every child beside the plan's own list.
const maxMessage = 1000

// Message makes of a text one that a condition can hold, with room to spare: a
// hosted cluster may have written it. What changes from try to try goes.
func Message(s string) string {
	return Cut(volatile.ReplaceAllString(s, ""), maxMessage)
}

// Cut bounds a text, and leaves no half of a character.
func Cut(s string, most int) string {
	if len(s) > most {
		s = s[:most] + " ..."
	}
	return strings.ToValidUTF8(s, "")
}
