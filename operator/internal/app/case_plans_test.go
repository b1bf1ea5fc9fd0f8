package app_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	hyperv1 "github.com/openshift/hypershift/api/hypershift/v1beta1"
	"github.com/openshift/hypershift/api/util/ipnet"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// networks of a cluster.
type networks struct {
	ClusterNetwork string `json:"clusterNetwork"`
	ServiceNetwork string `json:"serviceNetwork"`
}

// overlap is an address plan with one fault.
type overlap struct {
	Case       string            `json:"case"`
	CIDR       string            `json:"cidr"`
	Gateway    string            `json:"gateway"`
	DHCP       string            `json:"dhcp"`
	DNS        string            `json:"dns"`
	Proxy      string            `json:"proxy"`
	RangeStart string            `json:"rangeStart"`
	RangeEnd   string            `json:"rangeEnd"`
	Pools      map[string]string `json:"pools"`
	Domains    map[string]string `json:"domains"`
	Hub        *networks         `json:"hub"`
	Hosted     *networks         `json:"hosted"`
}

// verdict is the right result: refused at admission, or a condition of the Infra
// or of attachments; the message is the whole of it. What is excluded is published
// by no child at any time.
type verdict struct {
	of, reason, message string
	unpublished         []string
}

var verdicts = map[string]verdict{
	"range-covers-own-ip": {of: "admission", message: `Invalid value: "object": infraComponents.dhcp.serverIP 192.0.2.2 must not lie in the range 192.0.2.2-192.0.2.199` + "\n" +
		`Invalid value: "object": infraComponents.dns.serverIP 192.0.2.3 must not lie in the range 192.0.2.2-192.0.2.199` + "\n" +
		`Invalid value: "object": infraComponents.proxy.serverIP 192.0.2.4 must not lie in the range 192.0.2.2-192.0.2.199`},
	"range-covers-pool":    {of: "a", reason: v1alpha1.ReasonOverlappingRange, message: "appsIngress.metallb.ipAddressPoolRange: range 192.0.2.200-192.0.2.209 overlaps the DHCP range 192.0.2.100-192.0.2.210", unpublished: []string{`"a/apps-http`}},
	"pools-overlap-by-one": {of: "b", reason: v1alpha1.ReasonOverlappingRange, message: "appsIngress.metallb.ipAddressPoolRange: range 192.0.2.209-192.0.2.219 overlaps 192.0.2.200-192.0.2.209 of overlap2/a", unpublished: []string{`"b/apps-http`}},
	"pools-cidr-vs-range":  {of: "b", reason: v1alpha1.ReasonOverlappingRange, message: "appsIngress.metallb.ipAddressPoolRange: range 192.0.2.215-192.0.2.230 overlaps 192.0.2.208-192.0.2.223 of overlap3/a", unpublished: []string{`"b/apps-http`}},
	"range-reversed":       {of: "admission", message: `Invalid value: "object": infraComponents.dhcp.rangeStart 192.0.2.199 must not be after infraComponents.dhcp.rangeEnd 192.0.2.100`},
	"range-has-broadcast":  {of: "admission", message: `Invalid value: "object": infraComponents.dhcp.rangeEnd 192.0.2.255 must be a host address inside networkConfig.cidr 192.0.2.0/24`},
	"host-bits-in-cidr":    {of: "admission", message: `Invalid value: "string": 192.0.2.5/24 must be an IPv4 network without host bits, such as 192.0.2.0/24`},
	"leading-zero":         {of: "admission", message: `Invalid value: "string": 192.0.2.001 must be an IPv4 address without leading zeros, such as 192.0.2.1`},
	"cidr-hides-services":  {of: "infra", reason: v1alpha1.ReasonNetworkOverlap, message: "networkConfig.cidr 172.16.0.0/12 overlaps 172.30.0.0/16, a pod or service network of the management cluster"},
	"cidr-inside-hosted":   {of: "a", reason: v1alpha1.ReasonNetworkOverlap, message: "the hosted cluster's network 10.132.0.0/14 overlaps networkConfig.cidr 10.133.7.0/24", unpublished: []string{"a.clusters.example.com"}},
	"nested-domains":       {of: "infra", reason: v1alpha1.ReasonDuplicateHostname, message: "domain apps.example-hcp-a.clusters.example.com, example-hcp-a.clusters.example.com: a, b", unpublished: []string{"example-hcp-a.clusters.example.com"}},
	"same-domain-other-case": {of: "admission", message: `Invalid value: "clusters.example.com.": spec.dns.baseDomain in body should match '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$'` + "\n" +
		`Invalid value: "Example-HCP-A": spec.dns.clusterName in body should match '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$'`, unpublished: []string{"Example-HCP-A"}},
}

func (c overlap) infra(namespace string) *v1alpha1.Infra {
	base := c.CIDR[:strings.LastIndex(c.CIDR, ".")+1]
	ip := func(given, last string) v1alpha1.IPv4 {
		if given != "" {
			return v1alpha1.IPv4(given)
		}
		return v1alpha1.IPv4(base + last)
	}
	i := testenv.Infra(namespace, "vlan", "vlan", 2)
	i.Spec.NetworkConfig.CIDR, i.Spec.NetworkConfig.Gateway = v1alpha1.IPv4CIDR(c.CIDR), ip(c.Gateway, "1")
	i.Spec.InfraComponents.DHCP = v1alpha1.InfraDHCP{ServerIP: ip(c.DHCP, "2"), RangeStart: ip(c.RangeStart, "100"), RangeEnd: ip(c.RangeEnd, "199")}
	i.Spec.InfraComponents.DNS.ServerIP, i.Spec.InfraComponents.Proxy.ServerIP = ip(c.DNS, "3"), ip(c.Proxy, "4")
	return i
}

func (c overlap) attachment(namespace, name string) *v1alpha1.InfraClusterAttachment {
	a := testenv.Attachment(namespace, name, "vlan")
	if domain := c.Domains[name]; domain != "" {
		first, rest, _ := strings.Cut(domain, ".")
		a.Spec.DNS = v1alpha1.AttachmentDNS{ClusterName: v1alpha1.DomainName(first), BaseDomain: v1alpha1.DomainName(rest)}
	}
	if pool := c.Pools[name]; pool != "" {
		a.Spec.AppsIngress.Enabled = true
		a.Spec.AppsIngress.MetalLB = v1alpha1.AppsMetalLB{AddressPoolName: "pool", IPAddressPoolRange: v1alpha1.IPv4Range(pool)}
	}
	return a
}

// hosted are the objects of a hosted cluster with the case's networks.
func (c overlap) hosted(namespace, name string) []client.Object {
	objects := testenv.Hosted{Namespace: namespace, Name: name}.Objects()
	for _, o := range objects {
		if hc, ok := o.(*hyperv1.HostedCluster); ok && c.Hosted != nil {
			hc.Spec.Networking.ClusterNetwork = []hyperv1.ClusterNetworkEntry{{CIDR: *ipnet.MustParseCIDR(c.Hosted.ClusterNetwork)}}
			hc.Spec.Networking.ServiceNetwork = []hyperv1.ServiceNetworkEntry{{CIDR: *ipnet.MustParseCIDR(c.Hosted.ServiceNetwork)}}
		}
	}
	return objects
}

// hub gives the management cluster the networks that the cases say.
func hub(t *testing.T, cases []overlap) {
	t.Helper()
	network := &configv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	env.Must(t, network)
	t.Cleanup(func() { require.NoError(t, env.Client.Delete(context.WithoutCancel(t.Context()), network)) })
	for _, c := range cases {
		if c.Hub != nil {
			network.Status.ClusterNetwork = append(network.Status.ClusterNetwork, configv1.ClusterNetworkEntry{CIDR: c.Hub.ClusterNetwork, HostPrefix: 23})
			network.Status.ServiceNetwork = append(network.Status.ServiceNetwork, c.Hub.ServiceNetwork)
		}
	}
	require.NotEmpty(t, network.Status.ServiceNetwork)
	require.NoError(t, env.Client.Update(t.Context(), network))
}

// case C47, hazards 33, 70, 129, 144, 217, 242, 259: bad address plans are refused at
// admission, or named before any child or hosted cluster sees them.
func TestCaseBadAddressPlans(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "cases", "infra-overlaps.yaml"))
	require.NoError(t, err)
	var cases []overlap
	require.NoError(t, yaml.UnmarshalStrict(text, &cases))
	require.Len(t, cases, len(verdicts))
	require.NoError(t, env.Install(t.Context(), testenv.All()...))
	hub(t, cases)
	env.Operator(t, testenv.DefaultOptions())
	for i, c := range cases {
		if c.CIDR == "" {
			c.CIDR = "192.0.2.0/24"
		}
		t.Run(c.Case, func(t *testing.T) { c.run(t, fmt.Sprintf("overlap%d", i), verdicts[c.Case]) })
	}
}

func (c overlap) run(t *testing.T, namespace string, want verdict) {
	require.NotEmpty(t, want.message, "the case has no verdict")
	t.Cleanup(func() { env.Sweep(t, namespace) })
	env.Must(t, testenv.NamespaceObject(namespace), testenv.NAD(namespace, "vlan"))
	seen := follow(t, namespace)
	infra := c.infra(namespace)
	attachments := map[string]*v1alpha1.InfraClusterAttachment{"a": c.attachment(namespace, "a"), "b": c.attachment(namespace, "b")}
	// What the Infra has to say comes last, with both attachments known.
	order := []client.Object{infra, attachments["a"], attachments["b"]}
	if want.of == "infra" {
		order = []client.Object{attachments["a"], attachments["b"], infra}
	}
	for i, o := range order {
		if o != infra {
			env.Must(t, c.hosted(namespace, o.GetName())...)
		}
		err := env.Client.Create(t.Context(), o)
		if want.of == "admission" && (err != nil || i == len(order)-1) {
			requireRefused(t, err, o, want)
			c.nothingWasMade(t, infra, o, seen, want)
			return
		}
		require.NoError(t, err)
		if a, ok := o.(*v1alpha1.InfraClusterAttachment); ok {
			taken(t, a)
		}
	}
	c.named(t, infra, attachments, seen, want)
}

// named: the fault is a condition, in these words.
func (c overlap) named(t *testing.T, infra *v1alpha1.Infra, attachments map[string]*v1alpha1.InfraClusterAttachment, seen *publications, want verdict) {
	t.Helper()
	var named client.Object = infra
	conditionType := v1alpha1.ConditionReady
	if want.of != "infra" {
		named, conditionType = attachments[want.of], v1alpha1.ConditionProgrammed
	}
	found := condition(t, named, conditionType, metav1.ConditionFalse, want.reason)
	require.Equal(t, want.message, found.Message)
	if want.reason == v1alpha1.ReasonDuplicateHostname {
		for _, a := range attachments {
			condition(t, a, v1alpha1.ConditionReady, metav1.ConditionFalse, want.reason)
		}
	}
	c.nothingWasMade(t, infra, named, seen, want)
}

// requireRefused: the API server says the whole of it, and does not have the object.
func requireRefused(t *testing.T, err error, o client.Object, want verdict) {
	t.Helper()
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	var causes []string
	for _, cause := range err.(apierrors.APIStatus).Status().Details.Causes {
		if !strings.Contains(cause.Message, "some validation rules were not checked") {
			causes = append(causes, cause.Message)
		}
	}
	slices.Sort(causes) // the API server gives them in any order
	said := strings.Split(want.message, "\n")
	slices.Sort(said)
	require.Equal(t, said, causes)
	require.NoError(t, env.Gone(t.Context(), o))
}

// taken waits for the operator's word on an attachment.
func taken(t *testing.T, a *v1alpha1.InfraClusterAttachment) {
	t.Helper()
	testenv.Eventually(t, patience, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		if a.Status.ObservedGeneration == 0 {
			return fmt.Errorf("%s has no status yet", a.Name)
		}
		return nil
	})
}

// nothingWasMade of what is excluded, neither before it was named nor after.
func (c overlap) nothingWasMade(t *testing.T, infra *v1alpha1.Infra, named client.Object, seen *publications, want verdict) {
	t.Helper()
	published := strings.Join(seen.all(), "\n")
	for _, text := range want.unpublished {
		require.NotContains(t, published, text)
	}
	if a, ok := named.(*v1alpha1.InfraClusterAttachment); ok {
		if want.reason == v1alpha1.ReasonNetworkOverlap {
			closed(t, testenv.Hosted{Namespace: a.Namespace, Name: a.Name})
		}
		if want.reason == v1alpha1.ReasonOverlappingRange {
			condition(t, a, v1alpha1.ConditionAppsIngressReady, metav1.ConditionFalse, want.reason)
			require.Empty(t, a.Status.AppsIngressStatus.Applied, "nothing was written to its cluster")
			require.Empty(t, a.Status.AppsIngressStatus.ExternalIP)
		}
		return
	}
	if want.reason == v1alpha1.ReasonDuplicateHostname {
		_, _, proxy := childrenOf(world{namespace: infra.Namespace})
		require.Empty(t, get(t, proxy).Spec.Backends)
		return
	}
	require.Empty(t, published, "no child was ever there")
	nothingOf(t, infra.Namespace, &v1alpha1.DHCPServerList{}, &v1alpha1.DNSServerList{}, &v1alpha1.ProxyServerList{}, &appsv1.DeploymentList{})
}

func nothingOf(t *testing.T, namespace string, lists ...client.ObjectList) {
	t.Helper()
	for _, list := range lists {
		require.NoError(t, env.Client.List(t.Context(), list, client.InNamespace(namespace)))
		require.Zero(t, lenOf(list), "%T", list)
	}
}
