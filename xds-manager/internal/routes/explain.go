package routes

import (
	"fmt"
	"net/netip"
	"strings"
)

// Hello is what a client shows of itself.
type Hello struct {
	Source netip.Addr
	// TLS says that the bytes are a ClientHello.
	TLS bool
	// Name is its server name, or the Host of a request; empty is none.
	Name string
}

// Verdict is where a client goes, and why.
type Verdict struct {
	// Backend is empty where the connection is closed (or, by HTTP, answered
	// with 404).
	Backend string
	// Steps say how the decision was made, in order.
	Steps []string
}

func (v *Verdict) note(format string, args ...any) {
	v.Steps = append(v.Steps, fmt.Sprintf(format, args...))
}

// Explain decides as Envoy does with what translate makes of the listener. The
// two are kept the same by a test that asks both.
func (l Listener) Explain(h Hello) Verdict {
	var v Verdict
	name := strings.ToLower(h.Name)
	switch {
	case l.HTTP:
		v.byName(l, h, stripPort(name), Route{})
		if v.Backend == "" {
			v.note("no host name matches: 404")
		}
		return v
	case !h.TLS:
		v.note("the bytes are no TLS")
		v.rest(l, h)
	case name == "":
		v.note("the hello has no server name")
		if !l.NoSNI.Empty() {
			v.lead("the fallback for hellos without a name", l.NoSNI, h, l.Rest)
		} else {
			v.rest(l, h)
		}
	default:
		v.byName(l, h, name, l.Rest)
	}
	if v.Backend == "" {
		v.note("closed")
	}
	return v
}

func stripPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		return host[:i]
	}
	return host
}

func (v *Verdict) byName(l Listener, h Hello, name string, rest Route) {
	for _, r := range l.Exact {
		if r.Name == name {
			v.lead(fmt.Sprintf("the name %q", name), r.Route, h, rest)
			return
		}
	}
	for _, r := range l.Wildcards {
		if strings.HasSuffix(name, strings.TrimPrefix(r.Name, "*")) {
			v.lead(fmt.Sprintf("the wildcard %q", r.Name), r.Route, h, rest)
			return
		}
	}
	v.note("the name %q is unknown on port %d", name, l.Port)
	if !l.HTTP {
		v.rest(l, h)
	}
}

func (v *Verdict) rest(l Listener, h Hello) {
	if l.Rest.Empty() {
		v.note("port %d takes nothing else on the %s side", l.Port, l.Side)
		return
	}
	v.lead("whatever nothing else took", l.Rest, h, Route{})
}

// lead follows one route: by source, else to any, else on to the rest.
func (v *Verdict) lead(what string, r Route, h Hello, rest Route) {
	for _, s := range r.Sources {
		if s.Addr == h.Source {
			v.note("%s from source %s leads to %q", what, h.Source, s.Backend)
			v.Backend = s.Backend
			return
		}
	}
	switch {
	case r.Any != "":
		v.note("%s leads to %q from any source", what, r.Any)
		v.Backend = r.Any
	case rest.Empty():
		v.note("%s is for %d known sources, and %s is none of them", what, len(r.Sources), h.Source)
	default:
		v.note("%s is for %d known sources, and %s is none of them", what, len(r.Sources), h.Source)
		v.lead("whatever nothing else took", rest, h, Route{})
	}
}
