package oooi

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// Behaviour D5: sources share what waits for the upstreams, however many of
// them ask without end.
func TestShares(t *testing.T) {
	for _, hogs := range []int{1, 2, 9, 253} {
		t.Run(fmt.Sprintf("%d sources that ask without end", hogs), func(t *testing.T) {
			var s shares
			for took := true; took; {
				took = false
				for i := range hogs {
					took = s.take(hog(i)) || took
				}
			}
			for i := range hogs {
				require.InDelta(t, maxForwards/(hogs+1), s.taken[hog(i)], 1)
			}
			require.True(t, s.take(netip.MustParseAddr(fromWorker)), "who asks anew finds room")
			require.LessOrEqual(t, s.used, maxForwards)
			s.give(netip.MustParseAddr(fromWorker))
			for i := range hogs {
				for s.taken[hog(i)] > 0 {
					s.give(hog(i))
				}
			}
			require.Zero(t, s.used)
			require.Empty(t, s.taken, "who has nothing under way is not remembered")
		})
	}
}

func hog(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 3, byte(i)}) }

// Behaviour D5: a worker that has as many slow queries under way as it is let
// gets REFUSED at once for more of them; every other one is served as before, and
// so is the worker itself with owned and with cached names.
func TestOneSourceTakesNoRoomOfTheOthers(t *testing.T) {
	const attacker = "127.9.0.66"
	ended := make(chan struct{})
	up := startResolver(t, func(q *dns.Msg) *dns.Msg {
		if strings.HasPrefix(q.Question[0].Name, "slow") {
			select {
			case <-ended:
			case <-t.Context().Done():
			}
			return nil
		}
		return answers("198.51.100.9")(q)
	})
	file := filepath.Join(t.TempDir(), "dns.json")
	snapshotFile(t, file, "127.9.0.4", 1, up.addr)
	environment(t, file)
	s := start(t, Corefile)
	require.Equal(t, "NOERROR 198.51.100.9", sum(s.exchange(t, "udp", attacker, loopVLAN, query("cached.test.", dns.TypeA))))

	local := &net.UDPAddr{IP: net.ParseIP(attacker)}
	conn, err := (&net.Dialer{LocalAddr: local}).DialContext(t.Context(), "udp", s.udp[loopVLAN])
	require.NoError(t, err)
	refused := flood(t, conn)
	require.Eventually(t, func() bool { return refused.Load() > 500 }, 2*time.Minute, 10*time.Millisecond, "what is too much is refused at once")
	// On a busy machine a packet may be lost; what is refused is not asked again.
	ask := func(from, to, name string) string {
		for range 5 {
			if r, err := s.try("udp", from, to, query(name, dns.TypeA)); err == nil {
				return sum(r)
			}
		}
		return "no answer"
	}
	for i := range 50 {
		require.Equal(t, "NOERROR 198.51.100.9", ask(loopWorker, loopVLAN, fmt.Sprintf("n%d.test.", i)))
		require.Equal(t, "NOERROR 198.51.100.9", ask(loopClient, loopPod, fmt.Sprintf("p%d.test.", i)))
	}
	require.Equal(t, "NOERROR 127.9.0.4", ask(attacker, loopVLAN, "api.d.test."))
	require.Equal(t, "NOERROR 198.51.100.9", ask(attacker, loopVLAN, "cached.test."))
	require.NoError(t, conn.Close())
	close(ended)
	require.Eventually(t, func() bool {
		r, err := s.try("udp", attacker, loopVLAN, query("later.test.", dns.TypeA))
		return err == nil && sum(r) == "NOERROR 198.51.100.9"
	}, time.Minute, 50*time.Millisecond, "and when they are over it is served again")
}

// flood asks for slow names until conn is closed, and counts what is refused.
func flood(t *testing.T, conn net.Conn) *atomic.Int64 {
	t.Helper()
	refused := new(atomic.Int64)
	go func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			if i%5 == 0 {
				<-tick.C
			}
			raw, err := query(fmt.Sprintf("slow%d.test.", i), dns.TypeA).Pack()
			if err != nil {
				return
			}
			if _, err := conn.Write(raw); err != nil {
				return
			}
		}
	}()
	go func() {
		buf := make([]byte, dns.MaxMsgSize)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			m := new(dns.Msg)
			if m.Unpack(buf[:n]) == nil && m.Rcode == dns.RcodeRefused {
				refused.Add(1)
			}
		}
	}()
	return refused
}

// Behaviour D5: answers that no cache should be filled with are handed on, and
// not kept.
func TestLongAnswersAreNotKept(t *testing.T) {
	long := func(strs int) func(*dns.Msg) *dns.Msg {
		return func(q *dns.Msg) *dns.Msg {
			m := new(dns.Msg).SetReply(q)
			hdr := dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60}
			for range strs {
				m.Answer = append(m.Answer, &dns.TXT{Hdr: hdr, Txt: []string{strings.Repeat("x", 250)}})
			}
			return m
		}
	}
	for _, tc := range []struct {
		name    string
		strings int
		ttl     uint32
		asked   int64 // by UDP, and by TCP after TC
	}{
		{"an answer of 1,900 bytes is kept", 7, 30, 2},
		{"one of 16,000 is not", 60, 0, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := startResolver(t, long(tc.strings))
			o := forwardTo(t, r)
			for range 2 {
				c := udp(onVLAN, fromWorker)
				c.remote = &net.TCPAddr{IP: net.ParseIP(fromWorker), Port: 40000}
				m := ask(t, o, c, query("long.test.", dns.TypeTXT))
				require.Len(t, m.Answer, tc.strings)
				require.Equal(t, tc.ttl, m.Answer[0].Header().Ttl)
			}
			require.Equal(t, tc.asked, r.queries.Load())
		})
	}
}
