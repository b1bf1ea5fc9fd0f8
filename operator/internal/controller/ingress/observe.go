package ingress

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/densityops/oooi/operator/internal/apps"
	"github.com/densityops/oooi/operator/internal/hosted"
)

// The kinds of MetalLB that are needed.
var (
	kindMetalLB       = schema.GroupVersionKind{Group: "metallb.io", Version: "v1beta1", Kind: "MetalLB"}
	kindPool          = schema.GroupVersionKind{Group: "metallb.io", Version: "v1beta1", Kind: "IPAddressPool"}
	kindCRD           = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	kindAdvertisement = schema.GroupVersionKind{Group: "metallb.io", Version: "v1beta1", Kind: "L2Advertisement"}
)

// Labels of the Services that the management cluster's cloud provider makes from
// those of a hosted cluster (cloud-provider-kubevirt, loadbalancer.go).
const (
	mirrorServiceName      = "cluster.x-k8s.io/tenant-service-name"
	mirrorServiceNamespace = "cluster.x-k8s.io/tenant-service-namespace"
)

// labelUnpack marks the Jobs in which OLM unpacks bundles.
const labelUnpack = "operatorframework.io/bundle-unpack-ref"

// How many objects of a hosted cluster are looked at: one worker that takes pods
// is enough, and a few at a time are a short answer.
const (
	nodesAtOnce = 10
	maxNodes    = 100
	maxListed   = 100
)

// observer reads one hosted cluster.
type observer struct {
	hosted client.Client
	wanted apps.Wanted
	now    time.Time
}

// observe reads all that Judge needs. Whatever cannot be read is the access
// problem of the whole.
func (o observer) observe(ctx context.Context) apps.Observed {
	seen := apps.Observed{Now: o.now}
	for _, read := range []func(context.Context, *apps.Observed) error{
		o.nodes, o.catalog, o.subscriptions, o.unpacks, o.installPlans, o.kinds, o.metalLBs, o.speaker, o.pools, o.service,
	} {
		if err := read(ctx, &seen); err != nil {
			return apps.Observed{AccessProblem: hosted.Words(err)}
		}
	}
	return seen
}

func (o observer) nodes(ctx context.Context, seen *apps.Observed) error {
	next := ""
	for range maxNodes / nodesAtOnce {
		list := &corev1.NodeList{}
		if err := o.hosted.List(ctx, list, client.Limit(nodesAtOnce), client.Continue(next)); err != nil {
			return fmt.Errorf("listing nodes: %w", err)
		}
		seen.WorkerReady = slices.ContainsFunc(list.Items, takesPods)
		if next = list.Continue; seen.WorkerReady || next == "" {
			return nil
		}
	}
	return nil
}

// takesPods: OLM's unpack Job tolerates no taint.
func takesPods(n corev1.Node) bool {
	if n.Spec.Unschedulable {
		return false
	}
	for _, t := range n.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule {
			return false
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (o observer) catalog(ctx context.Context, seen *apps.Observed) error {
	op := o.wanted.Spec.MetalLB.Operator
	err := o.hosted.Get(ctx, client.ObjectKey{Namespace: string(op.SourceNamespace), Name: string(op.Source)}, &operatorsv1alpha1.CatalogSource{})
	seen.CatalogSourceFound = err == nil
	return absent(err, "reading the CatalogSource")
}

func (o observer) subscriptions(ctx context.Context, seen *apps.Observed) error {
	list := &operatorsv1alpha1.SubscriptionList{}
	if err := o.hosted.List(ctx, list); err != nil {
		return absent(err, "listing Subscriptions")
	}
	op := o.wanted.Spec.MetalLB.Operator
	for _, s := range list.Items {
		if s.Spec == nil {
			continue
		}
		if s.Spec.Package != string(op.Package) {
			waits := s.Status.InstalledCSV == "" || s.Status.InstalledCSV != s.Status.CurrentCSV
			seen.OthersWait = seen.OthersWait || waits && s.Spec.CatalogSource == string(op.Source) && s.Spec.CatalogSourceNamespace == string(op.SourceNamespace)
			continue
		}
		found := apps.Subscription{
			Namespace: s.Namespace, Name: s.Name, UID: string(s.UID), Ours: o.ours(&s), InstalledCSV: s.Status.InstalledCSV, Created: s.CreationTimestamp.Time,
		}
		for _, c := range s.Status.Conditions {
			if c.Status == corev1.ConditionTrue {
				found.Conditions = append(found.Conditions, apps.Condition{Type: string(c.Type), Reason: c.Reason, Message: c.Message})
			}
		}
		seen.Subscriptions = append(seen.Subscriptions, found)
	}
	return nil
}

// unpacks are read only where OLM says that one has failed: it keeps a Job for
// each bundle, in the namespace of the catalog source.
func (o observer) unpacks(ctx context.Context, seen *apps.Observed) error {
	failed := func(c apps.Condition) bool { return c.Type == string(operatorsv1alpha1.SubscriptionBundleUnpackFailed) }
	if !slices.ContainsFunc(seen.Subscriptions, func(s apps.Subscription) bool { return slices.ContainsFunc(s.Conditions, failed) }) {
		return nil
	}
	op := o.wanted.Spec.MetalLB.Operator
	jobs := &batchv1.JobList{}
	if err := o.hosted.List(ctx, jobs, client.InNamespace(op.SourceNamespace), client.HasLabels{labelUnpack}, client.Limit(maxListed)); err != nil {
		return fmt.Errorf("listing OLM's Jobs: %w", err)
	}
	for _, j := range jobs.Items {
		owner := metav1.GetControllerOfNoCopy(&j)
		at := slices.IndexFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue
		})
		if at < 0 || owner == nil || owner.Kind != "ConfigMap" {
			continue
		}
		ours, err := o.unpackedFrom(ctx, client.ObjectKey{Namespace: j.Namespace, Name: owner.Name}, string(op.Source))
		if err != nil {
			return err
		}
		if ours {
			seen.FailedUnpacks = append(seen.FailedUnpacks, apps.FailedUnpack{
				Namespace: j.Namespace, Name: j.Name, UID: string(j.UID), ConfigMap: owner.Name, ConfigMapUID: string(owner.UID),
				Created: j.CreationTimestamp.Time, Failed: j.Status.Conditions[at].LastTransitionTime.Time,
			})
		}
	}
	return nil
}

// unpackedFrom: the ConfigMap of an unpacked bundle is the CatalogSource's.
func (o observer) unpackedFrom(ctx context.Context, key client.ObjectKey, source string) (bool, error) {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	if err := o.hosted.Get(ctx, key, m); err != nil {
		return false, absent(err, "reading the ConfigMap of OLM's Job")
	}
	owner := metav1.GetControllerOfNoCopy(m)
	return owner != nil && owner.Kind == operatorsv1alpha1.CatalogSourceKind && owner.Name == source, nil
}

// speaker is that of the MetalLB that serves our pool, beside the object that
// makes it: "speaker", or a Helm release's name before it.
func (o observer) speaker(ctx context.Context, seen *apps.Observed) error {
	if len(seen.MetalLBs) == 0 {
		return nil
	}
	lb, _ := o.wanted.ServingMetalLB(*seen)
	list := &appsv1.DaemonSetList{}
	if err := o.hosted.List(ctx, list, client.InNamespace(lb.Namespace), client.Limit(maxListed)); err != nil {
		return fmt.Errorf("listing DaemonSets: %w", err)
	}
	for _, d := range list.Items {
		if d.Name == "speaker" || strings.HasSuffix(d.Name, "-speaker") {
			seen.Speaker = &apps.Speaker{Namespace: d.Namespace, Name: d.Name, Desired: d.Status.DesiredNumberScheduled, Ready: d.Status.NumberReady}
		}
	}
	return nil
}

func (o observer) installPlans(ctx context.Context, seen *apps.Observed) error {
	done := map[string]bool{}
	for _, s := range seen.Subscriptions {
		if done[s.Namespace] {
			continue
		}
		done[s.Namespace] = true
		list := &operatorsv1alpha1.InstallPlanList{}
		if err := o.hosted.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
			return absent(err, "listing InstallPlans")
		}
		for _, p := range list.Items {
			if !p.Spec.Approved {
				seen.InstallPlans = append(seen.InstallPlans, apps.InstallPlan{
					Namespace: p.Namespace, Name: p.Name, CSVs: p.Spec.ClusterServiceVersionNames,
				})
			}
		}
	}
	return nil
}

func (o observer) kinds(ctx context.Context, seen *apps.Observed) error {
	for _, k := range []schema.GroupVersionKind{kindMetalLB, kindPool, kindAdvertisement} {
		if _, err := o.hosted.RESTMapper().RESTMapping(k.GroupKind(), k.Version); err != nil {
			return absent(err, "looking for "+k.Kind)
		}
	}
	seen.KindsServed = true
	if o.wanted.Spec.MetalLB.GratuitousARPInterval == "" {
		return nil
	}
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(kindCRD)
	if err := o.hosted.Get(ctx, client.ObjectKey{Name: "metallbs.metallb.io"}, crd); err != nil {
		return absent(err, "reading the CustomResourceDefinition of MetalLB")
	}
	seen.ARPIntervalServed = hasSpecField(crd, kindMetalLB.Version, apps.FieldARPInterval)
	return nil
}

// hasSpecField looks for a field of the spec in a version's schema.
func hasSpecField(crd *unstructured.Unstructured, version, field string) bool {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		m, ok := v.(map[string]any)
		if !ok || m["name"] != version {
			continue
		}
		_, found, err := unstructured.NestedFieldNoCopy(m, "schema", "openAPIV3Schema", "properties", "spec", "properties", field)
		return found && err == nil
	}
	return false
}

func (o observer) metalLBs(ctx context.Context, seen *apps.Observed) error {
	if !seen.KindsServed {
		return nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kindMetalLB)
	if err := o.hosted.List(ctx, list); err != nil {
		return absent(err, "listing MetalLB")
	}
	for _, m := range list.Items {
		class, _, _ := unstructured.NestedString(m.Object, "spec", "loadBalancerClass")
		seen.MetalLBs = append(seen.MetalLBs, apps.MetalLB{Namespace: m.GetNamespace(), Name: m.GetName(), Ours: o.ours(&m), Class: class})
	}
	return nil
}

func (o observer) pools(ctx context.Context, seen *apps.Observed) error {
	if !seen.KindsServed {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kindPool)
	if err := o.hosted.List(ctx, list); err != nil {
		return absent(err, "listing IPAddressPools")
	}
	for _, p := range list.Items {
		seen.ForeignPools = seen.ForeignPools || !o.ours(&p)
	}
	return nil
}

func (o observer) service(ctx context.Context, seen *apps.Observed) error {
	s := &corev1.Service{}
	name := client.ObjectKey{Namespace: string(o.wanted.Spec.Service.Namespace), Name: string(o.wanted.Spec.Service.Name)}
	if err := o.hosted.Get(ctx, name, s); err != nil {
		if err = absent(err, "reading the ingress Service"); err != nil {
			seen.ServiceProblem = hosted.Words(err)
		}
		return nil
	}
	found := &apps.Service{UID: string(s.UID), Ours: o.ours(s)}
	if s.Spec.LoadBalancerClass != nil {
		found.Class = *s.Spec.LoadBalancerClass
	}
	for _, i := range s.Status.LoadBalancer.Ingress {
		if ip, err := netip.ParseAddr(i.IP); err == nil && ip.Is4() {
			found.Ingress = append(found.Ingress, apps.Endpoint{IP: ip})
		} else if i.Hostname != "" {
			found.Ingress = append(found.Ingress, apps.Endpoint{Hostname: i.Hostname})
		} else {
			found.Unusable = append(found.Unusable, fmt.Sprintf("%q", i.IP))
		}
	}
	seen.Service = found
	return nil
}

// mirrors are what the management cluster's cloud provider made of our Service.
func (s *Step) mirrors(ctx context.Context, controlPlane string, w apps.Wanted) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	err := s.hub.List(ctx, list, client.InNamespace(controlPlane), client.MatchingLabels{
		mirrorServiceName: string(w.Spec.Service.Name), mirrorServiceNamespace: string(w.Spec.Service.Namespace),
	})
	if err != nil {
		return nil, fmt.Errorf("listing the cloud provider's Services: %w", err)
	}
	var out []string
	for _, o := range list.Items {
		out = append(out, o.Namespace+"/"+o.Name)
	}
	return out, nil
}

func (o observer) ours(obj client.Object) bool {
	return obj.GetLabels()[apps.LabelAttachmentUID] == o.wanted.UID
}

// absent passes over what is not there: an object, or its whole kind.
func absent(err error, doing string) error {
	if err == nil || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
