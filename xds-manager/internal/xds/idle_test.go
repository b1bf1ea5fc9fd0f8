package xds

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/densityops/oooi/xds-manager/internal/envoy"
	"github.com/densityops/oooi/xds-manager/internal/translate"
)

// router is a backend on loopback that speaks HTTP: it echoes websockets and
// answers /slow when it is let.
func router(t *testing.T, slow <-chan struct{}) netip.AddrPort {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	serve := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			<-slow
		case "/ws":
			c, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
			_, _ = io.Copy(c, buffered)
			return
		}
		_, _ = io.WriteString(w, "answer")
	}
	s := &http.Server{Handler: http.HandlerFunc(serve), ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return netip.MustParseAddrPort(l.Addr().String())
}

// connect opens a connection and sends the head of a request for path, or
// nothing where there is none.
func connect(t *testing.T, at netip.AddrPort, path string, headers ...string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp4", at.String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	if path != "" {
		_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\n%s\r\n\r\n", path, strings.Join(append([]string{"Host: x"}, headers...), "\r\n"))
		require.NoError(t, err)
	}
	return c, bufio.NewReader(c)
}

func answered(t *testing.T, r *bufio.Reader, code int) {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, code, resp.StatusCode)
	if code == http.StatusOK {
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "answer", string(body))
	}
}

// behaviour E7: an HTTP connection without a request goes, whether it never had
// one or has had its answer; websockets and answers that are slow live on. The
// time is made short here; its real size is in the golden files.
func TestAnHTTPConnectionWithoutARequestGoes(t *testing.T) {
	const short = time.Second
	filter := envoy.HTTPRouter("t", "web")
	h := &hcmv3.HttpConnectionManager{}
	require.NoError(t, filter.GetTypedConfig().UnmarshalTo(h))
	h.CommonHttpProtocolOptions.IdleTimeout = durationpb.New(short)
	filter.GetTypedConfig().Reset()
	require.NoError(t, filter.GetTypedConfig().MarshalFrom(h))

	r := startEnvoy(t)
	slow, at := make(chan struct{}), freePort(t)
	r.server.Publish(Publication{Version: "v1", Resources: translate.Resources{
		Clusters:  []translate.Resource{cluster("x", router(t, slow))},
		Listeners: []translate.Resource{translate.NewResource("web", envoy.HTTPListener("web", envoy.Device{}, at, filter))},
		Routes: []translate.Resource{translate.NewResource("web", envoy.RouteConfiguration("web", []*routev3.VirtualHost{
			envoy.VirtualHost("x", []string{"*"}, "x"),
		}))},
	}})
	r.until(t, "accepted", func(s State) bool { return s.Accepted == "v1" && s.InForce })

	ws, frames := connect(t, at, "/ws", "Connection: Upgrade", "Upgrade: websocket")
	answered(t, frames, http.StatusSwitchingProtocols)
	_, late := connect(t, at, "/slow")
	began := time.Now()
	_, silent := connect(t, at, "")
	_, asked := connect(t, at, "/")
	answered(t, asked, http.StatusOK)
	for name, conn := range map[string]*bufio.Reader{"one that never said anything": silent, "one that has its answer": asked} {
		_, err := conn.ReadByte()
		require.ErrorIs(t, err, io.EOF, name)
	}
	require.GreaterOrEqual(t, time.Since(began), short)

	_, err := io.WriteString(ws, "frame")
	require.NoError(t, err)
	back := make([]byte, 5)
	_, err = io.ReadFull(frames, back)
	require.NoError(t, err, "a websocket lives on")
	require.Equal(t, "frame", string(back))
	close(slow)
	answered(t, late, http.StatusOK)
}
