package translate

import (
	"slices"
	"strings"

	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"

	"github.com/densityops/oooi/xds-manager/internal/envoy"
	"github.com/densityops/oooi/xds-manager/internal/routes"
)

// Closed names a filter chain that never exists: Envoy closes what selects it,
// counts it and logs it. It is written wherever a branch ends in nothing, so
// that no reading of "no match" can make Envoy try another branch. The
// parentheses keep it out of the names that a backend may have.
const Closed = "(closed)"

const tlsTransport = "tls"

// compiler makes a listener's matcher; it makes each chain's action once.
type compiler struct {
	actions map[string]*envoy.OnMatch
	// shared are the backends that use another one's chain.
	shared map[string]string
}

// matcherFor compiles what a stream listener routes. This is the one place
// that knows how routes become Envoy's matching tree:
//
//	name -> exact map, else aliases, else wildcards, longest first
//	no name in TLS -> by source, else any
//	anything else -> by source, else any
//
// A hello without a name and one with an unknown name differ: the first may
// fall back to a backend without host names, the second never does.
func (c compiler) matcherFor(l routes.Listener) *xdsmatcherv3.Matcher {
	rest := c.onRoute(l.Rest, nil)
	m := c.byName(l, rest)
	switch {
	case m == nil:
		return c.rootOf(rest)
	case rest == nil:
		// Bytes that are no TLS carry no name and would take the branch of a
		// hello without one.
		return envoy.ByTransport(map[string]*envoy.OnMatch{tlsTransport: envoy.ToMatcher(m)}, c.to(Closed))
	case l.NoSNI.Empty():
		return m
	default:
		return envoy.ByTransport(map[string]*envoy.OnMatch{tlsTransport: envoy.ToMatcher(m)}, rest)
	}
}

// byName is the tree for TLS; nil where the listener knows neither names nor a
// fallback for hellos without one.
func (c compiler) byName(l routes.Listener, rest *envoy.OnMatch) *xdsmatcherv3.Matcher {
	alone, shared := bySharedRoute(l.Exact)
	after := c.afterExact(l, shared, rest)
	if len(alone) == 0 {
		if after == nil {
			return nil
		}
		return c.rootOf(after)
	}
	names := make(map[string]*envoy.OnMatch, len(alone))
	for _, r := range alone {
		names[r.Name] = c.onRoute(r.Route, c.orClosed(rest))
	}
	if after == nil {
		after = c.orClosed(rest)
	}
	return envoy.ByServerName(names, after)
}

// sharedRoute is one route that several names have: the aliases of every
// worker. A copy of the sources for each name would make most of a listener.
type sharedRoute struct {
	names []string
	route routes.Route
}

func bySharedRoute(exact []routes.NameRoute) (alone []routes.NameRoute, shared []sharedRoute) {
	var groups []sharedRoute
	for _, r := range exact {
		if len(r.Sources) == 0 {
			alone = append(alone, r)
			continue
		}
		i := slices.IndexFunc(groups, func(g sharedRoute) bool {
			return g.route.Any == r.Any && slices.Equal(g.route.Sources, r.Sources)
		})
		if i < 0 {
			groups = append(groups, sharedRoute{route: r.Route})
			i = len(groups) - 1
		}
		groups[i].names = append(groups[i].names, r.Name)
	}
	for _, g := range groups {
		if len(g.names) > 1 {
			shared = append(shared, g)
		} else {
			alone = append(alone, routes.NameRoute{Name: g.names[0], Route: g.route})
		}
	}
	return alone, shared
}

// afterExact is what a name that is not in the exact map meets; nil where the
// answer is the same as for everything else.
func (c compiler) afterExact(l routes.Listener, shared []sharedRoute, rest *envoy.OnMatch) *envoy.OnMatch {
	cases := make([]envoy.NameCase, 0, len(shared)+len(l.Wildcards)+1)
	for _, s := range shared {
		cases = append(cases, envoy.NameOneOf(s.names, c.onRoute(s.route, c.orClosed(rest))))
	}
	for _, w := range l.Wildcards {
		cases = append(cases, envoy.NameSuffix(strings.TrimPrefix(w.Name, "*"), c.onRoute(w.Route, c.orClosed(rest))))
	}
	if l.NoSNI.Empty() {
		if len(cases) == 0 {
			return nil
		}
		return envoy.ToMatcher(envoy.ByNameCases(cases, c.orClosed(rest)))
	}
	cases = append(cases, envoy.AnyName(c.orClosed(rest)))
	return envoy.ToMatcher(envoy.ByNameCases(cases, c.onRoute(l.NoSNI, c.orClosed(rest))))
}

// onRoute leads by source, else to any, else otherwise. It is nil where all of
// that is nothing.
func (c compiler) onRoute(r routes.Route, otherwise *envoy.OnMatch) *envoy.OnMatch {
	if r.Any != "" {
		otherwise = c.to(r.Any)
	}
	if len(r.Sources) == 0 {
		return otherwise
	}
	sources := make(map[string]*envoy.OnMatch, len(r.Sources))
	for _, s := range r.Sources {
		sources[s.Addr.String()] = c.to(s.Backend)
	}
	return envoy.ToMatcher(envoy.BySource(sources, c.orClosed(otherwise)))
}

func (c compiler) orClosed(m *envoy.OnMatch) *envoy.OnMatch {
	if m == nil {
		return c.to(Closed)
	}
	return m
}

// rootOf makes a matcher of one outcome: a listener's root cannot be a chain.
func (c compiler) rootOf(m *envoy.OnMatch) *xdsmatcherv3.Matcher {
	m = c.orClosed(m)
	if inner := m.GetMatcher(); inner != nil {
		return inner
	}
	return envoy.ByTransport(map[string]*envoy.OnMatch{tlsTransport: m}, m)
}

// to selects a backend's chain. The message is shared by all places that select it.
func (c compiler) to(chain string) *envoy.OnMatch {
	if other := c.shared[chain]; other != "" {
		chain = other
	}
	if c.actions[chain] == nil {
		c.actions[chain] = envoy.ToChain(chain)
	}
	return c.actions[chain]
}
