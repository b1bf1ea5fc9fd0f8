package translate

import (
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

// matcherFor compiles what a stream listener routes. This is the one place
// that knows how routes become Envoy's matching tree:
//
//	name -> exact map, else wildcards, longest first
//	no name in TLS -> by source, else any
//	anything else -> by source, else any
//
// A hello without a name and one with an unknown name differ: the first may
// fall back to a backend without host names, the second never does.
func matcherFor(l routes.Listener) *xdsmatcherv3.Matcher {
	rest := onRoute(l.Rest, nil)
	m := byName(l, rest)
	switch {
	case m == nil:
		return rootOf(rest)
	case rest == nil:
		// Bytes that are no TLS carry no name and would take the branch of a
		// hello without one.
		return envoy.ByTransport(map[string]*envoy.OnMatch{tlsTransport: envoy.ToMatcher(m)}, envoy.ToChain(Closed))
	case l.NoSNI.Empty():
		return m
	default:
		return envoy.ByTransport(map[string]*envoy.OnMatch{tlsTransport: envoy.ToMatcher(m)}, rest)
	}
}

// byName is the tree for TLS; nil where the listener knows neither names nor a
// fallback for hellos without one.
func byName(l routes.Listener, rest *envoy.OnMatch) *xdsmatcherv3.Matcher {
	after := afterExact(l, rest)
	if len(l.Exact) == 0 {
		if after == nil {
			return nil
		}
		return rootOf(after)
	}
	names := make(map[string]*envoy.OnMatch, len(l.Exact))
	for _, r := range l.Exact {
		names[r.Name] = onRoute(r.Route, orClosed(rest))
	}
	if after == nil {
		after = orClosed(rest)
	}
	return envoy.ByServerName(names, after)
}

// afterExact is what a name that is no exact one meets; nil where the answer
// is the same as for everything else.
func afterExact(l routes.Listener, rest *envoy.OnMatch) *envoy.OnMatch {
	cases := make([]envoy.NameCase, 0, len(l.Wildcards)+1)
	for _, w := range l.Wildcards {
		cases = append(cases, envoy.NameSuffix(strings.TrimPrefix(w.Name, "*"), onRoute(w.Route, orClosed(rest))))
	}
	if l.NoSNI.Empty() {
		if len(cases) == 0 {
			return nil
		}
		return envoy.ToMatcher(envoy.ByNameCases(cases, orClosed(rest)))
	}
	cases = append(cases, envoy.AnyName(orClosed(rest)))
	return envoy.ToMatcher(envoy.ByNameCases(cases, onRoute(l.NoSNI, orClosed(rest))))
}

// onRoute leads by source, else to any, else otherwise. It is nil where all of
// that is nothing.
func onRoute(r routes.Route, otherwise *envoy.OnMatch) *envoy.OnMatch {
	if r.Any != "" {
		otherwise = envoy.ToChain(r.Any)
	}
	if len(r.Sources) == 0 {
		return otherwise
	}
	sources := make(map[string]*envoy.OnMatch, len(r.Sources))
	for _, s := range r.Sources {
		sources[s.Addr.String()] = envoy.ToChain(s.Backend)
	}
	return envoy.ToMatcher(envoy.BySource(sources, orClosed(otherwise)))
}

func orClosed(m *envoy.OnMatch) *envoy.OnMatch {
	if m == nil {
		return envoy.ToChain(Closed)
	}
	return m
}

// rootOf makes a matcher of one outcome: a listener's root cannot be a chain.
func rootOf(m *envoy.OnMatch) *xdsmatcherv3.Matcher {
	m = orClosed(m)
	if inner := m.GetMatcher(); inner != nil {
		return inner
	}
	return envoy.ByTransport(map[string]*envoy.OnMatch{tlsTransport: m}, m)
}
