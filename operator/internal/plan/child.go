package plan

import (
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
	faults = append(faults, oneOf("unknownClients", s.UnknownClients, v1alpha1.UnknownClientsServe, v1alpha1.UnknownClientsIgnore)...)
	faults = append(faults, between("networkConfig.mtu", s.NetworkConfig.MTU, 576, 65535)...)
	if s.NetworkConfig.MTU != 0 && slices.ContainsFunc(s.Options, func(o v1alpha1.DHCPOption) bool { return o.Code == optionMTU }) {
		faults = append(faults, fmt.Sprintf("options code 26 is decided by the server where networkConfig.mtu is set: %d", s.NetworkConfig.MTU))
	}
	return append(faults, dhcpLists{
		cidr: cidr, taken: []netip.Addr{gateway, server}, options: s.Options, reservations: s.Reservations, excluded: s.ExcludedRanges, relays: s.Relays,
	}.faults()...)
}

// optionMTU is the interface's MTU (RFC 2132 section 5.1).
const optionMTU = 26

// CheckDNSServer does the same for a DNSServer.
func CheckDNSServer(s v1alpha1.DNSServerSpec) []string {
	cidr, faults := checkServer(string(s.NetworkConfig.CIDR), s.NetworkConfig.ServerIP)
	faults = append(faults, between("ttlSeconds", s.TTLSeconds, 1, 30)...)
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
	for _, z := range s.Zones {
		if !isDomain(string(z)) {
			faults = append(faults, fmt.Sprintf("zones: %q must be a lower-case DNS name", z))
		}
	}
	for _, r := range s.Records {
		faults = append(faults, recordFaults(r)...)
	}
	faults = append(faults, addressFaults("ownAddresses", s.OwnAddresses)...)
	return append(faults, hostFaults(cidr, s.Hosts)...)
}

func recordFaults(r v1alpha1.DNSRecord) []string {
	var faults []string
	for _, name := range r.Names() {
		if !isDomain(strings.TrimPrefix(name, "*.")) {
			faults = append(faults, fmt.Sprintf("records: %q must be a lower-case DNS name or a wildcard", name))
		}
	}
	if len(r.MoreNames) > 64 {
		faults = append(faults, fmt.Sprintf("records: %s: %d moreNames, 64 are possible", r.Name, len(r.MoreNames)))
	}
	faults = append(faults, checkView(r.Name, r.VLAN)...)
	return append(faults, checkView(r.Name, r.Pod)...)
}

func hostFaults(cidr netip.Prefix, hosts []v1alpha1.DNSHost) []string {
	var faults []string
	for _, h := range hosts {
		a, err := ParseIPv4(string(h.Address))
		switch {
		case err != nil:
			faults = append(faults, "hosts "+err.Error())
		case cidr.IsValid() && !cidr.Contains(a):
			faults = append(faults, fmt.Sprintf("hosts: %s must lie inside networkConfig.cidr %s", a, cidr))
		case !isDomain(string(h.Name)):
			faults = append(faults, fmt.Sprintf("hosts: %q must be a lower-case DNS name", h.Name))
		}
	}
	return faults
}

func checkView(name string, v v1alpha1.DNSView) []string {
	if v.Policy == "" {
		return []string{fmt.Sprintf("records: %s: policy must be set", name)}
	}
	faults := oneOf("records: "+name+": policy", v.Policy, v1alpha1.DNSPolicyAnswer, v1alpha1.DNSPolicyNoData, v1alpha1.DNSPolicyForward)
	if len(v.Addresses) > 8 {
		faults = append(faults, fmt.Sprintf("records: %s: %d addresses, 8 are possible", name, len(v.Addresses)))
	}
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
	faults = append(faults, oneOf("logLevel", s.LogLevel, "trace", "debug", "info", "warning", "error", "critical", "off")...)
	for _, l := range s.ExternalListeners {
		if l.Port < 20000 || l.Port > 20249 {
			faults = append(faults, fmt.Sprintf("externalListeners: %s: port %d must be between 20000 and 20249", l.Name, l.Port))
		}
	}
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
	for _, words := range append(shapeFaults(b), portFaults(b)...) {
		fault("%s", words)
	}
	if strings.Trim(b.Name, "abcdefghijklmnopqrstuvwxyz0123456789-._/") != "" || b.Name == "" || len(b.Name) > 253 {
		fault("name must be 1 to 253 lower-case letters, digits and - . _ /")
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

// shapeFaults say which protocol goes with which fields.
func shapeFaults(b v1alpha1.ProxyBackend) []string {
	http, tcp := b.Protocol == v1alpha1.ProxyProtocolHTTP, b.Protocol == v1alpha1.ProxyProtocolTCP
	switch {
	case b.Protocol == "":
		return []string{"protocol must be set"}
	case http && len(b.Hostnames) == 0:
		return []string{"hostnames are required with protocol HTTP"}
	case tcp && len(b.Hostnames) > 0:
		return []string{"hostnames have no meaning with protocol TCP: " + b.Hostnames[0]}
	case http && len(b.SourcePrefixRanges) > 0:
		return []string{"sourcePrefixRanges have no meaning with protocol HTTP: " + b.SourcePrefixRanges[0]}
	}
	return oneOf("protocol", b.Protocol, v1alpha1.ProxyProtocolTLS, v1alpha1.ProxyProtocolHTTP, v1alpha1.ProxyProtocolTCP)
}

// portFaults: 53 is the DNS server's, the others are the pod's own.
func portFaults(b v1alpha1.ProxyBackend) []string {
	switch {
	case b.Port < 1 || b.Port > 65535:
		return []string{fmt.Sprintf("port %d must be between 1 and 65535", b.Port)}
	case b.Port == 53 || b.Port == 9901 || b.Port >= 9090 && b.Port <= 9099:
		return []string{fmt.Sprintf("port %d is reserved: 53, 9090-9099 and 9901 are", b.Port)}
	}
	return nil
}

func checkEndpoint(e v1alpha1.ProxyEndpoint) error {
	switch {
	case (e.IP != "") == (e.Hostname != ""):
		return fmt.Errorf("exactly one of ip and hostname is required; ip is %q, hostname %q", e.IP, e.Hostname)
	case e.Port < 1 || e.Port > 65535:
		return fmt.Errorf("endpoint port %d must be between 1 and 65535", e.Port)
	case e.Hostname != "" && !isDomain(string(e.Hostname)):
		return fmt.Errorf("endpoint %q must be a lower-case DNS name", e.Hostname)
	case e.Hostname != "":
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
