package proxy

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

// open opens n connections from one source and fails unless all are answered by want.
func (w *world) open(n int, source netip.Addr, port uint16, data []byte, want string) []*net.TCPConn {
	w.t.Helper()
	out := make([]*net.TCPConn, 0, n)
	for range n {
		c, name := Open(w.t.Context(), w.VMs, source, netip.AddrPortFrom(VLANIP, port), data, 0)
		require.Equal(w.t, want, name)
		w.t.Cleanup(func() { _ = c.Close() })
		out = append(out, c)
	}
	return out
}

// alive counts the connections that still echo.
func alive(cs []*net.TCPConn) int {
	n := 0
	for _, c := range cs {
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Write([]byte("ping")); err != nil {
			continue
		}
		got := make([]byte, 4)
		if _, err := io.ReadFull(c, got); err == nil && string(got) == "ping" {
			n++
		}
	}
	return n
}

// behaviour E11; hazards 187, 189; case C38a.
func TestTheManagersRestartTouchesNothing(t *testing.T) {
	w := newWorld(t).start()
	held := w.open(200, WorkerA, 6443, Named(""), "a-api")
	versions := w.versions()
	counters := []string{"listener_manager.listener_create_success", "listener_manager.listener_modified", "listener_manager.listener_in_place_updated", "cluster_manager.cluster_modified"}
	before := map[string]int{}
	for _, c := range counters {
		n, err := w.Stat(t.Context(), c)
		require.NoError(t, err)
		before[c] = n
	}
	require.NoError(t, w.Manager.Kill())
	require.Equal(t, "a-oauth", w.from(Stranger, 443, Named(fqdn("oauth", "a")), 0), "without its manager Envoy goes on")
	require.NoError(t, w.StartManager())
	require.NoError(t, w.Ready(t.Context()))
	for _, c := range counters {
		n, err := w.Stat(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, before[c], n, c)
	}
	require.Equal(t, versions, w.versions(), "the same version strings")
	require.Equal(t, len(held), alive(held))
}

// versions are those of every listener and cluster in force, as Envoy has them, and
// that of the whole as the manager says it.
func (w *world) versions() map[string]string {
	w.t.Helper()
	out := w.inForceByEnvoy()
	_, metrics, err := w.Get(w.t.Context(), w.Hub, netip.AddrPortFrom(PodIP, 9090), "/metrics", "")
	require.NoError(w.t, err)
	out["accepted"] = regexp.MustCompile(`(?m)^oooi_xds_accepted_info\{.*$`).FindString(metrics)
	require.NotEmpty(w.t, out["accepted"])
	return out
}

// inForceByEnvoy are the versions that Envoy has.
func (w *world) inForceByEnvoy() map[string]string {
	w.t.Helper()
	dump, err := w.Admin(w.t.Context(), "/config_dump")
	require.NoError(w.t, err)
	type resource struct {
		VersionInfo string `json:"version_info"`
		Listener    struct{ Name string }
		Cluster     struct{ Name string }
	}
	var all struct {
		Configs []struct {
			DynamicListeners []struct {
				ActiveState resource `json:"active_state"`
			} `json:"dynamic_listeners"`
			DynamicActiveClusters []resource `json:"dynamic_active_clusters"`
		}
	}
	require.NoError(w.t, json.Unmarshal([]byte(dump), &all))
	out := map[string]string{}
	for _, c := range all.Configs {
		for _, l := range c.DynamicListeners {
			out["listener "+l.ActiveState.Listener.Name] = l.ActiveState.VersionInfo
		}
		for _, r := range c.DynamicActiveClusters {
			out["cluster "+r.Cluster.Name] = r.VersionInfo
		}
	}
	require.Contains(w.t, out, "listener vlan-192.0.2.4-443")
	require.Contains(w.t, out, "cluster example-hcp-a/api")
	for name, version := range out {
		require.NotEmpty(w.t, version, name)
	}
	return out
}

// behaviour E11; hazard 189; case C38b.
func TestEnvoysRestartIsNeverReadyWithoutListeners(t *testing.T) {
	w := newWorld(t).start()
	require.NoError(t, w.Manager.Kill())
	require.NoError(t, w.Envoy.Kill())
	require.NoError(t, w.StartEnvoy(t.Context()))
	w.until(10*time.Second, "Envoy answers", func() bool { _, err := w.Admin(t.Context(), "/server_info"); return err == nil })
	_, err := w.Admin(t.Context(), "/ready")
	require.ErrorContains(t, err, "503", "without its manager Envoy is not live")
	require.Equal(t, "refused", w.from(WorkerA, 6443, Named(""), 0))
	require.NoError(t, w.StartManager())
	require.NoError(t, w.Ready(t.Context()))
	require.Equal(t, "a-api", w.from(WorkerA, 6443, Named(""), 0))
	t.Run("Envoy alone restarts", func(t *testing.T) {
		require.NoError(t, w.Envoy.Kill())
		w.until(5*time.Second, "the manager sees it", func() bool {
			code, _, err := w.Get(t.Context(), w.Hub, netip.AddrPortFrom(PodIP, 9090), "/ready", "")
			return err == nil && code == http.StatusServiceUnavailable
		})
		require.NoError(t, w.StartEnvoy(t.Context()))
		began := time.Now()
		require.NoError(t, w.Ready(t.Context()))
		t.Logf("listeners were in force %s after Envoy's start", time.Since(began))
		require.Equal(t, "a-api", w.from(WorkerA, 6443, Named(""), 0))
	})
}

// behaviour E11: a manager that ends alone (a liveness probe, an image that
// changes in place) is no reason for Envoy to stop listening.
func TestTheManagersOwnEndDrainsNothing(t *testing.T) {
	w := newWorld(t).start()
	held := w.open(3, WorkerA, 6443, Named(""), "a-api")
	require.NoError(t, w.Manager.Signal(syscall.SIGTERM))
	require.NoError(t, w.Manager.Wait(time.Minute))
	require.Equal(t, "a-api", w.from(WorkerA, 6443, Named(""), 0), "new connections are taken while it is away")
	require.NoError(t, w.StartManager())
	require.NoError(t, w.Ready(t.Context()))
	require.Equal(t, "a-api", w.from(WorkerA, 6443, Named(""), 0), "and when it is back")
	require.Equal(t, len(held), alive(held))
}

// behaviour E11: drain on termination, which the preStop hook of Envoy's container
// and the manager's own SIGTERM tell together.
func TestTheEndDrainsFirst(t *testing.T) {
	w := newWorld(t)
	w.ManagerArgs = []string{"--drain-wait", "20s"}
	w.start()
	held := w.open(3, WorkerA, 6443, Named(""), "a-api")
	drained := make(chan int, 1)
	go func() {
		code, _, _ := w.Get(t.Context(), w.Hub, netip.AddrPortFrom(PodIP, 9090), "/drained", "")
		drained <- code
	}()
	require.NoError(t, w.Manager.Signal(syscall.SIGTERM))
	w.until(5*time.Second, "no new connection is taken", func() bool { return w.from(WorkerA, 6443, Named(""), 0) == "refused" })
	require.NoError(t, w.Manager.Running(), "the manager waits for the open connections")
	require.Equal(t, 3, alive(held), "open connections go on")
	for _, c := range held {
		require.NoError(t, c.Close())
	}
	require.NoError(t, w.Manager.Wait(time.Minute), "the last connection's end is the end")
	require.Equal(t, http.StatusOK, <-drained)
	require.NoError(t, w.Envoy.Wait(time.Minute), "an Envoy without listeners ends, so that nothing can leave it like that")
}

func TestWhoeverAsksForTheDrainStartsNone(t *testing.T) {
	w := newWorld(t).start()
	code, _, err := w.Get(t.Context(), w.Hub, netip.AddrPortFrom(PodIP, 9090), "/drained", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "a-api", w.from(WorkerA, 6443, Named(""), 0))
}

// behaviour E7; hazard 176.
func TestHalfCloseIsPassedOn(t *testing.T) {
	w := newWorld(t).start()
	c := w.open(1, WorkerA, 6443, Named(""), "a-api")[0]
	_, err := c.Write([]byte("tail"))
	require.NoError(t, err)
	require.NoError(t, c.CloseWrite())
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	all, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, "tailbye", string(all), "what the server says after the client's end arrives")
}

// hazard 173.
func TestABackendThatIsGoneComesBack(t *testing.T) {
	w := newWorld(t).start()
	w.backends["a-oauth"].Close()
	require.Equal(t, "closed", w.from(Stranger, 443, Named(fqdn("oauth", "a")), 0))
	require.Equal(t, "b-oauth", w.from(Stranger, 443, Named(fqdn("oauth", "b")), 0))
	w.backend(w.Hub, "a-oauth", services["a-oauth"])
	require.Equal(t, "a-oauth", w.from(Stranger, 443, Named(fqdn("oauth", "a")), 0))
}

// behaviour B5, E10; hazards 179, 180, 254.
func TestNothingButTheNamedPortsIsOpen(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.Pod.Sysctl(t.Context(), "net.ipv4.ip_forward", "1"))
	w.start()
	require.Equal(t, []int{80, 443, 6443}, scan(t, w.VMs, VLANIP), "on the VLAN address")
	require.Empty(t, scan(t, w.VMs, PodIP), "on the pod's own address, routed through the VLAN address")
	require.Equal(t, []int{80, 443, 6443, 9090, 9901, 20000}, scan(t, w.Hub, PodIP), "on the pod IP")
	require.Empty(t, scan(t, w.Hub, VLANIP), "on the VLAN address, routed through the pod IP")
}

// scan connects to every port.
func scan(t *testing.T, h *lab.Host, to netip.Addr) []int {
	t.Helper()
	open := make(chan int, 65536)
	err := Within(h, func() error { return scanHere(to, open) })
	require.NoError(t, err)
	close(open)
	var out []int
	for p := range open {
		out = append(out, p)
	}
	return out
}

// scanHere is sequential: a closed port answers at once on a quiet network.
func scanHere(to netip.Addr, open chan<- int) error {
	for port := 1; port < 65536; port++ {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: port, Addr: to.As4()}); err == nil {
			open <- port
		}
		if err := syscall.Close(fd); err != nil {
			return err
		}
	}
	return nil
}

// behaviour E10.
func TestTheStatisticsListenerAnswersThreePathsByGETAlone(t *testing.T) {
	w := newWorld(t).start()
	stats := netip.AddrPortFrom(PodIP, 9901)
	for path, want := range map[string]int{
		"/ready": 200, "/stats": 200, "/stats?usedonly": 200, "/stats/prometheus": 200, "/": 404, "/clusters": 404, "/config_dump": 404,
		"/listeners": 404, "/quitquitquit": 404, "/runtime": 404, "/stats/recentlookups": 404, "/logging": 404, "/stats/../config_dump": 404, "/ready/": 404,
	} {
		code, _, err := w.Get(t.Context(), w.Hub, stats, path, "")
		require.NoError(t, err)
		require.Equal(t, want, code, path)
	}
	c, err := Dial(t.Context(), w.Hub, netip.Addr{}, stats)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	_, err = io.WriteString(c, "POST /ready HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	all, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Contains(t, string(all), "404 Not Found", "another method than GET")
}

// A VLAN device that is made anew has the name of the old one, and the sockets
// that were bound to that one hear nothing any more.
func TestAVLANDeviceThatIsMadeAnewIsServedAgain(t *testing.T) {
	w := newWorld(t).start()
	require.Equal(t, "a-api", w.from(WorkerA, 6443, Named(""), 0))
	_, err := w.Pod.Run(t.Context(), "ip", "link", "del", "net1")
	require.NoError(t, err)
	w.until(5*time.Second, "the problem is reported", func() bool { return w.metric(`oooi_xds_problems{reason="AddressNotAssigned"}`) == 1 })
	require.NoError(t, w.PlugVLAN(t.Context()))
	w.until(20*time.Second, "the VLAN is served again", func() bool { return w.from(WorkerA, 6443, Named(""), 0) == "a-api" })
	require.Equal(t, "a-api", Probe(t.Context(), w.Hub, netip.Addr{}, netip.AddrPortFrom(PodIP, 6443), Named(fqdn("api", "a")), 0), "the pod side was never away")
	w.until(5*time.Second, "the problem is gone", func() bool { return w.metric(`oooi_xds_problems{reason="AddressNotAssigned"}`) == 0 })
}

// behaviour A7; hazard 260: a changed server address is served before the old one goes.
func TestAChangedServerAddressIsServed(t *testing.T) {
	w := newWorld(t).start()
	moved := netip.MustParseAddr("192.0.2.5")
	require.NoError(t, w.Pod.Addr(t.Context(), "net1", netip.PrefixFrom(moved, 24)))
	w.edit(func(p map[string]any) { p["serverIp"] = moved.String() })
	w.until(5*time.Second, "the new address answers", func() bool {
		return Probe(t.Context(), w.VMs, WorkerA, netip.AddrPortFrom(moved, 6443), Named(""), 0) == "a-api"
	})
	w.until(5*time.Second, "the old one does not", func() bool { return w.from(WorkerA, 6443, Named(""), 0) == "refused" })
}
