package translate_test

import (
	"net/netip"
	"syscall"
	"testing"
	"time"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/xds-manager/internal/translate"
)

// tcpUserTimeout is Linux's TCP_USER_TIMEOUT, which syscall does not name.
const tcpUserTimeout = 18

// behaviour E7; hazards 30, 156, 157, 164, 169, 173, 184: what holds for every
// connection of every tenant.
func TestEveryListenerAndClusterHasItsSettings(t *testing.T) {
	table, _ := read(t, "testdata/two-attachments")
	m := translate.Build(table, pod)
	require.NotEmpty(t, m.Listeners)
	http := 0
	for _, l := range m.Listeners {
		at, err := netip.ParseAddr(l.Address.GetSocketAddress().GetAddress())
		require.NoError(t, err, l.Name)
		require.True(t, at.Is4() && !at.IsUnspecified(), "%s listens on one IPv4 address", l.Name)
		require.Equal(t, uint32(256<<10), l.PerConnectionBufferLimitBytes.GetValue(), l.Name)
		for _, fc := range l.FilterChains {
			require.Nil(t, fc.FilterChainMatch, "chains hold no match")
			if l.FilterChainMatcher == nil {
				http++
				require.Empty(t, l.ListenerFilters, "only what reads a hello waits for one")
				h := &hcmv3.HttpConnectionManager{}
				require.NoError(t, fc.Filters[0].GetTypedConfig().UnmarshalTo(h))
				require.Equal(t, 2*time.Minute, h.CommonHttpProtocolOptions.IdleTimeout.AsDuration())
				require.Zero(t, h.StreamIdleTimeout.AsDuration())
				require.Equal(t, 15*time.Second, h.RequestHeadersTimeout.AsDuration())
				require.Nil(t, h.RequestTimeout)
				continue
			}
			p := &tcpproxyv3.TcpProxy{}
			require.NoError(t, fc.Filters[0].GetTypedConfig().UnmarshalTo(p))
			require.Equal(t, 24*time.Hour, p.IdleTimeout.AsDuration())
			require.Equal(t, uint32(3), p.MaxConnectAttempts.GetValue())
		}
	}
	require.Equal(t, 2, http, "port 80 on both sides")
	for _, c := range m.Clusters {
		require.Equal(t, 5*time.Second, c.ConnectTimeout.AsDuration(), c.Name)
		require.Equal(t, uint32(128<<10), c.PerConnectionBufferLimitBytes.GetValue(), c.Name)
		limit := c.CircuitBreakers.Thresholds[0]
		require.Equal(t, []uint32{20_000, 20_000, 20_000}, []uint32{limit.MaxConnections.GetValue(), limit.MaxPendingRequests.GetValue(), limit.MaxRequests.GetValue()}, c.Name)
		require.NotNil(t, c.UpstreamConnectionOptions.TcpKeepalive, c.Name)
		require.Len(t, c.UpstreamBindConfig.SocketOptions, 1, c.Name)
		stalled := c.UpstreamBindConfig.SocketOptions[0]
		require.Equal(t, []int64{syscall.IPPROTO_TCP, tcpUserTimeout, (15 * time.Minute).Milliseconds()}, []int64{stalled.Level, stalled.Name, stalled.GetIntValue()}, c.Name)
	}
	for _, r := range m.Routes {
		for _, v := range r.VirtualHosts {
			require.Zero(t, v.Routes[0].GetRoute().Timeout.AsDuration(), "no answer is too slow")
		}
	}
}
