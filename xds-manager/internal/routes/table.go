package routes

import (
	"cmp"
	"net/netip"
	"slices"
)

// Protocol is what a backend's clients speak.
type Protocol int

// The protocols of a backend.
const (
	// TLS is passed through by the server name of its ClientHello.
	TLS Protocol = iota + 1
	// HTTP is routed by its Host header.
	HTTP
	// TCP takes whatever nothing else of its port took.
	TCP
)

// String is the protocol's name in messages.
func (p Protocol) String() string {
	switch p {
	case TLS:
		return "TLS"
	case HTTP:
		return "HTTP"
	case TCP:
		return "TCP"
	default:
		return "unknown"
	}
}

// Endpoint is where a backend's connections go: an address, or a host name
// that is still to be resolved.
type Endpoint struct {
	Addr netip.Addr
	Host string
	Port uint16
}

// Backend is one route and where it leads.
type Backend struct {
	// Name is unique and names the Envoy cluster and filter chain.
	Name string
	// Hostnames are lower case; "*.x" is a wildcard of any depth below x.
	Hostnames []string
	Port      uint16
	Protocol  Protocol
	// Scoped says that only Sources may use it, even when none is left.
	Scoped    bool
	Sources   []netip.Prefix
	Endpoints []Endpoint
	// PodSide backends are also reachable on the pod IP, by name.
	PodSide bool
}

// External is a listener of the pod side that knows a few backends' names.
type External struct {
	Name     string
	Port     uint16
	Backends []string
}

// Table is everything that Envoy is to serve.
type Table struct {
	ServerIP  netip.Addr
	CIDR      netip.Prefix
	Reserved  []netip.Addr
	Upstreams []string
	Backends  []Backend
	External  []External
	AccessLog bool
	LogLevel  string
}

// Problem is a mistake of whoever wrote the input, never of ours.
type Problem struct {
	// Object is the backend or listener that it is about.
	Object  string
	Reason  string
	Message string
}

// The reasons of problems. They are API: the operator shows them.
const (
	ReasonInvalidBackend    = "InvalidBackend"
	ReasonDuplicateBackend  = "DuplicateBackend"
	ReasonDuplicateHostname = "DuplicateHostname"
	ReasonDuplicateSourceIP = "DuplicateSourceIP"
	ReasonAmbiguousFallback = "AmbiguousFallback"
	ReasonPortConflict      = "PortConflict"
	ReasonInvalidListener   = "InvalidListener"
	ReasonNoValidBackend    = "NoValidBackend"
)

// SortProblems orders problems so that equal sets are equal lists, and drops
// repeated ones.
func SortProblems(ps []Problem) []Problem {
	slices.SortFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message), cmp.Compare(a.Object, b.Object))
	})
	return slices.Compact(ps)
}
