package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/densityops/oooi/xds-manager/internal/envoy"
	"github.com/densityops/oooi/xds-manager/internal/routes"
)

// Env is what only the running pod knows.
type Env struct {
	// PodIP is invalid where the proxy has one side alone.
	PodIP netip.Addr
	// VLANDevice and PodDevice are what the listeners' sockets are bound to;
	// empty binds to none.
	VLANDevice envoy.Device
	PodDevice  envoy.Device
	// Resolved are the addresses of endpoints that are host names.
	Resolved map[string][]netip.Addr
}

// Resource is one xDS resource, ready to send.
type Resource struct {
	Name string
	// Version is a hash of the content.
	Version string
	Body    *anypb.Any
}

// Resources are everything that Envoy gets, each list sorted by name.
type Resources struct {
	Clusters  []Resource
	Listeners []Resource
	Routes    []Resource
	// Backends is the number of backends in force.
	Backends int
}

// ReasonBrokenReference is the reason of a backend that our own checks refused.
const ReasonBrokenReference = "BrokenReference"

// Messages are the resources before they are packed, for tests and for people.
type Messages struct {
	Clusters  []*clusterv3.Cluster
	Listeners []*listenerv3.Listener
	Routes    []*routev3.RouteConfiguration
}

// Snapshot is the resources of a validated table. A backend that fails the
// checks is left out and named; an error means that nothing may be published.
func Snapshot(t routes.Table, env Env) (Resources, []routes.Problem, error) {
	return new(Translator).Snapshot(t, env)
}

// Build makes the messages of a validated table without checking them.
func Build(t routes.Table, env Env) Messages { return new(Translator).build(t, env) }

// Translator does what Snapshot does and remembers the messages of the last
// table, so that what did not change is neither made, nor checked, nor packed
// again. Its answers are the same as without a memory.
type Translator struct {
	clusters memory[clusterKey, *clusterv3.Cluster]
	chains   memory[chainKey, *listenerv3.FilterChain]
	packed   memory[*clusterv3.Cluster, Resource]
	sound    memory[proto.Message, string]
}

type clusterKey struct {
	name      string
	endpoints string
	http      bool
}

type chainKey struct{ name, stat string }

// memory keeps what was asked for since the turn before.
type memory[K comparable, V any] struct{ last, now map[K]V }

func (m *memory[K, V]) turn() { m.last, m.now = m.now, make(map[K]V, len(m.now)) }

func (m *memory[K, V]) get(k K, make func() V) V {
	if v, ok := m.now[k]; ok {
		return v
	}
	v, ok := m.last[k]
	if !ok {
		v = make()
	}
	m.now[k] = v
	return v
}

// Snapshot is the resources of a validated table.
func (tr *Translator) Snapshot(t routes.Table, env Env) (Resources, []routes.Problem, error) {
	var problems []routes.Problem
	for {
		m := tr.build(t, env)
		faults := m.check(&tr.sound)
		if len(faults) == 0 {
			return tr.pack(m, len(t.Backends)), routes.SortProblems(problems), nil
		}
		kept := slices.DeleteFunc(slices.Clone(t.Backends), func(b routes.Backend) bool { return faults[b.Name] != "" })
		if len(kept) == len(t.Backends) {
			return Resources{}, problems, fmt.Errorf("checking resources: %s", firstFault(faults))
		}
		for name, why := range faults {
			problems = append(problems, routes.Problem{
				Object: name, Reason: ReasonBrokenReference, Message: fmt.Sprintf("backend %q: %s", name, why),
			})
		}
		t.Backends = kept
		t.External = withoutMissing(t)
	}
}

func firstFault(faults map[string]string) string {
	names := make([]string, 0, len(faults))
	for n := range faults {
		names = append(names, n)
	}
	slices.Sort(names)
	return faults[names[0]]
}

func withoutMissing(t routes.Table) []routes.External {
	have := map[string]bool{}
	for _, b := range t.Backends {
		have[b.Name] = true
	}
	var out []routes.External
	for _, e := range t.External {
		e.Backends = slices.DeleteFunc(slices.Clone(e.Backends), func(n string) bool { return !have[n] })
		if len(e.Backends) > 0 {
			out = append(out, e)
		}
	}
	return out
}

func (tr *Translator) build(t routes.Table, env Env) Messages {
	tr.clusters.turn()
	tr.chains.turn()
	var m Messages
	backends, endpoints := indexed(t, env)
	used := make(map[string]bool, len(t.Backends))
	actions := make(map[string]*envoy.OnMatch, len(t.Backends))
	for _, l := range t.Listeners() {
		if l.Side == routes.Pod && !env.PodIP.IsValid() {
			continue
		}
		shared := sharedChains(l, backends, endpoints)
		l.Backends = slices.DeleteFunc(l.Backends, func(name string) bool { return shared[name] != "" })
		for _, name := range l.Backends {
			used[name] = true
		}
		m.Listeners = append(m.Listeners, tr.listenerFor(compiler{actions, shared}, t, l, env))
		if l.HTTP {
			m.Routes = append(m.Routes, routeConfigFor(t, l))
		}
	}
	for _, b := range t.Backends {
		if !used[b.Name] {
			continue
		}
		key := clusterKey{b.Name, fmt.Sprint(endpoints[b.Name]), b.Protocol == routes.HTTP}
		m.Clusters = append(m.Clusters, tr.clusters.get(key, func() *clusterv3.Cluster {
			return envoy.Cluster(b.Name, endpoints[b.Name], key.http)
		}))
	}
	slices.SortFunc(m.Listeners, func(a, b *listenerv3.Listener) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(m.Routes, func(a, b *routev3.RouteConfiguration) int { return strings.Compare(a.Name, b.Name) })
	return m
}

func endpointsOf(b routes.Backend, env Env) []netip.AddrPort {
	var out []netip.AddrPort
	for _, e := range b.Endpoints {
		if e.Host == "" {
			out = append(out, netip.AddrPortFrom(e.Addr, e.Port))
			continue
		}
		for _, a := range env.Resolved[e.Host] {
			out = append(out, netip.AddrPortFrom(a, e.Port))
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

// ListenerName says the socket that it is: one name is one address, so that a
// new listener never waits for an old one to leave.
func ListenerName(t routes.Table, l routes.Listener) string {
	if l.Side == routes.VLAN {
		return fmt.Sprintf("vlan-%s-%d", t.ServerIP, l.Port)
	}
	return fmt.Sprintf("pod-%d", l.Port)
}

func (tr *Translator) listenerFor(c compiler, t routes.Table, l routes.Listener, env Env) *listenerv3.Listener {
	name, device, ip := ListenerName(t, l), env.PodDevice, env.PodIP
	if l.Side == routes.VLAN {
		device, ip = env.VLANDevice, t.ServerIP
	}
	addr := netip.AddrPortFrom(ip, l.Port)
	stat := fmt.Sprintf("%s_%d", l.Side, l.Port)
	if l.HTTP {
		return envoy.HTTPListener(name, device, addr, envoy.HTTPRouter(stat, name))
	}
	chains := make([]*listenerv3.FilterChain, len(l.Backends))
	for i, b := range l.Backends {
		chains[i] = tr.chains.get(chainKey{b, stat}, func() *listenerv3.FilterChain {
			return envoy.FilterChain(b, envoy.TCPProxy(stat, b))
		})
	}
	return envoy.StreamListener(name, device, addr, chains, c.matcherFor(l))
}

func routeConfigFor(t routes.Table, l routes.Listener) *routev3.RouteConfiguration {
	domains := map[string][]string{}
	for _, r := range slices.Concat(l.Exact, l.Wildcards) {
		domains[r.Any] = append(domains[r.Any], r.Name)
	}
	hosts := make([]*routev3.VirtualHost, 0, len(l.Backends))
	for _, b := range l.Backends {
		hosts = append(hosts, envoy.VirtualHost(b, domains[b], b))
	}
	return envoy.RouteConfiguration(ListenerName(t, l), hosts)
}

func (tr *Translator) pack(m Messages, backends int) Resources {
	tr.packed.turn()
	r := Resources{Backends: backends}
	for _, c := range m.Clusters {
		r.Clusters = append(r.Clusters, tr.packed.get(c, func() Resource { return NewResource(c.Name, c) }))
	}
	for _, l := range m.Listeners {
		r.Listeners = append(r.Listeners, NewResource(l.Name, l))
	}
	for _, c := range m.Routes {
		r.Routes = append(r.Routes, NewResource(c.Name, c))
	}
	return r
}

// NewResource packs a message; its version is the hash of its bytes.
func NewResource(name string, m proto.Message) Resource {
	body := envoy.Any(m)
	sum := sha256.Sum256(body.Value)
	return Resource{Name: name, Version: hex.EncodeToString(sum[:12]), Body: body}
}
