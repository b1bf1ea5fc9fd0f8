// Package backoff says how soon the controllers try again what has failed: soon at
// first, and never long after what failed is back, however long it was away.
//
// It refuses the default of a quarter of an hour. Invariant: a pause is at most
// Longest.
package backoff

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The pauses after failures: First, then twice as long each time up to Longest.
const (
	First   = 5 * time.Millisecond
	Longest = 15 * time.Second
)

// Limiter makes the pauses of one controller.
func Limiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](First, Longest)
}
