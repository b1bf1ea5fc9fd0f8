package plan

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// CheckDHCPServer names what is wrong with a DHCPServer, whatever the API server
// has let through (behaviour A5).
func CheckDHCPServer(s v1alpha1.DHCPServerSpec) []string {
	cidr, faults := checkServer(string(s.NetworkConfig.CIDR), s.NetworkConfig.ServerIP)
	if len(faults) > 0 {
		return faults
	}
	gateway, fault := hostIn(cidr, "networkConfig.gateway", s.NetworkConfig.Gateway)
	faults = append(faults, fault...)
	if len(fault) == 0 && s.NetworkConfig.Gateway == s.NetworkConfig.ServerIP {
		faults = append(faults, fmt.Sprintf("networkConfig.serverIP %s must differ from networkConfig.gateway", s.NetworkConfig.ServerIP))
	}
	first, fault := hostIn(cidr, "leaseConfig.rangeStart", s.LeaseConfig.RangeStart)
	faults = append(faults, fault...)
	last, fault := hostIn(cidr, "leaseConfig.rangeEnd", s.LeaseConfig.RangeEnd)
	faults = append(faults, fault...)
	if len(faults) > 0 {
		return faults
	}
	pool := Range{first, last}
	if last.Less(first) {
		return []string{fmt.Sprintf("leaseConfig.rangeStart %s must not be after leaseConfig.rangeEnd %s", first, last)}
	}
	server, _ := ParseIPv4(string(s.NetworkConfig.ServerIP))
	for _, taken := range []struct {
		field string
		addr  netip.Addr
	}{{"gateway", gateway}, {"serverIP", server}} {
		if pool.Contains(taken.addr) {
			faults = append(faults, fmt.Sprintf("networkConfig.%s %s must not lie in the range %s", taken.field, taken.addr, pool))
		}
	}
	for _, d := range s.NetworkConfig.DNSServers {
		if _, err := ParseIPv4(string(d)); err != nil {
			faults = append(faults, "networkConfig.dnsServers "+err.Error())
		}
	}
	faults = append(faults, CheckLeaseTime(s.LeaseConfig.LeaseTime, "leaseConfig.leaseTime")...)
	return append(faults, checkDHCPLists("", cidr, s.Options, s.Reservations, s.ExcludedRanges, s.Relays)...)
}

// CheckDNSServer does the same for a DNSServer.
func CheckDNSServer(s v1alpha1.DNSServerSpec) []string {
	_, faults := checkServer(string(s.NetworkConfig.CIDR), s.NetworkConfig.ServerIP)
	for _, c := range s.NetworkConfig.AdditionalSourceCIDRs {
		if _, err := ParseCIDR(string(c)); err != nil {
			faults = append(faults, "networkConfig.additionalSourceCIDRs "+err.Error())
		}
	}
	for _, u := range s.UpstreamServers {
		if _, _, err := ParseUpstream(string(u)); err != nil && u != "resolv.conf" {
			faults = append(faults, "upstreamServers "+err.Error())
		}
	}
	for _, r := range s.Records {
		if !isDomain(strings.TrimPrefix(r.Name, "*.")) {
			faults = append(faults, fmt.Sprintf("records: %q must be a lower-case DNS name or a wildcard", r.Name))
		}
		faults = append(faults, checkView(r.Name, r.VLAN)...)
		faults = append(faults, checkView(r.Name, r.Pod)...)
	}
	faults = append(faults, addressFaults("ownAddresses", s.OwnAddresses)...)
	for _, h := range s.Hosts {
		if _, err := ParseIPv4(string(h.Address)); err != nil {
			faults = append(faults, "hosts "+err.Error())
		}
	}
	return faults
}

func checkView(name string, v v1alpha1.DNSView) []string {
	var faults []string
	if (v.Policy == v1alpha1.DNSPolicyAnswer) != (len(v.Addresses) > 0) {
		faults = append(faults, fmt.Sprintf("records: %s: addresses belong to policy Answer, and to it alone", name))
	}
	for _, a := range v.Addresses {
		if _, err := ParseIPv4(string(a)); err != nil {
			faults = append(faults, fmt.Sprintf("records: %s: %v", name, err))
		}
	}
	return faults
}

// CheckProxyServer does the same for a ProxyServer.
func CheckProxyServer(s v1alpha1.ProxyServerSpec) []string {
	_, faults := checkServer(string(s.NetworkConfig.CIDR), s.NetworkConfig.ServerIP)
	for _, u := range s.NetworkConfig.UpstreamServers {
		if _, _, err := ParseUpstream(string(u)); err != nil && u != "resolv.conf" {
			faults = append(faults, "networkConfig.upstreamServers "+err.Error())
		}
	}
	faults = append(faults, addressFaults("networkConfig.reservedIPs", s.NetworkConfig.ReservedIPs)...)
	names := map[string]bool{}
	for _, b := range s.Backends {
		if names[b.Name] {
			faults = append(faults, fmt.Sprintf("backends: the name %s is there twice", b.Name))
		}
		names[b.Name] = true
		faults = append(faults, checkBackend(b)...)
	}
	return faults
}

func addressFaults(field string, list []v1alpha1.IPv4) []string {
	var faults []string
	for _, a := range list {
		if _, err := ParseIPv4(string(a)); err != nil {
			faults = append(faults, field+" "+err.Error())
		}
	}
	return faults
}

func checkBackend(b v1alpha1.ProxyBackend) []string {
	var faults []string
	fault := func(format string, args ...any) {
		faults = append(faults, "backends: "+b.Name+": "+fmt.Sprintf(format, args...))
	}
	if b.Protocol == v1alpha1.ProxyProtocolHTTP && len(b.Hostnames) == 0 {
		fault("hostnames are required with protocol HTTP")
	}
	if b.Protocol == v1alpha1.ProxyProtocolTCP && len(b.Hostnames) > 0 {
		fault("hostnames have no meaning with protocol TCP")
	}
	if i := slices.IndexFunc(b.Hostnames, func(h string) bool { return !isDomain(strings.TrimPrefix(h, "*.")) }); i >= 0 {
		fault("%q must be a lower-case DNS name or a wildcard", b.Hostnames[i])
	}
	for _, p := range b.SourcePrefixRanges {
		if prefix, err := netip.ParsePrefix(p); err != nil || !prefix.Addr().Is4() || prefix.Bits() == 0 {
			fault("%q must be an IPv4 network", p)
		}
	}
	for _, e := range b.Endpoints {
		if err := checkEndpoint(e); err != nil {
			fault("%v", err)
		}
	}
	return faults
}

func checkEndpoint(e v1alpha1.ProxyEndpoint) error {
	if (e.IP != "") == (e.Hostname != "") {
		return errors.New("exactly one of ip and hostname is required")
	}
	if e.IP == "" {
		return nil
	}
	_, err := ParseIPv4(string(e.IP))
	return err
}

// checkServer checks what every child has: a network and an address in it.
func checkServer(cidr string, server v1alpha1.IPv4) (netip.Prefix, []string) {
	p, err := ParseCIDR(cidr)
	if err != nil {
		return p, []string{"networkConfig.cidr " + err.Error()}
	}
	_, faults := hostIn(p, "networkConfig.serverIP", server)
	return p, faults
}

func hostIn(cidr netip.Prefix, field string, ip v1alpha1.IPv4) (netip.Addr, []string) {
	a, err := ParseIPv4(string(ip))
	if err != nil {
		return a, []string{field + " " + err.Error()}
	}
	if !isHost(cidr, a) {
		return a, []string{fmt.Sprintf("%s %s must be a host address inside networkConfig.cidr %s", field, a, cidr)}
	}
	return a, nil
}
