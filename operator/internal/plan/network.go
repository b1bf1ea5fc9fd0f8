package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// The lease times that a server may give (behaviour A5).
const (
	minLease = time.Minute
	maxLease = 720 * time.Hour
)

// network is an Infra's declaration, parsed.
type network struct {
	cidr    netip.Prefix
	gateway netip.Addr
	nad     Key
	// dhcp, dns and proxy are the servers' addresses, also of a component that
	// is disabled: its pod may still run.
	dhcp, dns, proxy netip.Addr
	pool             Range
	// upstreams are dnsServers without those that cannot be used.
	upstreams []v1alpha1.Upstream
	// faults of the whole, and of each component.
	fault                         string
	dhcpFault, dnsFault, pxyFault string
	// warnings stop nothing.
	warnings []string
}

// enabled is true unless it is set to false (behaviour A1).
func enabled(flag *bool) bool { return flag == nil || *flag }

// parseNetwork reads what an Infra declares.
func parseNetwork(i Infra) network {
	c := i.Spec.NetworkConfig
	n := network{nad: nadOf(i)}
	var err error
	if n.cidr, err = ParseCIDR(string(c.CIDR)); err != nil {
		n.fault = "networkConfig.cidr " + err.Error()
		return n
	}
	if n.gateway, err = ParseIPv4(string(c.Gateway)); err != nil {
		n.fault = "networkConfig.gateway " + err.Error()
		return n
	}
	if !isHost(n.cidr, n.gateway) {
		n.fault = fmt.Sprintf("networkConfig.gateway %s must be a host address inside networkConfig.cidr %s", n.gateway, n.cidr)
		return n
	}
	if n.nad.Name == "" {
		n.fault = "networkConfig.networkAttachmentDefinition must be set"
		return n
	}
	first(&n.fault, oneOf("conflictPolicy", i.Spec.ConflictPolicy, v1alpha1.ConflictPolicyExcludeAll, v1alpha1.ConflictPolicyKeepOldest))
	if n.fault != "" {
		return n
	}
	k := i.Spec.InfraComponents
	n.dhcp, n.dhcpFault = n.server("dhcp", k.DHCP.ServerIP, n.gateway)
	n.dns, n.dnsFault = n.server("dns", k.DNS.ServerIP, n.gateway, n.dhcp)
	n.proxy, n.pxyFault = n.server("proxy", k.Proxy.ServerIP, n.gateway, n.dhcp, n.dns)
	n.parsePool(k.DHCP)
	n.parseLists(i.Spec)
	n.parseUpstreams(c.DNSServers)
	return n
}

// server parses a component's serverIP. others are taken already.
func (n *network) server(component string, ip v1alpha1.IPv4, others ...netip.Addr) (netip.Addr, string) {
	field := "infraComponents." + component + ".serverIP"
	if ip == "" {
		return netip.Addr{}, field + " must be set"
	}
	a, err := ParseIPv4(string(ip))
	if err != nil {
		return netip.Addr{}, field + " " + err.Error()
	}
	if !isHost(n.cidr, a) {
		return netip.Addr{}, fmt.Sprintf("%s %s must be a host address inside networkConfig.cidr %s", field, a, n.cidr)
	}
	names := []string{"networkConfig.gateway", "infraComponents.dhcp.serverIP", "infraComponents.dns.serverIP"}
	for i, other := range others {
		if a == other {
			return netip.Addr{}, fmt.Sprintf("%s %s must differ from %s", field, a, names[i])
		}
	}
	return a, ""
}

// parsePool reads the dynamic range. A fault of it is a fault of DHCP alone.
func (n *network) parsePool(d v1alpha1.InfraDHCP) {
	fault := func(format string, args ...any) {
		if n.dhcpFault == "" {
			n.dhcpFault = fmt.Sprintf(format, args...)
		}
	}
	if d.RangeStart == "" || d.RangeEnd == "" {
		fault("infraComponents.dhcp.rangeStart and rangeEnd must be set")
		return
	}
	pool := Range{}
	for _, end := range []struct {
		field string
		value v1alpha1.IPv4
		into  *netip.Addr
	}{{"rangeStart", d.RangeStart, &pool.First}, {"rangeEnd", d.RangeEnd, &pool.Last}} {
		a, err := ParseIPv4(string(end.value))
		if err != nil {
			fault("infraComponents.dhcp.%s %v", end.field, err)
			return
		}
		if !isHost(n.cidr, a) {
			fault("infraComponents.dhcp.%s %s must be a host address inside networkConfig.cidr %s", end.field, a, n.cidr)
			return
		}
		*end.into = a
	}
	if pool.Last.Less(pool.First) {
		fault("infraComponents.dhcp.rangeStart %s must not be after infraComponents.dhcp.rangeEnd %s", pool.First, pool.Last)
		return
	}
	n.pool = pool
	for _, taken := range []struct {
		field string
		addr  netip.Addr
	}{
		{"networkConfig.gateway", n.gateway},
		{"infraComponents.dhcp.serverIP", n.dhcp},
		{"infraComponents.dns.serverIP", n.dns},
		{"infraComponents.proxy.serverIP", n.proxy},
	} {
		if pool.Contains(taken.addr) {
			fault("%s %s must not lie in the range %s", taken.field, taken.addr, pool)
		}
	}
}

// parseLists reads the lists and the words of the components.
func (n *network) parseLists(spec v1alpha1.InfraSpec) {
	d := spec.InfraComponents.DHCP
	faults := CheckLeaseTime(d.LeaseTime, "infraComponents.dhcp.leaseTime")
	faults = append(faults, oneOf("infraComponents.dhcp.unknownClients", d.UnknownClients, v1alpha1.UnknownClientsServe, v1alpha1.UnknownClientsIgnore)...)
	faults = append(faults, dhcpLists{
		prefix: "infraComponents.dhcp.", cidr: n.cidr, taken: n.reserved(),
		options: d.Options, reservations: d.Reservations, excluded: d.ExcludedRanges, relays: d.Relays,
	}.faults()...)
	first(&n.dhcpFault, faults)
	faults = between("infraComponents.dns.ttlSeconds", spec.InfraComponents.DNS.TTLSeconds, 1, 30)
	for _, c := range spec.InfraComponents.DNS.AdditionalSourceCIDRs {
		if _, err := ParseCIDR(string(c)); err != nil {
			faults = append(faults, "infraComponents.dns.additionalSourceCIDRs "+err.Error())
		}
	}
	first(&n.dnsFault, faults)
	first(&n.pxyFault, oneOf("infraComponents.proxy.legacyKonnectivityFallback", spec.InfraComponents.Proxy.LegacyKonnectivityFallback,
		v1alpha1.LegacyKonnectivityFallbackAuto, v1alpha1.LegacyKonnectivityFallbackDisabled))
}

// first keeps the first fault that there is.
func first(kept *string, faults []string) {
	if *kept == "" && len(faults) > 0 {
		*kept = faults[0]
	}
}

// parseUpstreams drops what is no resolver and what is ourselves (behaviour D5).
func (n *network) parseUpstreams(servers []v1alpha1.Upstream) {
	for _, s := range servers {
		if s == "resolv.conf" {
			n.upstreams = append(n.upstreams, s)
			continue
		}
		addr, _, err := ParseUpstream(string(s))
		switch {
		case err != nil:
			n.warnings = append(n.warnings, "networkConfig.dnsServers "+err.Error())
		case addr.IsLoopback() || slices.Contains(n.servers(), addr):
			n.warnings = append(n.warnings, fmt.Sprintf("networkConfig.dnsServers %s is this stack itself and is left out", s))
		default:
			n.upstreams = append(n.upstreams, s)
		}
	}
}

// dropUpstream leaves out our own Service (behaviour D5).
func (n *network) dropUpstream(own netip.Addr) {
	n.upstreams = slices.DeleteFunc(n.upstreams, func(u v1alpha1.Upstream) bool {
		a, _, err := ParseUpstream(string(u))
		if err != nil || a != own {
			return false
		}
		n.warnings = append(n.warnings, fmt.Sprintf("networkConfig.dnsServers %s is this stack itself and is left out", u))
		return true
	})
}

// ParseUpstream reads an address with or without a port.
func ParseUpstream(s string) (netip.Addr, uint16, error) {
	host, port := s, uint16(53)
	if strings.Contains(s, ":") {
		ap, err := netip.ParseAddrPort(s)
		if err != nil || ap.Port() == 0 {
			return netip.Addr{}, 0, fmt.Errorf("%q must be an IPv4 address, address:port or resolv.conf", s)
		}
		host, port = ap.Addr().String(), ap.Port()
	}
	a, err := ParseIPv4(host)
	switch {
	case err != nil:
		return netip.Addr{}, 0, fmt.Errorf("%q must be an IPv4 address, address:port or resolv.conf", s)
	case a.IsUnspecified() || a.As4()[0] >= 224:
		return netip.Addr{}, 0, fmt.Errorf("%q can be no resolver", s)
	}
	return a, port, nil
}

// servers are the addresses of our own pods on the VLAN.
func (n *network) servers() []netip.Addr {
	var out []netip.Addr
	for _, a := range []netip.Addr{n.dhcp, n.dns, n.proxy} {
		if a.IsValid() {
			out = append(out, a)
		}
	}
	return sortAddrs(out)
}

// reserved are the addresses that are no worker's and no load balancer's.
func (n *network) reserved() []netip.Addr {
	return sortAddrs(append(n.servers(), n.gateway))
}

// inForce is the network as the status records it.
func (n *network) inForce() *v1alpha1.NetworkInForce {
	return &v1alpha1.NetworkInForce{
		CIDR: v1alpha1.IPv4CIDR(n.cidr.String()), DHCPServerIP: ipv4(n.dhcp), DNSServerIP: ipv4(n.dns), ProxyServerIP: ipv4(n.proxy),
	}
}

// ipv4 is the API's form of an address; an unset one is empty.
func ipv4(a netip.Addr) v1alpha1.IPv4 {
	if !a.IsValid() {
		return ""
	}
	return v1alpha1.IPv4(a.String())
}

// listedIPv4 is the same in the long lists of a child.
func listedIPv4(a netip.Addr) v1alpha1.ListedIPv4 { return v1alpha1.ListedIPv4(ipv4(a)) }
