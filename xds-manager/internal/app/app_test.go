package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/densityops/oooi/xds-manager/internal/agent"
	"github.com/densityops/oooi/xds-manager/internal/agent/agenttest"
	"github.com/densityops/oooi/xds-manager/internal/agentpb"
	"github.com/densityops/oooi/xds-manager/internal/xds"
)

// proxyConfig is a configuration that this machine has the address for.
func proxyConfig(names ...string) *agentpb.ProxyConfig {
	c := &agentpb.ProxyConfig{ServerIp: "127.0.0.1", Cidr: "127.0.0.0/8"}
	for _, n := range names {
		c.Backends = append(c.Backends, &agentpb.ProxyBackend{
			Name: n, Hostnames: []string{n + ".example.com"}, Port: 8443, Protocol: agentpb.ProxyProtocol_PROXY_PROTOCOL_TLS,
			Endpoints: []*agentpb.ProxyEndpoint{{Ip: "172.30.0.1", Port: 6443}},
		})
	}
	return c
}

func snapshotOf(version string, generation int64, names ...string) *agentpb.Snapshot {
	return &agentpb.Snapshot{
		Version: version, Child: &agentpb.Child{Namespace: "ns", Name: "p", Uid: "u", Generation: generation},
		Config: &agentpb.Snapshot_Proxy{Proxy: proxyConfig(names...)},
	}
}

// apiServer takes applies and keeps the last one.
type apiServer struct {
	*httptest.Server
	mu   sync.Mutex // guards what follows
	last map[string]any
	path string
	n    int
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	a := &apiServer{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.n++
		a.path = r.Method + " " + r.URL.String()
		a.last = map[string]any{}
		_ = json.Unmarshal(b, &a.last)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(b)
	}))
	t.Cleanup(a.Close)
	return a
}

// agentStatus is status.agent as it was last applied.
func (a *apiServer) agentStatus() map[string]any {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, _ := a.last["status"].(map[string]any)
	out, _ := s["agent"].(map[string]any)
	return out
}

// request is the last request, and how many there were.
func (a *apiServer) request() (string, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.path, a.n
}

func (a *apiServer) kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}`, a.URL), 0o600))
	return path
}

// fakeEnvoy speaks delta ADS: it accepts everything but what it is told to
// reject, and subscribes as Envoy does.
type fakeEnvoy struct {
	mu      sync.Mutex // guards what follows
	rejects string
	words   string
	cut     bool // it ends its words as Envoy ends too many
	holds   map[string]string
}

func connectEnvoy(t *testing.T, socket, node, rejects string) *fakeEnvoy {
	t.Helper()
	e := &fakeEnvoy{rejects: rejects, words: "envoy's own words", holds: map[string]string{}}
	e.connect(t, socket, node)
	return e
}

func (e *fakeEnvoy) connect(t *testing.T, socket, node string) {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	var st discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	require.Eventually(t, func() bool {
		st, err = discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	require.NoError(t, st.Send(&discoveryv3.DeltaDiscoveryRequest{Node: &corev3.Node{Id: node}, TypeUrl: xds.ClusterType}))
	require.NoError(t, st.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: xds.ListenerType}))
	go func() {
		for {
			r, err := st.Recv()
			if err != nil {
				return
			}
			if st.Send(e.answer(r)) != nil {
				return
			}
		}
	}()
}

func (e *fakeEnvoy) answer(r *discoveryv3.DeltaDiscoveryResponse) *discoveryv3.DeltaDiscoveryRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce}
	for _, x := range r.Resources {
		if e.rejects != "" && strings.Contains(x.Name, e.rejects) {
			out.ErrorDetail = &rpcstatus.Status{Message: e.words + " about " + x.Name}
			if e.cut {
				out.ErrorDetail.Message += truncated
			}
			continue
		}
		e.holds[x.Name] = x.Version
	}
	for _, n := range r.RemovedResources {
		delete(e.holds, n)
	}
	return out
}

func (e *fakeEnvoy) has(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.holds[name] != ""
}

// start runs a manager until the test ends.
func start(t *testing.T, change func(*Options)) Options {
	t.Helper()
	dir := t.TempDir()
	o := Options{
		XDSSocket: filepath.Join(dir, "x"), Listen: "127.0.0.1:0", Fence: "on", DrainTime: time.Minute,
		Logger: slog.New(slog.DiscardHandler), Module: "v0.1.0",
	}
	change(&o)
	a, err := New(t.Context(), o)
	require.NoError(t, err)
	o.Listen = a.Addr()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return o
}

func get(t *testing.T, o Options, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+o.Listen+path, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// eventually waits for a condition. A busy machine gets four times the limit, and a
// minute at least.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, max(4*limit, time.Minute), 10*time.Millisecond, what)
}

func writeFile(t *testing.T, path string, s *agentpb.Snapshot) {
	t.Helper()
	b, err := protojson.Marshal(s)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+".new", b, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// behaviour E9, E11, H4.
func TestASnapshotReachesEnvoyAndItsAcceptanceTheStatus(t *testing.T) {
	api := newAPIServer(t)
	file := filepath.Join(t.TempDir(), "s.json")
	writeFile(t, file, snapshotOf("sha256:1", 1, "a", "b"))
	o := start(t, func(o *Options) { o.Snapshot, o.Child, o.Kubeconfig = file, "ns/p", api.kubeconfig(t) })
	code, _ := get(t, o, "/ready")
	require.Equal(t, http.StatusServiceUnavailable, code, "not ready without Envoy")
	code, _ = get(t, o, "/live")
	require.Equal(t, http.StatusOK, code, "alive without Envoy")
	e := connectEnvoy(t, o.XDSSocket, "ns/p", "")
	eventually(t, 5*time.Second, "ready", func() bool { code, _ := get(t, o, "/ready"); return code == http.StatusOK })
	require.True(t, e.has("a"))
	require.True(t, e.has("vlan-127.0.0.1-8443"))
	eventually(t, 5*time.Second, "the status", func() bool { return api.agentStatus()["acceptedVersion"] == "sha256:1" })
	require.Equal(t, map[string]any{
		"observedVersion": "sha256:1", "observedGeneration": 1.0, "acceptedVersion": "sha256:1", "backends": 2.0, "moduleVersion": "v0.1.0", "contract": "agent.v1",
	}, api.agentStatus())
	path, writes := api.request()
	require.Equal(t, "PATCH /apis/hostedcluster.densityops.com/v1alpha1/namespaces/ns/proxyservers/p/status?fieldManager=oooi-xds-manager&force=true&timeout=10s", path)
	writeFile(t, file, snapshotOf("sha256:2", 2, "a"))
	eventually(t, 5*time.Second, "the next status", func() bool { return api.agentStatus()["acceptedVersion"] == "sha256:2" })
	_, after := api.request()
	require.LessOrEqual(t, after-writes, 2)
	_, metrics := get(t, o, "/metrics")
	require.Contains(t, metrics, `oooi_xds_accepted_info{version="sha256:2"} 1`)
}

// A file that somebody writes by hand may keep its version (R2: by content).
func TestAChangedFileOfTheSameVersionReachesEnvoy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.json")
	writeFile(t, file, snapshotOf("mine", 1, "a"))
	o := start(t, func(o *Options) { o.Snapshot = file })
	e := connectEnvoy(t, o.XDSSocket, xds.Standalone, "")
	eventually(t, 5*time.Second, "the first content", func() bool { return e.has("a") })
	writeFile(t, file, snapshotOf("mine", 1, "a", "b"))
	eventually(t, 5*time.Second, "the second content", func() bool { return e.has("b") })
}

// behaviour E9; hazard 190; case C38c. That it is there within a second is shown
// with a clock of its own in package report.
func TestARejectionIsInTheStatusInEnvoysWords(t *testing.T) {
	api := newAPIServer(t)
	file := filepath.Join(t.TempDir(), "s.json")
	writeFile(t, file, snapshotOf("sha256:1", 1, "a"))
	o := start(t, func(o *Options) { o.Snapshot, o.Child, o.Kubeconfig = file, "ns/p", api.kubeconfig(t) })
	e := connectEnvoy(t, o.XDSSocket, "ns/p", "")
	eventually(t, 5*time.Second, "version 1", func() bool { return api.agentStatus()["acceptedVersion"] == "sha256:1" })
	e.mu.Lock()
	e.rejects = "vlan-"
	e.mu.Unlock()
	writeFile(t, file, snapshotOf("sha256:2", 2, "a", "b"))
	eventually(t, 5*time.Second, "the problem", func() bool { return api.agentStatus()["problems"] != nil })
	require.Equal(t, []any{map[string]any{"reason": "ConfigRejected", "message": `envoy rejected "vlan-127.0.0.1-8443": envoy's own words about vlan-127.0.0.1-8443`}}, api.agentStatus()["problems"])
	require.Equal(t, "sha256:1", api.agentStatus()["acceptedVersion"])
	require.Equal(t, "sha256:2", api.agentStatus()["observedVersion"])
	code, _ := get(t, o, "/ready")
	require.Equal(t, http.StatusOK, code, "what was in force still is")
}

// Envoy quotes the whole resource before it says why, and cuts that after some 4,000
// bytes; status is cut too. What is left says where the reason is.
func TestARejectionThatEnvoyHasCutSaysWhereItIsWhole(t *testing.T) {
	api := newAPIServer(t)
	file := filepath.Join(t.TempDir(), "s.json")
	writeFile(t, file, snapshotOf("sha256:1", 1, "a"))
	o := start(t, func(o *Options) { o.Snapshot, o.Child, o.Kubeconfig = file, "ns/p", api.kubeconfig(t) })
	e := &fakeEnvoy{rejects: "vlan-", cut: true, words: strings.Repeat("x", 4000), holds: map[string]string{}}
	e.connect(t, o.XDSSocket, "ns/p")
	eventually(t, 5*time.Second, "the problem", func() bool { return api.agentStatus()["problems"] != nil })
	message := api.agentStatus()["problems"].([]any)[0].(map[string]any)["message"].(string)
	require.LessOrEqual(t, len(message), 1024)
	require.Regexp(t, `^envoy rejected "vlan-127\.0\.0\.1-8443" \(it cut its own words; its log has them whole\): x{900}`, message)
}

// hazard 197.
func TestAnotherNodeIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.json")
	writeFile(t, file, snapshotOf("sha256:1", 1, "a"))
	o := start(t, func(o *Options) { o.Snapshot = file })
	e := connectEnvoy(t, o.XDSSocket, "other/p", "")
	eventually(t, 5*time.Second, "the refusal", func() bool {
		_, m := get(t, o, "/metrics")
		return strings.Contains(m, "oooi_xds_unknown_nodes_total 1")
	})
	require.False(t, e.has("a"))
}

// behaviour E11: what came by stream and was accepted serves a restart without
// the operator and without the API server.
func TestARestartWithoutOperatorServesTheLastAcceptedSnapshot(t *testing.T) {
	state, hubDir := t.TempDir(), t.TempDir()
	hub := agenttest.Start(t, hubDir)
	withHub := func(o *Options) {
		o.Hub, o.HubCA, o.Token, o.StateDir, o.Child = hub.Address, hub.CAFile, hub.TokenFile, state, "ns/p"
		o.Kubeconfig = newAPIServer(t).kubeconfig(t)
	}
	kept := func() string {
		b, err := os.ReadFile(filepath.Join(state, "snapshot.json.gz"))
		if err != nil {
			return ""
		}
		s, err := agent.Decode(b)
		require.NoError(t, err)
		return s.Version
	}
	t.Run("with the operator", func(t *testing.T) {
		o := start(t, withHub)
		hub.Snapshots <- snapshotOf("sha256:1", 1, "a")
		e := connectEnvoy(t, o.XDSSocket, "ns/p", "")
		eventually(t, 5*time.Second, "kept", func() bool { return kept() == "sha256:1" })
		e.mu.Lock()
		e.rejects = "vlan-"
		e.mu.Unlock()
		hub.Snapshots <- snapshotOf("sha256:2", 2, "a", "b")
		eventually(t, 5*time.Second, "rejected", func() bool {
			_, m := get(t, o, "/metrics")
			return strings.Contains(m, `oooi_xds_problems{reason="ConfigRejected"} 1`)
		})
		require.Equal(t, "sha256:1", kept(), "what Envoy rejected never replaces the good one")
	})
	hub.Stop()
	t.Run("without it", func(t *testing.T) {
		o := start(t, withHub)
		e := connectEnvoy(t, o.XDSSocket, "ns/p", "")
		eventually(t, 5*time.Second, "ready", func() bool { code, _ := get(t, o, "/ready"); return code == http.StatusOK })
		require.True(t, e.has("a"))
		require.False(t, e.has("b"))
	})
}

// behaviour E11: without its disk the manager serves and says so, and keeps the
// snapshot once the disk is back.
func TestADiskThatIsAwayIsAProblemAndIsTriedAgain(t *testing.T) {
	state, api := filepath.Join(t.TempDir(), "away"), newAPIServer(t)
	hub := agenttest.Start(t, t.TempDir())
	o := start(t, func(o *Options) {
		o.Hub, o.HubCA, o.Token, o.StateDir, o.Child, o.Kubeconfig = hub.Address, hub.CAFile, hub.TokenFile, state, "ns/p", api.kubeconfig(t)
	})
	hub.Snapshots <- snapshotOf("sha256:1", 1, "a")
	e := connectEnvoy(t, o.XDSSocket, "ns/p", "")
	eventually(t, 5*time.Second, "the problem", func() bool {
		return strings.Contains(fmt.Sprint(api.agentStatus()["problems"]), "SnapshotNotKept")
	})
	require.True(t, e.has("a"))
	require.NoError(t, os.Mkdir(state, 0o700))
	eventually(t, 10*time.Second, "kept", func() bool {
		_, err := os.Stat(filepath.Join(state, "snapshot.json.gz"))
		return err == nil
	})
	eventually(t, 5*time.Second, "the problem is gone", func() bool { return api.agentStatus()["problems"] == nil })
}

// hazard 188: an Envoy that lives keeps its listeners from a manager that has
// nothing yet.
func TestAManagerWithoutASnapshotSaysNothing(t *testing.T) {
	o := start(t, func(o *Options) { o.Snapshot = filepath.Join(t.TempDir(), "absent.json") })
	e := connectEnvoy(t, o.XDSSocket, xds.Standalone, "")
	eventually(t, 5*time.Second, "connected", func() bool {
		_, m := get(t, o, "/metrics")
		return strings.Contains(m, "oooi_xds_envoy_connected 1")
	})
	code, _ := get(t, o, "/ready")
	require.Equal(t, http.StatusServiceUnavailable, code)
	writeFile(t, o.Snapshot, snapshotOf("sha256:1", 1, "a"))
	eventually(t, 5*time.Second, "served", func() bool { return e.has("a") })
}

// hazard 195: a thousand reconnects leave nothing behind.
func TestReconnectsLeaveNoGoroutine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.json")
	writeFile(t, file, snapshotOf("sha256:1", 1, "a"))
	o := start(t, func(o *Options) { o.Snapshot = file })
	goroutines := func() int {
		_, m := get(t, o, "/metrics")
		var n int
		for line := range strings.Lines(m) {
			if _, err := fmt.Sscanf(line, "go_goroutines %d", &n); err == nil {
				break
			}
		}
		return n
	}
	cycle := func(times int) {
		for range times {
			conn, err := grpc.NewClient("unix://"+o.XDSSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
			require.NoError(t, err)
			st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context(), grpc.WaitForReady(true))
			require.NoError(t, err)
			require.NoError(t, st.Send(&discoveryv3.DeltaDiscoveryRequest{Node: &corev3.Node{Id: xds.Standalone}, TypeUrl: xds.ClusterType}))
			_, err = st.Recv()
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		}
	}
	cycle(20)
	before := goroutines()
	cycle(1000)
	eventually(t, 10*time.Second, "the goroutines are gone", func() bool { return goroutines() <= before+5 })
}
