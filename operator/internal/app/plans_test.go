package app_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/operator/api/v1alpha1"
	"github.com/densityops/oooi/operator/internal/testenv"
)

// overlap is an address plan with one fault.
type overlap struct {
	Case       string            `json:"case"`
	CIDR       string            `json:"cidr"`
	Gateway    string            `json:"gateway"`
	RangeStart string            `json:"rangeStart"`
	RangeEnd   string            `json:"rangeEnd"`
	Pools      map[string]string `json:"pools"`
	Domains    map[string]string `json:"domains"`
}

// verdict is the right result: refused at admission, or a condition of the Infra
// or of an attachment; the words are the two values that collide.
type verdict struct {
	of, reason string
	words      []string
}

var verdicts = map[string]verdict{
	"range-covers-own-ip":    {"admission", "", []string{"192.0.2.2", "192.0.2.2-192.0.2.199"}},
	"range-covers-pool":      {"a", v1alpha1.ReasonOverlappingRange, []string{"192.0.2.200-192.0.2.209", "192.0.2.100-192.0.2.210"}},
	"pools-overlap-by-one":   {"b", v1alpha1.ReasonOverlappingRange, []string{"192.0.2.209-192.0.2.219", "192.0.2.200-192.0.2.209"}},
	"pools-cidr-vs-range":    {"b", v1alpha1.ReasonOverlappingRange, []string{"192.0.2.215-192.0.2.230", "192.0.2.208-192.0.2.223"}},
	"range-reversed":         {"admission", "", []string{"192.0.2.199", "192.0.2.100"}},
	"range-has-broadcast":    {"admission", "", []string{"192.0.2.255", "192.0.2.0/24"}},
	"host-bits-in-cidr":      {"admission", "", []string{"192.0.2.5/24"}},
	"leading-zero":           {"admission", "", []string{"192.0.2.001"}},
	"cidr-hides-services":    {"infra", v1alpha1.ReasonNetworkOverlap, []string{"172.16.0.0/12", "172.30.0.0/16"}},
	"cidr-inside-hosted":     {"a", v1alpha1.ReasonNetworkOverlap, []string{"10.133.7.0/24", "10.132.0.0/14"}},
	"nested-domains":         {"infra", v1alpha1.ReasonDuplicateHostname, []string{"example-hcp-a.clusters.example.com", "apps.example-hcp-a.clusters.example.com"}},
	"same-domain-other-case": {"admission", "", []string{"Example-HCP-A"}},
}

// base of the addresses of a case that names none.
func (c overlap) base() string {
	network, _, _ := strings.Cut(c.CIDR, "/")
	return network[:strings.LastIndex(network, ".")+1]
}

func (c overlap) infra(namespace string) *v1alpha1.Infra {
	ip := func(given, last string) v1alpha1.IPv4 {
		if given != "" {
			return v1alpha1.IPv4(given)
		}
		return v1alpha1.IPv4(c.base() + last)
	}
	i := testenv.Infra(namespace, "vlan", "vlan", 2)
	i.Spec.NetworkConfig.CIDR, i.Spec.NetworkConfig.Gateway = v1alpha1.IPv4CIDR(c.CIDR), ip(c.Gateway, "1")
	i.Spec.InfraComponents.DHCP = v1alpha1.InfraDHCP{ServerIP: ip("", "2"), RangeStart: ip(c.RangeStart, "100"), RangeEnd: ip(c.RangeEnd, "199")}
	i.Spec.InfraComponents.DNS.ServerIP, i.Spec.InfraComponents.Proxy.ServerIP = ip("", "3"), ip("", "4")
	return i
}

func (c overlap) attachment(namespace, name string) *v1alpha1.InfraClusterAttachment {
	a := testenv.Attachment(namespace, name, "vlan")
	if domain := strings.TrimSuffix(c.Domains[name], "."); domain != "" {
		first, rest, _ := strings.Cut(domain, ".")
		a.Spec.DNS = v1alpha1.AttachmentDNS{ClusterName: v1alpha1.DomainName(first), BaseDomain: v1alpha1.DomainName(rest)}
	}
	if pool := c.Pools[name]; pool != "" {
		a.Spec.AppsIngress.Enabled = true
		a.Spec.AppsIngress.MetalLB = v1alpha1.AppsMetalLB{AddressPoolName: "pool", IPAddressPoolRange: v1alpha1.IPv4Range(pool)}
	}
	return a
}

// case C47, hazards 33, 70, 129, 144, 217, 242, 259: bad address plans are refused at
// admission, or named before any child or hosted cluster sees them.
func TestCaseBadAddressPlans(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "cases", "infra-overlaps.yaml"))
	require.NoError(t, err)
	var cases []overlap
	require.NoError(t, yaml.Unmarshal(text, &cases))
	require.Len(t, cases, len(verdicts))
	require.NoError(t, env.Install(t.Context(), testenv.All()...))
	network := &configv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	env.Must(t, network)
	t.Cleanup(func() { require.NoError(t, env.Client.Delete(context.WithoutCancel(t.Context()), network)) })
	network.Status = configv1.NetworkStatus{
		ClusterNetwork: []configv1.ClusterNetworkEntry{{CIDR: "10.128.0.0/14", HostPrefix: 23}}, ServiceNetwork: []string{"172.30.0.0/16"},
	}
	require.NoError(t, env.Client.Update(t.Context(), network))
	env.Operator(t, testenv.DefaultOptions())
	for i, c := range cases {
		if c.CIDR == "" {
			c.CIDR = "192.0.2.0/24"
		}
		t.Run(c.Case, func(t *testing.T) { c.run(t, fmt.Sprintf("overlap%d", i), verdicts[c.Case]) })
	}
}

func (c overlap) run(t *testing.T, namespace string, want verdict) {
	require.NotEmpty(t, want.words, "the case has no verdict")
	t.Cleanup(func() { env.Sweep(t, namespace) })
	env.Must(t, testenv.NamespaceObject(namespace), testenv.NAD(namespace, "vlan"))
	infra := c.infra(namespace)
	err := env.Client.Create(t.Context(), infra)
	var a, b *v1alpha1.InfraClusterAttachment
	for _, name := range []string{"a", "b"} {
		if err != nil {
			break
		}
		env.Must(t, testenv.Hosted{Namespace: namespace, Name: name}.Objects()...)
		o := c.attachment(namespace, name)
		if err = env.Client.Create(t.Context(), o); err == nil && (want.of == name || want.of == "b") {
			// One after the other: the newcomer is the second one.
			taken(t, o)
		}
		if name == "a" {
			a = o
		} else {
			b = o
		}
	}
	var found *metav1.Condition
	switch want.of {
	case "admission":
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		for _, w := range want.words {
			require.ErrorContains(t, err, w)
		}
		return
	case "infra":
		require.NoError(t, err)
		found = condition(t, infra, v1alpha1.ConditionReady, metav1.ConditionFalse, want.reason)
	default:
		require.NoError(t, err)
		found = condition(t, map[string]*v1alpha1.InfraClusterAttachment{"a": a, "b": b}[want.of], v1alpha1.ConditionProgrammed, metav1.ConditionFalse, want.reason)
	}
	for _, w := range want.words {
		require.Contains(t, found.Message, w)
	}
	c.nothingWasMade(t, namespace, want, a, b)
}

// taken waits for the Infra's word on an attachment.
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

// nothingWasMade before the fault was named.
func (c overlap) nothingWasMade(t *testing.T, namespace string, want verdict, a, b *v1alpha1.InfraClusterAttachment) {
	t.Helper()
	switch {
	case want.reason == v1alpha1.ReasonNetworkOverlap && want.of == "infra":
		for _, list := range []client.ObjectList{&v1alpha1.DHCPServerList{}, &v1alpha1.DNSServerList{}, &v1alpha1.ProxyServerList{}} {
			require.NoError(t, env.Client.List(t.Context(), list, client.InNamespace(namespace)))
			require.Zero(t, lenOf(list), "%T", list)
		}
	case want.reason == v1alpha1.ReasonDuplicateHostname:
		for _, o := range []*v1alpha1.InfraClusterAttachment{a, b} {
			condition(t, o, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDuplicateHostname)
		}
	case want.reason == v1alpha1.ReasonOverlappingRange:
		loser := map[string]*v1alpha1.InfraClusterAttachment{"a": a, "b": b}[want.of]
		condition(t, loser, v1alpha1.ConditionAppsIngressReady, metav1.ConditionFalse, v1alpha1.ReasonOverlappingRange)
		require.Empty(t, get(t, loser).Status.AppsIngressStatus.Applied, "nothing was written to its cluster")
	}
}

// hazard 241, on a live API server: the warning follows the hub's Proxy.
func TestTheHubsProxyIsFollowed(t *testing.T) {
	w := build(t, 25, "upsilon")
	env.Operator(t, testenv.DefaultOptions())
	condition(t, w.infra, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
	proxy := &configv1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	env.Must(t, proxy)
	t.Cleanup(func() { require.NoError(t, env.Client.Delete(context.WithoutCancel(t.Context()), proxy)) })
	proxy.Status = configv1.ProxyStatus{HTTPSProxy: "http://198.51.100.80:3128", NoProxy: ".svc,10.128.0.0/14"}
	require.NoError(t, env.Client.Status().Update(t.Context(), proxy))
	c := condition(t, w.infra, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonHubProxyLacksVLAN)
	require.Contains(t, c.Message, "add 192.0.25.0/24 to its spec.noProxy")
	proxy.Status.NoProxy += ",192.0.25.0/24"
	require.NoError(t, env.Client.Status().Update(t.Context(), proxy))
	condition(t, w.infra, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
}

// behaviour A7, hazards 3, 260: addresses may move; the status says what running
// workers keep, for a lease time, and the children have the new ones in the order
// in which they lead to each other.
func TestAMovedNetworkSaysWhatWorkersKeep(t *testing.T) {
	w := build(t, 26, "phi")
	merge(t, w.infra, `{"spec":{"infraComponents":{"dhcp":{"leaseTime":"60s"}}}}`)
	o := env.Operator(t, testenv.DefaultOptions())
	env.Kubelet(t, w.namespace)
	env.Agents(t, w.namespace, "vlan")
	condition(t, w.infra, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAsExpected)
	settled(t, o)
	merge(t, w.infra, `{"spec":{"infraComponents":{"dns":{"serverIP":"192.0.26.5"},"proxy":{"serverIP":"192.0.26.6"}}}}`)
	c := condition(t, w.infra, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonNetworkChanged)
	require.Contains(t, c.Message, "infraComponents.dns.serverIP moved from 192.0.26.3 to 192.0.26.5")
	require.Contains(t, c.Message, "infraComponents.proxy.serverIP moved from 192.0.26.4 to 192.0.26.6")
	require.Contains(t, c.Message, "running workers keep what they had until they renew, at most 1m0s")
	dhcp, dns, proxy := childrenOf(w)
	require.Equal(t, []v1alpha1.IPv4{"192.0.26.5"}, get(t, dhcp).Spec.NetworkConfig.DNSServers)
	require.Equal(t, v1alpha1.IPv4("192.0.26.5"), get(t, dns).Spec.NetworkConfig.ServerIP)
	require.Equal(t, v1alpha1.IPv4("192.0.26.6"), get(t, proxy).Spec.NetworkConfig.ServerIP)
	var order []string
	for _, write := range o.Writes.Taken() {
		for _, kind := range []string{"proxyservers/vlan-proxy", "dnsservers/vlan-dns", "dhcpservers/vlan-dhcp"} {
			if strings.HasSuffix(write, kind) {
				order = append(order, kind)
			}
		}
	}
	require.Equal(t, []string{"proxyservers/vlan-proxy", "dnsservers/vlan-dns", "dhcpservers/vlan-dhcp"}, order)
	condition(t, w.infra, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAsExpected)
	testenv.Eventually(t, 2*patience, func() error {
		c := condition(t, w.infra, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
		if c.Message != "" {
			return fmt.Errorf("the message is %q", c.Message)
		}
		return nil
	})
}
