package attachment

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/hosted"
	"github.com/densityops/oooi/operator/internal/outcome"
)

// appsRecheck is how often a hosted cluster that has no endpoint yet is asked.
const appsRecheck = 15 * time.Second

// Observing implements Apps where nothing is installed in hosted clusters: it
// says what of *.apps is missing, and writes nothing there.
type Observing struct{ clients *hosted.Clients }

// NewApps makes the step of *.apps.
func NewApps(clients *hosted.Clients) *Observing { return &Observing{clients: clients} }

var metalLB = schema.GroupVersionKind{Group: "metallb.io", Version: "v1beta1", Kind: "IPAddressPool"}

// Ensure reports the first thing that is missing.
func (o *Observing) Ensure(ctx context.Context, _ *v1alpha1.InfraClusterAttachment, f facts.Attachment) (*v1alpha1.AppsIngressStatus, error) {
	pending := func(reason, message string) (*v1alpha1.AppsIngressStatus, error) {
		return &v1alpha1.AppsIngressStatus{Phase: v1alpha1.AppsPhasePending, Reason: reason, Message: message},
			outcome.Waiting{Reason: reason, Message: message, After: appsRecheck}
	}
	target, ok := apiServer(f)
	if !ok {
		return pending(v1alpha1.ReasonWaitingForHostedClusterNodes, "the hosted API server's Service is not known yet")
	}
	c, err := o.clients.For(ctx, target)
	if err != nil {
		return degraded(err)
	}
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		o.clients.Forget(target)
		return degraded(outcome.Failed{Reason: v1alpha1.ReasonHostedClusterAccessFailed, Message: "listing the hosted cluster's Nodes", Err: err})
	}
	if !slices.ContainsFunc(nodes.Items, takesPods) {
		return pending(v1alpha1.ReasonWaitingForHostedClusterNodes, "no worker of the hosted cluster is Ready and schedulable")
	}
	if _, err := c.RESTMapper().RESTMapping(metalLB.GroupKind(), metalLB.Version); err != nil {
		if meta.IsNoMatchError(err) {
			return pending(v1alpha1.ReasonWaitingForMetalLBCRDs, "the hosted cluster does not serve MetalLB's IPAddressPool; install MetalLB there")
		}
		return degraded(outcome.Failed{Reason: v1alpha1.ReasonHostedClusterAccessFailed, Message: "looking for MetalLB", Err: err})
	}
	return pending(v1alpha1.ReasonWaitingForExternalIP, "no LoadBalancer Service of the hosted cluster's router is set up on the VLAN")
}

// Remove has nothing to take back: nothing was made.
func (o *Observing) Remove(context.Context, *v1alpha1.InfraClusterAttachment) error { return nil }

func degraded(err error) (*v1alpha1.AppsIngressStatus, error) {
	reason, message := outcome.Describe(err)
	return &v1alpha1.AppsIngressStatus{Phase: v1alpha1.AppsPhaseDegraded, Reason: reason, Message: message}, fmt.Errorf("reaching the hosted cluster: %w", err)
}

// apiServer is where the hosted cluster is reached.
func apiServer(f facts.Attachment) (hosted.Target, bool) {
	for _, s := range f.Observed.Services {
		if s.Role == v1alpha1.ServiceRoleAPIServer {
			return hosted.Target{Namespace: f.ControlPlaneNamespace, Service: s.Name, Port: uint16(s.Port)}, true
		}
	}
	return hosted.Target{}, false
}

// takesPods: the node is Ready and schedulable.
func takesPods(n corev1.Node) bool {
	return !n.Spec.Unschedulable && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
