package attachment

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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
	"github.com/densityops/oooi/operator/internal/controller/coalesce"
	"github.com/densityops/oooi/operator/internal/controller/kinds"
	"github.com/densityops/oooi/operator/internal/controller/world"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/render"
)

// Setup registers the controller. all makes it look at every attachment again.
func (c *Controller) Setup(mgr ctrl.Manager, optional *kinds.Registry, all <-chan event.GenericEvent) error {
	byControlPlane := c.Gatherer.Handler(coalesce.Hurried, c.by(world.IndexControlPlane, client.Object.GetNamespace))
	built, err := builder.ControllerManagedBy(mgr).Named("attachment").
		WithOptions(controller.Options{
			MaxConcurrentReconciles: atWork + waiting,
			RateLimiter:             backoff.Limiter(),
		}).
		For(&v1alpha1.InfraClusterAttachment{}, builder.WithPredicates(predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, deletionChanged(), programmedChanged()))).
		// Who shares its control plane keeps the policy.
		Watches(&v1alpha1.InfraClusterAttachment{}, c.Gatherer.Handler(coalesce.Hurried, c.by(world.IndexControlPlane, controlPlaneOf)), builder.WithPredicates(goes())).
		Watches(&v1alpha1.Infra{}, c.Gatherer.Handler(coalesce.Hurried, c.by(world.IndexInfra, path)), builder.WithPredicates(infraChanged())).
		Watches(&v1alpha1.DHCPServer{}, c.Gatherer.Handler(coalesce.Unhurried, c.byChild), builder.WithPredicates(bindingsChanged())).
		Watches(&v1alpha1.ProxyServer{}, c.Gatherer.Handler(coalesce.Hurried, c.byChild), builder.WithPredicates(listenersChanged())).
		Watches(&corev1.Namespace{}, c.Gatherer.Handler(coalesce.Hurried, c.by(world.IndexControlPlane, client.Object.GetName)), builder.WithPredicates(existence())).
		Watches(&corev1.Service{}, byControlPlane, builder.WithPredicates(serviceChanged())).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(byOwner), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WatchesMetadata(&networkingv1.NetworkPolicy{}, byControlPlane).
		WatchesRawSource(source.Channel(all, handler.EnqueueRequestsFromMapFunc(c.every))).
		Build(c.Turns.each(reconcile.AsReconciler[*v1alpha1.InfraClusterAttachment](mgr.GetClient(), c)))
	if err != nil {
		return err
	}
	c.watchHosted(mgr, built, optional)
	return nil
}

// watchHosted follows the kinds that may be missing.
func (c *Controller) watchHosted(mgr ctrl.Manager, built controller.Controller, optional *kinds.Registry) {
	byControlPlane := c.Gatherer.Handler(coalesce.Hurried, c.by(world.IndexControlPlane, client.Object.GetNamespace))
	for k, h := range map[*kinds.Kind]handler.EventHandler{
		&kinds.HostedCluster:          c.Gatherer.Handler(coalesce.Hurried, c.by(world.IndexHostedCluster, path)),
		&kinds.HostedControlPlane:     byControlPlane,
		&kinds.NodePool:               c.Gatherer.Handler(coalesce.Hurried, c.by(world.IndexHostedCluster, kinds.ClusterOf)),
		&kinds.Machine:                byControlPlane,
		&kinds.VirtualMachineInstance: byControlPlane,
	} {
		optional.Watch(*k, func(o client.Object) error {
			return built.Watch(source.Kind(mgr.GetCache(), o, h, contentChanged()))
		})
	}
}

func controlPlaneOf(o client.Object) string {
	return facts.ControlPlaneOf(o.(*v1alpha1.InfraClusterAttachment))
}

func path(o client.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// by maps an object to the attachments that an index finds by it.
func (c *Controller) by(index string, value func(client.Object) string) func(context.Context, client.Object) []reconcile.Request {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		found, err := world.AttachmentsBy(ctx, c.Client, index, value(o))
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "mapping an event")
			return nil
		}
		return world.RequestsFor(found)
	}
}

// byChild maps a child to the attachments of its Infra.
func (c *Controller) byChild(ctx context.Context, o client.Object) []reconcile.Request {
	infra := o.GetLabels()[render.LabelInfra]
	if infra == "" {
		return nil
	}
	found, err := world.AttachmentsBy(ctx, c.Client, world.IndexInfra, o.GetNamespace()+"/"+infra)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "mapping an event")
		return nil
	}
	return world.RequestsFor(found)
}

func byOwner(_ context.Context, o client.Object) []reconcile.Request {
	for _, ref := range o.GetOwnerReferences() {
		if ref.Kind == v1alpha1.KindInfraClusterAttachment {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: ref.Name}}}
		}
	}
	return nil
}

func (c *Controller) every(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1alpha1.InfraClusterAttachmentList
	if err := c.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing attachments")
		return nil
	}
	return world.RequestsFor(list.Items)
}

func updates(changed func(before, after client.Object) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return changed(e.ObjectOld, e.ObjectNew) }}
}

func deletionChanged() predicate.Predicate {
	return updates(func(before, after client.Object) bool {
		return (before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil)
	})
}

// goes passes that an object is gone.
func goes() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
}

// existence passes that a namespace comes or goes.
func existence() predicate.Predicate {
	return predicate.Or[client.Object](deletionChanged(), predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})
}

// programmedChanged passes the Infra controller's word on the attachment.
func programmedChanged() predicate.Predicate {
	return updates(func(before, after client.Object) bool {
		x := meta.FindStatusCondition(before.(*v1alpha1.InfraClusterAttachment).Status.Conditions, v1alpha1.ConditionProgrammed)
		y := meta.FindStatusCondition(after.(*v1alpha1.InfraClusterAttachment).Status.Conditions, v1alpha1.ConditionProgrammed)
		return !reflect.DeepEqual(x, y)
	})
}

// infraChanged: what the facts of an attachment depend on.
func infraChanged() predicate.Predicate {
	return updates(func(before, after client.Object) bool { return before.GetGeneration() != after.GetGeneration() })
}

func bindingsChanged() predicate.Predicate {
	return updates(func(before, after client.Object) bool {
		x, y := before.(*v1alpha1.DHCPServer).Status.Agent, after.(*v1alpha1.DHCPServer).Status.Agent
		if x == nil || y == nil {
			return x != y
		}
		return !reflect.DeepEqual(x.Bindings, y.Bindings)
	})
}

func listenersChanged() predicate.Predicate {
	return updates(func(before, after client.Object) bool {
		return !reflect.DeepEqual(before.(*v1alpha1.ProxyServer).Spec.ExternalListeners, after.(*v1alpha1.ProxyServer).Spec.ExternalListeners)
	})
}

func serviceChanged() predicate.Predicate {
	return updates(func(before, after client.Object) bool {
		return !reflect.DeepEqual(before.(*corev1.Service).Spec, after.(*corev1.Service).Spec)
	})
}

// contentChanged drops an update that changes nothing but the version.
func contentChanged() predicate.Predicate {
	return updates(func(before, after client.Object) bool {
		x, y := before.DeepCopyObject().(client.Object), after.DeepCopyObject().(client.Object)
		x.SetResourceVersion("")
		y.SetResourceVersion("")
		return !reflect.DeepEqual(x, y)
	})
}
