package oooi

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// detour is an upstream that hands what is below a domain back to us, as a
// cluster's DNS does that was told to.
type detour struct {
	*resolver
	back  atomic.Pointer[server]
	count atomic.Int64
}

func startDetour(t *testing.T, domain string) *detour {
	t.Helper()
	d := new(detour)
	plain := answers("198.51.100.9")
	d.resolver = startResolver(t, func(q *dns.Msg) *dns.Msg {
		s := d.back.Load()
		if s == nil || !dns.IsSubDomain(domain, q.Question[0].Name) {
			return plain(q)
		}
		d.count.Add(1)
		r, err := s.try("udp", loopClient, loopPod, q)
		if err != nil {
			return new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
		}
		return r
	})
	return d
}

// Behaviour D5, case C28, hazard 107: loops by a detour are found and broken.
func TestLoops(t *testing.T) {
	for _, tc := range []struct{ name, domain, reason, foreign string }{
		{"everything comes back", ".", ReasonUpstreamIsSelf, "REFUSED"},
		{"our domain comes back", "d.test.", ReasonForwardLoop, "NOERROR 198.51.100.9"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := startDetour(t, tc.domain)
			file := filepath.Join(t.TempDir(), "dns.json")
			snapshotFile(t, file, "127.9.0.4", 1, d.addr)
			environment(t, file)
			s := start(t, Corefile)
			d.back.Store(s)
			require.Eventually(t, func() bool { return problems(t)[tc.reason] > 0 }, time.Minute, 20*time.Millisecond)
			before := d.count.Load()
			require.Equal(t, "REFUSED", sum(s.exchange(t, "udp", loopWorker, loopVLAN, query("unknown.d.test.", dns.TypeA))))
			require.Equal(t, before, d.count.Load(), "a query went round")
			require.Equal(t, "NOERROR 127.9.0.4", sum(s.exchange(t, "udp", loopWorker, loopVLAN, query("api.d.test.", dns.TypeA))))
			require.Equal(t, tc.foreign, sum(s.exchange(t, "udp", loopWorker, loopVLAN, query("example.org.", dns.TypeA))))
		})
	}
}

// problems are the counts of the metric by reason.
func problems(t *testing.T) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "coredns_oooi_problems" {
			for _, m := range f.GetMetric() {
				out[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return out
}

// Behaviour D5: the node's resolv.conf is followed.
func TestResolvConfIsFollowed(t *testing.T) {
	one, two := startResolver(t, answers("198.51.100.1")), startResolver(t, answers("198.51.100.2"))
	dir := t.TempDir()
	resolv, file := filepath.Join(dir, "resolv.conf"), filepath.Join(dir, "dns.json")
	nameserver := func(r *resolver) {
		t.Helper()
		require.NoError(t, os.WriteFile(resolv, []byte("nameserver "+r.addr.String()+"\n"), 0o600))
	}
	nameserver(one)
	snapshotFile(t, file, "127.9.0.4", 1)
	rewrite(t, file, `"upstreams": []`, `"upstreams": ["resolv.conf"]`)
	environment(t, file)
	t.Setenv("OOOI_RESOLV_CONF", resolv)
	s := start(t, Corefile)
	require.Equal(t, "NOERROR 198.51.100.1", sum(s.exchange(t, "udp", loopWorker, loopVLAN, query("a.test.", dns.TypeA))))
	nameserver(two)
	n := 0
	require.Eventually(t, func() bool {
		n++
		m, err := s.try("udp", loopWorker, loopVLAN, query(fmt.Sprintf("n%d.test.", n), dns.TypeA))
		return err == nil && sum(m) == "NOERROR 198.51.100.2"
	}, time.Minute, 50*time.Millisecond)
}

func TestSuffixes(t *testing.T) {
	require.Equal(t, []string{""}, suffixes(nil))
	require.Equal(t, []string{"", "example.com", "a.example.com", "b.example.com"}, suffixes([]string{"a.example.com", "b.example.com"}))
	require.Equal(t, []string{"", "d.test"}, suffixes([]string{"d.test"}), "a top-level domain is nobody's to forward")
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("hcp-%d.example.com", i))
	}
	require.Len(t, suffixes(many), probeSuffixes+1)
}

// A probe of another server passes.
func TestOnlyOurOwnProbesAreCaught(t *testing.T) {
	o := handler(config(t, "snapshot.json"), nil)
	nonce := strings.Repeat("ab", 16)
	q := &probe{upstream: netip.MustParseAddrPort("198.51.100.53:53")}
	name := nonce + ".oooi-loop.example.com"
	require.False(t, o.probes.caught([]byte(wire(name))))
	o.probes.active.Store(nonce, q)
	require.True(t, o.probes.caught([]byte(wire(name))))
	require.True(t, q.caught.Load())
	for _, other := range []string{"oooi-loop", nonce, nonce + ".oooi", "example.com", "a." + name} {
		require.False(t, o.probes.caught([]byte(wire(other))), other)
	}
	n, err := testutil.GatherAndCount(prometheus.DefaultGatherer, "coredns_oooi_queries_total")
	require.NoError(t, err)
	require.Positive(t, n)
}
