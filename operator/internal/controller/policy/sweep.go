package policy

import (
	"context"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/controller/backoff"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/outcome"
)

// Sweeper removes policies that no attachment needs any more, and settles those that
// could not be settled. Where there are admitted attachments the policy is else theirs
// to keep: they know more than what is written.
type Sweeper struct{ Policies *Policies }

// failedRoom is how many namespaces may wait for the Sweeper.
const failedRoom = 1024

// Setup registers the controller; a request's name is a control-plane namespace.
func (s *Sweeper) Setup(mgr ctrl.Manager) error {
	s.Policies.failed = make(chan event.GenericEvent, failedRoom)
	err := builder.ControllerManagedBy(mgr).Named("policy").
		WithOptions(controller.Options{RateLimiter: backoff.Limiter()}).
		Watches(&v1alpha1.InfraClusterAttachment{}, handler.EnqueueRequestsFromMapFunc(controlPlanes), builder.WithPredicates(leaves())).
		WatchesMetadata(&networkingv1.NetworkPolicy{}, handler.EnqueueRequestsFromMapFunc(
			func(_ context.Context, o client.Object) []reconcile.Request { return requests(o.GetNamespace()) })).
		WatchesRawSource(source.Channel(s.Policies.failed, handler.EnqueueRequestsFromMapFunc(
			func(_ context.Context, o client.Object) []reconcile.Request { return requests(o.GetName()) }))).
		Complete(s)
	if err != nil {
		return fmt.Errorf("setting up the policy controller: %w", err)
	}
	return nil
}

// Reconcile looks at one namespace.
func (s *Sweeper) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	attachments, err := s.Policies.World.AttachmentsTo(ctx, r.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	owed := s.Policies.owes(r.Name)
	for i := range attachments {
		a := &attachments[i]
		letIn, known := s.Policies.said(a.UID, r.Name)
		switch {
		case a.DeletionTimestamp != nil:
		case known && letIn:
			return reconcile.Result{RequeueAfter: writtenBy}, nil // its status tells by then
		case !owed && admitted(a, r.Name):
			return reconcile.Result{}, nil
		}
	}
	return outcome.Result(s.Policies.Settle(ctx, r.Name, nil))
}

// controlPlanes that an attachment names, or has named before.
func controlPlanes(_ context.Context, o client.Object) []reconcile.Request {
	a := o.(*v1alpha1.InfraClusterAttachment)
	return requests(facts.ControlPlaneOf(a), string(a.Status.ControlPlaneNamespace))
}

func requests(namespaces ...string) []reconcile.Request {
	var out []reconcile.Request
	for _, ns := range namespaces {
		if ns != "" {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: ns}})
		}
	}
	return out
}

func leaves() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil
		},
	}
}
