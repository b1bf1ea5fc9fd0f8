package xds

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/densityops/oooi/xds-manager/internal/bootstrap"
	"github.com/densityops/oooi/xds-manager/internal/envoy"
	"github.com/densityops/oooi/xds-manager/internal/routes"
	"github.com/densityops/oooi/xds-manager/internal/translate"
)

// realEnvoy is a server with a real Envoy at its socket.
type realEnvoy struct {
	server *Server
	mu     sync.Mutex // guards what follows
	last   State
	nacks  int
}

func (r *realEnvoy) Acknowledged(string, int) {}

func (r *realEnvoy) Rejected(_ string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nacks += n
}

func (r *realEnvoy) UnknownNode() {}

func (r *realEnvoy) state() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

func (r *realEnvoy) rejected() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nacks
}

// envoyBinary is $ENVOY, else the one that `make envoy` fetched.
func envoyBinary(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(cmp.Or(os.Getenv("ENVOY"), "../../../bin/tools/envoy"))
	require.NoError(t, err)
	_, err = os.Stat(path)
	require.NoError(t, err, "a real Envoy is needed: run `make envoy`, or name one in $ENVOY")
	return path
}

func startEnvoy(t *testing.T) *realEnvoy {
	t.Helper()
	binary := envoyBinary(t)
	dir := t.TempDir()
	r := &realEnvoy{}
	r.server = New(Options{NodeID: Standalone, Drain: time.Minute, Logger: slog.New(slog.DiscardHandler), Counters: r, Notify: func(s State) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.last = s
	}})
	ctx, cancel := context.WithCancel(t.Context())
	socket := filepath.Join(dir, "x")
	done := make(chan error, 1)
	go func() { done <- r.server.Serve(ctx, socket) }()
	b, err := bootstrap.Encode(bootstrap.Config{NodeID: Standalone, XDSSocket: socket, AdminSocket: filepath.Join(dir, "a")}, "b.yaml")
	require.NoError(t, err)
	file := filepath.Join(dir, "b.yaml")
	require.NoError(t, os.WriteFile(file, b, 0o600))
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, "-c", file, "--concurrency", "1", "--disable-hot-restart", "-l", "warning")
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		require.NoError(t, <-done)
		if t.Failed() {
			t.Log(said.String())
		}
	})
	return r
}

func (r *realEnvoy) until(t *testing.T, what string, ok func(State) bool) {
	t.Helper()
	require.Eventually(t, func() bool { return ok(r.state()) }, time.Minute, 10*time.Millisecond, what)
}

// echo is a backend on loopback that says its name.
func echo(t *testing.T, name string) netip.AddrPort {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.WriteString(c, name)
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}()
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

// ports counts those that freePort has given, below what the kernel gives to clients.
var ports atomic.Uint32

// freePort is a port that nothing listens on, given to nobody else.
func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	for {
		at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(12000+(uint32(os.Getpid())+ports.Add(1))%20000))
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", at.String())
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, l.Close())
		return at
	}
}

// plainListener passes every connection to one cluster; spoil bypasses what the
// translator would never make.
func plainListener(name string, at netip.AddrPort, cluster string, spoil func(*listenerv3.Listener)) translate.Resource {
	to := envoy.ToChain(cluster)
	l := envoy.StreamListener(name, envoy.Device{}, at, []*listenerv3.FilterChain{envoy.FilterChain(cluster, envoy.TCPProxy("t", cluster))},
		envoy.ByTransport(map[string]*envoy.OnMatch{"tls": to}, to))
	l.ListenerFilters, l.ListenerFiltersTimeout = nil, nil
	if spoil != nil {
		spoil(l)
	}
	return translate.NewResource(name, l)
}

// unsetEngine is case C38c: a regex that names no engine.
func unsetEngine(l *listenerv3.Listener) {
	m := envoy.ByNameCases([]envoy.NameCase{envoy.AnyName(envoy.ToChain("x"))}, nil)
	m.GetMatcherList().Matchers[0].Predicate.GetSinglePredicate().GetValueMatch().MatchPattern = &xdsmatcherv3.StringMatcher_SafeRegex{SafeRegex: &xdsmatcherv3.RegexMatcher{Regex: ".+"}}
	l.FilterChainMatcher = m
}

func speak(t *testing.T, at netip.AddrPort) string {
	t.Helper()
	c, err := (&net.Dialer{Timeout: time.Minute}).DialContext(t.Context(), "tcp4", at.String())
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	buf := make([]byte, 16)
	n, err := c.Read(buf)
	require.NoError(t, err)
	return string(buf[:n])
}

func cluster(name string, at netip.AddrPort) translate.Resource {
	return translate.NewResource(name, envoy.Cluster(name, []netip.AddrPort{at}, false))
}

// behaviour E9; hazards 153, 190, 191; case C38c on a real Envoy.
func TestARealEnvoyKeepsTheGoodListenerAndSaysWhyInItsOwnWords(t *testing.T) {
	r := startEnvoy(t)
	one, two := echo(t, "one"), echo(t, "two")
	a, b := freePort(t), freePort(t)
	clusters := []translate.Resource{cluster("x", one), cluster("y", two)}
	publish := func(version string, ls ...translate.Resource) {
		r.server.Publish(Publication{Version: version, Resources: translate.Resources{Clusters: clusters, Listeners: ls}})
	}
	publish("v1", plainListener("a", a, "x", nil), plainListener("b", b, "y", nil))
	r.until(t, "version 1 is accepted", func(s State) bool { return s.InForce && s.Accepted == "v1" })
	require.Equal(t, "one", speak(t, a))

	publish("v2", plainListener("a", a, "x", unsetEngine), plainListener("b", b, "x", nil))
	r.until(t, "the rejection is known", func(s State) bool { return len(s.Rejections) == 1 && s.Settled })
	got := r.state()
	require.Equal(t, "v1", got.Accepted)
	require.Equal(t, "a", got.Rejections[0].Name)
	require.Contains(t, got.Rejections[0].Message, "failed validation", "Envoy's own words")
	require.Equal(t, "one", speak(t, a), "the last good version is in force")
	require.Equal(t, "one", speak(t, b), "the other listener has its new version")
	require.Equal(t, 1, r.rejected(), "it was sent once")

	publish("v3", plainListener("a", a, "y", nil), plainListener("b", b, "y", nil))
	r.until(t, "version 3 is accepted", func(s State) bool { return s.Accepted == "v3" && len(s.Rejections) == 0 })
	require.Equal(t, "two", speak(t, a))
}

func TestARealEnvoysRejectedClusterHoldsUpNoOther(t *testing.T) {
	r := startEnvoy(t)
	one := echo(t, "one")
	a := freePort(t)
	bad := envoy.Cluster("bad", []netip.AddrPort{one}, false)
	// An endpoint that is no address in a static cluster.
	bad.LoadAssignment.Endpoints[0].LbEndpoints[0].GetEndpoint().Address.GetSocketAddress().Address = "no.address.example"
	clusters := []translate.Resource{translate.NewResource("bad", bad)}
	for _, n := range []string{"c1", "c2", "c3", "c4", "x"} {
		clusters = append(clusters, cluster(n, one))
	}
	r.server.Publish(Publication{Version: "v1", Resources: translate.Resources{Clusters: clusters, Listeners: []translate.Resource{plainListener("a", a, "x", nil)}}})
	r.until(t, "the culprit is found", func(s State) bool { return len(s.Rejections) == 1 && s.Settled })
	require.Equal(t, "bad", r.state().Rejections[0].Name)
	require.Equal(t, "one", speak(t, a))
}

// behaviour E7; hazard 157: what uses up one backend's limit leaves another's
// alone. The limit is lowered here; its real size is in the golden files.
func TestOneBackendsLimitIsNotAnothers(t *testing.T) {
	r := startEnvoy(t)
	one, two := echo(t, "one"), echo(t, "two")
	a, b := freePort(t), freePort(t)
	small := envoy.Cluster("x", []netip.AddrPort{one}, false)
	small.CircuitBreakers.Thresholds = []*clusterv3.CircuitBreakers_Thresholds{{MaxConnections: wrapperspb.UInt32(10)}}
	require.NoError(t, proto.CheckInitialized(small))
	r.server.Publish(Publication{Version: "v1", Resources: translate.Resources{
		Clusters:  []translate.Resource{translate.NewResource("x", small), cluster("y", two)},
		Listeners: []translate.Resource{plainListener("a", a, "x", nil), plainListener("b", b, "y", nil)},
	}})
	r.until(t, "accepted", func(s State) bool { return s.Accepted == "v1" })
	for i := range 12 {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp4", a.String())
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		_, err = c.Read(make([]byte, 3))
		if i < 10 {
			require.NoError(t, err, "connection %d", i+1)
			continue
		}
		require.True(t, errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET), "connection %d is let go: %v", i+1, err)
	}
	require.Equal(t, "two", speak(t, b))
}

// behaviour E9; hazard 168 and the reason for the translator's own checks: what
// the rules of routes make of any snapshot, Envoy takes.
func TestARealEnvoyTakesWhateverTheTableAllows(t *testing.T) {
	r := startEnvoy(t)
	table := routes.Table{ServerIP: netip.MustParseAddr("127.0.0.1"), CIDR: netip.MustParsePrefix("127.0.0.0/8")}
	hosts := []string{"api.a.x", "*.apps.a.x", "*.x", "kubernetes"}
	for i := range 40 {
		at := freePort(t)
		b := routes.Backend{Name: "b" + string(rune('a'+i%26)) + string(rune('a'+i/26)), Port: at.Port(), Protocol: routes.TLS, Endpoints: []routes.Endpoint{{Addr: at.Addr().Next(), Port: 443}}}
		switch i % 4 {
		case 0:
			b.Hostnames = hosts
		case 1:
			b.Hostnames, b.Sources = hosts, []netip.Prefix{netip.MustParsePrefix("127.0.1.0/24")}
		case 2:
			b.Protocol = routes.TCP
		case 3:
			b.Sources = []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}
		}
		table.Backends = append(table.Backends, b)
	}
	valid, problems := table.Validate()
	require.Empty(t, problems)
	res, problems, err := translate.Snapshot(valid, translate.Env{})
	require.NoError(t, err)
	require.Empty(t, problems)
	r.server.Publish(Publication{Version: "v1", Resources: res})
	r.until(t, "accepted as a whole", func(s State) bool { return s.Accepted == "v1" || len(s.Rejections) > 0 })
	require.Empty(t, r.state().Rejections)
}
