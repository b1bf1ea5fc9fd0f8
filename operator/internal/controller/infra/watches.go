package infra

import (
	"context"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/controller/backoff"
	"github.com/densityops/oooi/operator/internal/controller/coalesce"
	"github.com/densityops/oooi/operator/internal/controller/kinds"
	"github.com/densityops/oooi/operator/internal/controller/world"
)

// Setup registers the controller. all makes it look at every Infra again.
func (c *Controller) Setup(mgr ctrl.Manager, optional *kinds.Registry, all <-chan event.GenericEvent) error {
	everyInfra := c.Gatherer.Handler(coalesce.Unhurried, func(ctx context.Context, _ client.Object) []reconcile.Request { return c.every(ctx) })
	built, err := builder.ControllerManagedBy(mgr).Named("infra").
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: backoff.Limiter()}).
		For(&v1alpha1.Infra{}, builder.WithPredicates(predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, deletionChanged()))).
		// What one Infra has taken another may have to do without, and the other way round.
		Watches(&v1alpha1.Infra{}, c.Gatherer.Handler(coalesce.Unhurried, c.nearInfra), builder.WithPredicates(claimsChanged())).
		Watches(&v1alpha1.InfraClusterAttachment{}, c.Gatherer.Handler(coalesce.Hurried, ofAttachment), builder.WithPredicates(attachmentChanged(false))).
		Watches(&v1alpha1.InfraClusterAttachment{}, c.Gatherer.Handler(coalesce.Unhurried, ofAttachment), builder.WithPredicates(attachmentChanged(true))).
		Watches(&v1alpha1.InfraClusterAttachment{}, c.Gatherer.Handler(coalesce.Unhurried, c.nearAttachment), builder.WithPredicates(attachmentClaimsChanged())).
		Watches(&v1alpha1.DHCPServer{}, c.Gatherer.Handler(coalesce.Unhurried, ofChild), builder.WithPredicates(childChanged(func(o client.Object) any {
			return leasesOf(o)
		}))).
		Watches(&v1alpha1.DNSServer{}, c.Gatherer.Handler(coalesce.Unhurried, ofChild), builder.WithPredicates(childChanged(nothing))).
		Watches(&v1alpha1.ProxyServer{}, c.Gatherer.Handler(coalesce.Unhurried, ofChild), builder.WithPredicates(childChanged(nothing))).
		Watches(&corev1.Service{}, c.Gatherer.Handler(coalesce.Hurried, c.ofService), builder.WithPredicates(serviceChanged())).
		Watches(&corev1.Namespace{}, c.Gatherer.Handler(coalesce.Hurried, c.ofNamespace), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(source.Channel(all, everyInfra)).
		WatchesRawSource(source.Channel(c.World.Board().News(), c.Gatherer.Handler(coalesce.Hurried, ofAttachment))).
		Build(reconcile.AsReconciler[*v1alpha1.Infra](mgr.GetClient(), c))
	if err != nil {
		return err
	}
	for _, k := range []kinds.Kind{kinds.NetworkAttachmentDefinition, kinds.OpenShiftNetwork, kinds.OpenShiftProxy} {
		optional.Watch(k, func(o client.Object) error {
			return built.Watch(source.Kind(mgr.GetCache(), o, everyInfra, predicate.ResourceVersionChangedPredicate{}))
		})
	}
	return nil
}

func nothing(client.Object) any { return nil }

// leasesOf is what the plan takes from a DHCP server: who has which address, and how
// many are left.
func leasesOf(o client.Object) any {
	d, ok := o.(*v1alpha1.DHCPServer)
	if !ok || d.Status.Agent == nil {
		return nil
	}
	return []any{d.Status.Agent.Bindings, d.Status.Agent.Pool}
}

func (c *Controller) every(ctx context.Context) []reconcile.Request {
	return c.infras(ctx, func(v1alpha1.Infra) bool { return true })
}

func (c *Controller) infras(ctx context.Context, keep func(v1alpha1.Infra) bool, opts ...client.ListOption) []reconcile.Request {
	var list v1alpha1.InfraList
	if err := c.Client.List(ctx, &list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing Infras")
		return nil
	}
	var out []reconcile.Request
	for _, i := range list.Items {
		if keep(i) {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: i.Namespace, Name: i.Name}})
		}
	}
	return out
}

// nearInfra maps an Infra to those that it may change, nearAttachment an
// attachment: with many networks most have nothing to do with each other.
func (c *Controller) nearInfra(ctx context.Context, o client.Object) []reconcile.Request {
	found, err := c.World.ByInfra(ctx, o.(*v1alpha1.Infra))
	return c.concerned(ctx, found, err)
}

func (c *Controller) nearAttachment(ctx context.Context, o client.Object) []reconcile.Request {
	found, err := c.World.ByAttachment(ctx, o.(*v1alpha1.InfraClusterAttachment))
	return c.concerned(ctx, found, err)
}

// concerned are the requests; where it cannot be told, every Infra.
func (c *Controller) concerned(ctx context.Context, found []types.NamespacedName, err error) []reconcile.Request {
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "mapping an event")
		return c.every(ctx)
	}
	out := make([]reconcile.Request, 0, len(found))
	for _, name := range found {
		out = append(out, reconcile.Request{NamespacedName: name})
	}
	return out
}

func ofAttachment(_ context.Context, o client.Object) []reconcile.Request {
	a := o.(*v1alpha1.InfraClusterAttachment)
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: a.Namespace, Name: string(a.Spec.InfraRef.Name)}}}
}

// ofChild maps a child to the Infra that controls it.
func ofChild(_ context.Context, o client.Object) []reconcile.Request {
	ref := metav1.GetControllerOf(o)
	if ref == nil || ref.Kind != v1alpha1.KindInfra {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: ref.Name}}}
}

// ofService maps a Service to the Infras whose plan it may be part of: it lies
// in their namespace, or internalProxyService may name it.
func (c *Controller) ofService(ctx context.Context, o client.Object) []reconcile.Request {
	return c.infras(ctx, func(i v1alpha1.Infra) bool { return slices.Contains(world.ServiceNamespaces(&i), o.GetNamespace()) })
}

func (c *Controller) ofNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return c.infras(ctx, func(v1alpha1.Infra) bool { return true }, client.InNamespace(o.GetName()))
}

func updates(changed func(before, after client.Object) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return changed(e.ObjectOld, e.ObjectNew) }}
}

func deletionChanged() predicate.Predicate {
	return updates(func(before, after client.Object) bool {
		return (before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil)
	})
}

// claimsChanged: what other Infras have to respect.
func claimsChanged() predicate.Predicate {
	return updates(func(before, after client.Object) bool {
		x, y := before.(*v1alpha1.Infra), after.(*v1alpha1.Infra)
		return x.Generation != y.Generation || !reflect.DeepEqual(x.Status.Network, y.Status.Network) || !reflect.DeepEqual(x.Status.InForce, y.Status.InForce)
	})
}

// attachmentChanged leaves out what the Infra controller writes itself, and what
// the attachment controller has not looked at yet: its word follows. planned
// picks what was planned from the board before it was written; there is no hurry.
func attachmentChanged(planned bool) predicate.Predicate {
	return observed(func(x, y *v1alpha1.InfraClusterAttachment) bool {
		if planned != firstWritten(x, y) {
			return false
		}
		return x.Status.ObservedGeneration != y.Status.ObservedGeneration || leaves(x, y) ||
			!reflect.DeepEqual(x.Status.Observed, y.Status.Observed) ||
			!reflect.DeepEqual(x.Status.AppsIngressStatus, y.Status.AppsIngressStatus) ||
			!reflect.DeepEqual(statuses(x), statuses(y))
	})
}

// firstWritten: the first status of a generation that has the Infra's word in it.
func firstWritten(x, y *v1alpha1.InfraClusterAttachment) bool {
	word := meta.FindStatusCondition(y.Status.Conditions, v1alpha1.ConditionProgrammed)
	return x.Status.ObservedGeneration != y.Status.ObservedGeneration && word != nil && word.ObservedGeneration == y.Generation
}

func leaves(x, y *v1alpha1.InfraClusterAttachment) bool {
	return x.DeletionTimestamp.IsZero() != y.DeletionTimestamp.IsZero()
}

// observed passes attachments that their own controller has looked at.
func observed(changed func(before, after *v1alpha1.InfraClusterAttachment) bool) predicate.Predicate {
	looked := func(o client.Object) bool {
		a := o.(*v1alpha1.InfraClusterAttachment)
		return a.Status.ObservedGeneration == a.Generation || a.DeletionTimestamp != nil
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return looked(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return looked(e.ObjectNew) && changed(e.ObjectOld.(*v1alpha1.InfraClusterAttachment), e.ObjectNew.(*v1alpha1.InfraClusterAttachment))
		},
	}
}

// statuses of the conditions that are not our own.
func statuses(a *v1alpha1.InfraClusterAttachment) map[string][2]string {
	out := map[string][2]string{}
	for _, c := range a.Status.Conditions {
		if c.Type != v1alpha1.ConditionProgrammed {
			out[c.Type] = [2]string{string(c.Status), c.Reason}
		}
	}
	return out
}

// attachmentClaimsChanged: what attachments of other Infras may collide with.
func attachmentClaimsChanged() predicate.Predicate {
	return observed(func(x, y *v1alpha1.InfraClusterAttachment) bool {
		return x.Status.ObservedGeneration != y.Status.ObservedGeneration || leaves(x, y) ||
			x.Status.Observed.HostedClusterUID != y.Status.Observed.HostedClusterUID
	})
}

// childChanged: the spec, the conditions, and what facts says.
func childChanged(facts func(client.Object) any) predicate.Predicate {
	return updates(func(before, after client.Object) bool {
		return before.GetGeneration() != after.GetGeneration() || !reflect.DeepEqual(facts(before), facts(after)) ||
			!reflect.DeepEqual(conditionsOf(before), conditionsOf(after)) ||
			(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil)
	})
}

func conditionsOf(o client.Object) []metav1.Condition {
	switch o := o.(type) {
	case *v1alpha1.DHCPServer:
		return o.Status.Conditions
	case *v1alpha1.DNSServer:
		return o.Status.Conditions
	case *v1alpha1.ProxyServer:
		return o.Status.Conditions
	}
	return nil
}

func serviceChanged() predicate.Predicate {
	return updates(func(before, after client.Object) bool {
		return !reflect.DeepEqual(before.(*corev1.Service).Spec, after.(*corev1.Service).Spec)
	})
}
