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
func (m Messages) Check() map[string]string {
	c := checker{faults: map[string]string{}, clusters: map[string]bool{}, routes: map[string]bool{}}
	for _, cl := range m.Clusters {
		c.unique("cluster", cl.Name, c.clusters)
		c.valid(cl.Name, cl.ValidateAll())
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
		c.valid(l.Name, l.ValidateAll())
		c.listener(l)
	}
	return c.faults
}

type checker struct {
	faults   map[string]string
	clusters map[string]bool
	routes   map[string]bool
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
		for _, f := range fc.Filters {
			c.filter(l.Name, fc.Name, f)
		}
	}
	if len(l.FilterChains) == 0 {
		c.fault(l.Name, "listener %q has no filter chain", l.Name)
	}
	c.matcher(l.Name, chains, l.FilterChainMatcher)
}

func (c *checker) filter(listener, chain string, f *listenerv3.Filter) {
	a := f.GetTypedConfig()
	tcp, http := &tcpproxyv3.TcpProxy{}, &hcmv3.HttpConnectionManager{}
	switch {
	case a.MessageIs(tcp):
		c.valid(chain, proto.Unmarshal(a.Value, tcp))
		c.cluster(chain, tcp.GetCluster())
	case a.MessageIs(http):
		c.valid(listener, proto.Unmarshal(a.Value, http))
		if name := http.GetRds().GetRouteConfigName(); !c.routes[name] {
			c.fault(listener, "route configuration %q is missing", name)
		}
	default:
		c.fault(listener, "filter %q is unknown here", f.Name)
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
	name := &wrapperspb.StringValue{}
	if err := proto.Unmarshal(a.GetTypedConfig().GetValue(), name); err != nil || !chains[name.Value] {
		c.fault(a.Name, "filter chain %q of listener %q is missing", name.Value, listener)
	}
}
