package workload

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/densityops/oooi/operator/internal/controller/backoff"
	"github.com/densityops/oooi/operator/internal/controller/kinds"
	"github.com/densityops/oooi/operator/internal/render"
)

// Setup registers the controller. again tells of a change that concerns every
// child: another CA of the hub.
func (c *Controller[T]) Setup(mgr ctrl.Manager, optional *kinds.Registry, again <-chan event.GenericEvent) error {
	toChild := handler.EnqueueRequestsFromMapFunc(c.ownerOf)
	toAll := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return c.all(ctx, "")
	})
	b := builder.ControllerManagedBy(mgr).Named(c.Kind.Component).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: backoff.Limiter()}).
		// The agent's own stanza counts too, so the generation alone will not do.
		Watches(c.Kind.New(), &afterwards{gone: c.gone}, builder.WithPredicates(predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, c.agentChanged()))).
		Watches(&appsv1.Deployment{}, toChild).
		Watches(&corev1.Pod{}, toChild).
		Watches(&corev1.Service{}, toChild).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(c.inNamespace), builder.WithPredicates(predicate.LabelChangedPredicate{}))
	for _, o := range []client.Object{&corev1.ConfigMap{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &coordinationv1.Lease{}} {
		b = b.WatchesMetadata(o, toChild, builder.WithPredicates(changedObject()))
	}
	if again != nil {
		b = b.WatchesRawSource(source.Channel(again, toAll))
	}
	built, err := b.Build(reconcile.AsReconciler[T](mgr.GetClient(), c))
	if err != nil {
		return err
	}
	optional.Watch(kinds.NetworkAttachmentDefinition, func(o client.Object) error {
		return built.Watch(source.Kind(mgr.GetCache(), o, handler.EnqueueRequestsFromMapFunc(c.onNetwork)))
	})
	return nil
}

// behind is how long a changed child waits for its reconcile. Its agent has the
// snapshot by the stream; what is written here, the file for a start without the
// operator and the status, would only take the API server's time from the same
// change of its siblings. Mostly the agent has reported by then too, and the
// status is written once and not twice.
const behind = 300 * time.Millisecond

// afterwards enqueues a child: at once when it comes or goes.
type afterwards struct {
	handler.EnqueueRequestForObject
	// gone is told of a child that has gone: most have no finalizer, and no reconcile
	// sees them again.
	gone func(client.Object)
}

// Delete implements handler.EventHandler.
func (h *afterwards) Delete(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	h.gone(e.Object)
	h.EnqueueRequestForObject.Delete(ctx, e, q)
}

// Update implements handler.EventHandler.
func (*afterwards) Update(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	wait := behind
	if e.ObjectNew.GetDeletionTimestamp() != nil {
		wait = 0
	}
	q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.ObjectNew)}, wait)
}

// changedObject drops the renewals of a Lease: its holder's business.
func changedObject() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return owned(e.ObjectOld) != owned(e.ObjectNew) || e.ObjectNew.GetDeletionTimestamp() != nil
	}}
}

// owned is our entry of the managed fields: it changes when somebody changes a
// field of ours.
func owned(o client.Object) string {
	for _, f := range o.GetManagedFields() {
		if f.Manager == "oooi-operator" && f.FieldsV1 != nil && f.Subresource == "" {
			return f.FieldsV1.GetRawString()
		}
	}
	return ""
}

// agentChanged passes what an agent has reported.
func (c *Controller[T]) agentChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return true }, DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(T), e.ObjectNew.(T)
			was, is := c.Kind.View(before), c.Kind.View(after)
			return was.InForce != is.InForce || !sameAgent(was.Agent, is.Agent) ||
				after.GetDeletionTimestamp() != nil || len(before.GetFinalizers()) != len(after.GetFinalizers())
		},
	}
}

// ownerOf maps an object to the child that it was made for.
func (c *Controller[T]) ownerOf(_ context.Context, o client.Object) []reconcile.Request {
	labels := o.GetLabels()
	if labels[render.LabelManagedBy] != render.ManagedBy || labels[render.LabelComponent] != c.Kind.Component {
		return nil
	}
	name, ns := labels[render.LabelInstance], labels[render.LabelOwnerNamespace]
	if ns == "" {
		ns = o.GetNamespace() // a pod: its labels are its selector's
	}
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: ns, Name: name}}}
}

func (c *Controller[T]) inNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return c.all(ctx, o.GetName())
}

// onNetwork maps a NetworkAttachmentDefinition to the children that name it.
func (c *Controller[T]) onNetwork(ctx context.Context, o client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, child := range c.list(ctx, "") {
		if c.Kind.View(child).Network == client.ObjectKeyFromObject(o) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(child)})
		}
	}
	return out
}

func (c *Controller[T]) all(ctx context.Context, namespace string) []reconcile.Request {
	var out []reconcile.Request
	for _, child := range c.list(ctx, namespace) {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(child)})
	}
	return out
}

// list gives the children of a namespace; none where the cache cannot say. They
// are the cache's own.
func (c *Controller[T]) list(ctx context.Context, namespace string) []T {
	list := c.Kind.NewList()
	if err := c.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing children")
		return nil
	}
	var out []T
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		out = append(out, o.(T))
		return nil
	})
	return out
}
