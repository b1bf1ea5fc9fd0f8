package bootstrap

import (
	"flag"
	"net/netip"
	"os"
	"testing"

	downstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/xds-manager/internal/envoy"
)

var update = flag.Bool("update", false, "rewrite golden files")

var config = Config{
	NodeID: "vlan100/vlan100-proxy", XDSSocket: "/run/oooi/xds.sock", AdminSocket: "/run/oooi/admin.sock",
	PodIP: netip.MustParseAddr("10.128.0.4"), PodDevice: envoy.Device{Name: "eth0", Index: 2}, Memory: 1 << 30,
}

// behaviour E10.
func TestTheBootstrapIsTheGoldenFile(t *testing.T) {
	got, err := Encode(config, "bootstrap.yaml")
	require.NoError(t, err)
	const golden = "testdata/bootstrap.golden.yaml"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, got, 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(string(want), string(got)))
}

// behaviour E7, E10; hazard 174: a wrong name makes Envoy exit, and a limit that
// the probe shares would let tenants make the pod look dead.
func TestTheGlobalLimitIsFarAboveABackendsAndSparesTheProbe(t *testing.T) {
	b := Build(config)
	monitors := b.GetOverloadManager().GetResourceMonitors()
	require.Len(t, monitors, 2)
	require.Equal(t, "envoy.resource_monitors.global_downstream_max_connections", monitors[0].Name)
	limit := &downstreamv3.DownstreamConnectionsConfig{}
	require.NoError(t, monitors[0].GetTypedConfig().UnmarshalTo(limit))
	require.GreaterOrEqual(t, limit.MaxActiveDownstreamConnections, int64(10*20_000))
	require.True(t, b.StaticResources.Listeners[0].IgnoreGlobalConnLimit)
}

// behaviour E7; hazard 174: a probe that waits for memory would end the pod that
// waits for its connections to end.
func TestWhereMemoryEndsNobodyNewIsLetInButTheProbe(t *testing.T) {
	c := config
	b := Build(c)
	require.True(t, b.StaticResources.Listeners[0].BypassOverloadManager)
	var actions []string
	for _, a := range b.OverloadManager.Actions {
		actions = append(actions, a.Name)
	}
	require.Equal(t, []string{"envoy.overload_actions.shrink_heap", "envoy.overload_actions.stop_accepting_connections"}, actions)
	c.Memory = 0
	require.Empty(t, Build(c).OverloadManager.Actions)
	require.Len(t, Build(c).OverloadManager.ResourceMonitors, 1, "no limit, nothing to look at")
}

// hazards 180, 194, 198: xDS is a unix socket, kept alive, and nothing has to warm.
func TestTheWayToTheManagerIsAUnixSocketThatIsKeptAlive(t *testing.T) {
	for _, c := range Build(config).StaticResources.Clusters {
		require.Equal(t, "STATIC", c.GetType().String())
		require.NotEmpty(t, c.LoadAssignment.Endpoints[0].LbEndpoints[0].GetEndpoint().Address.GetPipe().GetPath())
		if c.Name != XDSCluster {
			continue
		}
		h := &upstreamhttpv3.HttpProtocolOptions{}
		require.NoError(t, c.TypedExtensionProtocolOptions[httpOptions].UnmarshalTo(h))
		require.NotNil(t, h.GetExplicitHttpConfig().GetHttp2ProtocolOptions().GetConnectionKeepalive().GetInterval())
	}
}

// hazard 179: the administration has no TCP port.
func TestTheAdministrationIsAUnixSocket(t *testing.T) {
	require.Equal(t, "/run/oooi/admin.sock", Build(config).Admin.Address.GetPipe().GetPath())
	require.Nil(t, Build(config).Admin.Address.GetSocketAddress())
}

func TestWithoutAPodAddressNothingListens(t *testing.T) {
	c := config
	c.PodIP = netip.Addr{}
	require.Empty(t, Build(c).StaticResources.Listeners)
}
