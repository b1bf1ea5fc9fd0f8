package apps

import (
	"maps"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// OperatorNamespace is where MetalLB's operator is installed.
const OperatorNamespace = v1alpha1.NamespaceName("openshift-operators")

// What marks the objects that we make in a hosted cluster.
const (
	LabelManagedBy     = "app.kubernetes.io/managed-by"
	ManagedBy          = "oooi"
	LabelAttachmentUID = "hostedcluster.densityops.com/attachment-uid"
)

// The pool annotations of MetalLB: the second is the name since v0.14.9.
const (
	annotationPoolOld = "metallb.universe.tf/address-pool"
	annotationPool    = "metallb.io/address-pool"
	annotationIPs     = "metallb.io/loadBalancerIPs"
)

// Object is an object to apply: apiVersion, kind, metadata and spec.
type Object map[string]any

// Kind of the object.
func (o Object) Kind() string { return o["kind"].(string) }

func (w Wanted) object(apiVersion, kind, namespace, name string, spec map[string]any) Object {
	return Object{
		"apiVersion": apiVersion,
		"kind":       kind,
		"metadata": map[string]any{
			"namespace": namespace,
			"name":      name,
			"labels":    map[string]any{LabelManagedBy: ManagedBy, LabelAttachmentUID: w.UID},
		},
		"spec": spec,
	}
}

func (w Wanted) subscription() Object {
	op := w.Spec.MetalLB.Operator
	return w.object("operators.coreos.com/v1alpha1", "Subscription", string(OperatorNamespace), string(op.Package), map[string]any{
		"name":                string(op.Package),
		"channel":             op.Channel,
		"source":              string(op.Source),
		"sourceNamespace":     string(op.SourceNamespace),
		"installPlanApproval": "Automatic",
	})
}

// FieldARPInterval of a MetalLB's spec came with metallb-operator's pull request
// 557 (September 2026). Before, the API server drops it, and a field that is
// dropped would be written again at every pass.
const FieldARPInterval = "speakerGratuitousARPInterval"

// metalLBObject is the MetalLB of metallb-operator, which insists on the name.
func (w Wanted) metalLBObject(namespace string, arpIntervalServed bool) Object {
	spec := map[string]any{"loadBalancerClass": Class}
	if interval := w.Spec.MetalLB.GratuitousARPInterval; interval != "" && arpIntervalServed {
		spec[FieldARPInterval] = string(interval)
	}
	return w.object("metallb.io/v1beta1", "MetalLB", namespace, "metallb", spec)
}

func (w Wanted) pool(namespace string) Object {
	return w.object("metallb.io/v1beta1", "IPAddressPool", namespace, string(w.Spec.MetalLB.AddressPoolName), map[string]any{
		"addresses":  []any{w.Pool.First.String() + "-" + w.Pool.Last.String()},
		"autoAssign": false,
	})
}

func (w Wanted) advertisementName() string {
	if w.Spec.MetalLB.L2AdvertisementName != "" {
		return string(w.Spec.MetalLB.L2AdvertisementName)
	}
	return "advertise-" + string(w.Spec.MetalLB.AddressPoolName)
}

func (w Wanted) advertisement(namespace string) Object {
	return w.object("metallb.io/v1beta1", "L2Advertisement", namespace, w.advertisementName(), map[string]any{
		"ipAddressPools": []any{string(w.Spec.MetalLB.AddressPoolName)},
	})
}

// service is the LoadBalancer Service. Its traffic policy is Cluster, since the
// announcing worker need not run a router; node ports and foreign metadata are
// not ours.
func (w Wanted) service(class string) Object {
	s := w.Spec.Service
	spec := map[string]any{
		"type":                  "LoadBalancer",
		"externalTrafficPolicy": "Cluster",
		"selector":              map[string]any{"ingresscontroller.operator.openshift.io/deployment-ingresscontroller": "default"},
		"ports": []any{
			map[string]any{"name": "http", "protocol": "TCP", "port": int64(w.Spec.Ports.HTTP), "targetPort": "http"},
			map[string]any{"name": "https", "protocol": "TCP", "port": int64(w.Spec.Ports.HTTPS), "targetPort": "https"},
		},
	}
	if class != "" {
		spec["loadBalancerClass"] = class
	}
	o := w.object("v1", "Service", string(s.Namespace), string(s.Name), spec)
	meta := o["metadata"].(map[string]any)
	labels := map[string]any{}
	for k, v := range s.Labels {
		labels[k] = v
	}
	maps.Copy(labels, meta["labels"].(map[string]any))
	annotations := map[string]any{}
	if w.Pool.Contains(w.Last.IP) {
		// A Service that has to be made again keeps its address.
		annotations[annotationIPs] = w.Last.IP.String()
	}
	for k, v := range s.Annotations {
		annotations[k] = v
	}
	annotations[annotationPool] = string(w.Spec.MetalLB.AddressPoolName)
	annotations[annotationPoolOld] = string(w.Spec.MetalLB.AddressPoolName)
	meta["labels"], meta["annotations"] = labels, annotations
	return o
}
