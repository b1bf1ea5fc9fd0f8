package offline

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/facts"
	"github.com/densityops/oooi/operator/internal/plan"
	"github.com/densityops/oooi/operator/internal/schema"
)

// Objects are what was read.
type Objects struct {
	World      facts.World
	DNSServers []v1alpha1.DNSServer
	// Ignored are the kinds that say nothing to the planner.
	Ignored []string
	// Refused are the faults for which an API server refuses an object by its
	// schema: place, object, field and value.
	Refused []string

	// seen says where each object was read.
	seen map[string]string
}

// Read adds the documents of one file, which name is of.
func (o *Objects) Read(name string, text []byte) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for n := 1; ; n++ {
		doc, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		place := fmt.Sprintf("%s, document %d", name, n)
		if err := o.document(place, doc); err != nil {
			return fmt.Errorf("reading %s: %w", place, err)
		}
	}
}

func (o *Objects) document(place string, doc []byte) error {
	var content map[string]any
	if err := yaml.UnmarshalStrict(doc, &content); err != nil {
		return fmt.Errorf("parsing YAML: %w", err)
	}
	if len(content) == 0 {
		return nil
	}
	u := &unstructured.Unstructured{Object: normal(content)}
	if !u.IsList() {
		return o.add(place, u)
	}
	return u.EachListItem(func(item runtime.Object) error { return o.add(place, item.(*unstructured.Unstructured)) })
}

// normal turns the numbers of YAML into those of JSON: int64 or float64.
func normal(content map[string]any) map[string]any {
	return runtime.DeepCopyJSON(numbers(content).(map[string]any))
}

func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = numbers(e)
		}
	case []any:
		for i, e := range v {
			v[i] = numbers(e)
		}
	case int:
		return int64(v)
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

// add sorts one object into the world.
func (o *Objects) add(place string, u *unstructured.Unstructured) error {
	for _, field := range []string{"name", "namespace"} {
		// A YAML 1.1 word such as "y" or "on" is true, and no name.
		if _, _, err := unstructured.NestedString(u.Object, "metadata", field); err != nil {
			return fmt.Errorf("%s: metadata.%s must be a string: %w", u.GetKind(), field, err)
		}
	}
	if u.GetNamespace() == "" && !clusterScoped[u.GetKind()] {
		u.SetNamespace("default")
	}
	// Names become those of files; the API server would refuse these too.
	if faults := append(validation.IsDNS1123Subdomain(u.GetName()), namespaceFaults(u)...); len(faults) > 0 {
		return fmt.Errorf("%s: metadata.name %q, metadata.namespace %q: %s", u.GetKind(), u.GetName(), u.GetNamespace(), faults[0])
	}
	read, found := o.readers()[u.GroupVersionKind().GroupKind()]
	if !found {
		return o.ignore(u)
	}
	name := fmt.Sprintf("%s %s/%s", u.GetKind(), u.GetNamespace(), u.GetName())
	if before, twice := o.seen[u.GroupVersionKind().Group+"/"+name]; twice {
		return fmt.Errorf("%s was read before, from %s", name, before)
	}
	if o.seen == nil {
		o.seen = map[string]string{}
	}
	o.seen[u.GroupVersionKind().Group+"/"+name] = place
	if err := o.judge(place, name, u); err != nil {
		return err
	}
	if err := read(u); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// ignore is for a kind that says nothing to the planner, unless it was meant to.
func (o *Objects) ignore(u *unstructured.Unstructured) error {
	if ours(u.GroupVersionKind().Group) {
		return fmt.Errorf("apiVersion %q has no kind %q; oooi's are %s, of %s", u.GetAPIVersion(), u.GetKind(), strings.Join(ownKinds, ", "), v1alpha1.GroupVersion)
	}
	o.Ignored = append(o.Ignored, u.GetAPIVersion()+" "+u.GetKind())
	return nil
}

// ownKinds are the kinds of our group.
var ownKinds = []string{"Infra", "InfraClusterAttachment", "DHCPServer", "DNSServer", "ProxyServer"}

// ours says whether a group is ours, or was meant to be.
func ours(group string) bool {
	own, _, _ := strings.Cut(v1alpha1.GroupVersion.Group, ".com")
	return strings.HasPrefix(group, own)
}

// judge keeps what an API server would refuse of one of our own objects. A value
// of the wrong type is an error at once: nothing can be decoded then.
func (o *Objects) judge(place, name string, u *unstructured.Unstructured) error {
	if u.GetAPIVersion() != v1alpha1.GroupVersion.String() {
		return nil
	}
	faults, err := schema.Check(u.GetKind(), u.GetName(), u.Object)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, f := range faults {
		o.Refused = append(o.Refused, fmt.Sprintf("%s: %s: %s", place, name, f))
	}
	return nil
}

// Empty says whether nothing of ours was read.
func (o *Objects) Empty() bool {
	w := o.World
	return len(w.Infras)+len(w.Attachments)+len(w.DHCPServers)+len(o.DNSServers)+len(w.ProxyServers) == 0
}

func namespaceFaults(u *unstructured.Unstructured) []string {
	if u.GetNamespace() == "" {
		return nil
	}
	return validation.IsDNS1123Label(u.GetNamespace())
}

var clusterScoped = map[string]bool{"Namespace": true, "Node": true, "Network": true, "ServiceCIDR": true, "Proxy": true}

// own decodes an object of our own kinds, as strictly as the API server does for
// kubectl: the version must be served and every field known.
func own[T any](list *[]T) func(*unstructured.Unstructured) error {
	return func(u *unstructured.Unstructured) error {
		if u.GetAPIVersion() != v1alpha1.GroupVersion.String() {
			return fmt.Errorf("apiVersion %q must be %s", u.GetAPIVersion(), v1alpha1.GroupVersion)
		}
		var t T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, &t, true); err != nil {
			return named(u, err)
		}
		*list = append(*list, t)
		return nil
	}
}

// named adds the place and the value to what the decoder says of a wrong type.
func named(u *unstructured.Unstructured, err error) error {
	faults, failed := schema.Check(u.GetKind(), u.GetName(), u.Object)
	if failed != nil || len(faults) == 0 || runtime.IsStrictDecodingError(err) {
		return fmt.Errorf("decoding: %w", err)
	}
	return errors.New(strings.Join(faults, "; "))
}

// into decodes an object of somebody else's, whose newer fields say nothing to
// us, and appends it to a list.
func into[T any](list *[]T) func(*unstructured.Unstructured) error {
	return func(u *unstructured.Unstructured) error {
		var t T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &t); err != nil {
			return fmt.Errorf("decoding: %w", err)
		}
		*list = append(*list, t)
		return nil
	}
}

func (o *Objects) readers() map[runtimeschema.GroupKind]func(*unstructured.Unstructured) error {
	w := &o.World
	group := v1alpha1.GroupVersion.Group
	return map[runtimeschema.GroupKind]func(*unstructured.Unstructured) error{
		{Group: group, Kind: "Infra"}:                                   own(&w.Infras),
		{Group: group, Kind: "InfraClusterAttachment"}:                  own(&w.Attachments),
		{Group: group, Kind: "DHCPServer"}:                              own(&w.DHCPServers),
		{Group: group, Kind: "DNSServer"}:                               own(&o.DNSServers),
		{Group: group, Kind: "ProxyServer"}:                             own(&w.ProxyServers),
		{Kind: "Namespace"}:                                             into(&w.Namespaces),
		{Kind: "Service"}:                                               into(&w.Services),
		{Group: "k8s.cni.cncf.io", Kind: "NetworkAttachmentDefinition"}: into(&w.NetworkAttachments),
		{Group: "hypershift.openshift.io", Kind: "HostedCluster"}:       into(&w.HostedClusters),
		{Group: "hypershift.openshift.io", Kind: "HostedControlPlane"}:  into(&w.HostedControlPlanes),
		{Group: "hypershift.openshift.io", Kind: "NodePool"}:            into(&w.NodePools),
		{Group: "cluster.x-k8s.io", Kind: "Machine"}:                    o.machine,
		{Group: "kubevirt.io", Kind: "VirtualMachineInstance"}:          o.vmi,
		{Group: "kubevirt.io", Kind: "VirtualMachine"}:                  func(*unstructured.Unstructured) error { return nil },
		{Kind: "Node"}: o.node,
		{Group: "networking.k8s.io", Kind: "ServiceCIDR"}: o.serviceCIDR,
		{Group: "config.openshift.io", Kind: "Network"}:   o.network,
		{Group: "config.openshift.io", Kind: "Proxy"}:     o.proxy,
	}
}

func (o *Objects) machine(u *unstructured.Unstructured) error {
	o.World.Machines = append(o.World.Machines, facts.MachineOf(u))
	return nil
}

func (o *Objects) vmi(u *unstructured.Unstructured) error {
	if o.World.VMIs == nil {
		o.World.VMIs = map[plan.Key]bool{}
	}
	o.World.VMIs[plan.Key{Namespace: u.GetNamespace(), Name: u.GetName()}] = true
	return nil
}

func (o *Objects) node(u *unstructured.Unstructured) error {
	var n corev1.Node
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &n); err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	o.hubNetworks(n.Spec.PodCIDRs...)
	return nil
}

func (o *Objects) serviceCIDR(u *unstructured.Unstructured) error {
	var s networkingv1.ServiceCIDR
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s); err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	o.hubNetworks(s.Spec.CIDRs...)
	return nil
}

func (o *Objects) network(u *unstructured.Unstructured) error {
	var n configv1.Network
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &n); err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	for _, c := range n.Status.ClusterNetwork {
		o.hubNetworks(c.CIDR)
	}
	o.hubNetworks(n.Status.ServiceNetwork...)
	return nil
}

func (o *Objects) proxy(u *unstructured.Unstructured) error {
	var p configv1.Proxy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p); err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	if p.Name == "cluster" {
		o.World.HubProxy = &p
	}
	return nil
}

// hubNetworks of the management cluster; unknown ones are skipped.
func (o *Objects) hubNetworks(cidrs ...string) {
	o.World.HubNetworks = append(o.World.HubNetworks, facts.Networks(cidrs)...)
}
