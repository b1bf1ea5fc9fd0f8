package oooi

import (
	"context"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

// Addresses of the fixture: the worker of cluster A, a pod, and two sources
// that have no business with us.
const (
	fromWorker   = "192.0.2.101"
	fromPod      = "10.128.2.7"
	onVLAN       = "192.0.2.3"
	onPod        = "10.128.0.5"
	apiOfA       = "api.example-hcp-a.clusters.example.com."
	appOfA       = "console-openshift-console.apps.example-hcp-a.clusters.example.com."
	workerOfA    = "example-hcp-a-7k2lq-x9fzt.example-hcp-a.clusters.example.com."
	proxyOnVLAN  = "192.0.2.4"
	proxyService = "172.30.20.1"
)

// conn is one query's way in and what was written back.
type conn struct {
	local, remote net.Addr
	raw           []byte
	wrote         int
}

func udp(local, remote string) *conn {
	return &conn{
		local:  net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(local), 53)),
		remote: net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(remote), 40000)),
	}
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }
func (c *conn) WriteMsg(m *dns.Msg) error {
	raw, err := m.Pack()
	if err != nil {
		return err
	}
	_, err = c.Write(raw)
	return err
}

func (c *conn) Write(b []byte) (int, error) {
	c.raw, c.wrote = append(c.raw[:0], b...), c.wrote+1
	return len(b), nil
}
func (c *conn) Close() error        { return nil }
func (c *conn) TsigStatus() error   { return nil }
func (c *conn) TsigTimersOnly(bool) {}
func (c *conn) Hijack()             {}

func config(t testing.TB, file string) snapshot.Config {
	t.Helper()
	c, err := load(filepath.Join("testdata", file))
	require.NoError(t, err)
	return c
}

// handler serves a configuration; upstreams may be nil.
func handler(c snapshot.Config, up *upstream) *Oooi {
	o := &Oooi{metrics: newMetrics()}
	o.serving.Store(newServing(c, netip.Addr{}, up))
	o.open.Store(true)
	return o
}

func query(name string, qtype uint16) *dns.Msg {
	return new(dns.Msg).SetQuestion(name, qtype)
}

// ask runs one query through the handler as the server would: a code that says
// that nothing was written becomes an answer of its own.
func ask(t testing.TB, o *Oooi, c *conn, q *dns.Msg) *dns.Msg {
	t.Helper()
	rcode, err := o.ServeDNS(context.Background(), c, q)
	require.NoError(t, err)
	if c.wrote == 0 {
		return new(dns.Msg).SetRcode(q, rcode)
	}
	m := new(dns.Msg)
	require.NoError(t, m.Unpack(c.raw))
	return m
}

// sum is an answer in one line: the code, the answers, and the SOA's owner.
func sum(m *dns.Msg) string {
	out := []string{dns.RcodeToString[m.Rcode]}
	for _, rr := range m.Answer {
		out = append(out, strings.Fields(strings.TrimPrefix(rr.String(), rr.Header().String()))...)
	}
	for _, rr := range m.Ns {
		if _, ok := rr.(*dns.SOA); ok {
			out = append(out, "soa="+rr.Header().Name)
		}
	}
	return strings.Join(out, " ")
}

const (
	noDataA = "NOERROR soa=example-hcp-a.clusters.example.com."
	noDataB = "NOERROR soa=example-hcp-b.clusters.example.com."
)

// Behaviours D1, D2, D3, D6 and D8; hazards 93, 94, 104, 105, 113, 148.
func TestLookup(t *testing.T) {
	o := handler(config(t, "snapshot.json"), nil)
	for _, tc := range []struct {
		name  string
		view  side
		qname string
		qtype uint16
		want  string
	}{
		{"the VLAN gets the proxy's VLAN address", sideVLAN, apiOfA, dns.TypeA, "NOERROR " + proxyOnVLAN},
		{"pods get the proxy's ClusterIP", sidePod, apiOfA, dns.TypeA, "NOERROR " + proxyService},
		{"a name that only the VLAN has is not ours for pods", sidePod, "api.example-hcp-b.clusters.example.com.", dns.TypeA, "REFUSED"},
		{"AAAA of a name with A only is NODATA", sideVLAN, apiOfA, dns.TypeAAAA, noDataA},
		{"HTTPS is NODATA", sideVLAN, appOfA, dns.TypeHTTPS, noDataA},
		{"SVCB is NODATA", sideVLAN, appOfA, dns.TypeSVCB, noDataA},
		{"TXT is NODATA", sideVLAN, appOfA, dns.TypeTXT, noDataA},
		{"SRV is NODATA", sideVLAN, appOfA, dns.TypeSRV, noDataA},
		{"CAA is NODATA", sideVLAN, appOfA, dns.TypeCAA, noDataA},
		{"DS is NODATA", sideVLAN, apiOfA, dns.TypeDS, noDataA},
		{"ANY is minimal", sideVLAN, apiOfA, dns.TypeANY, `NOERROR "RFC8482" ""`},
		{"a wildcard matches one label", sideVLAN, "x.apps.example-hcp-a.clusters.example.com.", dns.TypeA, "NOERROR 192.0.2.200"},
		{"a wildcard matches many labels", sideVLAN, "a.b.c.d.e.apps.example-hcp-a.clusters.example.com.", dns.TypeA, "NOERROR 192.0.2.200"},
		{"a wildcard matches itself", sideVLAN, "*.apps.example-hcp-a.clusters.example.com.", dns.TypeA, "NOERROR 192.0.2.200"},
		{"a wildcard matches labels that need escapes", sideVLAN, `a\.b\032\255.apps.example-hcp-a.clusters.example.com.`, dns.TypeA, "NOERROR 192.0.2.200"},
		{"a wildcard does not match its apex", sideVLAN, "apps.example-hcp-a.clusters.example.com.", dns.TypeA, noDataA},
		{"a domain that only has names below it is empty", sideVLAN, "example-hcp-a.clusters.example.com.", dns.TypeA, noDataA},
		{
			"the apex has its SOA", sideVLAN, "example-hcp-a.clusters.example.com.", dns.TypeSOA,
			"NOERROR ns.example-hcp-a.clusters.example.com. hostmaster.example-hcp-a.clusters.example.com. 1 3600 600 86400 5",
		},
		{"a wildcard without an address yet is NODATA", sideVLAN, "x.apps.example-hcp-b.clusters.example.com.", dns.TypeA, noDataB},
		{"ANY of a name without data is NODATA", sideVLAN, "x.apps.example-hcp-b.clusters.example.com.", dns.TypeANY, noDataB},
		{"the parent of all domains is not ours", sideVLAN, "clusters.example.com.", dns.TypeA, "REFUSED"},
		{"an unknown sibling is not ours", sideVLAN, "foo.example-hcp-a.clusters.example.com.", dns.TypeA, "REFUSED"},
		{"a name below an owned one is not ours", sideVLAN, "x." + apiOfA, dns.TypeA, "REFUSED"},
		{"the alias of one label", sideVLAN, "kubernetes.", dns.TypeA, "NOERROR " + proxyOnVLAN},
		{"the alias of two labels", sideVLAN, "kubernetes.default.", dns.TypeA, "NOERROR " + proxyOnVLAN},
		{"the alias of three labels", sideVLAN, "kubernetes.default.svc.", dns.TypeA, "NOERROR " + proxyOnVLAN},
		{"the alias in full", sidePod, "kubernetes.default.svc.cluster.local.", dns.TypeA, "NOERROR " + proxyService},
		{"an alias is its own apex", sideVLAN, "kubernetes.default.svc.cluster.local.", dns.TypeAAAA, "NOERROR soa=kubernetes.default.svc.cluster.local."},
		{"the parent of an alias is not ours", sideVLAN, "svc.cluster.local.", dns.TypeA, "REFUSED"},
		{"a worker by name", sideVLAN, workerOfA, dns.TypeA, "NOERROR " + fromWorker},
		{"a worker by name for pods", sidePod, workerOfA, dns.TypeA, "NOERROR " + fromWorker},
		{"a worker has no AAAA", sideVLAN, workerOfA, dns.TypeAAAA, noDataA},
		{"a worker by address", sideVLAN, "101.2.0.192.in-addr.arpa.", dns.TypePTR, "NOERROR " + workerOfA},
		{"a worker's reverse name has nothing else", sideVLAN, "101.2.0.192.in-addr.arpa.", dns.TypeA, "NOERROR soa=2.0.192.in-addr.arpa."},
		{"an address without a worker does not exist", sideVLAN, "7.2.0.192.in-addr.arpa.", dns.TypePTR, "NXDOMAIN soa=2.0.192.in-addr.arpa."},
		{"below a reverse name nothing exists", sideVLAN, "x.101.2.0.192.in-addr.arpa.", dns.TypePTR, "NXDOMAIN soa=2.0.192.in-addr.arpa."},
		{"what is no octet does not exist", sideVLAN, "x.2.0.192.in-addr.arpa.", dns.TypePTR, "NXDOMAIN soa=2.0.192.in-addr.arpa."},
		{"the reverse zone is empty", sideVLAN, "2.0.192.in-addr.arpa.", dns.TypeNS, "NOERROR soa=2.0.192.in-addr.arpa."},
		{"the reverse zone's parent is not ours", sideVLAN, "0.192.in-addr.arpa.", dns.TypeNS, "REFUSED"},
		{"another network's reverse name is not ours", sideVLAN, "1.3.0.192.in-addr.arpa.", dns.TypePTR, "REFUSED"},
		{"a name that only ends like a reverse name is not ours", sideVLAN, "101.2.0.192.xin-addr.arpa.", dns.TypePTR, "REFUSED"},
		{"the root is not ours", sideVLAN, ".", dns.TypeNS, "REFUSED"},
		{"anything else is not ours", sideVLAN, "example.org.", dns.TypeA, "REFUSED"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := udp(onVLAN, fromWorker)
			if tc.view == sidePod {
				c = udp(onPod, fromPod)
			}
			m := ask(t, o, c, query(tc.qname, tc.qtype))
			require.Equal(t, tc.want, sum(m))
			if strings.Contains(tc.want, "soa=") {
				soa := m.Ns[0].(*dns.SOA)
				require.LessOrEqual(t, soa.Minttl, uint32(5), "the SOA minimum bounds negative caching")
				require.LessOrEqual(t, soa.Hdr.Ttl, uint32(5), "the SOA's TTL bounds negative caching")
				require.True(t, m.Authoritative)
			}
		})
	}
}

// Cases C18 to C21, byte for byte: the input is the file, the right answer the
// golden beside it, and the upstream, which would answer anything, is not asked.
// Hazards 93 to 96, 112 and 113.
func TestCases(t *testing.T) {
	up := startResolver(t, answers("198.51.100.9"))
	o := forwardTo(t, up)
	for _, tc := range []struct{ name, want string }{
		{"dns-aaaa-api", noDataA},
		{"dns-https-apps", noDataA},
		{"dns-0x20-a", "NOERROR " + proxyOnVLAN},
		{"dns-any-api", `NOERROR "RFC8482" ""`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("testdata", "cases", tc.name))
			require.NoError(t, err)
			q := new(dns.Msg)
			require.NoError(t, q.Unpack(raw))
			c := udp(onVLAN, fromWorker)
			m := ask(t, o, c, q)
			require.Equal(t, tc.want, sum(m))
			end := len(raw)
			if len(q.Extra) > 0 {
				end -= 11
			}
			require.Equal(t, raw[12:end], c.raw[12:end], "the question goes back as it came")
			require.LessOrEqual(t, len(c.raw), 512)
			require.True(t, m.Authoritative)
			require.False(t, m.AuthenticatedData)
			for _, rr := range m.Answer {
				require.GreaterOrEqual(t, rr.Header().Ttl, uint32(5))
				require.LessOrEqual(t, rr.Header().Ttl, uint32(30))
			}
			golden(t, filepath.Join("testdata", "cases", tc.name+".want"), hex.EncodeToString(c.raw)+"\n")
		})
	}
	require.Zero(t, up.queries.Load(), "queries that left")
}

// golden compares with a file; UPDATE=1 rewrites it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// Behaviour D4, case C27; hazards 99 to 103.
func TestAdmission(t *testing.T) {
	c := config(t, "snapshot.json")
	c.Sources = append(c.Sources, netip.MustParsePrefix("203.0.113.128/25"))
	o := handler(c, nil)
	for _, tc := range []struct {
		name, local, remote, want string
	}{
		{"a worker on the VLAN address", onVLAN, fromWorker, "NOERROR " + proxyOnVLAN},
		{"an additional source on the VLAN address", onVLAN, "203.0.113.200", "NOERROR " + proxyOnVLAN},
		{"a neighbour of the additional source on the VLAN address", onVLAN, "203.0.113.9", "REFUSED"},
		{"anyone else on the VLAN address", onVLAN, "198.51.100.77", "REFUSED"},
		{"a pod on the VLAN address", onVLAN, fromPod, "REFUSED"},
		{"a pod on the pod address", onPod, fromPod, "NOERROR " + proxyService},
		{"a worker on the pod address", onPod, fromWorker, "REFUSED"},
		{"an additional source on the pod address", onPod, "203.0.113.200", "REFUSED"},
		{"a worker with an IPv4-mapped address", "::ffff:192.0.2.3", "::ffff:192.0.2.101", "NOERROR " + proxyOnVLAN},
		{"an IPv6 source on the pod address", onPod, "2001:db8::1", "NOERROR " + proxyService},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, sum(ask(t, o, udp(tc.local, tc.remote), query(apiOfA, dns.TypeA))))
			if tc.want == "REFUSED" {
				require.Equal(t, "REFUSED", sum(ask(t, o, udp(tc.local, tc.remote), query("example.org.", dns.TypeA))))
			}
		})
	}
}

// While the address is changed the Corefile still names the old one.
func TestBothAddressesAreTheVLAN(t *testing.T) {
	o := &Oooi{metrics: newMetrics()}
	o.open.Store(true)
	o.serving.Store(newServing(config(t, "snapshot.json"), netip.MustParseAddr("192.0.2.33"), nil))
	for _, local := range []string{"192.0.2.33", onVLAN} {
		require.Equal(t, "NOERROR "+proxyOnVLAN, sum(ask(t, o, udp(local, fromWorker), query(apiOfA, dns.TypeA))))
	}
}

// Behaviour D6; hazards 96, 112, 114, 115.
func TestMessage(t *testing.T) {
	o := handler(config(t, "snapshot.json"), nil)
	for _, tc := range []struct {
		name  string
		make  func(*dns.Msg)
		check func(*testing.T, *dns.Msg)
	}{
		{"a query without EDNS gets none back", func(*dns.Msg) {}, func(t *testing.T, m *dns.Msg) {
			require.Nil(t, m.IsEdns0())
			require.True(t, m.RecursionDesired)
			require.False(t, m.RecursionAvailable, "nothing is forwarded here")
			require.Equal(t, uint32(30), m.Answer[0].Header().Ttl)
		}},
		{"EDNS is answered, DO is copied, AD is not set", func(q *dns.Msg) { q.SetEdns0(4096, true); q.AuthenticatedData = true }, func(t *testing.T, m *dns.Msg) {
			require.Equal(t, uint16(1232), m.IsEdns0().UDPSize())
			require.True(t, m.IsEdns0().Do())
			require.False(t, m.AuthenticatedData)
			require.Empty(t, m.IsEdns0().Option)
		}},
		{"CD is copied, RD only if asked for", func(q *dns.Msg) { q.CheckingDisabled, q.RecursionDesired = true, false }, func(t *testing.T, m *dns.Msg) {
			require.True(t, m.CheckingDisabled)
			require.False(t, m.RecursionDesired)
		}},
		{"case is kept", func(q *dns.Msg) { q.Question[0].Name = "ApI.eXaMpLe-HcP-a.ClUsTeRs.ExAmPlE.cOm." }, func(t *testing.T, m *dns.Msg) {
			require.Equal(t, "ApI.eXaMpLe-HcP-a.ClUsTeRs.ExAmPlE.cOm.", m.Question[0].Name)
			require.Equal(t, m.Question[0].Name, m.Answer[0].Header().Name)
		}},
		{"class CH is refused", func(q *dns.Msg) { q.Question[0].Qclass = dns.ClassCHAOS }, refusedWith(dns.RcodeRefused)},
		{"class ANY is refused", func(q *dns.Msg) { q.Question[0].Qclass = dns.ClassANY }, refusedWith(dns.RcodeRefused)},
		{"a transfer is refused", func(q *dns.Msg) { q.Question[0].Qtype = dns.TypeAXFR }, refusedWith(dns.RcodeRefused)},
		{"an update is not implemented", func(q *dns.Msg) { q.Opcode = dns.OpcodeUpdate }, refusedWith(dns.RcodeNotImplemented)},
		{"a notify is not implemented", func(q *dns.Msg) { q.Opcode = dns.OpcodeNotify }, refusedWith(dns.RcodeNotImplemented)},
		{"two questions are malformed", func(q *dns.Msg) { q.Question = append(q.Question, q.Question[0]) }, refusedWith(dns.RcodeFormatError)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := query(apiOfA, dns.TypeA)
			tc.make(q)
			tc.check(t, ask(t, o, udp(onVLAN, fromWorker), q))
		})
	}
}

func refusedWith(rcode int) func(*testing.T, *dns.Msg) {
	return func(t *testing.T, m *dns.Msg) {
		t.Helper()
		require.Equal(t, dns.RcodeToString[rcode], dns.RcodeToString[m.Rcode])
		require.Empty(t, m.Answer)
	}
}

// Behaviour B5: nothing is said before the sockets are bound to their devices.
func TestSilentUntilOpen(t *testing.T) {
	o := handler(config(t, "snapshot.json"), nil)
	o.open.Store(false)
	c := udp(onVLAN, fromWorker)
	rcode, err := o.ServeDNS(t.Context(), c, query(apiOfA, dns.TypeA))
	require.NoError(t, err)
	require.Equal(t, dns.RcodeSuccess, rcode, "the server must not answer for us")
	require.Zero(t, c.wrote)
	require.False(t, o.Ready())
}

func TestServfailBeforeTheFirstSnapshot(t *testing.T) {
	o := &Oooi{metrics: newMetrics()}
	o.open.Store(true)
	require.Equal(t, "SERVFAIL", sum(ask(t, o, udp(onVLAN, fromWorker), query(apiOfA, dns.TypeA))))
	require.False(t, o.Ready())
}

// The hot path: no allocation for any answer of our own that the server writes
// as bytes.
func TestNoAllocation(t *testing.T) {
	o := handler(config(t, "snapshot.json"), nil)
	ctx := context.Background()
	for _, tc := range []struct {
		name string
		q    *dns.Msg
	}{
		{"exact name", query(apiOfA, dns.TypeA)},
		{"wildcard", query(appOfA, dns.TypeA)},
		{"deep wildcard in mixed case", query("A.b.C.d.E.f.aPPs.example-hcp-a.clusters.example.com.", dns.TypeA)},
		{"NODATA with EDNS", query(apiOfA, dns.TypeAAAA).SetEdns0(1232, true)},
		{"alias", query("kubernetes.default.svc.cluster.local.", dns.TypeA)},
		{"reverse name", query("101.2.0.192.in-addr.arpa.", dns.TypePTR)},
		{"refused", query("example.org.", dns.TypeA)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := udp(onVLAN, fromWorker)
			c.raw = make([]byte, 0, 1024)
			allocs := testing.AllocsPerRun(1000, func() {
				_, _ = o.ServeDNS(ctx, c, tc.q)
			})
			require.Zero(t, allocs)
		})
	}
}
