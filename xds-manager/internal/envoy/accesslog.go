package envoy

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	streamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// AccessLogRuntimeKey switches the access log at run time: 0 is off, 100 on.
// A runtime key, because a changed access log in the configuration would drain
// the listener and cut every connection of every tenant.
const AccessLogRuntimeKey = "oooi.access_log"

// connectionFields always name source and chain, because a server name is
// missing where a hello could not be read.
var connectionFields = map[string]string{
	"time":        "%START_TIME%",
	"source":      "%DOWNSTREAM_REMOTE_ADDRESS%",
	"listener":    "%DOWNSTREAM_LOCAL_ADDRESS%",
	"sni":         "%REQUESTED_SERVER_NAME%",
	"chain":       "%FILTER_CHAIN_NAME%",
	"backend":     "%UPSTREAM_CLUSTER%",
	"endpoint":    "%UPSTREAM_HOST%",
	"bytes_in":    "%BYTES_RECEIVED%",
	"bytes_out":   "%BYTES_SENT%",
	"flags":       "%RESPONSE_FLAGS%",
	"duration_ms": "%DURATION%",
}

var requestFields = map[string]string{
	"time":        "%START_TIME%",
	"source":      "%DOWNSTREAM_REMOTE_ADDRESS%",
	"listener":    "%DOWNSTREAM_LOCAL_ADDRESS%",
	"host":        "%REQ(:AUTHORITY)%",
	"method":      "%REQ(:METHOD)%",
	"code":        "%RESPONSE_CODE%",
	"backend":     "%UPSTREAM_CLUSTER%",
	"endpoint":    "%UPSTREAM_HOST%",
	"bytes_in":    "%BYTES_RECEIVED%",
	"bytes_out":   "%BYTES_SENT%",
	"flags":       "%RESPONSE_FLAGS%",
	"duration_ms": "%DURATION%",
}

// ConnectionLog writes one JSON line for each connection, closed ones included.
func ConnectionLog() []*accesslogv3.AccessLog { return jsonLog(connectionFields) }

// RequestLog writes one JSON line for each HTTP request, without its path.
func RequestLog() []*accesslogv3.AccessLog { return jsonLog(requestFields) }

func jsonLog(fields map[string]string) []*accesslogv3.AccessLog {
	values := make(map[string]*structpb.Value, len(fields))
	for k, v := range fields {
		values[k] = structpb.NewStringValue(v)
	}
	return []*accesslogv3.AccessLog{{
		Name: "envoy.access_loggers.stdout",
		Filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_RuntimeFilter{
			RuntimeFilter: &accesslogv3.RuntimeFilter{
				RuntimeKey:     AccessLogRuntimeKey,
				PercentSampled: &typev3.FractionalPercent{Numerator: 100, Denominator: typev3.FractionalPercent_HUNDRED},
			},
		}},
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: Any(&streamv3.StdoutAccessLog{
			AccessLogFormat: &streamv3.StdoutAccessLog_LogFormat{LogFormat: &corev3.SubstitutionFormatString{
				Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: &structpb.Struct{Fields: values}},
			}},
		})},
	}}
}
