package oooi

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

// resolver is an upstream on loopback, UDP and TCP on one port.
type resolver struct {
	addr    netip.AddrPort
	queries atomic.Int64
}

func startResolver(t *testing.T, reply func(*dns.Msg) *dns.Msg) *resolver {
	t.Helper()
	pc, l := listenBoth(t)
	r := &resolver{addr: pc.LocalAddr().(*net.UDPAddr).AddrPort()}
	h := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		if q.Question[0].Name == "." {
			_ = w.WriteMsg(new(dns.Msg).SetReply(q)) // a health check
			return
		}
		r.queries.Add(1)
		m := reply(q)
		if m == nil {
			return
		}
		if _, isUDP := w.RemoteAddr().(*net.UDPAddr); isUDP {
			size := dns.MinMsgSize
			if o := q.IsEdns0(); o != nil {
				size = int(o.UDPSize())
			}
			m.Truncate(size)
		}
		_ = w.WriteMsg(m)
	})
	for _, s := range []*dns.Server{{PacketConn: pc, Handler: h}, {Listener: l, Handler: h}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go func() { _ = s.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return r
}

// listenBoth takes one port for UDP and TCP; a port may be free for one alone.
func listenBoth(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 50 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		if pc, err := net.ListenPacket("udp", l.Addr().String()); err == nil {
			return pc, l
		}
		require.NoError(t, l.Close())
	}
	require.Fail(t, "no port is free for both")
	return nil, nil
}

// answers gives every question the same address with a long TTL.
func answers(ip string) func(*dns.Msg) *dns.Msg {
	return func(q *dns.Msg) *dns.Msg {
		m := new(dns.Msg).SetReply(q)
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 3600}, A: net.ParseIP(ip)}}
		return m
	}
}

func code(rcode int) func(*dns.Msg) *dns.Msg {
	return func(q *dns.Msg) *dns.Msg { return new(dns.Msg).SetRcode(q, rcode) }
}

func silent(*dns.Msg) *dns.Msg { return nil }

func forwardTo(t *testing.T, rs ...*resolver) *Oooi {
	t.Helper()
	addrs := make([]netip.AddrPort, len(rs))
	for i, r := range rs {
		addrs[i] = r.addr
	}
	up, err := newUpstream(addrs, new(shares))
	require.NoError(t, err)
	t.Cleanup(up.stop)
	return handler(config(t, "snapshot.json"), up)
}

// Behaviour D5; hazard 109.
func TestFailover(t *testing.T) {
	for _, tc := range []struct {
		name  string
		first func(*dns.Msg) *dns.Msg
		want  string
	}{
		{"the first upstream answers", answers("198.51.100.1"), "NOERROR 198.51.100.1"},
		{"the first says SERVFAIL", code(dns.RcodeServerFailure), "NOERROR 198.51.100.2"},
		{"the first says REFUSED", code(dns.RcodeRefused), "NOERROR 198.51.100.2"},
		{"the first says NXDOMAIN, which is an answer", code(dns.RcodeNameError), "NXDOMAIN"},
		{"the first is dead", silent, "NOERROR 198.51.100.2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := forwardTo(t, startResolver(t, tc.first), startResolver(t, answers("198.51.100.2")))
			began := time.Now()
			require.Equal(t, tc.want, sum(ask(t, o, udp(onVLAN, fromWorker), query("example.org.", dns.TypeA))))
			require.Less(t, time.Since(began), 2*time.Second, "one dead upstream costs less than two seconds")
		})
	}
}

// Behaviours D5, D6; hazards 94, 148: what is ours never leaves, what is not
// does, in both views.
func TestOwnedNamesNeverLeave(t *testing.T) {
	r := startResolver(t, answers("198.51.100.9"))
	o := forwardTo(t, r)
	for _, qtype := range []uint16{dns.TypeAAAA, dns.TypeTXT, dns.TypeSRV, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeCAA, dns.TypeANY, dns.TypeDS, dns.TypeNS} {
		for _, name := range []string{
			apiOfA, appOfA, "apps.example-hcp-a.clusters.example.com.", "example-hcp-a.clusters.example.com.",
			"kubernetes.default.svc.cluster.local.", "x.apps.example-hcp-b.clusters.example.com.", workerOfA, "7.2.0.192.in-addr.arpa.",
		} {
			m := ask(t, o, udp(onVLAN, fromWorker), query(name, qtype))
			require.NotContains(t, sum(m), "198.51.100.9")
		}
	}
	require.Zero(t, r.queries.Load(), "queries that left")
	require.Equal(t, "NOERROR 198.51.100.9", sum(ask(t, o, udp(onPod, fromPod), query("api.example-hcp-b.clusters.example.com.", dns.TypeA))),
		"without a pod view the name is not ours there")
	require.Equal(t, int64(1), r.queries.Load())
}

// Behaviour D5: forwarded answers are kept for 30 s at most, in a cache that
// both views share.
func TestCache(t *testing.T) {
	r := startResolver(t, answers("198.51.100.9"))
	o := forwardTo(t, r)
	for _, c := range []*conn{udp(onVLAN, fromWorker), udp(onPod, fromPod)} {
		m := ask(t, o, c, query("example.org.", dns.TypeA))
		require.LessOrEqual(t, m.Answer[0].Header().Ttl, uint32(30))
	}
	require.Equal(t, int64(1), r.queries.Load())
}

// Case C26, hazard 110: an answer of 3,000 bytes. The server's own wrapper cuts
// it to the client's size, so here the whole of it has to arrive.
func TestBigAnswers(t *testing.T) {
	big := func(q *dns.Msg) *dns.Msg {
		m := new(dns.Msg).SetReply(q)
		for range 12 {
			m.Answer = append(m.Answer, &dns.TXT{
				Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60},
				Txt: []string{strings.Repeat("x", 250)},
			})
		}
		return m
	}
	o := forwardTo(t, startResolver(t, big))
	m := ask(t, o, udp(onVLAN, fromWorker), query("big.test.", dns.TypeTXT))
	require.Equal(t, dns.RcodeSuccess, m.Rcode)
	require.False(t, m.Truncated)
	require.Len(t, m.Answer, 12)
}

// Behaviour D5, case C28; hazards 107, 108.
func TestResolvers(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr(onVLAN), netip.MustParseAddr("172.30.20.2")}
	for _, tc := range []struct {
		name      string
		upstreams []string
		node      []string
		nodeErr   error
		want      []string
		problems  []string
	}{
		{"addresses in the order that the user gave", []string{"198.51.100.54", "198.51.100.53:5353"}, nil, nil, []string{"198.51.100.54:53", "198.51.100.53:5353"}, nil},
		{"the node's resolvers in their place", []string{"198.51.100.53", "resolv.conf"}, []string{"203.0.113.53", "198.51.100.53"}, nil, []string{"198.51.100.53:53", "203.0.113.53:53"}, nil},
		{"the node lists our own Service", []string{"resolv.conf"}, []string{"172.30.20.2"}, nil, nil, []string{ReasonUpstreamIsSelf, ReasonNoUpstreams}},
		{"the node lists loopback", []string{"resolv.conf"}, []string{"127.0.0.1", "203.0.113.53"}, nil, []string{"203.0.113.53:53"}, []string{ReasonUpstreamIsSelf}},
		{"the node lists nothing", []string{"resolv.conf"}, nil, nil, nil, []string{ReasonNoUpstreams}},
		{"the node lists only IPv6", []string{"resolv.conf"}, []string{"2001:db8::53"}, nil, nil, []string{ReasonNoUpstreams}},
		{"resolv.conf cannot be read", []string{"resolv.conf"}, nil, errors.New("gone"), nil, []string{ReasonNoUpstreams, ReasonNoUpstreams}},
		{"the user names ourselves", []string{onVLAN}, nil, nil, nil, []string{ReasonUpstreamIsSelf, ReasonNoUpstreams}},
		{"another server on our address is none of us", []string{onVLAN + ":5353"}, nil, nil, []string{onVLAN + ":5353"}, nil},
		{"no upstream at all is what the user wants", nil, nil, nil, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c snapshot.Config
			for _, s := range tc.upstreams {
				u, err := snapshot.ParseUpstream(s)
				require.NoError(t, err)
				c.Upstreams = append(c.Upstreams, u)
			}
			got, problems := resolvers(&c, func() ([]string, error) { return tc.node, tc.nodeErr }, own, 53)
			var addrs, reasons []string
			for _, a := range got {
				addrs = append(addrs, a.String())
			}
			for _, p := range problems {
				reasons = append(reasons, p.Reason)
			}
			require.Equal(t, tc.want, addrs)
			require.Equal(t, tc.problems, reasons)
		})
	}
}

func TestOnlyFifteenUpstreams(t *testing.T) {
	var c snapshot.Config
	for i := range 20 {
		c.Upstreams = append(c.Upstreams, snapshot.Upstream{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(i + 1)}), 53)})
	}
	got, problems := resolvers(&c, nil, nil, 53)
	require.Len(t, got, 15)
	require.Equal(t, ReasonTooManyUpstreams, problems[0].Reason)
	up, err := newUpstream(got, new(shares))
	require.NoError(t, err)
	up.stop()
}

func TestNodeResolvers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	require.NoError(t, os.WriteFile(file, []byte("search a.test\nnameserver 198.51.100.53\nnameserver 2001:db8::1\noptions ndots:5\n"), 0o600))
	got, err := nodeResolvers(file)
	require.NoError(t, err)
	require.Equal(t, []string{"198.51.100.53", "2001:db8::1"}, got)
	_, err = nodeResolvers(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
