package attachment

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// How many attachments are worked at, and how many may wait for their hosted clusters
// beside them.
const (
	atWork  = 8
	waiting = 56
)

// Turns bound the work on attachments. Who waits for a hosted cluster has no turn:
// clusters that do not answer hold up no other one.
type Turns chan struct{}

// NewTurns makes Turns.
func NewTurns() Turns { return make(Turns, atWork) }

// Aside does what takes long although it is no work.
func (t Turns) Aside(f func()) {
	<-t
	defer func() { t <- struct{}{} }()
	f()
}

// each gives each reconcile a turn.
func (t Turns) each(next reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		t <- struct{}{}
		defer func() { <-t }()
		return next.Reconcile(ctx, r)
	})
}
