package envoy

import (
	"net/netip"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// listenerBuffer and clusterBuffer bound what Envoy holds of a connection. No
	// more than the latter is read from a backend at once, and the former takes two
	// such reads before the backend has to wait: that is what costs CPU. 128 KiB on
	// both sides is an eighth more for each gigabyte, 1 MiB no less than this.
	listenerBuffer = 256 << 10
	clusterBuffer  = 128 << 10
	// maxConnections replaces Envoy's default of 1,024 a cluster: a big hosted
	// cluster holds more, and one backend's load must not exhaust another's.
	maxConnections = 20_000
	connectTimeout = 5 * time.Second
)

const httpProtocolOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// Cluster is a backend's static endpoints. HTTP says that requests rather than
// connections go there.
func Cluster(name string, endpoints []netip.AddrPort, http bool) *clusterv3.Cluster {
	c := &clusterv3.Cluster{
		Name:                          name,
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:                durationpb.New(connectTimeout),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(clusterBuffer),
		CircuitBreakers:               circuitBreakers(),
		UpstreamConnectionOptions:     upstreamKeepalive(),
		UpstreamBindConfig:            &corev3.BindConfig{SocketOptions: backendOptions()},
		LoadAssignment:                loadAssignment(name, endpoints),
	}
	if http {
		c.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpProtocolOptions: Any(&upstreamhttpv3.HttpProtocolOptions{
			UpstreamProtocolOptions: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_{
				ExplicitHttpConfig: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig{
					ProtocolConfig: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{
						HttpProtocolOptions: &corev3.Http1ProtocolOptions{HeaderKeyFormat: preserveCase()},
					},
				},
			},
		})}
	}
	return c
}

func circuitBreakers() *clusterv3.CircuitBreakers {
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections:     wrapperspb.UInt32(maxConnections),
		MaxPendingRequests: wrapperspb.UInt32(maxConnections),
		MaxRequests:        wrapperspb.UInt32(maxConnections),
	}}}
}

func upstreamKeepalive() *clusterv3.UpstreamConnectionOptions {
	return &clusterv3.UpstreamConnectionOptions{TcpKeepalive: &corev3.TcpKeepalive{
		KeepaliveTime:     wrapperspb.UInt32(keepIdleSeconds),
		KeepaliveInterval: wrapperspb.UInt32(keepIntervalSeconds),
		KeepaliveProbes:   wrapperspb.UInt32(keepProbes),
	}}
}

func loadAssignment(name string, endpoints []netip.AddrPort) *endpointv3.ClusterLoadAssignment {
	la := &endpointv3.ClusterLoadAssignment{ClusterName: name}
	if len(endpoints) == 0 {
		return la
	}
	lbs := make([]*endpointv3.LbEndpoint, len(endpoints))
	for i, e := range endpoints {
		lbs[i] = &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
			Endpoint: &endpointv3.Endpoint{Address: Address(e)},
		}}
	}
	la.Endpoints = []*endpointv3.LocalityLbEndpoints{{LbEndpoints: lbs}}
	return la
}
