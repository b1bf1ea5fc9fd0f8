package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// rests says whether a component is not to be applied: it is disabled (behaviour
// B7) or its declaration is wrong (behaviour A6).
func (w *world) rests(flag *bool, fault, name string) (Action, Reason, bool) {
	switch {
	case !enabled(flag) && !enabled(w.in.Infra.Spec.RetainDisabled):
		return Delete, Reason{v1alpha1.ReasonDisabled, "infraComponents." + name + ".enabled is false"}, true
	case !enabled(flag):
		return Keep, Reason{v1alpha1.ReasonDisabled, "infraComponents." + name + ".enabled is false"}, true
	case fault != "":
		return Keep, Reason{v1alpha1.ReasonInvalidConfiguration, fault}, true
	}
	return Apply, Reason{}, false
}

func (w *world) nadName() v1alpha1.ObjectName { return v1alpha1.ObjectName(w.own.nad.Name) }

func (w *world) nadNamespace() v1alpha1.NamespaceName {
	return v1alpha1.NamespaceName(w.own.nad.Namespace)
}

func (w *world) dhcpServer(own []*candidate, ranges []Range) Component[v1alpha1.DHCPServerSpec] {
	d := w.in.Infra.Spec.InfraComponents.DHCP
	if action, reason, idle := w.rests(d.Enabled, w.own.dhcpFault, "dhcp"); idle {
		return Component[v1alpha1.DHCPServerSpec]{Action: action, Reason: reason}
	}
	spec := &v1alpha1.DHCPServerSpec{
		PodConfig: d.PodConfig,
		NetworkConfig: v1alpha1.DHCPNetworkConfig{
			CIDR: v1alpha1.IPv4CIDR(w.own.cidr.String()), Gateway: ipv4(w.own.gateway), ServerIP: ipv4(w.own.dhcp),
			DNSServers: w.leasedResolvers(), MTU: int32(w.mtu()),
			NetworkAttachmentName: w.nadName(), NetworkAttachmentNamespace: w.nadNamespace(),
		},
		LeaseConfig: v1alpha1.DHCPLeaseConfig{
			RangeStart: ipv4(w.own.pool.First), RangeEnd: ipv4(w.own.pool.Last),
			LeaseTime: v1alpha1.LeaseTime(leaseText(d.LeaseTime)),
		},
		Options: w.options(d.Options), Reservations: d.Reservations, UnknownClients: d.UnknownClients, Relays: sortedIPs(d.Relays),
		ExcludedRanges: w.excluded(d.ExcludedRanges, ranges), NetworkAttachments: w.twins(), VMINamespaces: w.vmiNamespaces(own),
		Image: d.Image,
	}
	if spec.UnknownClients == "" {
		spec.UnknownClients = v1alpha1.UnknownClientsServe
	}
	return Component[v1alpha1.DHCPServerSpec]{Action: Apply, Spec: spec}
}

// options without the MTU where the network says it: the server decides then.
func (w *world) options(declared []v1alpha1.DHCPOption) []v1alpha1.DHCPOption {
	at := slices.IndexFunc(declared, func(o v1alpha1.DHCPOption) bool { return o.Code == optionMTU })
	if at < 0 || w.mtu() == 0 {
		return declared
	}
	w.own.warnings = append(w.own.warnings, fmt.Sprintf(
		"infraComponents.dhcp.options code 26 is decided by the server and left out: NetworkAttachmentDefinition %s says MTU %d", w.own.nad, w.mtu()))
	return slices.Delete(slices.Clone(declared), at, at+1)
}

// leaseText is the lease time as it was written, or its default.
func leaseText(lease v1alpha1.LeaseTime) string {
	if lease == "" {
		return "1h"
	}
	return string(lease)
}

func sortedIPs(ips []v1alpha1.IPv4) []v1alpha1.IPv4 {
	ips = slices.Clone(ips)
	slices.Sort(ips)
	return slices.Compact(ips)
}

// mtu of the NetworkAttachmentDefinition where the schema can hold it.
func (w *world) mtu() int {
	m := w.attachment(w.own.nad).MTU
	if m < 576 || m > 65535 {
		return 0
	}
	return m
}

// leasedResolvers is option 6: our DNS server, or without one the addresses of
// dnsServers (behaviour C2).
func (w *world) leasedResolvers() []v1alpha1.IPv4 {
	if enabled(w.in.Infra.Spec.InfraComponents.DNS.Enabled) && w.own.dnsFault == "" {
		return []v1alpha1.IPv4{ipv4(w.own.dns)}
	}
	var out []v1alpha1.IPv4
	for _, u := range w.own.upstreams {
		if a, port, err := ParseUpstream(string(u)); err == nil && port == 53 && !slices.Contains(out, ipv4(a)) {
			out = append(out, ipv4(a))
		}
	}
	return out
}

// excluded is what the pool never gives (behaviour C7).
func (w *world) excluded(declared []v1alpha1.IPv4Range, ranges []Range) []v1alpha1.IPv4Range {
	all := slices.Clone(ranges)
	for _, d := range declared {
		if r, err := ParseRange(string(d)); err == nil {
			all = append(all, r)
		}
	}
	for _, a := range w.own.reserved() {
		all = append(all, Range{a, a})
	}
	sortRanges(all)
	var out []v1alpha1.IPv4Range
	for _, r := range slices.Compact(all) {
		out = append(out, v1alpha1.IPv4Range(r.String()))
	}
	return out
}

// vmiNamespaces are the Infra's own and the control planes'.
func (w *world) vmiNamespaces(own []*candidate) []string {
	out := []string{w.in.Infra.Namespace}
	for _, c := range own {
		if c.admitted && isLabel(c.ControlPlaneNamespace) {
			out = append(out, c.ControlPlaneNamespace)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (w *world) dnsServer(included []*candidate, sources map[Key][]netip.Addr, pod podView) Component[v1alpha1.DNSServerSpec] {
	d := w.in.Infra.Spec.InfraComponents.DNS
	if action, reason, idle := w.rests(d.Enabled, w.own.dnsFault, "dns"); idle {
		return Component[v1alpha1.DNSServerSpec]{Action: action, Reason: reason}
	}
	spec := &v1alpha1.DNSServerSpec{
		PodConfig: d.PodConfig,
		NetworkConfig: v1alpha1.DNSNetworkConfig{
			CIDR: v1alpha1.IPv4CIDR(w.own.cidr.String()), ServerIP: ipv4(w.own.dns),
			NetworkAttachmentName: w.nadName(), NetworkAttachmentNamespace: w.nadNamespace(),
			AdditionalSourceCIDRs: sortedCIDRs(d.AdditionalSourceCIDRs),
		},
		Records: records(included, sources, w.proxyAddress(), pod), UpstreamServers: w.own.upstreams,
		TTLSeconds: d.TTLSeconds, Image: d.Image,
	}
	for _, c := range included {
		spec.Zones = append(spec.Zones, v1alpha1.DomainName(c.domain))
	}
	slices.Sort(spec.Zones)
	spec.Hosts = hosts(w.in.Bindings, w.own, included, spec.Records)
	if a, found := w.in.ClusterIPs[w.dnsService()]; found {
		spec.OwnAddresses = []v1alpha1.IPv4{ipv4(a)}
	}
	if spec.TTLSeconds < 1 || spec.TTLSeconds > 30 {
		spec.TTLSeconds = 30
	}
	return Component[v1alpha1.DNSServerSpec]{Action: Apply, Spec: spec}
}

// proxyAddress is where names lead: nowhere without a proxy. One that is disabled
// and retained still serves.
func (w *world) proxyAddress() netip.Addr {
	spec := w.in.Infra.Spec
	if !enabled(spec.InfraComponents.Proxy.Enabled) && !enabled(spec.RetainDisabled) || w.own.pxyFault != "" {
		return netip.Addr{}
	}
	return w.own.proxy
}

func sortedCIDRs(cidrs []v1alpha1.IPv4CIDR) []v1alpha1.IPv4CIDR {
	cidrs = slices.Clone(cidrs)
	slices.Sort(cidrs)
	return slices.Compact(cidrs)
}

func (w *world) proxyServer(own, included, wanting []*candidate, sources map[Key][]netip.Addr, ports map[string]uint16, pod podView,
) Component[v1alpha1.ProxyServerSpec] {
	d := w.in.Infra.Spec.InfraComponents.Proxy
	if action, reason, idle := w.rests(d.Enabled, w.own.pxyFault, "proxy"); idle {
		return Component[v1alpha1.ProxyServerSpec]{Action: action, Reason: reason}
	}
	accessLog := enabled(d.AccessLog)
	spec := &v1alpha1.ProxyServerSpec{
		PodConfig: d.PodConfig,
		NetworkConfig: v1alpha1.ProxyNetworkConfig{
			ServerIP: ipv4(w.own.proxy), CIDR: v1alpha1.IPv4CIDR(w.own.cidr.String()),
			NetworkAttachmentName: w.nadName(), NetworkAttachmentNamespace: w.nadNamespace(), UpstreamServers: w.own.upstreams,
		},
		Backends:  routes(included, sources, pod, w.fallback(own)),
		AccessLog: &accessLog, ProxyImage: d.ProxyImage, ManagerImage: d.ManagerImage, LogLevel: "info",
	}
	for _, a := range w.own.reserved() {
		spec.NetworkConfig.ReservedIPs = append(spec.NetworkConfig.ReservedIPs, ipv4(a))
	}
	spec.ExternalListeners = externalListeners(ports, wanting, spec.Backends)
	return Component[v1alpha1.ProxyServerSpec]{Action: Apply, Spec: spec}
}

// fallback counts every attachment that is permitted: the workers of one that is
// excluded are on the VLAN too, and are nobody else's.
func (w *world) fallback(own []*candidate) fallback {
	if w.in.Infra.Spec.InfraComponents.Proxy.LegacyKonnectivityFallback == v1alpha1.LegacyKonnectivityFallbackDisabled {
		return fallbackOff
	}
	permitted := 0
	for _, c := range own {
		if c.HostedClusterUID != "" {
			permitted++
		}
	}
	if permitted > 1 {
		return fallbackBySource
	}
	return fallbackAny
}
