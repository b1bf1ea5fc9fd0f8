package bootstrap

import (
	"time"

	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
	downstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	heapv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/fixed_heap/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/densityops/oooi/xds-manager/internal/envoy"
)

const (
	connectionsMonitor = "envoy.resource_monitors.global_downstream_max_connections"
	heapMonitor        = "envoy.resource_monitors.fixed_heap"

	// heapPart of the container's memory is Envoy's heap; the rest is left to the
	// kernel's buffers of the same connections, which count there too.
	heapPart = 2
	// heapLook is how often the heap is looked at: a crowd that comes in one second
	// must not be served before it is seen.
	heapLook = 250 * time.Millisecond
	// shrinkAt is the share of the heap from which what is free in it goes back to
	// the kernel, which by itself it never does.
	shrinkAt = 0.7
	// closedAt is the share from which no new connection is taken. What is open
	// stays; a container that runs out of memory would lose all of it.
	closedAt = 0.95
)

// overload bounds what all tenants together can take. Envoy's monitor of control
// groups would need no number, but the one of 1.36 reads nothing below /sys.
func overload(memory uint64) *overloadv3.OverloadManager {
	m := &overloadv3.OverloadManager{ResourceMonitors: []*overloadv3.ResourceMonitor{
		monitor(connectionsMonitor, &downstreamv3.DownstreamConnectionsConfig{MaxActiveDownstreamConnections: maxDownstream}),
	}}
	if memory < heapPart {
		return m
	}
	m.RefreshInterval = durationpb.New(heapLook)
	m.ResourceMonitors = append(m.ResourceMonitors, monitor(heapMonitor, &heapv3.FixedHeapConfig{MaxHeapSizeBytes: memory / heapPart}))
	m.Actions = []*overloadv3.OverloadAction{
		aboveShare("envoy.overload_actions.shrink_heap", shrinkAt),
		aboveShare("envoy.overload_actions.stop_accepting_connections", closedAt),
	}
	return m
}

func monitor(name string, config proto.Message) *overloadv3.ResourceMonitor {
	return &overloadv3.ResourceMonitor{Name: name, ConfigType: &overloadv3.ResourceMonitor_TypedConfig{TypedConfig: envoy.Any(config)}}
}

func aboveShare(action string, share float64) *overloadv3.OverloadAction {
	return &overloadv3.OverloadAction{Name: action, Triggers: []*overloadv3.Trigger{{
		Name:         heapMonitor,
		TriggerOneof: &overloadv3.Trigger_Threshold{Threshold: &overloadv3.ThresholdTrigger{Value: share}},
	}}}
}
