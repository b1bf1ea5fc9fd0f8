package routes

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Side says on which of the pod's two addresses a listener lies.
type Side int

// The sides of the proxy.
const (
	// VLAN listeners lie on the server address and know names and sources.
	VLAN Side = iota + 1
	// Pod listeners lie on the pod IP and know names alone: what arrives there
	// went through address translation, so its source means nothing.
	Pod
)

// String is the side's name in messages, logs and statistics.
func (s Side) String() string {
	if s == VLAN {
		return "vlan"
	}
	return "pod"
}

// Listener is one address and port with everything that it routes.
type Listener struct {
	// Name is empty for the side's own listener of a port, else the external
	// listener's name.
	Name string
	Side Side
	Port uint16
	// HTTP listeners route requests by Host; the others route connections.
	HTTP bool
	// Exact and Wildcards are sorted: exact ones by name, wildcards with the
	// longest first, so that the first hit is the most specific.
	Exact     []NameRoute
	Wildcards []NameRoute
	// NoSNI takes a ClientHello without a server name.
	NoSNI Route
	// Rest takes whatever nothing else took.
	Rest Route
	// Backends are the names of all backends that it may lead to, sorted.
	Backends []string
}

// NameRoute is a route for one server name or Host. A wildcard's name carries
// its leading "*.".
type NameRoute struct {
	Name string
	Route
}

// Route leads to a backend by source, else to Any. Both may be empty: then the
// connection is closed.
type Route struct {
	// Sources are sorted by address.
	Sources []SourceRoute
	Any     string
}

// SourceRoute leads one source address to a backend.
type SourceRoute struct {
	Addr    netip.Addr
	Backend string
}

// Empty says that the route leads nowhere.
func (r Route) Empty() bool { return r.Any == "" && len(r.Sources) == 0 }

type listenerKey struct {
	side Side
	port uint16
}

// Listeners are the listeners of a validated table, sorted: the VLAN's by
// port, the pod's by port, then the external ones by name.
func (t Table) Listeners() []Listener {
	byKey := map[listenerKey]*listenerDraft{}
	draft := func(k listenerKey) *listenerDraft {
		if byKey[k] == nil {
			byKey[k] = newDraft(Listener{Side: k.side, Port: k.port})
		}
		return byKey[k]
	}
	for _, b := range t.Backends {
		draft(listenerKey{VLAN, b.Port}).add(b)
		if b.namesOnly() && b.PodSide {
			draft(listenerKey{Pod, b.Port}).add(b)
		}
	}
	keys := slices.SortedFunc(maps.Keys(byKey), func(a, b listenerKey) int {
		return cmp.Or(cmp.Compare(a.side, b.side), cmp.Compare(a.port, b.port))
	})
	out := make([]Listener, 0, len(keys)+len(t.External))
	for _, k := range keys {
		out = append(out, byKey[k].finish())
	}
	index := t.index()
	for _, e := range t.External {
		d := newDraft(Listener{Name: e.Name, Side: Pod, Port: e.Port})
		for _, name := range e.Backends {
			d.add(t.Backends[index[name]])
		}
		out = append(out, d.finish())
	}
	return out
}

// index maps a backend's name to its place.
func (t Table) index() map[string]int {
	m := make(map[string]int, len(t.Backends))
	for i, b := range t.Backends {
		m[b.Name] = i
	}
	return m
}

// namesOnly says that a backend is found by name from any source.
func (b Backend) namesOnly() bool { return len(b.Hostnames) > 0 && !b.Scoped }

type listenerDraft struct {
	l     Listener
	names map[string]*Route
}

func newDraft(l Listener) *listenerDraft {
	return &listenerDraft{l: l, names: map[string]*Route{}}
}

func (d *listenerDraft) add(b Backend) {
	d.l.HTTP = b.Protocol == HTTP
	d.l.Backends = append(d.l.Backends, b.Name)
	if len(b.Hostnames) == 0 {
		r := &d.l.NoSNI
		if b.Protocol == TCP {
			r = &d.l.Rest
		}
		r.lead(b)
		return
	}
	for _, h := range b.Hostnames {
		if d.names[h] == nil {
			d.names[h] = &Route{}
		}
		d.names[h].lead(b)
	}
}

func (r *Route) lead(b Backend) {
	if !b.Scoped {
		r.Any = b.Name
		return
	}
	for _, p := range b.Sources {
		r.Sources = append(r.Sources, SourceRoute{Addr: p.Addr(), Backend: b.Name})
	}
}

func (r *Route) sort() {
	slices.SortFunc(r.Sources, func(a, b SourceRoute) int { return a.Addr.Compare(b.Addr) })
}

func (d *listenerDraft) finish() Listener {
	d.l.NoSNI.sort()
	d.l.Rest.sort()
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		r := NameRoute{Name: name, Route: *d.names[name]}
		r.sort()
		if strings.HasPrefix(name, "*.") {
			d.l.Wildcards = append(d.l.Wildcards, r)
		} else {
			d.l.Exact = append(d.l.Exact, r)
		}
	}
	slices.SortStableFunc(d.l.Wildcards, func(a, b NameRoute) int { return cmp.Compare(len(b.Name), len(a.Name)) })
	slices.Sort(d.l.Backends)
	return d.l
}
