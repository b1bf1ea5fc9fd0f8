package plan

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// ReviewDHCPServer names what the DHCP server itself leaves out of a
// configuration that it serves otherwise.
func ReviewDHCPServer(s v1alpha1.DHCPServerSpec) []string {
	var out []string
	for _, o := range s.Options {
		value, err := OptionBytes(o)
		if o.Code == optionRoutes && err == nil && !hasDefaultRoute(value) {
			out = append(out, fmt.Sprintf("options code 121 %q holds no default route, which would take the gateway from every client", o.Value))
		}
	}
	return out
}

// optionRoutes are classless routes: a client that gets them ignores option 3
// (RFC 3442).
const optionRoutes = 121

// hasDefaultRoute walks the routes: a width, the significant bytes of the
// destination, a router of four bytes (RFC 3442, classless route option format).
func hasDefaultRoute(v []byte) bool {
	found := false
	for len(v) > 0 {
		width := int(v[0])
		n := 1 + (width+7)/8 + 4
		if width > 32 || len(v) < n {
			return false
		}
		found = found || width == 0
		v = v[n:]
	}
	return found
}

// ReviewDNSServer does the same for the DNS server.
func ReviewDNSServer(s v1alpha1.DNSServerSpec) []string {
	var out []string
	seen := map[string][2]v1alpha1.DNSView{}
	for _, r := range s.Records {
		views := [2]v1alpha1.DNSView{r.VLAN, r.Pod}
		for _, name := range r.Names() {
			if before, twice := seen[name]; twice && !reflect.DeepEqual(before, views) {
				out = append(out, fmt.Sprintf("records: %s is there more than once with different content", name))
			}
			seen[name] = views
		}
	}
	return out
}

// The bounds of a proxy's source ranges: a single one, and all together.
const (
	widestSource = 20
	maxSources   = 1 << 17
)

// ReviewProxyServer does the same for the proxy: a backend or a listener that is
// wrong is left out alone (behaviour E9).
func ReviewProxyServer(s v1alpha1.ProxyServerSpec) []string {
	cidr, err := ParseCIDR(string(s.NetworkConfig.CIDR))
	if err != nil {
		return nil
	}
	var out []string
	sources := 0
	for _, b := range s.Backends {
		out = append(out, reviewEndpoints(b, s.NetworkConfig.ServerIP)...)
		faults, n := reviewSources(b, cidr)
		out, sources = append(out, faults...), sources+n
	}
	if sources > maxSources {
		out = append(out, fmt.Sprintf("backends: sourcePrefixRanges hold %d addresses, %d are possible", sources, maxSources))
	}
	return slices.Concat(out, takenTwice(s.Backends), reviewListeners(s))
}

func reviewEndpoints(b v1alpha1.ProxyBackend, proxy v1alpha1.IPv4) []string {
	var out []string
	if len(b.Endpoints) == 0 {
		out = append(out, fmt.Sprintf("backends: %s: endpoints must hold one at least", b.Name))
	}
	for _, e := range b.Endpoints {
		if a, err := ParseIPv4(string(e.IP)); err == nil && (a.IsUnspecified() || a.As4()[0] >= 224 || string(e.IP) == string(proxy)) {
			out = append(out, fmt.Sprintf("backends: %s: endpoint %s can be none: it is the proxy itself, or no host's", b.Name, e.IP))
		}
	}
	return out
}

// reviewSources counts the addresses of the ranges too.
func reviewSources(b v1alpha1.ProxyBackend, cidr netip.Prefix) (out []string, addresses int) {
	for _, text := range b.SourcePrefixRanges {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			continue // CheckProxyServer's
		}
		if p != p.Masked() || p.Bits() < widestSource || !cidr.Contains(p.Addr()) || p.Bits() < cidr.Bits() {
			out = append(out, fmt.Sprintf("backends: %s: sourcePrefixRanges %s must be a network without host bits of /%d or smaller inside %s", b.Name, text, widestSource, cidr))
			continue
		}
		addresses += 1 << (32 - p.Bits())
	}
	return out, addresses
}

// takenTwice names what two backends claim from any source.
func takenTwice(backends []v1alpha1.ProxyBackend) []string {
	type match struct {
		port v1alpha1.Port
		tcp  bool
		name string
	}
	var out []string
	streams, owner := map[v1alpha1.Port]bool{}, map[match]string{}
	for _, b := range backends {
		streams[b.Port] = streams[b.Port] || b.Protocol != v1alpha1.ProxyProtocolHTTP
	}
	for _, b := range backends {
		if b.Protocol == v1alpha1.ProxyProtocolHTTP && streams[b.Port] {
			out = append(out, fmt.Sprintf("backends: %s: port %d carries TLS or TCP too", b.Name, b.Port))
		}
		if len(b.SourcePrefixRanges) > 0 {
			continue
		}
		names := b.Hostnames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, name := range names {
			m := match{b.Port, b.Protocol == v1alpha1.ProxyProtocolTCP, name}
			if other, found := owner[m]; found && other != b.Name {
				what := strings.TrimSpace("port " + fmt.Sprint(b.Port) + " " + name)
				out = append(out, fmt.Sprintf("backends: %s is claimed by %s and %s", what, other, b.Name))
			}
			owner[m] = b.Name
		}
	}
	return out
}

// reviewListeners names external listeners that collide or lead nowhere.
func reviewListeners(s v1alpha1.ProxyServerSpec) []string {
	var out []string
	byName := map[string]v1alpha1.ProxyBackend{}
	for _, b := range s.Backends {
		byName[b.Name] = b
	}
	names, ports := map[v1alpha1.ObjectName]bool{}, map[int32]bool{}
	for _, l := range s.ExternalListeners {
		if names[l.Name] || ports[l.Port] {
			out = append(out, fmt.Sprintf("externalListeners: name %s or port %d is used by another one", l.Name, l.Port))
		}
		names[l.Name], ports[l.Port] = true, true
		for _, name := range l.Backends {
			if b, found := byName[name]; !found || b.Protocol != v1alpha1.ProxyProtocolTLS || len(b.Hostnames) == 0 || len(b.SourcePrefixRanges) > 0 {
				out = append(out, fmt.Sprintf("externalListeners: %s: %q is no TLS backend with hostnames for every source", l.Name, name))
			}
		}
	}
	return out
}
