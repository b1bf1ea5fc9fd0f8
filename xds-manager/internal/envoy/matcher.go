package envoy

import (
	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	inputv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// OnMatch is what a matcher does with a hit.
type OnMatch = xdsmatcherv3.Matcher_OnMatch

// ToChain selects a filter chain by name.
func ToChain(name string) *OnMatch {
	return &OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Action{Action: &xdscorev3.TypedExtensionConfig{
		Name: name, TypedConfig: Any(wrapperspb.String(name)),
	}}}
}

// ToMatcher goes on with another matcher.
func ToMatcher(m *xdsmatcherv3.Matcher) *OnMatch {
	return &OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Matcher{Matcher: m}}
}

// ByServerName looks the server name up in an exact map.
func ByServerName(m map[string]*OnMatch, otherwise *OnMatch) *xdsmatcherv3.Matcher {
	return exact("server_name", &inputv3.ServerNameInput{}, m, otherwise)
}

// BySource looks the client's address up in an exact map.
func BySource(m map[string]*OnMatch, otherwise *OnMatch) *xdsmatcherv3.Matcher {
	return exact("source", &inputv3.SourceIPInput{}, m, otherwise)
}

// ByTransport tells TLS ("tls") from anything else ("raw_buffer").
func ByTransport(m map[string]*OnMatch, otherwise *OnMatch) *xdsmatcherv3.Matcher {
	return exact("transport", &inputv3.TransportProtocolInput{}, m, otherwise)
}

func exact(name string, input proto.Message, m map[string]*OnMatch, otherwise *OnMatch) *xdsmatcherv3.Matcher {
	return &xdsmatcherv3.Matcher{
		MatcherType: &xdsmatcherv3.Matcher_MatcherTree_{MatcherTree: &xdsmatcherv3.Matcher_MatcherTree{
			Input:    &xdscorev3.TypedExtensionConfig{Name: name, TypedConfig: Any(input)},
			TreeType: &xdsmatcherv3.Matcher_MatcherTree_ExactMatchMap{ExactMatchMap: &xdsmatcherv3.Matcher_MatcherTree_MatchMap{Map: m}},
		}},
		OnNoMatch: otherwise,
	}
}

// NameCase is one step of a list that is tried in order.
type NameCase struct {
	values []*xdsmatcherv3.StringMatcher
	then   *OnMatch
}

// NameSuffix takes server names that end with suffix.
func NameSuffix(suffix string, then *OnMatch) NameCase {
	return NameCase{[]*xdsmatcherv3.StringMatcher{{MatchPattern: &xdsmatcherv3.StringMatcher_Suffix{Suffix: suffix}}}, then}
}

// NameOneOf takes any of a few server names.
func NameOneOf(names []string, then *OnMatch) NameCase {
	c := NameCase{then: then}
	for _, n := range names {
		c.values = append(c.values, &xdsmatcherv3.StringMatcher{MatchPattern: &xdsmatcherv3.StringMatcher_Exact{Exact: n}})
	}
	return c
}

// AnyName takes every server name that is there. Envoy rejects the whole
// listener where a regex names no engine.
func AnyName(then *OnMatch) NameCase {
	return NameCase{[]*xdsmatcherv3.StringMatcher{{MatchPattern: &xdsmatcherv3.StringMatcher_SafeRegex{SafeRegex: &xdsmatcherv3.RegexMatcher{
		EngineType: &xdsmatcherv3.RegexMatcher_GoogleRe2{GoogleRe2: &xdsmatcherv3.RegexMatcher_GoogleRE2{}},
		Regex:      ".+",
	}}}}, then}
}

// ByNameCases tries the cases in order.
func ByNameCases(cases []NameCase, otherwise *OnMatch) *xdsmatcherv3.Matcher {
	list := make([]*xdsmatcherv3.Matcher_MatcherList_FieldMatcher, len(cases))
	for i, c := range cases {
		list[i] = &xdsmatcherv3.Matcher_MatcherList_FieldMatcher{Predicate: c.predicate(), OnMatch: c.then}
	}
	return &xdsmatcherv3.Matcher{
		MatcherType: &xdsmatcherv3.Matcher_MatcherList_{MatcherList: &xdsmatcherv3.Matcher_MatcherList{Matchers: list}},
		OnNoMatch:   otherwise,
	}
}

func (c NameCase) predicate() *xdsmatcherv3.Matcher_MatcherList_Predicate {
	all := make([]*xdsmatcherv3.Matcher_MatcherList_Predicate, len(c.values))
	for i, v := range c.values {
		all[i] = &xdsmatcherv3.Matcher_MatcherList_Predicate{MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{
			SinglePredicate: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
				Input:   &xdscorev3.TypedExtensionConfig{Name: "server_name", TypedConfig: Any(&inputv3.ServerNameInput{})},
				Matcher: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: v},
			},
		}}
	}
	if len(all) == 1 {
		return all[0]
	}
	return &xdsmatcherv3.Matcher_MatcherList_Predicate{MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_OrMatcher{
		OrMatcher: &xdsmatcherv3.Matcher_MatcherList_Predicate_PredicateList{Predicate: all},
	}}
}
