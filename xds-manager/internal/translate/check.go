package translate

import (
	"fmt"

	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Check looks for what Envoy would accept in silence or reject as a whole:
// chains without their cluster, matchers without their chain, names that are
// there twice, fields outside their rules. The result names what is at fault,
// by backend where it is one backend's.
func (m Messages) Check() map[string]string { return m.check(&memory[proto.Message, string]{}) }

// check skips what sound knows to be right in itself: clusters, and chains with
// the cluster that they lead to. References between messages are always checked.
func (m Messages) check(sound *memory[proto.Message, string]) map[string]string {
	sound.turn()
	c := checker{
		faults: map[string]string{}, clusters: map[string]bool{}, routes: map[string]bool{}, sound: sound,
		actions: map[*xdsmatcherv3.Matcher_OnMatch]string{},
	}
	for _, cl := range m.Clusters {
		c.unique("cluster", cl.Name, c.clusters)
		c.once(cl, cl.Name, func() (string, error) { return cl.Name, cl.ValidateAll() })
	}
	for _, r := range m.Routes {
		c.unique("route configuration", r.Name, c.routes)
		c.valid(r.Name, r.ValidateAll())
		for _, v := range r.VirtualHosts {
			for _, rt := range v.Routes {
				c.cluster(v.Name, rt.GetRoute().GetCluster())
			}
		}
	}
	names := map[string]bool{}
	for _, l := range m.Listeners {
		c.unique("listener", l.Name, names)
		c.listener(l)
	}
	return c.faults
}

type checker struct {
	faults   map[string]string
	clusters map[string]bool
	routes   map[string]bool
	sound    *memory[proto.Message, string]
	actions  map[*xdsmatcherv3.Matcher_OnMatch]string
}

// once looks into a message that it has not seen before. A sound one is
// remembered with what it answered; a faulty one is looked at again.
func (c *checker) once(m proto.Message, name string, look func() (string, error)) string {
	var err error
	v := c.sound.get(m, func() (v string) {
		v, err = look()
		return v
	})
	if err != nil {
		delete(c.sound.now, m)
		c.valid(name, err)
	}
	return v
}

func (c *checker) fault(name, format string, args ...any) {
	if c.faults[name] == "" {
		c.faults[name] = fmt.Sprintf(format, args...)
	}
}

func (c *checker) unique(kind, name string, seen map[string]bool) {
	if seen[name] {
		c.fault(name, "%s %q is there twice", kind, name)
	}
	seen[name] = true
}

func (c *checker) valid(name string, err error) {
	if err != nil {
		c.fault(name, "%v", err)
	}
}

func (c *checker) cluster(owner, name string) {
	if !c.clusters[name] {
		c.fault(owner, "cluster %q is missing", name)
	}
}

func (c *checker) listener(l *listenerv3.Listener) {
	chains := map[string]bool{Closed: true}
	for _, fc := range l.FilterChains {
		c.unique("filter chain", fc.Name, chains)
		to := c.once(fc, fc.Name, func() (string, error) { return leadsTo(fc) })
		if l.GetFilterChainMatcher() != nil {
			c.cluster(fc.Name, to)
		} else if !c.routes[to] {
			c.fault(l.Name, "route configuration %q is missing", to)
		}
	}
	if len(l.FilterChains) == 0 {
		c.fault(l.Name, "listener %q has no filter chain", l.Name)
	}
	// The chains were looked at one by one.
	bare := &listenerv3.Listener{
		Name: l.Name, Address: l.Address, PerConnectionBufferLimitBytes: l.PerConnectionBufferLimitBytes, TcpBacklogSize: l.TcpBacklogSize,
		SocketOptions: l.SocketOptions, ListenerFilters: l.ListenerFilters, ListenerFiltersTimeout: l.ListenerFiltersTimeout,
		AccessLog: l.AccessLog, FilterChainMatcher: l.FilterChainMatcher,
	}
	c.valid(l.Name, bare.ValidateAll())
	c.matcher(l.Name, chains, l.FilterChainMatcher)
}

// leadsTo is the cluster of a chain that passes connections on, the route
// configuration of one that speaks HTTP.
func leadsTo(fc *listenerv3.FilterChain) (string, error) {
	if err := fc.ValidateAll(); err != nil {
		return "", err
	}
	if len(fc.Filters) != 1 {
		return "", fmt.Errorf("chain %q has %d filters, want one", fc.Name, len(fc.Filters))
	}
	a := fc.Filters[0].GetTypedConfig()
	tcp, http := &tcpproxyv3.TcpProxy{}, &hcmv3.HttpConnectionManager{}
	switch {
	case a.MessageIs(tcp):
		err := proto.Unmarshal(a.Value, tcp)
		return tcp.GetCluster(), err
	case a.MessageIs(http):
		err := proto.Unmarshal(a.Value, http)
		return http.GetRds().GetRouteConfigName(), err
	default:
		return "", fmt.Errorf("filter %q is unknown here", fc.Filters[0].Name)
	}
}

func (c *checker) matcher(listener string, chains map[string]bool, m *xdsmatcherv3.Matcher) {
	if m == nil {
		return
	}
	for _, on := range m.GetMatcherTree().GetExactMatchMap().GetMap() {
		c.onMatch(listener, chains, on)
	}
	for _, fm := range m.GetMatcherList().GetMatchers() {
		c.onMatch(listener, chains, fm.OnMatch)
	}
	c.onMatch(listener, chains, m.OnNoMatch)
}

func (c *checker) onMatch(listener string, chains map[string]bool, on *xdsmatcherv3.Matcher_OnMatch) {
	if on == nil {
		return
	}
	c.matcher(listener, chains, on.GetMatcher())
	a := on.GetAction()
	if a == nil {
		return
	}
	// One message is shared by all places that select a chain.
	name, ok := c.actions[on]
	if !ok {
		v := &wrapperspb.StringValue{}
		c.valid(a.Name, proto.Unmarshal(a.GetTypedConfig().GetValue(), v))
		name = v.Value
		c.actions[on] = name
	}
	if !chains[name] {
		c.fault(a.Name, "filter chain %q of listener %q is missing", name, listener)
	}
}
