package oooi

import (
	"net"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// The built-in Corefile has none of what brought others down: a view block that
// hides the next (hazard 99), reload (140), loop, which ends the process (107,
// 108), hosts, which serves the pod's own file (138, 139), stale answers (98),
// and one block alone owns the management ports (142).
func TestCorefileHasNoneOf(t *testing.T) {
	for _, directive := range []string{"view", "reload", "loop", "hosts", "serve_stale", "forward", "import"} {
		require.NotRegexp(t, `(?m)^\s*`+directive+`\b`, Corefile)
	}
	require.Len(t, regexp.MustCompile(`(?m)^\S.*\{$`).FindAllString(Corefile, -1), 1, "one server block")
}

// Hazard 138: names of the pod's own /etc/hosts are not answered from it.
func TestHostsFileIsNotServed(t *testing.T) {
	o := handler(config(t, "snapshot.json"), nil)
	for _, name := range []string{"localhost.", "ip6-localhost."} {
		require.Equal(t, "REFUSED", sum(ask(t, o, udp(onVLAN, fromWorker), query(name, dns.TypeA))))
	}
	require.Equal(t, "NXDOMAIN soa=2.0.192.in-addr.arpa.", sum(ask(t, o, udp(onVLAN, fromWorker), query("4.2.0.192.in-addr.arpa.", dns.TypePTR))),
		"the proxy's address has no names of the clusters behind it")
}

// Hazard 98: an answer that was forwarded is not served beyond its time because
// the upstream is gone.
func TestNothingStaleIsServed(t *testing.T) {
	shortly := func(q *dns.Msg) *dns.Msg {
		m := new(dns.Msg).SetReply(q)
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 0}, A: net.ParseIP("198.51.100.9")}}
		return m
	}
	var mu sync.Mutex
	reply := shortly
	r := startResolver(t, func(q *dns.Msg) *dns.Msg {
		mu.Lock()
		defer mu.Unlock()
		return reply(q)
	})
	o := forwardTo(t, r)
	require.Equal(t, "NOERROR 198.51.100.9", sum(ask(t, o, udp(onVLAN, fromWorker), query("example.org.", dns.TypeA))))
	mu.Lock()
	reply = code(dns.RcodeServerFailure)
	mu.Unlock()
	require.Eventually(t, func() bool {
		return sum(ask(t, o, udp(onVLAN, fromWorker), query("example.org.", dns.TypeA))) == "SERVFAIL"
	}, time.Minute, 100*time.Millisecond)
}

// Hazards 97 and 95: what exists a moment later is seen a moment later.
func TestNewNameIsSeenAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dns.json")
	snapshotFile(t, file, "127.9.0.4", 1)
	environment(t, file)
	s := start(t, Corefile)
	require.Equal(t, "REFUSED", sum(s.exchange(t, "udp", loopWorker, loopVLAN, query("new.test.", dns.TypeA))))
	rewrite(t, file, `"name": "api.d.test"`, `"name": "new.test"`)
	require.Eventually(t, func() bool {
		m, err := s.try("udp", loopWorker, loopVLAN, query("new.test.", dns.TypeA))
		return err == nil && sum(m) == "NOERROR 127.9.0.4"
	}, time.Minute, 10*time.Millisecond, "behaviour D7: how soon is measured in e2e/dns")
}

// Hazard 111: the most that one of our answers can hold fits into 512 bytes.
func TestLongestAnswerFits(t *testing.T) {
	name := ""
	for len(name) < 240 {
		name += "abcdefghijklmno."
	}
	name += "abcdefghi.d.t" // 253 characters with the label before it
	record := only(name[len(name)-253:], "192.0.2.1")
	record.VLAN.Addresses = nil
	for i := range 8 {
		record.VLAN.Addresses = append(record.VLAN.Addresses, record.Pod.Addresses[0].Next())
		record.Pod.Addresses[0] = record.VLAN.Addresses[i]
	}
	o := handler(fixture("192.0.2.0/24", nil, record), nil)
	c := udp("192.0.2.1", "192.0.2.9")
	m := ask(t, o, c, query(record.Name+".", dns.TypeA).SetEdns0(1232, true))
	require.Len(t, m.Answer, 8)
	require.LessOrEqual(t, len(c.raw), 512)
	m = ask(t, o, c, query(record.Name+".", dns.TypeAAAA).SetEdns0(1232, true))
	require.Len(t, m.Ns, 1)
	require.LessOrEqual(t, len(c.raw), 512)
}
