package envoy

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	preservecasev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/header_formatters/preserve_case/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// idleTimeout is the least that quiet watches, exec sessions and tunnels
	// need; Envoy's default of one hour cuts them. Dead peers are keepalive's.
	idleTimeout = 24 * time.Hour
	// requestlessTimeout is how long an HTTP connection may be without a request:
	// one that never says anything has no head that could be late. It is longer
	// than clients keep one for their next request. Answers and websockets are
	// requests that are still open.
	requestlessTimeout = 2 * time.Minute
	// connectAttempts lets a rolling API server be tried again before the
	// client sees a reset.
	connectAttempts = 3
)

// TLSInspector reads the server name of a ClientHello (RFC 6066 section 3).
func TLSInspector() *listenerv3.ListenerFilter {
	return &listenerv3.ListenerFilter{
		Name:       "envoy.filters.listener.tls_inspector",
		ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: Any(&tlsinspectorv3.TlsInspector{})},
	}
}

// TCPProxy passes a connection's bytes on, half-close included.
func TCPProxy(statPrefix, cluster string) *listenerv3.Filter {
	return &listenerv3.Filter{
		Name: "envoy.filters.network.tcp_proxy",
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: Any(&tcpproxyv3.TcpProxy{
			StatPrefix:         statPrefix,
			ClusterSpecifier:   &tcpproxyv3.TcpProxy_Cluster{Cluster: cluster},
			IdleTimeout:        durationpb.New(idleTimeout),
			MaxConnectAttempts: wrapperspb.UInt32(connectAttempts),
		})},
	}
}

// HTTPRouter passes requests on by their Host, by the named route
// configuration, changing nothing but X-Forwarded-For and -Proto.
func HTTPRouter(statPrefix, routeConfig string) *listenerv3.Filter {
	return &listenerv3.Filter{
		Name: "envoy.filters.network.http_connection_manager",
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: Any(&hcmv3.HttpConnectionManager{
			StatPrefix: statPrefix,
			// HTTP/2 without TLS stays out: it would reach the router as HTTP/1.1.
			CodecType: hcmv3.HttpConnectionManager_HTTP1,
			RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
				RouteConfigName: routeConfig, ConfigSource: ADS(),
			}},
			HttpFilters: []*hcmv3.HttpFilter{{
				Name:       "envoy.filters.http.router",
				ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: Any(&routerv3.Router{SuppressEnvoyHeaders: true})},
			}},
			UpgradeConfigs: []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
			HttpProtocolOptions: &corev3.Http1ProtocolOptions{
				AcceptHttp_10: true, HeaderKeyFormat: preserveCase(),
			},
			CommonHttpProtocolOptions:    &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(requestlessTimeout)},
			StreamIdleTimeout:            durationpb.New(0),
			RequestHeadersTimeout:        durationpb.New(helloTimeout),
			UseRemoteAddress:             wrapperspb.Bool(true),
			GenerateRequestId:            wrapperspb.Bool(false),
			NormalizePath:                wrapperspb.Bool(false),
			PathWithEscapedSlashesAction: hcmv3.HttpConnectionManager_KEEP_UNCHANGED,
			ServerHeaderTransformation:   hcmv3.HttpConnectionManager_PASS_THROUGH,
			AccessLog:                    RequestLog(),
		})},
	}
}

func preserveCase() *corev3.Http1ProtocolOptions_HeaderKeyFormat {
	return &corev3.Http1ProtocolOptions_HeaderKeyFormat{
		HeaderFormat: &corev3.Http1ProtocolOptions_HeaderKeyFormat_StatefulFormatter{
			StatefulFormatter: &corev3.TypedExtensionConfig{
				Name:        "preserve_case",
				TypedConfig: Any(&preservecasev3.PreserveCaseFormatterConfig{}),
			},
		},
	}
}
