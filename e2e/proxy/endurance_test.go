package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

// inForce waits until Envoy has accepted the snapshot of that version.
func (w *world) inForce(version string) {
	w.t.Helper()
	require.NoError(w.t, lab.Until(w.t.Context(), 40*time.Second, "version "+version+" is in force", func(ctx context.Context) error {
		_, body, err := w.Get(ctx, w.Hub, netip.AddrPortFrom(PodIP, 9090), "/metrics", "")
		if err == nil && !strings.Contains(body, `oooi_xds_accepted_info{version="`+version+`"} 1`) {
			err = fmt.Errorf("another one is")
		}
		return err
	}))
}

// fixture is the snapshot of the repository, as a document that can be edited.
func fixture(t *testing.T) map[string]any {
	t.Helper()
	b, err := os.ReadFile("../snapshots/proxy.json")
	require.NoError(t, err)
	var doc map[string]any
	require.NoError(t, json.Unmarshal(b, &doc))
	return doc
}

// variant is the i-th of a cycle of worlds: B is there, has another endpoint,
// another worker, or is gone; A gains and loses a second worker.
func variant(t *testing.T, i int) []byte {
	t.Helper()
	doc := fixture(t)
	p := doc["proxy"].(map[string]any)
	for name, b := range backendsOf(p) {
		ranges, scoped := b["sourcePrefixRanges"].([]any)
		if scoped && strings.HasPrefix(name, "example-hcp-a/") && i%2 == 1 {
			b["sourcePrefixRanges"] = append(ranges, WorkerA2.String()+"/32")
		}
		if !strings.HasPrefix(name, "example-hcp-b/") {
			continue
		}
		switch i % 4 {
		case 1:
			b["endpoints"] = []any{map[string]any{"ip": fmt.Sprintf("172.30.20.%d", 1+i%200), "port": 6443}}
		case 2:
			if scoped {
				b["sourcePrefixRanges"] = []any{fmt.Sprintf("192.0.2.%d/32", 151+i%40)}
			}
		}
	}
	if i%4 == 3 {
		p["backends"] = slices.DeleteFunc(p["backends"].([]any), func(b any) bool {
			return strings.HasPrefix(b.(map[string]any)["name"].(string), "example-hcp-b/")
		})
	}
	doc["version"] = fmt.Sprintf("v%d", i)
	b, err := json.Marshal(doc)
	require.NoError(t, err)
	return b
}

// behaviour E7, E8; hazards 156, 157, 158, 159; case C37: 3,000 connections of A's
// konnectivity, by name and without one, and more by alias and to others live
// through 1,000 changes of B and of A's own workers, and a minute past the drain
// time.
func TestThreeThousandConnectionsLiveThroughAThousandChanges(t *testing.T) {
	w := newWorld(t)
	w.Drain = 3 * time.Second
	w.start()
	var held []*net.TCPConn
	for _, kind := range []struct {
		n    int
		port uint16
		data []byte
		want string
	}{
		{2500, 443, Named(fqdn("konnectivity", "a")), "a-konnectivity"},
		{500, 443, Named(""), "a-konnectivity"},
		{100, 443, Named("kubernetes.default.svc"), "a-api"},
		{100, 6443, Named(""), "a-api"},
		{100, 6443, Named(fqdn("api", "a")), "a-api"},
		{100, 443, Named("console.apps.example-hcp-a.clusters.example.com"), "a-apps"},
	} {
		held = append(held, w.open(kind.n, WorkerA, kind.port, kind.data, kind.want)...)
	}
	require.Equal(t, len(held), alive(held))
	require.Equal(t, 3000, w.backends["a-konnectivity"].Open(), "far above Envoy's own limit of 1,024")
	one, err := w.Stat(t.Context(), "cluster.example-hcp-a/konnectivity.upstream_cx_active")
	require.NoError(t, err)
	require.Equal(t, 3000, one, "they are one cluster's")
	// A worker that will go again, with a connection that is to outlive it.
	const changes = 1000
	for i := 1; i <= changes; i++ {
		require.NoError(t, w.WriteSnapshot(variant(t, i)))
		w.inForce(fmt.Sprintf("v%d", i))
		if i == 1 {
			held = append(held, w.open(5, WorkerA2, 6443, Named(""), "a-api")...)
		}
		if i%100 == 0 {
			require.Equal(t, len(held), alive(held), "after %d changes", i)
		}
	}
	last := variant(t, changes+1)
	require.NoError(t, w.WriteSnapshot(last))
	w.inForce(fmt.Sprintf("v%d", changes+1))
	// Past the drain time of Envoy and of the manager.
	began := time.Now()
	w.until(w.Drain+75*time.Second, "every drain has ended", func() bool {
		n, err := w.Stat(t.Context(), "listener_manager.total_filter_chains_draining")
		return err == nil && n == 0 && time.Since(began) > w.Drain+time.Minute
	})
	require.Equal(t, len(held), alive(held), "a minute past the drain time")
	stats := map[string]int{}
	for _, name := range []string{"listener_manager.listener_modified", "listener_manager.listener_in_place_updated", "listener_manager.listener_removed"} {
		n, err := w.Stat(t.Context(), name)
		require.NoError(t, err)
		stats[name] = n
	}
	t.Log(slices.Sorted(maps.Keys(stats)), stats)
	require.Equal(t, stats["listener_manager.listener_modified"], stats["listener_manager.listener_in_place_updated"], "every change of a listener was one in place")
	require.Zero(t, stats["listener_manager.listener_removed"])
	overflow, err := w.Admin(t.Context(), "/stats?usedonly&filter=upstream_cx_overflow")
	require.NoError(t, err)
	require.NotContains(t, overflow, "overflow", "no circuit breaker refused anything")
}

// behaviour E7; hazard 157: what one backend is limited to, another does not feel.
func TestTheLimitIsEachBackendsOwn(t *testing.T) {
	w := newWorld(t).start()
	clusters, err := w.Admin(t.Context(), "/clusters")
	require.NoError(t, err)
	limits := 0
	for line := range strings.Lines(clusters) {
		if strings.Contains(line, "::default_priority::max_connections::") && strings.HasPrefix(line, "example-hcp-") {
			require.True(t, strings.HasSuffix(strings.TrimSpace(line), "::20000"), line)
			limits++
		}
	}
	require.Equal(t, 11, limits, "the fallback and the alias on 6443 use their attachment's own")
}

// behaviour E7; hazard 156: 65 idle minutes are a soak; the timeout in force and
// the keepalive of both sides are what keeps such a connection.
func TestIdleConnectionsAreKeptAndDeadPeersFound(t *testing.T) {
	w := newWorld(t).start()
	w.open(1, WorkerA, 6443, Named(""), "a-api")
	dump, err := w.Admin(t.Context(), "/config_dump")
	require.NoError(t, err)
	chains := strings.Count(dump, `"@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy"`)
	require.Positive(t, chains)
	require.Equal(t, chains, strings.Count(dump, `"idle_timeout": "86400s"`), "every chain")
	require.Equal(t, 2, strings.Count(dump, `"idle_timeout": "120s"`), "the two HTTP listeners' connections, while they have no request")
	sockets, err := w.Pod.Run(t.Context(), "ss", "-tnoH", "state", "established")
	require.NoError(t, err)
	for _, part := range []string{"192.0.2.4%net1:6443", "172.30.10.1:6443"} {
		found := false
		for line := range strings.Lines(sockets) {
			if strings.Contains(line, part) {
				require.Contains(t, line, "timer:(keepalive,", "keepalive towards %s: %s", part, line)
				found = true
			}
		}
		require.True(t, found, part)
	}
}

// behaviour E8: connections of a worker outlive its address, also when it was
// the last one, and past the drain time.
func TestTheLastWorkersConnectionsOutliveItsAddress(t *testing.T) {
	w := newWorld(t)
	w.Drain = 2 * time.Second
	w.start()
	held := w.open(10, WorkerA, 6443, Named(""), "a-api")
	held = append(held, w.open(10, WorkerA, 443, Named(""), "a-konnectivity")...)
	doc := fixture(t)
	p := doc["proxy"].(map[string]any)
	p["backends"] = slices.DeleteFunc(p["backends"].([]any), func(b any) bool {
		_, scoped := b.(map[string]any)["sourcePrefixRanges"]
		return scoped
	})
	doc["version"] = "without-workers"
	b, err := json.Marshal(doc)
	require.NoError(t, err)
	require.NoError(t, w.WriteSnapshot(b))
	w.inForce("without-workers")
	require.Equal(t, "closed", w.from(WorkerA, 6443, Named(""), 0), "new connections have no alias any more")
	began := time.Now()
	w.until(30*time.Second, "every drain has ended", func() bool {
		n, err := w.Stat(t.Context(), "listener_manager.total_filter_chains_draining")
		return err == nil && n == 0 && time.Since(began) > w.Drain+3*time.Second
	})
	require.Equal(t, len(held), alive(held))
}
