package envoy

import (
	"net/netip"
	"time"

	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// helloTimeout is how long a client may take for its hello, or for the head of
	// a request that it began.
	helloTimeout = 15 * time.Second
	// backlog keeps a boot storm's connections in the kernel's queue.
	backlog = 4096
)

// FilterChain is a chain without a match of its own: everything that selects
// it lies in the listener's matcher, so that a worker that comes or goes
// changes no chain and cuts no connection.
func FilterChain(name string, filter *listenerv3.Filter) *listenerv3.FilterChain {
	return &listenerv3.FilterChain{Name: name, Filters: []*listenerv3.Filter{filter}}
}

// StreamListener routes connections by the matcher.
func StreamListener(name string, device Device, addr netip.AddrPort, chains []*listenerv3.FilterChain, m *xdsmatcherv3.Matcher) *listenerv3.Listener {
	l := newListener(name, device, addr)
	l.FilterChains = chains
	l.FilterChainMatcher = m
	l.ListenerFilters = []*listenerv3.ListenerFilter{TLSInspector()}
	l.ListenerFiltersTimeout = durationpb.New(helloTimeout)
	l.AccessLog = ConnectionLog()
	return l
}

// HTTPListener hands every connection to one HTTP filter.
func HTTPListener(name string, device Device, addr netip.AddrPort, filter *listenerv3.Filter) *listenerv3.Listener {
	l := newListener(name, device, addr)
	l.FilterChains = []*listenerv3.FilterChain{FilterChain("http", filter)}
	return l
}

func newListener(name string, device Device, addr netip.AddrPort) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name:                          name,
		Address:                       Address(addr),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(listenerBuffer),
		TcpBacklogSize:                wrapperspb.UInt32(backlog),
		SocketOptions:                 SocketOptions(device),
	}
}
