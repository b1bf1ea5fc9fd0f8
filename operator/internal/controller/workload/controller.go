package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/apply"
	"github.com/densityops/oooi/operator/internal/controller/finalizer"
	"github.com/densityops/oooi/operator/internal/outcome"
	"github.com/densityops/oooi/operator/internal/render"
	"github.com/densityops/oooi/operator/internal/status"
)

// Finalizer is set on a child that has objects where owner references do not reach.
const Finalizer = "hostedcluster.densityops.com/child"

// NetworkAttachments tells whether a NetworkAttachmentDefinition exists, and the MTU
// in its configuration, 0 for none.
type NetworkAttachments interface {
	NetworkAttachment(ctx context.Context, name types.NamespacedName) (mtu int, exists, known bool)
}

// Base are the render options that are the same for every child.
type Base interface {
	// Options gives them as they are now; ok is false until the hub has a CA.
	Options(ctx context.Context) (o render.Options, ok bool)
}

// Controller reconciles one kind of child.
type Controller[T client.Object] struct {
	Kind   Kind[T]
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	Applier  *apply.Applier
	Networks NetworkAttachments
	Rollouts *Rollouts
	Base     Base
	Fence    FenceMode
	Clock    func() time.Time
	// Events tells of a condition that has changed; may be nil.
	Events func(o client.Object, before, after *v1alpha1.ComponentStatus)

	files   files
	written status.Memory
}

// seen is what a pass has read.
type seen struct {
	deployment *appsv1.Deployment // nil: none
	pods       []corev1.Pod
	nadExists  bool
	nadKnown   bool
	nadMTU     int
	nad        types.NamespacedName
	serverIP   string
	// waiting: another component rolls out first.
	waiting bool
	// problem is what keeps the pod from running, in words.
	problem string
}

// +kubebuilder:rbac:groups=hostedcluster.densityops.com,resources=dhcpservers;dnsservers;proxyservers,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=hostedcluster.densityops.com,resources=dhcpservers/status;dnsservers/status;proxyservers/status,verbs=get;patch
// +kubebuilder:rbac:groups=hostedcluster.densityops.com,resources=dhcpservers/finalizers;dnsservers/finalizers;proxyservers/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps;serviceaccounts;services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=oooi-vmi-reader;oooi-dhcpd;"system:openshift:scc:privileged";"system:openshift:scc:anyuid",verbs=bind
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update;patch;delete

// Reconcile brings the child's workload to where its spec wants it.
func (c *Controller[T]) Reconcile(ctx context.Context, child T) (reconcile.Result, error) {
	if child.GetDeletionTimestamp() != nil {
		return outcome.Result(c.release(ctx, child))
	}
	before := c.Kind.Bare(child)
	s, workErr := c.work(ctx, child)
	if errors.Is(workErr, errNoHub) {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	after, recheck := c.report(child, s, workErr)
	writer := status.Everything(c.Client, status.OwnerController, []string{"agent"}, nil).Knowing(&c.written)
	statusErr := writer.Patch(ctx, before, c.Kind.Bare(after))
	if c.Events != nil && statusErr == nil {
		c.Events(after, c.Kind.View(before).Status, c.Kind.View(after).Status)
	}
	c.wentMeanwhile(ctx, child)
	return outcome.Result(workErr, statusErr, recheck)
}

var errNoHub = errors.New("the hub has no CA yet")

// work applies the workload and reads how it fares.
func (c *Controller[T]) work(ctx context.Context, child T) (seen, error) {
	snapshot, refused, err := c.file(ctx, child)
	if err != nil {
		return seen{}, err
	}
	if refused != nil {
		s, readErr := c.observe(ctx, child, nil)
		return s, errors.Join(outcome.Invalid{Reason: v1alpha1.ReasonInvalidConfiguration, Message: refused.Error()}, readErr)
	}
	c.Kind.View(child).Status.SnapshotVersion = snapshot.version
	options, ok := c.Base.Options(ctx)
	if !ok {
		return seen{}, errNoHub
	}
	options.Snapshot = snapshot.content
	if options.Fence, err = c.fence(ctx, child, options); err != nil {
		return seen{}, err
	}
	objects := c.Kind.Render(child, options)
	s, err := c.observe(ctx, child, deploymentOf(objects))
	if err != nil {
		return s, err
	}
	wanted, keep := c.gate(child, objects, s.deployment)
	s.waiting = len(keep) > 0
	if err := c.apply(ctx, child, wanted, keep); err != nil {
		return s, err
	}
	return s, c.clearHanging(ctx, s.pods)
}

// apply writes the set; a finalizer comes first where an object lies out of
// the reach of owner references.
func (c *Controller[T]) apply(ctx context.Context, child T, objects, keep []client.Object) error {
	for _, o := range objects {
		if o.GetNamespace() == child.GetNamespace() {
			continue
		}
		if err := finalizer.Set(ctx, c.Client, child, Finalizer, true); err != nil {
			return err
		}
	}
	return c.Applier.Set(ctx, apply.Set{
		Owner: child, Identity: render.Identity(child), Objects: objects, Keep: keep, Prune: append(c.Kind.own(child), c.Kind.foreign()...),
	})
}

// release removes what owner references do not reach, then the finalizer.
func (c *Controller[T]) release(ctx context.Context, child T) error {
	c.Rollouts.Done(c.rolloutKey(child))
	if !controllerutil.ContainsFinalizer(child, Finalizer) {
		return nil
	}
	if err := c.Applier.Remove(ctx, render.Identity(child), c.Kind.foreign()...); err != nil {
		return err
	}
	return finalizer.Set(ctx, c.Client, child, Finalizer, false)
}

// gone forgets a child that has gone: it rolls out no longer.
func (c *Controller[T]) gone(o client.Object) {
	if child, ok := o.(T); ok {
		c.Rollouts.Done(c.rolloutKey(child))
	}
}

// wentMeanwhile forgets a child that has gone while it was worked at: its roll-out may
// have been recorded since it was forgotten.
func (c *Controller[T]) wentMeanwhile(ctx context.Context, child T) {
	now := c.Kind.New()
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(child), now, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) || err == nil && now.GetUID() != child.GetUID() {
		c.gone(child)
	}
}

func deploymentOf(objects []render.Object) *appsv1.Deployment {
	for _, o := range objects {
		if d, ok := o.(*appsv1.Deployment); ok {
			return d
		}
	}
	return nil
}

// observe reads the workload as it is.
func (c *Controller[T]) observe(ctx context.Context, child T, wanted *appsv1.Deployment) (seen, error) {
	view := c.Kind.View(child)
	s := seen{nad: view.Network, serverIP: view.ServerIP}
	s.nadMTU, s.nadExists, s.nadKnown = c.Networks.NetworkAttachment(ctx, s.nad)
	if wanted == nil {
		return s, nil
	}
	deployment := &appsv1.Deployment{}
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(wanted), deployment)
	if client.IgnoreNotFound(err) != nil {
		return s, fmt.Errorf("reading Deployment %s: %w", wanted.Name, err)
	}
	if err == nil {
		s.deployment = deployment
	}
	var pods corev1.PodList
	err = c.Client.List(ctx, &pods, client.InNamespace(child.GetNamespace()), client.MatchingLabels(wanted.Spec.Selector.MatchLabels))
	if err != nil {
		return s, fmt.Errorf("listing pods: %w", err)
	}
	s.pods = pods.Items
	return s, c.diagnose(ctx, &s)
}

// diagnose finds words for what keeps the pod from running.
func (c *Controller[T]) diagnose(ctx context.Context, s *seen) error {
	if s.deployment == nil || s.deployment.Status.AvailableReplicas > 0 {
		return nil
	}
	s.problem = podProblem(s.deployment, s.pods)
	pod := live(s.pods)
	if s.problem != "" || pod == nil || pod.Status.Phase != corev1.PodPending || c.Clock().Sub(pod.CreationTimestamp.Time) < stuckAfter {
		return nil
	}
	words, err := sandboxProblem(ctx, c.Live, pod, s.deployment.Name)
	if words != "" {
		s.problem = "the pod cannot be started: " + words
	}
	return err
}
