package envoy

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// RouteConfiguration routes requests by Host; the port of a Host is ignored,
// and the Host itself stays as the client sent it.
func RouteConfiguration(name string, hosts []*routev3.VirtualHost) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name: name, VirtualHosts: hosts, IgnorePortInHostMatching: true,
		// Envoy adds it beside X-Forwarded-For, which says the same.
		RequestHeadersToRemove: []string{"x-envoy-external-address"},
	}
}

// VirtualHost sends every path of its domains to one cluster, for as long as
// the answer takes: Envoy's default of 15 s cuts slow ones.
func VirtualHost(name string, domains []string, cluster string) *routev3.VirtualHost {
	return &routev3.VirtualHost{
		Name:    name,
		Domains: domains,
		Routes: []*routev3.Route{{
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{
				ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
				Timeout:          durationpb.New(0),
			}},
		}},
	}
}
