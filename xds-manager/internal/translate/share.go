package translate

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/densityops/oooi/xds-manager/internal/routes"
)

// Chain is the filter chain that a backend has on a listener of a validated table.
func Chain(t routes.Table, l routes.Listener, backend string) string {
	backends, endpoints := indexed(t, Env{})
	if other := sharedChains(l, backends, endpoints)[backend]; other != "" {
		return other
	}
	return backend
}

// indexed are a table's backends and their endpoints by name.
func indexed(t routes.Table, env Env) (map[string]routes.Backend, map[string][]netip.AddrPort) {
	backends := make(map[string]routes.Backend, len(t.Backends))
	endpoints := make(map[string][]netip.AddrPort, len(t.Backends))
	for _, b := range t.Backends {
		backends[b.Name], endpoints[b.Name] = b, endpointsOf(b, env)
	}
	return backends, endpoints
}

// sharedChains says which backends of a listener use the chain of another one:
// an alias or a fallback that leads where its own attachment's name leads. What
// a worker may use then is only a matter of the matcher, so its connections live
// even when the last known worker goes, and a listener has a third less chains.
//
// Only within one attachment, which is what stands before the slash of a name:
// no chain of one may ever go because of another. And only onto a backend with
// host names and without sources, because that one stays as long as the
// attachment does.
func sharedChains(l routes.Listener, backends map[string]routes.Backend, endpoints map[string][]netip.AddrPort) map[string]string {
	if l.HTTP {
		return nil
	}
	var lasting []string
	for _, name := range l.Backends {
		if b := backends[name]; !b.Scoped && len(b.Hostnames) > 0 {
			lasting = append(lasting, name)
		}
	}
	out := map[string]string{}
	byAttachment := map[string][]string{}
	for _, name := range lasting {
		if a, _, ok := strings.Cut(name, "/"); ok {
			byAttachment[a] = append(byAttachment[a], name)
		}
	}
	for _, name := range l.Backends {
		b := backends[name]
		if !b.Scoped && len(b.Hostnames) > 0 {
			continue
		}
		a, _, _ := strings.Cut(name, "/")
		for _, to := range byAttachment[a] {
			if slices.Equal(endpoints[name], endpoints[to]) {
				out[name] = to
				break
			}
		}
	}
	return out
}
