// Command peer serves Envoy the usual way: go-control-plane's snapshot cache,
// one filter chain with a match of its own for each route, a list of sources on
// each alias chain.
//
// It reads the same snapshot file that xds-manager reads, again for each line on
// its standard input, and prints one line of JSON for each publication that
// Envoy acknowledged: {"version": ..., "ms": ...}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// snapshot is the part of the file that matters here.
type snapshot struct {
	Version string `json:"version"`
	Proxy   struct {
		ServerIP string    `json:"serverIp"`
		Backends []backend `json:"backends"`
	} `json:"proxy"`
}

type backend struct {
	Name               string   `json:"name"`
	Hostnames          []string `json:"hostnames"`
	Port               uint32   `json:"port"`
	Protocol           string   `json:"protocol"`
	SourcePrefixRanges []string `json:"sourcePrefixRanges"`
	Endpoints          []struct {
		IP   string `json:"ip"`
		Port uint32 `json:"port"`
	} `json:"endpoints"`
}

func socket(ip string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: ip, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port}}}}
}

func pack(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		panic(err)
	}
	return a
}

func cluster(b backend) *clusterv3.Cluster {
	e := b.Endpoints[0]
	return &clusterv3.Cluster{
		Name: b.Name, ConnectTimeout: durationpb.New(5 * time.Second), ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{ClusterName: b.Name, Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: socket(e.IP, e.Port)}},
		}}}}},
	}
}

func chain(b backend) *listenerv3.FilterChain {
	m := &listenerv3.FilterChainMatch{ServerNames: b.Hostnames, TransportProtocol: "tls"}
	for _, s := range b.SourcePrefixRanges {
		p := netip.MustParsePrefix(s)
		m.SourcePrefixRanges = append(m.SourcePrefixRanges, &corev3.CidrRange{AddressPrefix: p.Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(p.Bits()))})
	}
	return &listenerv3.FilterChain{Name: b.Name, FilterChainMatch: m, Filters: []*listenerv3.Filter{{
		Name: "envoy.filters.network.tcp_proxy", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(&tcpproxyv3.TcpProxy{
			StatPrefix: b.Name, ClusterSpecifier: &tcpproxyv3.TcpProxy_Cluster{Cluster: b.Name},
		})},
	}}}
}

func build(path string) (*cache.Snapshot, string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	var s snapshot
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, "", err
	}
	var clusters []types.Resource
	chains := map[uint32][]*listenerv3.FilterChain{}
	for _, b := range s.Proxy.Backends {
		clusters = append(clusters, cluster(b))
		chains[b.Port] = append(chains[b.Port], chain(b))
	}
	var listeners []types.Resource
	for port, cs := range chains {
		listeners = append(listeners, &listenerv3.Listener{
			Name: fmt.Sprint(port), Address: socket(s.Proxy.ServerIP, port), FilterChains: cs,
			ListenerFilters: []*listenerv3.ListenerFilter{{Name: "envoy.filters.listener.tls_inspector", ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: pack(&tlsinspectorv3.TlsInspector{})}}},
		})
	}
	snap, err := cache.NewSnapshot(s.Version, map[resource.Type][]types.Resource{resource.ClusterType: clusters, resource.ListenerType: listeners})
	return snap, s.Version, err
}

// acks prints when the listener of a publication was acknowledged.
type acks struct {
	mu      sync.Mutex // guards what follows
	at      time.Time
	version string
	nonce   string
}

func (a *acks) published(version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at, a.version = time.Now(), version
}

func (a *acks) sent(_ int64, _ *discoveryv3.DeltaDiscoveryRequest, r *discoveryv3.DeltaDiscoveryResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.TypeUrl == resource.ListenerType {
		a.nonce = r.Nonce
	}
}

func (a *acks) received(_ int64, r *discoveryv3.DeltaDiscoveryRequest) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.TypeUrl != resource.ListenerType || r.ResponseNonce == "" || r.ResponseNonce != a.nonce {
		return nil
	}
	out := map[string]any{"version": a.version, "ms": float64(time.Since(a.at).Microseconds()) / 1000}
	if r.ErrorDetail != nil {
		out["error"] = r.ErrorDetail.Message
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path, sock string) error {
	a := &acks{}
	c := cache.NewSnapshotCache(true, cache.IDHash{}, nil)
	publish := func() error {
		began := time.Now()
		s, version, err := build(path)
		if err != nil {
			return err
		}
		a.published(version)
		a.mu.Lock()
		a.at = began
		a.mu.Unlock()
		return c.SetSnapshot(context.Background(), "standalone", s)
	}
	if err := publish(); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", sock)
	if err != nil {
		return err
	}
	g := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, server.NewServer(context.Background(), c, server.CallbackFuncs{StreamDeltaResponseFunc: a.sent, StreamDeltaRequestFunc: a.received}))
	go func() { _ = g.Serve(l) }()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if err := publish(); err != nil {
			return err
		}
	}
	return nil
}
