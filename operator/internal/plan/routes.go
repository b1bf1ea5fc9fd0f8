package plan

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/densityops/oooi/operator/api/v1alpha1"
)

// The ports that clients of a control plane connect to (behaviour E1).
const (
	apiPort = 6443
	tlsPort = 443
)

// routes are the proxy's backends (behaviours E1 to E4), sorted by name.
func routes(included []*candidate, sources map[Key][]netip.Addr, pod podView, fallback fallback) []v1alpha1.ProxyBackend {
	var out []v1alpha1.ProxyBackend
	for _, c := range included {
		out = append(out, namedRoutes(c)...)
		out = append(out, aliasRoutes(c, sources[c.Key])...)
		out = append(out, fallbackRoute(c, sources[c.Key], fallback)...)
		out = append(out, appsRoutes(c, pod)...)
	}
	slices.SortFunc(out, func(a, b v1alpha1.ProxyBackend) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// endpoint of a control plane's Service; none while it is unknown.
func (c *candidate) endpoint(role v1alpha1.ServiceRole) []v1alpha1.ProxyEndpoint {
	for _, s := range c.Services {
		if s.Role == role && s.IP.IsValid() && s.Port != 0 {
			return []v1alpha1.ProxyEndpoint{{IP: listedIPv4(s.IP), Port: v1alpha1.Port(s.Port)}}
		}
	}
	return nil
}

// namedRoutes lead each full name to its control plane, from anywhere: TLS
// protects there.
func namedRoutes(c *candidate) []v1alpha1.ProxyBackend {
	var out []v1alpha1.ProxyBackend
	for _, r := range []struct {
		name  string
		role  v1alpha1.ServiceRole
		port  v1alpha1.Port
		hosts []string
	}{
		{"api", v1alpha1.ServiceRoleAPIServer, apiPort, []string{"api", "api-int"}},
		{"oauth", v1alpha1.ServiceRoleOAuth, tlsPort, []string{"oauth"}},
		{"ignition", v1alpha1.ServiceRoleIgnition, tlsPort, []string{"ignition"}},
		{"konnectivity", v1alpha1.ServiceRoleKonnectivity, tlsPort, []string{"konnectivity"}},
	} {
		to := c.endpoint(r.role)
		if to == nil {
			continue
		}
		b := v1alpha1.ProxyBackend{Name: c.Name + "/" + r.name, Port: r.port, Protocol: v1alpha1.ProxyProtocolTLS, Endpoints: to, PodSide: true}
		for _, h := range r.hosts {
			b.Hostnames = append(b.Hostnames, h+"."+c.domain)
		}
		out = append(out, b)
	}
	return out
}

// aliasRoutes lead what a known worker sends without a name of ours to its own
// API server (behaviour E2).
func aliasRoutes(c *candidate, sources []netip.Addr) []v1alpha1.ProxyBackend {
	to := c.endpoint(v1alpha1.ServiceRoleAPIServer)
	if to == nil || len(sources) == 0 {
		return nil
	}
	return []v1alpha1.ProxyBackend{
		{Name: c.Name + "/alias-api", Port: apiPort, Protocol: v1alpha1.ProxyProtocolTCP, SourcePrefixRanges: prefixes(sources), Endpoints: to},
		{
			Name: c.Name + "/alias-tls", Hostnames: slices.Clone(Aliases), Port: tlsPort, Protocol: v1alpha1.ProxyProtocolTLS,
			SourcePrefixRanges: prefixes(sources), Endpoints: to,
		},
	}
}

// fallback says who takes a hello without SNI on 443 (behaviour E4).
type fallback int

const (
	fallbackOff fallback = iota
	// fallbackAny: one attachment, from any source.
	fallbackAny
	// fallbackBySource: several, each for its own workers.
	fallbackBySource
)

func fallbackRoute(c *candidate, sources []netip.Addr, f fallback) []v1alpha1.ProxyBackend {
	to := c.endpoint(v1alpha1.ServiceRoleKonnectivity)
	if to == nil || f == fallbackOff || f == fallbackBySource && len(sources) == 0 {
		return nil
	}
	b := v1alpha1.ProxyBackend{Name: c.Name + "/konnectivity-fallback", Port: tlsPort, Protocol: v1alpha1.ProxyProtocolTLS, Endpoints: to}
	if f == fallbackBySource {
		b.SourcePrefixRanges = prefixes(sources)
	}
	return []v1alpha1.ProxyBackend{b}
}

// appsRoutes lead *.apps to the cluster's own endpoint (behaviour E3).
func appsRoutes(c *candidate, pod podView) []v1alpha1.ProxyBackend {
	if !c.publishes() {
		return nil
	}
	http, https := AppsPorts(c.Spec.AppsIngress.Ports)
	to := func(port uint16) []v1alpha1.ProxyEndpoint {
		e := v1alpha1.ProxyEndpoint{IP: listedIPv4(c.AppsIP), Port: v1alpha1.Port(port)}
		if !c.AppsIP.IsValid() {
			e.Hostname = v1alpha1.DomainName(strings.TrimSuffix(strings.ToLower(c.AppsHostname), "."))
		}
		return []v1alpha1.ProxyEndpoint{e}
	}
	if !c.AppsIP.IsValid() && c.AppsHostname == "" {
		return nil
	}
	names := []string{"*.apps." + c.domain}
	return []v1alpha1.ProxyBackend{
		{
			Name: c.Name + "/apps-https", Hostnames: names, Port: v1alpha1.Port(https), Protocol: v1alpha1.ProxyProtocolTLS,
			Endpoints: to(https), PodSide: pod.declared,
		},
		{
			Name: c.Name + "/apps-http", Hostnames: slices.Clone(names), Port: v1alpha1.Port(http), Protocol: v1alpha1.ProxyProtocolHTTP,
			Endpoints: to(http), PodSide: pod.declared,
		},
	}
}

// prefixes are the /32 of each address.
func prefixes(sources []netip.Addr) []string {
	out := make([]string, len(sources))
	for i, a := range sources {
		out[i] = a.String() + "/32"
	}
	return out
}
