package proxy

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// metric reads one of the manager's metrics: 0 where there is none, and NaN, which
// nothing is equal to, where the manager does not answer.
func (w *world) metric(line string) float64 {
	w.t.Helper()
	_, body, err := w.Get(w.t.Context(), w.Hub, netip.AddrPortFrom(PodIP, 9090), "/metrics", "")
	if err != nil {
		return math.NaN()
	}
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(line) + ` (\S+)$`).FindStringSubmatch(body)
	if m == nil {
		return 0
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// behaviour E9; hazards 153, 190, 191; case C38c.
func TestARejectedListenerIsReportedAndHoldsUpNoOther(t *testing.T) {
	w := newWorld(t)
	squatter, err := Listen(w.Pod, netip.AddrPortFrom(VLANIP, 443))
	require.NoError(t, err)
	require.NoError(t, w.StartManager())
	began := time.Now()
	require.NoError(t, w.StartEnvoy(t.Context()))
	w.within(30*time.Second, "the rejection is reported", func() bool { return w.metric(`oooi_xds_problems{reason="ConfigRejected"}`) == 1 })
	w.until(10*time.Second, "the other listeners are in force", func() bool { return w.from(WorkerA, 6443, Named(""), 0) == "a-api" })
	code, body, err := w.Get(t.Context(), w.Hub, netip.AddrPortFrom(PodIP, 9090), "/ready", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, code, "a listener is missing: %s", body)
	require.LessOrEqual(t, w.metric(`oooi_xds_nacks_total{type="listener"}`), 1+time.Since(began).Seconds()/10, "no loop: once in ten seconds at most")
	require.NoError(t, squatter.Close())
	require.NoError(t, w.Ready(t.Context()), "it is tried again after ten seconds")
	require.Equal(t, "a-oauth", w.from(WorkerA, 443, Named(fqdn("oauth", "a")), 0))
}

// edit changes the fixture's snapshot and puts it in place.
func (w *world) edit(f func(proxy map[string]any)) {
	w.t.Helper()
	b, err := os.ReadFile("../snapshots/proxy.json")
	require.NoError(w.t, err)
	var doc map[string]any
	require.NoError(w.t, json.Unmarshal(b, &doc))
	f(doc["proxy"].(map[string]any))
	b, err = json.Marshal(doc)
	require.NoError(w.t, err)
	require.NoError(w.t, w.WriteSnapshot(b))
}

// backendsOf are a snapshot's backends by name.
func backendsOf(proxy map[string]any) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, b := range proxy["backends"].([]any) {
		out[b.(map[string]any)["name"].(string)] = b.(map[string]any)
	}
	return out
}

// hazards 171, 172, 257: a Service that is made anew has another address.
func TestANewEndpointIsTakenUpAndOpenConnectionsGoOn(t *testing.T) {
	w := newWorld(t).start()
	held := w.open(5, WorkerA, 6443, Named(fqdn("api", "a")), "a-api")
	w.backend(w.Hub, "a-api-new", "172.30.99.1:6443")
	w.edit(func(p map[string]any) {
		for _, n := range []string{"example-hcp-a/api", "example-hcp-a/alias-api", "example-hcp-a/alias-tls"} {
			backendsOf(p)[n]["endpoints"] = []any{map[string]any{"ip": "172.30.99.1", "port": 6443}}
		}
	})
	w.until(5*time.Second, "new connections go to the new endpoint", func() bool {
		return w.from(WorkerA, 6443, Named(fqdn("api", "a")), 0) == "a-api-new"
	})
	require.Equal(t, 5, alive(held))
	n, err := w.Stat(t.Context(), "listener_manager.listener_modified")
	require.NoError(t, err)
	require.Zero(t, n, "no listener was touched")
}

// hazard 188: never empty while the snapshot has backends.
func TestASnapshotWithoutOneValidBackendChangesNothing(t *testing.T) {
	w := newWorld(t).start()
	w.edit(func(p map[string]any) {
		for _, b := range backendsOf(p) {
			b["port"] = 0
		}
	})
	w.until(5*time.Second, "the problem is reported", func() bool { return w.metric(`oooi_xds_problems{reason="InvalidBackend"}`) > 0 })
	require.Equal(t, "a-api", w.from(WorkerA, 6443, Named(""), 0))
	t.Run("an unreadable one neither", func(t *testing.T) {
		require.NoError(t, w.WriteSnapshot([]byte("{")))
		w.until(5*time.Second, "the problem is reported", func() bool { return w.metric(`oooi_xds_problems{reason="SnapshotInvalid"}`) > 0 })
		require.Equal(t, "a-api", w.from(WorkerA, 6443, Named(""), 0))
	})
	t.Run("one that says there is none empties the routes", func(t *testing.T) {
		w.edit(func(p map[string]any) { p["backends"], p["externalListeners"] = []any{}, []any{} })
		w.until(5*time.Second, "nothing listens any more", func() bool { return w.from(WorkerA, 6443, Named(""), 0) == "refused" })
		require.NoError(t, w.Ready(t.Context()), "no backends, no listeners, and ready")
	})
}

// behaviour E6: a resolver on the VLAN that says what it is told to, until the end
// that is returned.
func nameServer(t *testing.T, w *world, answers func() []netip.Addr) (end func()) {
	t.Helper()
	var pc net.PacketConn
	require.NoError(t, Within(w.VMs, func() (err error) {
		pc, err = net.ListenPacket("udp4", netip.AddrPortFrom(Stranger, 53).String())
		return err
	}))
	t.Cleanup(func() { _ = pc.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if m.Questions[0].Type == dnsmessage.TypeA {
				for _, a := range answers() {
					m.Answers = append(m.Answers, dnsmessage.Resource{
						Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: 5},
						Body:   &dnsmessage.AResource{A: a.As4()},
					})
				}
			}
			if out, err := m.Pack(); err == nil {
				_, _ = pc.WriteTo(out, from)
			}
		}
	}()
	return func() { _ = pc.Close() }
}

// named makes the fixture's *.apps of A a name that the resolver knows.
func (w *world) named() {
	w.t.Helper()
	w.edit(func(p map[string]any) {
		p["upstreams"] = []any{Stranger.String()}
		backendsOf(p)["example-hcp-a/apps-https"]["endpoints"] = []any{map[string]any{"hostname": "lb.tenant.example.net", "port": 443}}
	})
}

// apps asks *.apps of A.
func (w *world) apps() string {
	w.t.Helper()
	return w.from(WorkerA, 443, Named("x.apps.example-hcp-a.clusters.example.com"), 0)
}

// behaviour E6: only addresses inside the network that are none of ours are used.
func TestANamedEndpointLeadsOnlyToFreeAddressesOfTheVLAN(t *testing.T) {
	cases := []struct {
		name    string
		answers []string
		want    string
	}{
		{"an address of the VLAN", []string{"192.0.2.200"}, "a-apps"},
		{"a service of the hub is no such address", []string{"172.30.11.1"}, "closed"},
		{"the server itself and the gateway are none", []string{"192.0.2.4", "192.0.2.1"}, "closed"},
		{"what remains of a mixed answer is used", []string{"172.30.11.1", "192.0.2.1", "192.0.2.200"}, "a-apps"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			nameServer(t, w, func() []netip.Addr {
				var out []netip.Addr
				for _, a := range c.answers {
					out = append(out, netip.MustParseAddr(a))
				}
				return out
			})
			w.named()
			w.start()
			w.until(5*time.Second, fmt.Sprintf("answers %s", c.want), func() bool {
				return w.apps() == c.want && w.metric(`oooi_xds_lookups_total{result="ok"}`)+w.metric(`oooi_xds_lookups_total{result="error"}`) > 0
			})
			require.Equal(t, c.want, w.apps())
		})
	}
}

// behaviours E6 and E11: a manager that dies while the VLAN's DNS is away takes
// nothing from the Envoy that goes on.
func TestARestartWithoutDNSTakesNoNamedEndpointAway(t *testing.T) {
	w := newWorld(t)
	end := nameServer(t, w, func() []netip.Addr { return []netip.Addr{VIPA} })
	state := w.Path("state")
	require.NoError(t, os.Mkdir(state, 0o700))
	require.NoError(t, os.Chmod(state, 0o777))
	w.ManagerArgs = []string{"--state-dir", state}
	w.named()
	w.start()
	w.until(5*time.Second, "the name leads to its backend", func() bool { return w.apps() == "a-apps" })
	w.until(5*time.Second, "the address is kept", func() bool {
		_, err := os.Stat(filepath.Join(state, "resolved.json"))
		return err == nil
	})
	end()
	require.NoError(t, w.Manager.Kill())
	require.NoError(t, w.StartManager())
	require.NoError(t, w.Ready(t.Context()))
	require.Equal(t, "a-apps", w.apps(), "what the new manager has sent")
	w.until(5*time.Second, "nobody answers it", func() bool { return w.metric(`oooi_xds_lookups_total{result="error"}`) > 0 })
	require.Equal(t, "a-apps", w.apps())
}

// behaviour B5; hazard 182: neighbours that know another hardware address learn
// ours without having to wait.
func TestTheAddressIsMadeKnownAtTheStart(t *testing.T) {
	w := newWorld(t)
	const stale = "02:00:5e:00:00:99"
	known := func() (bool, error) {
		out, err := w.VMs.Run(t.Context(), "ip", "neigh", "show", VLANIP.String())
		return strings.Contains(out, stale), err
	}
	_, err := w.VMs.Run(t.Context(), "ip", "neigh", "replace", VLANIP.String(), "lladdr", stale, "nud", "reachable", "dev", "eth0")
	require.NoError(t, err)
	is, err := known()
	require.NoError(t, err)
	require.True(t, is)
	require.NoError(t, w.StartManager())
	w.until(5*time.Second, "the neighbour's entry is corrected", func() bool {
		is, err := known()
		return err == nil && !is
	})
}

// behaviour B5: without the fence the manager says what to do.
func TestForwardingIsReportedWithoutTheFence(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.Pod.Sysctl(t.Context(), "net.ipv4.conf.net1.forwarding", "1"))
	w.start()
	require.InDelta(t, 1, w.metric(`oooi_xds_problems{reason="ForwardingEnabled"}`), 0)
	require.NoError(t, w.Pod.Sysctl(t.Context(), "net.ipv4.conf.net1.forwarding", "0"))
	w.until(5*time.Second, "the problem goes away", func() bool { return w.metric(`oooi_xds_problems{reason="ForwardingEnabled"}`) == 0 })
}

// behaviour E5, E12; hazards 177, 178.
func TestTheAccessLogNamesWhatIsNeededAndCanBeSwitched(t *testing.T) {
	w := newWorld(t).start()
	held := w.open(3, WorkerA, 6443, Named(""), "a-api")
	require.Equal(t, "a-oauth", w.from(WorkerB, 443, Named(fqdn("oauth", "a")), 0))
	require.Equal(t, "closed", w.from(Stranger, 443, Named("www.example.net"), 0))
	line := func(part string) map[string]any {
		var out map[string]any
		w.until(5*time.Second, "the line with "+part, func() bool {
			for l := range strings.Lines(w.Envoy.Output()) {
				if strings.HasPrefix(l, "{") && strings.Contains(l, part) && json.Unmarshal([]byte(l), &out) == nil {
					return true
				}
			}
			return false
		})
		return out
	}
	ok := line(fqdn("oauth", "a"))
	for k, want := range map[string]any{
		"sni": fqdn("oauth", "a"), "chain": "example-hcp-a/oauth", "backend": "example-hcp-a/oauth", "endpoint": "172.30.10.2:6443",
		"listener": "192.0.2.4:443", "flags": "-",
	} {
		require.Equal(t, want, ok[k], k)
	}
	require.Contains(t, ok["source"], WorkerB.String()+":")
	for _, k := range []string{"bytes_in", "bytes_out", "duration_ms", "time"} {
		require.NotNil(t, ok[k], k)
	}
	refused := line("www.example.net")
	require.Equal(t, "NR", refused["flags"], "closed connections are logged with their reason")
	counted, err := w.Stat(t.Context(), "listener.192.0.2.4_443.no_filter_chain_match")
	require.NoError(t, err)
	require.Equal(t, 1, counted, "and counted")
	require.Contains(t, refused["source"], Stranger.String()+":")

	w.edit(func(p map[string]any) { p["accessLog"] = false })
	w.until(5*time.Second, "the log is off", func() bool {
		before := strings.Count(w.Envoy.Output(), "switched.example.net")
		_ = w.from(Stranger, 443, Named("switched.example.net"), 0)
		_ = w.from(Stranger, 443, Named("switched.example.net"), 0)
		return strings.Count(w.Envoy.Output(), "switched.example.net") == before
	})
	require.Equal(t, 3, alive(held), "switching the log cuts nothing")
	n, err := w.Stat(t.Context(), "listener_manager.listener_modified")
	require.NoError(t, err)
	require.Zero(t, n)
}
