package infra

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/apply"
	"github.com/densityops/oooi/operator/internal/controller/coalesce"
	"github.com/densityops/oooi/operator/internal/controller/finalizer"
	"github.com/densityops/oooi/operator/internal/controller/policy"
	"github.com/densityops/oooi/operator/internal/controller/world"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/outcome"
	"github.com/densityops/oooi/operator/internal/plan"
	"github.com/densityops/oooi/operator/internal/render"
	"github.com/densityops/oooi/operator/internal/status"
)

// Finalizer lets the controller take back what owner references do not reach.
const Finalizer = "hostedcluster.densityops.com/infra"

// Controller reconciles Infras.
type Controller struct {
	Client  client.Client
	Applier *apply.Applier
	World   *world.Reader
	// Policies let the Infra's proxy into control planes.
	Policies *policy.Policies
	// LabelNamespaces lets the operator label the Infra's namespace.
	LabelNamespaces bool
	Gatherer        *coalesce.Gatherer
	// Planned is told how long a plan took; may be nil.
	Planned func(time.Duration)
	// Events tells of conditions that have changed; may be nil.
	Events func(before, after *v1alpha1.Infra)

	// What was written of the Infras and of Programmed.
	written, programmed status.Memory
	refused             refusals
}

// +kubebuilder:rbac:groups=hostedcluster.densityops.com,resources=infras,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=hostedcluster.densityops.com,resources=infras/status;infraclusterattachments/status,verbs=get;patch
// +kubebuilder:rbac:groups=hostedcluster.densityops.com,resources=infras/finalizers,verbs=update
// +kubebuilder:rbac:groups=hostedcluster.densityops.com,resources=dhcpservers;dnsservers;proxyservers,verbs=create;patch;delete

// Reconcile plans and applies the shared stack.
func (c *Controller) Reconcile(ctx context.Context, infra *v1alpha1.Infra) (reconcile.Result, error) {
	c.Gatherer.Started(client.ObjectKeyFromObject(infra))
	if infra.DeletionTimestamp != nil {
		return outcome.Result(c.release(ctx, infra))
	}
	if err := finalizer.Set(ctx, c.Client, infra, Finalizer, true); err != nil {
		return outcome.Result(err)
	}
	writer := status.Everything(c.Client, status.OwnerController, nil, nil).Knowing(&c.written)
	if err := writer.Recall(infra); err != nil {
		return outcome.Result(err)
	}
	before := infra.DeepCopy()
	w, err := c.World.ForInfra(ctx, infra)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("observing: %w", err)
	}
	started := time.Now()
	in := facts.Inputs(w, infra)
	in.Now = started
	p := plan.For(in)
	if c.Planned != nil {
		c.Planned(time.Since(started))
	}
	applyErr := c.apply(ctx, infra, p)
	labelled, labelErr := c.label(ctx, infra, p)
	children, readErr := c.children(ctx, infra)
	renewing, left := p.Renewing(started)
	report(infra, reported{plan: p, renewing: renewing, applied: applyErr, labelled: labelled, children: children, attachments: mine(w, infra)})
	statusErr := writer.Patch(ctx, before, infra)
	if statusErr == nil && c.Events != nil {
		c.Events(before, infra)
	}
	return outcome.Result(applyErr, labelErr, readErr, statusErr, c.program(ctx, infra, w, p.Attachments, applyErr), again(renewing, left))
}

// again looks once more when workers have renewed their leases (behaviour A7).
func again(renewing plan.Reason, left time.Duration) error {
	if renewing.Reason == "" {
		return nil
	}
	return outcome.Waiting{Reason: renewing.Reason, Message: renewing.Message, After: left}
}

// childKinds in the order in which another network is brought in: a listener
// before the answer that leads to it, the answer before the lease that names it.
var childKinds = []schema.GroupVersionKind{
	v1alpha1.GroupVersion.WithKind(v1alpha1.KindProxyServer),
	v1alpha1.GroupVersion.WithKind(v1alpha1.KindDNSServer),
	v1alpha1.GroupVersion.WithKind(v1alpha1.KindDHCPServer),
}

func rank(o client.Object) int {
	switch o.(type) {
	case *v1alpha1.ProxyServer:
		return 0
	case *v1alpha1.DNSServer:
		return 1
	default:
		return 2
	}
}

// apply writes the children that the plan applies and deletes those that it
// deletes; the others stay as they are. Where the addresses stay what they are none
// waits for another: each agent brings its part in when it has it, and a big child
// takes the API server a while.
func (c *Controller) apply(ctx context.Context, infra *v1alpha1.Infra, p plan.Plan) error {
	objects := render.Children(infra, p)
	slices.SortStableFunc(objects, func(a, b render.Object) int { return rank(a) - rank(b) })
	set := apply.Set{
		Owner: infra, Identity: render.InfraIdentity(infra),
		Together: infra.Status.Network != nil && reflect.DeepEqual(infra.Status.Network, p.Network),
	}
	for _, o := range objects {
		set.Objects = append(set.Objects, o)
	}
	for i, action := range []plan.Action{p.Proxy.Action, p.DNS.Action, p.DHCP.Action} {
		if action == plan.Delete {
			set.Prune = append(set.Prune, apply.Scope{Kind: childKinds[i], Namespace: infra.Namespace})
		}
	}
	return c.Applier.Set(ctx, set)
}

// label sets the namespace's label that control planes let in (behaviour B11).
func (c *Controller) label(ctx context.Context, infra *v1alpha1.Infra, p plan.Plan) (bool, error) {
	ns := &corev1.Namespace{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: infra.Namespace}, ns); err != nil {
		return true, fmt.Errorf("reading Namespace %s: %w", infra.Namespace, err)
	}
	if ns.Labels[render.LabelNetworkPolicyGroup] == render.NetworkPolicyGroupInternal || p.Proxy.Action != plan.Apply {
		return true, nil
	}
	if !c.LabelNamespaces {
		return false, nil
	}
	return true, c.Applier.Label(ctx, ns, render.LabelNetworkPolicyGroup, render.NetworkPolicyGroupInternal)
}

// children reads how the children fare. The statuses are the cache's own.
func (c *Controller) children(ctx context.Context, infra *v1alpha1.Infra) ([]child, error) {
	var out []child
	var errs []error
	get := func(component string, o client.Object, st *v1alpha1.ComponentStatus) {
		key := client.ObjectKey{Namespace: infra.Namespace, Name: infra.Name + "-" + component}
		if err := c.Client.Get(ctx, key, o, client.UnsafeDisableDeepCopy); err != nil {
			if client.IgnoreNotFound(err) != nil {
				errs = append(errs, fmt.Errorf("reading %s: %w", key, err))
			}
			return
		}
		if !metav1.IsControlledBy(o, infra) {
			return // somebody else's, of the name that ours would have
		}
		out = append(out, child{component: component, generation: o.GetGeneration(), status: st})
	}
	var dhcp v1alpha1.DHCPServer
	var dns v1alpha1.DNSServer
	var proxy v1alpha1.ProxyServer
	get("dhcp", &dhcp, &dhcp.Status.ComponentStatus)
	get("dns", &dns, &dns.Status.ComponentStatus)
	get("proxy", &proxy, &proxy.Status.ComponentStatus)
	return out, errors.Join(errs...)
}

func mine(w facts.World, infra *v1alpha1.Infra) []*v1alpha1.InfraClusterAttachment {
	var out []*v1alpha1.InfraClusterAttachment
	for i := range w.Attachments {
		a := &w.Attachments[i]
		if a.Namespace == infra.Namespace && string(a.Spec.InfraRef.Name) == infra.Name {
			out = append(out, a)
		}
	}
	return out
}

// release takes back what owner references do not reach; the children are the
// garbage collector's.
func (c *Controller) release(ctx context.Context, infra *v1alpha1.Infra) error {
	if !controllerutil.ContainsFinalizer(infra, Finalizer) {
		return nil
	}
	var others v1alpha1.InfraList
	var attachments v1alpha1.InfraClusterAttachmentList
	for _, list := range []client.ObjectList{&others, &attachments} {
		if err := c.Client.List(ctx, list, client.InNamespace(infra.Namespace)); err != nil {
			return fmt.Errorf("listing %T: %w", list, err)
		}
	}
	orphans := mine(facts.World{Attachments: attachments.Items}, infra)
	if err := c.orphan(ctx, orphans); err != nil {
		return err
	}
	for _, a := range orphans {
		if err := c.Policies.Settle(ctx, facts.ControlPlaneOf(a), nil); err != nil {
			return err
		}
	}
	last := !slices.ContainsFunc(others.Items, func(o v1alpha1.Infra) bool { return o.UID != infra.UID && o.DeletionTimestamp == nil })
	if last {
		if err := c.Applier.Unlabel(ctx, infra.Namespace, render.LabelNetworkPolicyGroup); err != nil {
			return err
		}
	}
	c.refused.last(infra.UID, nil)
	return finalizer.Set(ctx, c.Client, infra, Finalizer, false)
}
