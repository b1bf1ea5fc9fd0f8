// Package bootstrap writes the configuration that Envoy starts with: where its
// manager is, its administration on a unix socket, and one static listener for
// its statistics on the pod IP.
//
// It refuses to put anything there that a snapshot could change. Invariant:
// nothing of it listens on the VLAN, and of the administration only three paths
// are reachable by TCP, by GET.
package bootstrap

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"sigs.k8s.io/yaml"

	"github.com/densityops/oooi/xds-manager/internal/envoy"
)

const (
	// StatsPort is where Envoy answers for itself on the pod IP.
	StatsPort = 9901
	// maxDownstream is the global limit, ten backends' worth: it guards Envoy's
	// memory and descriptors, never one tenant from another.
	maxDownstream = 200_000

	// XDSCluster is Envoy's way to its manager.
	XDSCluster = "xds"
	// AdminCluster is Envoy's way to itself.
	AdminCluster = "admin"

	httpOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
)

// Config is what a bootstrap depends on.
type Config struct {
	// NodeID is what the manager knows this Envoy by.
	NodeID string
	// XDSSocket and AdminSocket are paths; Envoy makes the latter.
	XDSSocket   string
	AdminSocket string
	// Memory is the limit of Envoy's container in bytes, 0 where it has none.
	Memory uint64
	// PodIP and PodDevice are where the statistics are served; an invalid
	// address leaves them out.
	PodIP     netip.Addr
	PodDevice envoy.Device
}

// Encode is the bootstrap for a file of that name: Envoy goes by its ending,
// and reads anything but .json as YAML here.
func Encode(c Config, file string) ([]byte, error) {
	b := Build(c)
	if err := b.ValidateAll(); err != nil {
		return nil, fmt.Errorf("checking bootstrap: %w", err)
	}
	j, err := protojson.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encoding bootstrap: %w", err)
	}
	if strings.HasSuffix(file, ".json") {
		return j, nil
	}
	y, err := yaml.JSONToYAML(j)
	if err != nil {
		return nil, fmt.Errorf("encoding bootstrap: %w", err)
	}
	return y, nil
}

// Build makes the message.
func Build(c Config) *bootstrapv3.Bootstrap {
	b := &bootstrapv3.Bootstrap{
		Node:  &corev3.Node{Id: c.NodeID, Cluster: "oooi-proxy"},
		Admin: &bootstrapv3.Admin{Address: envoy.PipeAddress(c.AdminSocket)},
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{
			AdsConfig: &corev3.ApiConfigSource{
				ApiType: corev3.ApiConfigSource_DELTA_GRPC, TransportApiVersion: corev3.ApiVersion_V3,
				GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
					EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: XDSCluster},
				}}},
			},
			CdsConfig: envoy.ADS(), LdsConfig: envoy.ADS(),
		},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{
			Clusters: []*clusterv3.Cluster{xds(c.XDSSocket), pipeCluster(AdminCluster, c.AdminSocket)},
		},
		// There is no sink: without this every statistic of every cluster is gone
		// through each five seconds for nobody.
		StatsFlush: &bootstrapv3.Bootstrap_StatsFlushOnAdmin{StatsFlushOnAdmin: true},
		// A cluster's statistics are made when its first connection comes: most
		// clusters of most proxies are quiet.
		DeferredStatOptions: &bootstrapv3.Bootstrap_DeferredStatOptions{EnableDeferredCreationStats: true},
		LayeredRuntime: &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{{
			// The manager switches the access log here, by the admin socket.
			Name: "admin", LayerSpecifier: &bootstrapv3.RuntimeLayer_AdminLayer_{AdminLayer: &bootstrapv3.RuntimeLayer_AdminLayer{}},
		}}},
		OverloadManager: overload(c.Memory),
	}
	if c.PodIP.IsValid() {
		b.StaticResources.Listeners = []*listenerv3.Listener{statsListener(c)}
	}
	return b
}

func pipeCluster(name, path string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(time.Second),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{
			LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
				Endpoint: &endpointv3.Endpoint{Address: &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}},
			}}},
		}}},
	}
}

// xds keeps its connection alive: a manager that hangs is left within 40 s
// rather than never.
func xds(path string) *clusterv3.Cluster {
	c := pipeCluster(XDSCluster, path)
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpOptions: envoy.Any(&upstreamhttpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
					Http2ProtocolOptions: &corev3.Http2ProtocolOptions{ConnectionKeepalive: &corev3.KeepaliveSettings{
						Interval: durationpb.New(30 * time.Second), Timeout: durationpb.New(10 * time.Second),
					}},
				},
			},
		},
	})}
	return c
}

func statsListener(c Config) *listenerv3.Listener {
	l := envoy.HTTPListener("stats", c.PodDevice, netip.AddrPortFrom(c.PodIP, StatsPort), statsFilter())
	// The probe must come through when tenants have used up the global limit.
	l.IgnoreGlobalConnLimit = true
	// And when they have used up the memory.
	l.BypassOverloadManager = true
	return l
}

func statsFilter() *listenerv3.Filter {
	routes := make([]*routev3.Route, 0, 3)
	for _, path := range []string{"/ready", "/stats", "/stats/prometheus"} {
		routes = append(routes, &routev3.Route{
			Match: &routev3.RouteMatch{
				PathSpecifier: &routev3.RouteMatch_Path{Path: path},
				Headers: []*routev3.HeaderMatcher{{Name: ":method", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
					StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "GET"}},
				}}},
			},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: AdminCluster}}},
		})
	}
	return &listenerv3.Filter{
		Name: "envoy.filters.network.http_connection_manager",
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: envoy.Any(&hcmv3.HttpConnectionManager{
			StatPrefix: "stats",
			CodecType:  hcmv3.HttpConnectionManager_HTTP1,
			RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
				Name: "stats", VirtualHosts: []*routev3.VirtualHost{{Name: "stats", Domains: []string{"*"}, Routes: routes}},
			}},
			HttpFilters: []*hcmv3.HttpFilter{{
				Name:       "envoy.filters.http.router",
				ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: envoy.Any(&routerv3.Router{})},
			}},
			RequestTimeout:    durationpb.New(30 * time.Second),
			NormalizePath:     wrapperspb.Bool(true),
			GenerateRequestId: wrapperspb.Bool(false),
		})},
	}
}
