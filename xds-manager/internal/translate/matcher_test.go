package translate

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/densityops/oooi/xds-manager/internal/envoy"
	"github.com/densityops/oooi/xds-manager/internal/routes"
)

// client is what Envoy's inputs see of a connection.
type client struct{ transport, name, source string }

// evaluate reads a matcher as Envoy does; "" is no match.
func evaluate(t *testing.T, m *xdsmatcherv3.Matcher, c client) string {
	t.Helper()
	if tree := m.GetMatcherTree(); tree != nil {
		if on := tree.GetExactMatchMap().GetMap()[input(t, tree.GetInput().GetTypedConfig().GetTypeUrl(), c)]; on != nil {
			return follow(t, on, c)
		}
	}
	for _, fm := range m.GetMatcherList().GetMatchers() {
		any := fm.GetPredicate().GetOrMatcher().GetPredicate()
		if any == nil {
			any = []*xdsmatcherv3.Matcher_MatcherList_Predicate{fm.GetPredicate()}
		}
		for _, p := range any {
			if hits(t, p.GetSinglePredicate(), c) {
				return follow(t, fm.GetOnMatch(), c)
			}
		}
	}
	return follow(t, m.GetOnNoMatch(), c)
}

func input(t *testing.T, typ string, c client) string {
	t.Helper()
	switch typ[strings.LastIndexByte(typ, '.')+1:] {
	case "ServerNameInput":
		return c.name
	case "SourceIPInput":
		return c.source
	case "TransportProtocolInput":
		return c.transport
	default:
		require.Fail(t, "unknown input", typ)
		return ""
	}
}

func hits(t *testing.T, p *xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate, c client) bool {
	t.Helper()
	value := input(t, p.GetInput().GetTypedConfig().GetTypeUrl(), c)
	if suffix := p.GetValueMatch().GetSuffix(); suffix != "" {
		return strings.HasSuffix(value, suffix)
	}
	if exact := p.GetValueMatch().GetExact(); exact != "" {
		return value == exact
	}
	require.Equal(t, ".+", p.GetValueMatch().GetSafeRegex().GetRegex())
	require.NotNil(t, p.GetValueMatch().GetSafeRegex().GetGoogleRe2(), "Envoy rejects the listener without an engine")
	return value != ""
}

func follow(t *testing.T, on *xdsmatcherv3.Matcher_OnMatch, c client) string {
	t.Helper()
	if on == nil {
		return ""
	}
	if on.GetMatcher() != nil {
		return evaluate(t, on.GetMatcher(), c)
	}
	name := &wrapperspb.StringValue{}
	require.NoError(t, proto.Unmarshal(on.GetAction().GetTypedConfig().GetValue(), name))
	if name.Value == Closed {
		return ""
	}
	return name.Value
}

// randomTable has names, aliases, fallbacks and catch-alls of two attachments.
func randomTable(r *rand.Rand) routes.Table {
	t := routes.Table{ServerIP: netip.MustParseAddr("192.0.2.4"), CIDR: netip.MustParsePrefix("192.0.2.0/24")}
	hosts := []string{"api.a.x", "oauth.b.x", "kubernetes", "kubernetes.default", "*.apps.a.x", "*.b.apps.a.x", "*.x"}
	for i := range 1 + r.IntN(9) {
		b := routes.Backend{
			Name: fmt.Sprintf("b%d", i), Port: 443, Protocol: []routes.Protocol{routes.TLS, routes.TCP}[r.IntN(2)],
			Endpoints: []routes.Endpoint{{Addr: netip.MustParseAddr("172.30.0.1"), Port: 443}}, PodSide: r.IntN(2) == 0,
		}
		if b.Protocol == routes.TLS && r.IntN(4) > 0 {
			b.Hostnames = []string{hosts[r.IntN(len(hosts))], hosts[r.IntN(len(hosts))]}
		}
		for range r.IntN(3) {
			b.Sources = append(b.Sources, netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + r.IntN(4))}), 32))
		}
		t.Backends = append(t.Backends, b)
	}
	out, _ := t.Validate()
	return out
}

// behaviour E5, E9: what people are told and what Envoy is told are the same.
func TestTheMatcherDecidesAsTheTableExplains(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	hellos := []string{"", "api.a.x", "oauth.b.x", "kubernetes", "kubernetes.default", "z.apps.a.x", "z.b.apps.a.x", "q.x", "apps.a.x", "other"}
	checked := 0
	for range 3000 {
		for _, l := range randomTable(r).Listeners() {
			m := compiler{actions: map[string]*envoy.OnMatch{}}.matcherFor(l)
			require.NoError(t, m.ValidateAll())
			for _, name := range hellos {
				for _, source := range []string{"192.0.2.100", "192.0.2.101", "192.0.2.103", "192.0.2.9"} {
					for _, transport := range []string{"tls", "raw_buffer"} {
						if transport != "tls" && name != "" {
							continue
						}
						v := l.Explain(routes.Hello{Source: netip.MustParseAddr(source), TLS: transport == "tls", Name: name})
						require.Equal(t, v.Backend, evaluate(t, m, client{transport, name, source}), "%s %q from %s: %v\n%+v", transport, name, source, v.Steps, l)
						checked++
					}
				}
			}
		}
	}
	require.Greater(t, checked, 100_000)
}
