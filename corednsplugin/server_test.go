package oooi

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// All of 127.0.0.0/8 is ours: one half plays the VLAN, the other the pod network.
const (
	loopVLAN   = "127.9.0.3"
	loopWorker = "127.9.0.101"
	loopClient = "127.8.0.7"
)

// loopPod is this process's own: management ports are fixed, and CoreDNS would
// share them with the same test in another checkout.
var loopPod = fmt.Sprintf("127.8.%d.%d", 1+os.Getpid()>>8%200, os.Getpid()&0xff)

// serial: the plugins of CoreDNS keep process-wide state per instance.
var oneServer sync.Mutex

// server is a real CoreDNS in this process.
type server struct{ udp, tcp map[string]string }

func start(t *testing.T, corefile string) *server {
	t.Helper()
	oneServer.Lock()
	dnsserver.Quiet, caddy.Quiet, dnsserver.Port = true, true, "0"
	dnsserver.Directives = []string{"bind", "debug", "health", "ready", "log", "oooi", "prometheus", "errors", "cache", "oooi_upstream", "forward"}
	corefile = strings.ReplaceAll(corefile, "lameduck 5s", "lameduck 1ms") // or each test waits for it
	inst, err := caddy.Start(caddy.CaddyfileInput{Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns"})
	if err != nil {
		oneServer.Unlock()
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, f := range inst.OnRestart { // else prometheus takes its address for served in the next test
			_ = f()
		}
		inst.ShutdownCallbacks()
		_ = inst.Stop()
		inst.Wait()
		oneServer.Unlock()
	})
	s := &server{udp: map[string]string{}, tcp: map[string]string{}}
	for _, l := range inst.Servers() {
		host, _, err := net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
		s.tcp[host], s.udp[host] = l.Addr().String(), l.LocalAddr().String()
	}
	for host := range s.udp {
		s.await(t, host)
	}
	return s
}

// await returns once both sockets of an address are served. caddy.Start comes
// back before that, and a server that is stopped before it began to serve never
// ends. Tests count queries: an operation that is no query is refused by the
// library below CoreDNS.
func (s *server) await(t *testing.T, host string) {
	t.Helper()
	m := new(dns.Msg)
	m.Opcode = dns.OpcodeStatus
	for _, network := range []string{"udp", "tcp"} {
		require.Equal(t, dns.RcodeNotImplemented, s.exchange(t, network, host, host, m).Rcode)
	}
}

func (s *server) exchange(t *testing.T, network, from, to string, m *dns.Msg) *dns.Msg {
	t.Helper()
	r, err := s.try(network, from, to, m)
	require.NoError(t, err)
	return r
}

func (s *server) try(network, from, to string, m *dns.Msg) (*dns.Msg, error) {
	c := &dns.Client{Net: network, Timeout: 5 * time.Second, Dialer: &net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}}
	addr := s.udp[to]
	if network == "tcp" {
		c.Dialer.LocalAddr, addr = &net.TCPAddr{IP: net.ParseIP(from)}, s.tcp[to]
	}
	r, _, err := c.Exchange(m, addr)
	return r, err
}

// snapshotFile writes a snapshot that fits the loopback networks.
func snapshotFile(t *testing.T, file, proxy string, generation int, upstreams ...netip.AddrPort) {
	t.Helper()
	quoted := make([]string, len(upstreams))
	for i, u := range upstreams {
		quoted[i] = fmt.Sprintf("%q", u)
	}
	text := fmt.Sprintf(`{"child": {"uid": "u", "generation": %d}, "dns": {"cidr": "127.9.0.0/24", "serverIp": %q, "zones": ["d.test"],
		"records": [{"name": "api.d.test", "vlan": {"policy": "DNS_POLICY_ANSWER", "addresses": [%q]}, "pod": {"policy": "DNS_POLICY_ANSWER", "addresses": ["172.30.20.1"]}},
		{"name": "*.apps.d.test", "vlan": {"policy": "DNS_POLICY_ANSWER", "addresses": ["127.9.0.200"]}}],
		"upstreams": [%s]}}`, generation, loopVLAN, proxy, strings.Join(quoted, ","))
	require.NoError(t, os.WriteFile(file+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}

// rewrite replaces text in a snapshot file, as a whole.
func rewrite(t *testing.T, file, old, text string) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file+".new", []byte(strings.Replace(string(data), old, text, 1)), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}

// environment sets what the built-in Corefile needs.
func environment(t *testing.T, file string) {
	t.Helper()
	for k, v := range map[string]string{"OOOI_SNAPSHOT": file, "OOOI_SERVER_IP": loopVLAN, "POD_IP": loopPod, "OOOI_DNS_PORT": "0"} {
		t.Setenv(k, v)
	}
}

// The built-in Corefile, as pods and plain daemons run it. Behaviours D4, D10,
// B5; hazards 99, 100, 103, 142.
func TestBuiltInCorefile(t *testing.T) {
	up := startResolver(t, answers("198.51.100.9"))
	file := filepath.Join(t.TempDir(), "dns.json")
	snapshotFile(t, file, "127.9.0.4", 1, up.addr)
	environment(t, file)
	s := start(t, Corefile)
	for _, network := range []string{"udp", "tcp"} {
		for _, tc := range []struct{ name, from, to, qname, want string }{
			{"a worker", loopWorker, loopVLAN, "api.d.test.", "NOERROR 127.9.0.4"},
			{"a pod", loopClient, loopPod, "api.d.test.", "NOERROR 172.30.20.1"},
			{"a worker, forwarded", loopWorker, loopVLAN, "example.org.", "NOERROR 198.51.100.9"},
			{"a pod, forwarded", loopClient, loopPod, "example.org.", "NOERROR 198.51.100.9"},
			{"a pod, for a name that only the VLAN has", loopClient, loopPod, "x.apps.d.test.", "NOERROR 198.51.100.9"},
			{"a pod on the VLAN address", loopClient, loopVLAN, "api.d.test.", "REFUSED"},
			{"a worker on the pod address", loopWorker, loopPod, "example.org.", "REFUSED"},
		} {
			t.Run(tc.name+" by "+network, func(t *testing.T) {
				require.Equal(t, tc.want, sum(s.exchange(t, network, tc.from, tc.to, query(tc.qname, dns.TypeA))))
			})
		}
	}
	t.Run("other classes are refused", func(t *testing.T) {
		q := query("version.bind.", dns.TypeTXT)
		q.Question[0].Qclass = dns.ClassCHAOS
		require.Equal(t, "REFUSED", sum(s.exchange(t, "udp", loopWorker, loopVLAN, q)))
	})
	t.Run("another EDNS version is refused", func(t *testing.T) {
		q := query("api.d.test.", dns.TypeA).SetEdns0(1232, false)
		q.IsEdns0().SetVersion(1)
		require.Equal(t, dns.RcodeBadVers, s.exchange(t, "udp", loopWorker, loopVLAN, q).Rcode)
	})
	t.Run("management ports are on the pod address", func(t *testing.T) {
		for _, path := range []string{":9092/health", ":9093/ready", ":9094/metrics"} {
			require.Equal(t, http.StatusOK, get(t, "http://"+loopPod+path))
			_, err := http.Get("http://" + loopVLAN + path) //nolint:bodyclose // there is none
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
		}
	})
}

func get(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	r, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	return r.StatusCode
}

// Case C26, hazard 110: an answer of 3,000 bytes by UDP without EDNS, by UDP
// with EDNS, and by TCP.
func TestBigAnswersFitTheClient(t *testing.T) {
	up := startResolver(t, func(q *dns.Msg) *dns.Msg {
		m := new(dns.Msg).SetReply(q)
		for range 12 {
			m.Answer = append(m.Answer, &dns.TXT{
				Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60},
				Txt: []string{strings.Repeat("x", 250)},
			})
		}
		return m
	})
	file := filepath.Join(t.TempDir(), "dns.json")
	snapshotFile(t, file, "127.9.0.4", 1, up.addr)
	environment(t, file)
	s := start(t, Corefile)
	for range 2 { // the second time from the cache
		m := s.exchange(t, "udp", loopWorker, loopVLAN, query("big.test.", dns.TypeTXT))
		require.True(t, m.Truncated)
		require.LessOrEqual(t, m.Len(), 512)
		m = s.exchange(t, "udp", loopWorker, loopVLAN, query("big.test.", dns.TypeTXT).SetEdns0(1232, false))
		require.True(t, m.Truncated)
		require.LessOrEqual(t, m.Len(), 1232)
		m = s.exchange(t, "tcp", loopWorker, loopVLAN, query("big.test.", dns.TypeTXT))
		require.False(t, m.Truncated)
		require.Len(t, m.Answer, 12)
	}
}

// Behaviour D7: changes under load. Every query has an answer, each of them the
// old one or the new one, and the last change arrives.
func TestChangesLoseNoQuery(t *testing.T) {
	first, second := startResolver(t, answers("198.51.100.1")), startResolver(t, answers("198.51.100.2"))
	file := filepath.Join(t.TempDir(), "dns.json")
	snapshotFile(t, file, "127.9.0.4", 1, first.addr)
	environment(t, file)
	s := start(t, Corefile)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, name := range []string{"api.d.test.", "example.org."} {
					m, err := s.try("udp", loopWorker, loopVLAN, query(name, dns.TypeA))
					if err != nil || m.Rcode != dns.RcodeSuccess || len(m.Answer) != 1 {
						t.Errorf("%s: %v %v", name, m, err)
						return
					}
				}
			}
		})
	}
	for i := range 5 {
		up := first
		if i%2 == 0 {
			up = second
		}
		proxy := fmt.Sprintf("127.9.0.%d", 10+i)
		snapshotFile(t, file, proxy, i+2, up.addr)
		require.Eventually(t, func() bool {
			m, err := s.try("udp", loopWorker, loopVLAN, query("api.d.test.", dns.TypeA))
			return err == nil && sum(m) == "NOERROR "+proxy
		}, time.Minute, 10*time.Millisecond)
	}
	close(stop)
	wg.Wait()
}

// statuses is an API server that takes every status; it returns a kubeconfig and
// the newest one.
func statuses(t *testing.T) (kubeconfig string, newest *atomic.Value) {
	t.Helper()
	newest = new(atomic.Value)
	newest.Store("")
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		newest.Store(string(body))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}))
	t.Cleanup(api.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": %q}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}]}`, api.URL), 0o600))
	return kubeconfig, newest
}

// Case C28: upstreams that point back. The process stays up, owned names are
// answered, foreign ones fail at once, and the status names the upstream.
func TestUpstreamsThatPointBack(t *testing.T) {
	for _, tc := range []struct{ name, upstream, conf, problem, says string }{
		{"the node lists our own Service", "resolv.conf", "nameserver 172.30.20.2\n", ReasonUpstreamIsSelf, "upstream 172.30.20.2:53 of resolv.conf is this DNS server itself or loopback"},
		{"the node lists loopback", "resolv.conf", "nameserver 127.0.0.1\n", ReasonUpstreamIsSelf, "upstream 127.0.0.1:53 of resolv.conf is this DNS server itself or loopback"},
		{"the node lists our address", "resolv.conf", "nameserver " + loopVLAN + "\n", ReasonUpstreamIsSelf, "upstream " + loopVLAN + ":53 of resolv.conf is"},
		{"the node lists nothing", "resolv.conf", "", ReasonNoUpstreams, "none of the upstreams can be used"},
		{"the user names our address", loopVLAN, "", ReasonUpstreamIsSelf, "upstream " + loopVLAN + ":53 is this DNS server itself or loopback"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			resolv := filepath.Join(dir, "resolv.conf")
			require.NoError(t, os.WriteFile(resolv, []byte(tc.conf), 0o600))
			t.Setenv("OOOI_RESOLV_CONF", resolv)
			file := filepath.Join(dir, "dns.json")
			snapshotFile(t, file, "127.9.0.4", 1)
			rewrite(t, file, `"upstreams": []`, `"ownAddresses": ["172.30.20.2"], "upstreams": ["`+tc.upstream+`"]`)
			environment(t, file)
			kubeconfig, status := statuses(t)
			t.Setenv("OOOI_CHILD", "ns/dns")
			t.Setenv("OOOI_KUBECONFIG", kubeconfig)
			s := start(t, Corefile)
			require.Eventually(t, func() bool { return strings.Contains(status.Load().(string), tc.says) }, time.Minute, 20*time.Millisecond)
			require.Equal(t, "NOERROR 127.9.0.4", sum(s.exchange(t, "udp", loopWorker, loopVLAN, query("api.d.test.", dns.TypeA))))
			began := time.Now()
			require.Equal(t, "REFUSED", sum(s.exchange(t, "udp", loopWorker, loopVLAN, query("example.org.", dns.TypeA))))
			require.Less(t, time.Since(began), time.Second)
			require.Positive(t, problems(t)[tc.problem])
		})
	}
}

// Behaviour D7: all that may change is in the snapshot. The VLAN's range, more
// sources, TTL and apexes change under a running server whose Corefile does not.
func TestEverythingChangesLive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dns.json")
	snapshotFile(t, file, "127.9.0.4", 1)
	environment(t, file)
	s := start(t, Corefile)
	const neighbour = "127.9.1.9"
	ttl := func(from, to string) string {
		m, err := s.try("udp", from, to, query("api.d.test.", dns.TypeA))
		if err != nil || len(m.Answer) == 0 {
			return fmt.Sprint(err)
		}
		return fmt.Sprint(m.Answer[0].Header().Ttl)
	}
	require.Equal(t, "30", ttl(loopWorker, loopVLAN))
	require.Equal(t, "REFUSED", sum(s.exchange(t, "udp", neighbour, loopVLAN, query("api.d.test.", dns.TypeA))))
	require.Equal(t, "30", ttl(neighbour, loopPod), "a pod, for now")

	rewrite(t, file, `"cidr": "127.9.0.0/24"`, `"ttlSeconds": 7, "cidr": "127.9.0.0/23"`)
	require.Eventually(t, func() bool { return ttl(neighbour, loopVLAN) == "7" }, time.Minute, 10*time.Millisecond)
	require.Equal(t, "REFUSED", sum(s.exchange(t, "udp", neighbour, loopPod, query("api.d.test.", dns.TypeA))))

	rewrite(t, file, `"cidr": "127.9.0.0/23"`, `"cidr": "127.9.0.0/24", "additionalSourceCidrs": ["127.9.1.8/29"]`)
	require.Eventually(t, func() bool {
		m, err := s.try("udp", "127.9.1.16", loopVLAN, query("api.d.test.", dns.TypeA))
		return err == nil && sum(m) == "REFUSED"
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, "7", ttl(neighbour, loopVLAN))

	rewrite(t, file, `"zones": ["d.test"]`, `"zones": ["test"]`)
	require.Eventually(t, func() bool {
		m, err := s.try("udp", loopWorker, loopVLAN, query("api.d.test.", dns.TypeAAAA))
		return err == nil && sum(m) == "NOERROR soa=test."
	}, time.Minute, 10*time.Millisecond)
}

// Every Corefile of the README starts, with the documentation's addresses
// replaced by loopback ones and its file by a real one.
func TestReadmeCorefiles(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)~~~ corefile\n(.*?)~~~").FindAllSubmatch(text, -1)
	require.GreaterOrEqual(t, len(blocks), 4)
	up := startResolver(t, answers("198.51.100.9"))
	file := filepath.Join(t.TempDir(), "dns.json")
	snapshotFile(t, file, "127.9.0.4", 1, up.addr)
	environment(t, file)
	replace := strings.NewReplacer("192.0.2.3", loopVLAN, "10.128.0.5", loopPod, "dns.json", file, "198.51.100.53", up.addr.String())
	for i, b := range blocks {
		t.Run(fmt.Sprintf("block %d", i+1), func(t *testing.T) {
			s := start(t, replace.Replace(string(b[1])))
			require.Equal(t, "NOERROR 127.9.0.4", sum(s.exchange(t, "udp", loopWorker, loopVLAN, query("api.d.test.", dns.TypeA))))
			require.Equal(t, "NOERROR 198.51.100.9", sum(s.exchange(t, "udp", loopWorker, loopVLAN, query("example.org.", dns.TypeA))))
		})
	}
}

// Every property, result and reason is documented.
func TestReadmeIsComplete(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for p := range flagProperties {
		require.Contains(t, string(text), "* `"+p+"`")
	}
	for p := range valueProperties {
		require.Contains(t, string(text), "`"+p)
	}
	for _, r := range resultNames {
		require.Contains(t, string(text), "`"+r+"`")
	}
	table := string(text[bytes.Index(text, []byte("| reason |")):bytes.Index(text, []byte("## Examples"))])
	reason := regexp.MustCompile(`Reason\w+ += "(\w+)"`)
	found := 0
	for _, dir := range []string{".", "internal/agent", "internal/snapshot", "internal/report"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			code, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range reason.FindAllStringSubmatch(string(code), -1) {
				require.Regexp(t, `\b`+m[1]+`\b`, table)
				found++
			}
		}
	}
	require.Greater(t, found, 15)
}

// The directives refuse what cannot work.
func TestCorefilesThatCannotStart(t *testing.T) {
	oneServer.Lock()
	defer oneServer.Unlock()
	for name, text := range map[string]string{
		"no bind":                        ". {\n oooi\n}\n",
		"oooi_upstream without oooi":     ". {\n bind 127.9.0.3\n oooi_upstream\n}\n",
		"oooi_upstream with an argument": ". {\n bind 127.9.0.3\n oooi\n oooi_upstream x\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			dnsserver.Directives = []string{"bind", "oooi", "oooi_upstream"}
			_, err := caddy.Start(caddy.CaddyfileInput{Contents: []byte(text), Filepath: "Corefile", ServerTypeName: "dns"})
			require.ErrorContains(t, err, "plugin/oooi")
		})
	}
}

func TestMetrics(t *testing.T) {
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var ours []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "coredns_oooi_") {
			ours = append(ours, f.GetName())
			require.Contains(t, string(text), "* `"+f.GetName())
		}
	}
	require.Greater(t, len(ours), 5)
	problems, err := testutil.GatherAndLint(prometheus.DefaultGatherer, ours...)
	require.NoError(t, err)
	require.Empty(t, problems)
}
