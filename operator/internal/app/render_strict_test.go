package app_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/internal/app"
)

const group = "apiVersion: hostedcluster.densityops.com/v1alpha1\n"

// wholeInfra has nothing wrong, by itself.
const wholeInfra = group + `kind: Infra
metadata: {name: vlan, namespace: clusters}
spec:
  networkConfig: {cidr: 192.0.2.0/24, gateway: 192.0.2.1, networkAttachmentDefinition: vlan100}
  infraComponents:
    dhcp: {serverIP: 192.0.2.2, rangeStart: 192.0.2.100, rangeEnd: 192.0.2.199}
    dns: {serverIP: 192.0.2.3}
    proxy: {serverIP: 192.0.2.4, internalProxyService: vlan-proxy.clusters.svc}
`

// attachment of a HostedCluster that is in no file.
func attachment(name, domain, pool string) string {
	return fmt.Sprintf(`---
%skind: InfraClusterAttachment
metadata: {name: %s, namespace: clusters}
spec:
  infraRef: {name: vlan}
  hostedClusterRef: {name: %s}
  dns: {clusterName: %s, baseDomain: example.com}
  appsIngress: {enabled: true, metallb: {addressPoolName: apps, ipAddressPoolRange: %s}}
`, group, name, name, domain, pool)
}

func nad(name, config string) string {
	return fmt.Sprintf("---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: %s, namespace: clusters}\nspec: {config: '%s'}\n", name, config)
}

const static = `{"name":"vlan100","type":"bridge","bridge":"vlan100","ipam":{"type":"static"}}`

// strictly renders with --strict and gives all that is said.
func strictly(t *testing.T, text string) (said string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	err = app.Render([]string{"-f", write(t, "in.yaml", text), "--strict"}, none, &stdout, &stderr)
	if err != nil {
		return stderr.String() + err.Error(), err
	}
	return stderr.String(), nil
}

// What is said of objects that are whole: nothing, but what could not be judged.
func TestAStrictRenderingTakesWhatIsWhole(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an Infra alone":                          wholeInfra,
		"with its static network":                 wholeInfra + nad("vlan100", static),
		"with a network that has the capability":  wholeInfra + nad("vlan100", `{"plugins":[{"type":"macvlan","capabilities":{"ips":true}}]}`),
		"with OVN-Kubernetes, which gives itself": wholeInfra + nad("vlan100", `{"type":"ovn-k8s-cni-overlay","topology":"localnet"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said, err := strictly(t, text)
			require.NoError(t, err, said)
			require.Contains(t, said, "note: Infra clusters/vlan: infraComponents.proxy.internalProxyService vlan-proxy.clusters.svc is the Service that the operator makes")
			require.Equal(t, name == "an Infra alone", strings.Contains(said, "no NetworkAttachmentDefinition was given"))
		})
	}
}

// behaviours A5, B3, F5: what can be said without a cluster is said.
func TestAStrictRenderingNamesEachMistake(t *testing.T) {
	t.Parallel()
	child := func(kind, spec string) string {
		return group + "kind: " + kind + "\nmetadata: {name: x, namespace: lab}\nspec: {" + spec + "}\n"
	}
	dhcp := func(spec string) string {
		return child("DHCPServer", "networkConfig: {cidr: 192.0.2.0/24, gateway: 192.0.2.1, serverIP: 192.0.2.2}, leaseConfig: {rangeStart: 192.0.2.100, rangeEnd: 192.0.2.199}, "+spec)
	}
	proxy := func(backends string) string {
		return child("ProxyServer", "networkConfig: {cidr: 192.0.2.0/24, serverIP: 192.0.2.4}, backends: ["+backends+"]")
	}
	for name, tc := range map[string]struct{ text, want string }{
		"a kind that we do not have":         {strings.Replace(wholeInfra, "kind: Infra", "kind: Infraa", 1), `has no kind "Infraa"; oooi's are Infra, `},
		"a group that is nearly ours":        {strings.Replace(wholeInfra, "densityops.com", "densityops.io", 1), `apiVersion "hostedcluster.densityops.io/v1alpha1" has no kind "Infra"`},
		"nothing at all":                     {"", "nothing to plan: no Infra"},
		"nothing of ours":                    {"apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n", "nothing to plan: no Infra"},
		"a word for a flag":                  {strings.Replace(wholeInfra, "dns: {", `dns: {enabled: "no", `, 1), `Infra clusters/vlan: spec.infraComponents.dns.enabled: "no" must be a boolean`},
		"a word for a number":                {proxy(`{name: a, port: "443", protocol: TLS}`), `ProxyServer lab/x: spec.backends[0].port: "443" must be an integer`},
		"a number for a word":                {strings.Replace(wholeInfra, "networkConfig: {", `networkConfig: {dnsServers: [53], `, 1), `spec.networkConfig.dnsServers[0]: 53 must be a string`},
		"two mistakes":                       {strings.Replace(wholeInfra, "spec:", "spec:\n  conflictPolicy: Foo\n  retainDisabled: 7", 1), `spec.conflictPolicy: "Foo" must be one of ExcludeAll, KeepOldest; spec.retainDisabled: 7 must be a boolean`},
		"a range that overlaps DHCP":         {wholeInfra + attachment("a", "a", "192.0.2.190-192.0.2.210"), "OverlappingRange: appsIngress.metallb.ipAddressPoolRange: range 192.0.2.190-192.0.2.210 overlaps the DHCP range"},
		"a range that is reversed":           {wholeInfra + attachment("a", "a", "192.0.2.210-192.0.2.200"), "ipAddressPoolRange 192.0.2.210 must not be after 192.0.2.200"},
		"a domain twice":                     {wholeInfra + attachment("a", "a", "192.0.2.200") + attachment("b", "a", "192.0.2.201"), "DuplicateHostname: domain a.example.com: a, b"},
		"a reversed range and no Infra":      {attachment("a", "a", "192.0.2.210-192.0.2.200"), "ipAddressPoolRange 192.0.2.210 must not be after 192.0.2.200"},
		"a network that is not given":        {wholeInfra + nad("vlan999", static), "Infra clusters/vlan: NetworkAttachmentNotFound: networkConfig.networkAttachmentDefinition clusters/vlan100 is not among the NetworkAttachmentDefinitions that were given: clusters/vlan999"},
		"a child's network that is not":      {strings.Replace(dhcp(""), "serverIP", "networkAttachmentName: gone, serverIP", 1) + nad("vlan100", static), "DHCPServer lab/x: NetworkAttachmentNotFound: networkConfig.networkAttachmentName lab/gone"},
		"a network that gives nothing":       {wholeInfra + nad("vlan100", `{"name":"vlan100","type":"bridge"}`), "Infra clusters/vlan: AddressNotAssigned: networkConfig.networkAttachmentDefinition: NetworkAttachmentDefinition clusters/vlan100 gives no pod the address"},
		"a network of no JSON":               {wholeInfra + nad("vlan100", "{"), "has a config that is no JSON"},
		"an option of the server's":          {dhcp("options: [{code: 53, value: x}]"), "options code 53 is decided by the server"},
		"routes that take the gateway away":  {dhcp(`options: [{code: 121, value: "0x180a0000c0000209"}]`), `options code 121 "0x180a0000c0000209" holds no default route`},
		"a station in two spellings":         {dhcp(`reservations: [{macAddress: "02:00:5e:10:00:0a", ip: 192.0.2.50}, {macAddress: "02-00-5E-10-00-0A", ip: 192.0.2.51}]`), "reservations macAddress 02-00-5E-10-00-0A is there twice"},
		"the network's MTU and option 26":    {strings.Replace(wholeInfra, "dhcp: {", `dhcp: {options: [{code: 26, value: "0x05dc"}], `, 1) + nad("vlan100", strings.Replace(static, "{", `{"mtu":9000,`, 1)), "infraComponents.dhcp.options code 26 is decided by the server and left out: NetworkAttachmentDefinition clusters/vlan100 says MTU 9000"},
		"a name with two answers":            {child("DNSServer", "networkConfig: {cidr: 192.0.2.0/24, serverIP: 192.0.2.3}, records: [{name: a.b, vlan: {policy: NoData}, pod: {policy: NoData}}, {name: a.b, vlan: {policy: NoData}, pod: {policy: Forward}}]"), "records: a.b is there more than once with different content"},
		"one of more names with two answers": {child("DNSServer", "networkConfig: {cidr: 192.0.2.0/24, serverIP: 192.0.2.3}, records: [{name: a.b, vlan: {policy: NoData}, pod: {policy: NoData}}, {name: c.b, moreNames: [a.b], vlan: {policy: NoData}, pod: {policy: Forward}}]"), "records: a.b is there more than once with different content"},
		"a backend without an endpoint":      {proxy("{name: a, port: 443, protocol: TCP}"), "backends: a: endpoints must hold one at least"},
		"the proxy as its own endpoint":      {proxy("{name: a, port: 443, protocol: TCP, endpoints: [{ip: 192.0.2.4, port: 443}]}"), "endpoint 192.0.2.4 can be none"},
		"a source outside":                   {proxy("{name: a, port: 443, protocol: TCP, sourcePrefixRanges: [198.51.100.0/24], endpoints: [{ip: 192.0.2.9, port: 443}]}"), "sourcePrefixRanges 198.51.100.0/24 must be a network"},
		"one name of two backends":           {proxy("{name: a, port: 443, protocol: TLS, hostnames: [x.y], endpoints: [{ip: 192.0.2.9, port: 1}]}, {name: b, port: 443, protocol: TLS, hostnames: [x.y], endpoints: [{ip: 192.0.2.9, port: 1}]}"), "port 443 x.y is claimed by a and b"},
		"HTTP and TLS on one port":           {proxy("{name: a, port: 443, protocol: TCP, endpoints: [{ip: 192.0.2.9, port: 1}]}, {name: b, port: 443, protocol: HTTP, hostnames: [x.y], endpoints: [{ip: 192.0.2.9, port: 1}]}"), "backends: b: port 443 carries TLS or TCP too"},
		"a listener that leads nowhere":      {child("ProxyServer", "networkConfig: {cidr: 192.0.2.0/24, serverIP: 192.0.2.4}, externalListeners: [{name: a, port: 20000, backends: [gone]}]"), `externalListeners: a: "gone" is no TLS backend`},
		"two listeners on a port":            {child("ProxyServer", "networkConfig: {cidr: 192.0.2.0/24, serverIP: 192.0.2.4}, externalListeners: [{name: a, port: 20000}, {name: b, port: 20000}]"), "name b or port 20000 is used by another one"},
		"a Service that is somebody else's":  {strings.Replace(wholeInfra, "vlan-proxy", "other", 1), "InternalProxyServiceUnresolved: infraComponents.proxy.internalProxyService other.clusters.svc names no Service"},
		"a Service of a proxy that is wrong": {strings.Replace(wholeInfra, "proxy: {serverIP: 192.0.2.4", "proxy: {serverIP: 192.0.2.3", 1), "infraComponents.proxy.serverIP 192.0.2.3 must differ"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said, err := strictly(t, tc.text)
			require.Error(t, err)
			require.Contains(t, said, tc.want)
		})
	}
}

// Without --strict nothing to plan is a word; a refused object is an error all
// the same, and nothing is written.
func TestARenderingOfNothing(t *testing.T) {
	t.Parallel()
	files, stderr, err := renderTo(t, "-f", write(t, "in.yaml", ""))
	require.NoError(t, err)
	require.Contains(t, stderr, "note: nothing to plan")
	require.Empty(t, files["children.yaml"])
	files, _, err = renderTo(t, "-f", write(t, "in.yaml", strings.Replace(wholeInfra, "spec:", "spec:\n  conflictPolicy: Foo", 1)))
	require.ErrorIs(t, err, app.ErrRefused)
	require.NotContains(t, files, "children.yaml")
	require.ErrorContains(t, err, "in.yaml, document 1: Infra clusters/vlan: spec.conflictPolicy")
}
