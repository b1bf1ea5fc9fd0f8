package routes

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func prefixes(in ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(in))
	for i, s := range in {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

func to(addr string) []Endpoint {
	ap := netip.MustParseAddrPort(addr)
	return []Endpoint{{Addr: ap.Addr(), Port: ap.Port()}}
}

func vlan(bs ...Backend) Table {
	return Table{ServerIP: netip.MustParseAddr("192.0.2.4"), CIDR: netip.MustParsePrefix("192.0.2.0/24"), Backends: bs}
}

func named(name string, port uint16, hosts ...string) Backend {
	return Backend{Name: name, Port: port, Protocol: TLS, Hostnames: hosts, Endpoints: to("172.30.0.1:6443"), PodSide: true}
}

func scoped(name string, p Protocol, port uint16, hosts []string, sources ...string) Backend {
	return Backend{Name: name, Port: port, Protocol: p, Hostnames: hosts, Sources: prefixes(sources...), Endpoints: to("172.30.0.1:6443")}
}

func names(bs []Backend) []string {
	var out []string
	for _, b := range bs {
		out = append(out, b.Name)
	}
	return out
}

func reasons(ps []Problem) []string {
	var out []string
	for _, p := range ps {
		out = append(out, p.Reason)
	}
	return out
}

// behaviour E9; hazards 153, 154, 155, 166, 168.
func TestAnOffendingBackendIsExcludedAndNoOther(t *testing.T) {
	good := named("good", 443, "oauth.a.example.com")
	change := func(f func(*Backend)) Backend {
		b := named("bad", 443, "x.example.com")
		f(&b)
		return b
	}
	cases := []struct {
		name  string
		input []Backend
		want  []string
	}{
		{"no name", []Backend{change(func(b *Backend) { b.Name = "" })}, []string{ReasonInvalidBackend}},
		{"a name that Envoy's own chain has", []Backend{change(func(b *Backend) { b.Name = "(closed)" })}, []string{ReasonInvalidBackend}},
		{"port zero", []Backend{change(func(b *Backend) { b.Port = 0 })}, []string{ReasonInvalidBackend}},
		{"the statistics' port", []Backend{change(func(b *Backend) { b.Port = 9901 })}, []string{ReasonInvalidBackend}},
		{"an agent's port", []Backend{change(func(b *Backend) { b.Port = 9090 })}, []string{ReasonInvalidBackend}},
		{"no protocol", []Backend{change(func(b *Backend) { b.Protocol = 0 })}, []string{ReasonInvalidBackend}},
		{"an upper-case name", []Backend{change(func(b *Backend) { b.Hostnames = []string{"X.example.com"} })}, []string{ReasonInvalidBackend}},
		{"a trailing dot", []Backend{change(func(b *Backend) { b.Hostnames = []string{"x.example.com."} })}, []string{ReasonInvalidBackend}},
		{"a bare wildcard", []Backend{change(func(b *Backend) { b.Hostnames = []string{"*"} })}, []string{ReasonInvalidBackend}},
		{"a partial wildcard", []Backend{change(func(b *Backend) { b.Hostnames = []string{"*x.example.com"} })}, []string{ReasonInvalidBackend}},
		{"a wildcard in the middle", []Backend{change(func(b *Backend) { b.Hostnames = []string{"x.*.example.com"} })}, []string{ReasonInvalidBackend}},
		{"an address as name", []Backend{change(func(b *Backend) { b.Hostnames = []string{"192.0.2.7"} })}, []string{ReasonInvalidBackend}},
		{"a label of 64 bytes", []Backend{change(func(b *Backend) { b.Hostnames = []string{strings.Repeat("a", 64) + ".example.com"} })}, []string{ReasonInvalidBackend}},
		{"no endpoint", []Backend{change(func(b *Backend) { b.Endpoints = nil })}, []string{ReasonInvalidBackend}},
		{"itself as endpoint", []Backend{change(func(b *Backend) { b.Endpoints = to("192.0.2.4:443") })}, []string{ReasonInvalidBackend}},
		{"a multicast endpoint", []Backend{change(func(b *Backend) { b.Endpoints = to("224.0.0.1:443") })}, []string{ReasonInvalidBackend}},
		{"an IPv6 endpoint", []Backend{change(func(b *Backend) { b.Endpoints = to("[2001:db8::1]:443") })}, []string{ReasonInvalidBackend}},
		{"an endpoint on port 0", []Backend{change(func(b *Backend) { b.Endpoints = to("172.30.0.1:0") })}, []string{ReasonInvalidBackend}},
		{"every source there is", []Backend{scoped("bad", TCP, 6443, nil, "0.0.0.0/0")}, []string{ReasonInvalidBackend}},
		{"a source outside the VLAN", []Backend{scoped("bad", TCP, 6443, nil, "198.51.100.7/32")}, []string{ReasonInvalidBackend}},
		{"a source with host bits", []Backend{scoped("bad", TCP, 6443, nil, "192.0.2.7/31")}, []string{ReasonInvalidBackend}},
		{"HTTP without names", []Backend{{Name: "bad", Port: 80, Protocol: HTTP, Endpoints: to("172.30.0.1:80")}}, []string{ReasonInvalidBackend}},
		{"HTTP with sources", []Backend{scoped("bad", HTTP, 80, []string{"x.example.com"}, "192.0.2.7/32")}, []string{ReasonInvalidBackend}},
		{"TCP with names", []Backend{scoped("bad", TCP, 6443, []string{"x.example.com"}, "192.0.2.7/32")}, []string{ReasonInvalidBackend}},
		{"one name for two backends", []Backend{named("bad", 443, "x.example.com"), named("bad", 443, "y.example.com")}, []string{ReasonDuplicateBackend}},
		{"one host name twice", []Backend{named("bad1", 443, "x.example.com"), named("bad2", 443, "x.example.com")}, []string{ReasonDuplicateHostname}},
		{"one wildcard twice", []Backend{named("bad1", 443, "*.x.example.com"), named("bad2", 443, "*.x.example.com")}, []string{ReasonDuplicateHostname}},
		{"two fallbacks from any source", []Backend{named("bad1", 443), named("bad2", 443)}, []string{ReasonAmbiguousFallback}},
		{"HTTP on a TLS port", []Backend{{Name: "bad", Port: 443, Protocol: HTTP, Hostnames: []string{"x.example.com"}, Endpoints: to("172.30.0.1:80")}}, []string{ReasonPortConflict}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			out, problems := vlan(append(c.input, good)...).Validate()
			require.Equal(t, []string{"good"}, names(out.Backends))
			require.Equal(t, c.want, reasons(problems), "%v", problems)
		})
	}
}

func TestTheSameNameOnTwoPortsIsNoConflict(t *testing.T) {
	out, problems := vlan(named("one", 443, "x.example.com"), named("two", 6443, "x.example.com")).Validate()
	require.Empty(t, problems)
	require.Len(t, out.Backends, 2)
}

// hazard 153; case C32: one source address claimed by both.
func TestAnAmbiguousSourceIsTakenFromBothAndNothingElse(t *testing.T) {
	out, problems := vlan(
		scoped("a", TCP, 6443, nil, "192.0.2.101/32", "192.0.2.102/32"),
		scoped("b", TCP, 6443, nil, "192.0.2.102/32", "192.0.2.150/32"),
	).Validate()
	require.Equal(t, []string{ReasonDuplicateSourceIP}, reasons(problems))
	require.Equal(t, `source 192.0.2.102 is claimed by "a", "b"`, problems[0].Message)
	require.Equal(t, prefixes("192.0.2.101/32"), out.Backends[0].Sources)
	require.Equal(t, prefixes("192.0.2.150/32"), out.Backends[1].Sources)
}

func TestTheLongestSourcePrefixWins(t *testing.T) {
	out, problems := vlan(scoped("a", TCP, 6443, nil, "192.0.2.100/30"), scoped("b", TCP, 6443, nil, "192.0.2.101/32")).Validate()
	require.Empty(t, problems)
	require.Equal(t, prefixes("192.0.2.100/32", "192.0.2.102/32", "192.0.2.103/32"), out.Backends[0].Sources)
	require.Equal(t, prefixes("192.0.2.101/32"), out.Backends[1].Sources)
}

// hazard 166: what is scoped to nobody is reachable by nobody.
func TestABackendThatLostItsLastSourceStaysScoped(t *testing.T) {
	out, _ := vlan(scoped("a", TLS, 443, nil, "192.0.2.101/32"), scoped("b", TLS, 443, nil, "192.0.2.101/32")).Validate()
	for _, l := range out.Listeners() {
		require.True(t, l.NoSNI.Empty())
		require.Equal(t, []string{"a", "b"}, l.Backends, "their chains stay, so that open connections live")
	}
}

func TestExternalListenersKeepOnlyWhatTheyMayHave(t *testing.T) {
	base := vlan(named("a/oauth", 443, "oauth.a.example.com"), scoped("a/alias", TLS, 443, []string{"kubernetes"}, "192.0.2.101/32"))
	cases := []struct {
		name  string
		input []External
		want  []External
	}{
		{"a valid one", []External{{"a", 20000, []string{"a/oauth"}}}, []External{{"a", 20000, []string{"a/oauth"}}}},
		{"aliases are left out", []External{{"a", 20000, []string{"a/oauth", "a/alias"}}}, []External{{"a", 20000, []string{"a/oauth"}}}},
		{"an unknown backend is left out", []External{{"a", 20000, []string{"a/oauth", "a/none"}}}, []External{{"a", 20000, []string{"a/oauth"}}}},
		{"one without backends is none", []External{{"a", 20000, []string{"a/alias"}}}, nil},
		{"a port of the pod side", []External{{"a", 443, []string{"a/oauth"}}}, nil},
		{"two on one port", []External{{"a", 20000, []string{"a/oauth"}}, {"b", 20000, []string{"a/oauth"}}}, nil},
		{"two of one name", []External{{"a", 20000, []string{"a/oauth"}}, {"a", 20001, []string{"a/oauth"}}}, nil},
		{"the statistics' port", []External{{"a", 9901, []string{"a/oauth"}}}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			base.External = c.input
			out, _ := base.Validate()
			require.Equal(t, c.want, out.External)
		})
	}
}

// randomTable is a table with every kind of conflict in it.
func randomTable(r *rand.Rand) Table {
	hosts := []string{"a.x", "b.x", "*.x", "*.a.x", "kubernetes", "A.x"}
	t := vlan()
	for i := range 2 + r.IntN(10) {
		b := Backend{
			Name: fmt.Sprintf("b%d", r.IntN(9)), Port: []uint16{443, 6443, 80}[r.IntN(3)], Protocol: Protocol(1 + r.IntN(3)),
			Endpoints: to(fmt.Sprintf("172.30.0.%d:443", 1+i)), PodSide: r.IntN(2) == 0,
		}
		for range r.IntN(3) {
			b.Hostnames = append(b.Hostnames, hosts[r.IntN(len(hosts))])
		}
		for range r.IntN(3) {
			b.Sources = append(b.Sources, netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + r.IntN(6))}), 32))
		}
		t.Backends = append(t.Backends, b)
	}
	t.External = []External{{"e", 20000, []string{"b1", "b2"}}}
	return t
}

// behaviour E8; hazard 159.
func TestTheOrderOfTheInputNeverMatters(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		table := randomTable(r)
		want, wantProblems := table.Validate()
		shuffled := table
		shuffled.Backends = slices.Clone(table.Backends)
		r.Shuffle(len(shuffled.Backends), func(i, j int) {
			shuffled.Backends[i], shuffled.Backends[j] = shuffled.Backends[j], shuffled.Backends[i]
		})
		got, gotProblems := shuffled.Validate()
		require.Equal(t, want.Listeners(), got.Listeners())
		require.Equal(t, wantProblems, gotProblems)
	}
}

func TestNoBackendAtAllIsOneProblemAndNoneIsNone(t *testing.T) {
	_, problems := vlan().Validate()
	require.Empty(t, problems)
	_, problems = vlan(named("Bad", 443, "x.example.com")).Validate()
	require.Equal(t, []string{ReasonInvalidBackend, ReasonNoValidBackend}, reasons(problems))
}

// behaviour D1, E1: a name that is not for the pod side is on the VLAN alone, and
// what has no name or a source is never on the pod side.
func TestThePodSideHasTheNamesThatAreForIt(t *testing.T) {
	both, inside := named("both", 443, "both.example.com"), named("inside", 443, "inside.example.com")
	inside.PodSide = false
	alias, rest := scoped("alias", TLS, 443, []string{"kubernetes"}, "192.0.2.101/32"), scoped("rest", TCP, 443, nil)
	alias.PodSide, rest.PodSide = true, true
	valid, problems := vlan(both, inside, alias, rest).Validate()
	require.Empty(t, problems)
	got := map[Side][]string{}
	for _, l := range valid.Listeners() {
		got[l.Side] = l.Backends
	}
	require.Equal(t, map[Side][]string{VLAN: {"alias", "both", "inside", "rest"}, Pod: {"both"}}, got)
}
