package translate_test

import (
	"net/netip"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/xds-manager/internal/translate"
)

// intOptions are socket options by Linux's level and name.
func intOptions(options []*corev3.SocketOption) map[[2]int64]int64 {
	out := map[[2]int64]int64{}
	for _, o := range options {
		out[[2]int64{o.Level, o.Name}] = o.GetIntValue()
	}
	return out
}

// behaviour E7: what the kernel buffers counts in the pod's memory too, and what a
// client left behind is not kept for a day.
func TestTheKernelsBuffersAreBounded(t *testing.T) {
	var (
		unsent   = [2]int64{syscall.IPPROTO_TCP, 25} // TCP_NOTSENT_LOWAT
		receive  = [2]int64{syscall.SOL_SOCKET, syscall.SO_RCVBUF}
		stalled  = [2]int64{syscall.IPPROTO_TCP, 18} // TCP_USER_TIMEOUT
		quarter  = (15 * time.Minute).Milliseconds()
		table, _ = read(t, "testdata/two-attachments")
		m        = translate.Build(table, pod)
	)
	for _, l := range m.Listeners {
		got := intOptions(l.SocketOptions)
		require.Equal(t, int64(128<<10), got[unsent], l.Name)
		require.Equal(t, int64(128<<10), got[receive], l.Name)
		require.NotContains(t, got, stalled, "a client may read as slowly as it likes: the fence counts it")
	}
	for _, c := range m.Clusters {
		require.Equal(t, map[[2]int64]int64{unsent: 128 << 10, receive: 128 << 10, stalled: quarter}, intOptions(c.UpstreamBindConfig.SocketOptions), c.Name)
	}
}

// behaviour E7; hazards 156, 157, 164, 169, 173, 184: what holds for every
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
		require.Equal(t, uint32(128<<10), l.PerConnectionBufferLimitBytes.GetValue(), l.Name)
		for _, fc := range l.FilterChains {
			require.Nil(t, fc.FilterChainMatch, "chains hold no match")
			if l.FilterChainMatcher == nil {
				http++
				require.Empty(t, l.ListenerFilters, "only what reads a hello waits for one")
				h := &hcmv3.HttpConnectionManager{}
				require.NoError(t, fc.Filters[0].GetTypedConfig().UnmarshalTo(h))
				require.Equal(t, 24*time.Hour, h.CommonHttpProtocolOptions.IdleTimeout.AsDuration())
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
	}
	for _, r := range m.Routes {
		for _, v := range r.VirtualHosts {
			require.Zero(t, v.Routes[0].GetRoute().Timeout.AsDuration(), "no answer is too slow")
		}
	}
}
