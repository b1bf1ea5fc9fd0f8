package oooi

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

const (
	// maxForwards bounds the queries that wait for an upstream at one time.
	maxForwards = 1000

	// maxKept is the longest answer, in bytes without compression, that the
	// cache keeps. With its 10,240 entries this bounds its memory, whatever
	// answers the clients make an upstream give: 60 KB each would be 600 MB.
	maxKept = 2048
)

// shares divides maxForwards among the sources. A source may have as many
// queries under way as places are still free: one that asks without end gets
// half of all, n of them get maxForwards/(n+1) each, and who asks anew always
// finds room. The zero value is ready for use; it outlives the upstreams.
type shares struct {
	mu    sync.Mutex
	used  int                // guarded by mu
	taken map[netip.Addr]int // guarded by mu; only sources with a query under way
}

func (s *shares) take(source netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[source] >= maxForwards-s.used {
		return false
	}
	if s.taken == nil {
		s.taken = map[netip.Addr]int{}
	}
	s.taken[source]++
	s.used++
	return true
}

func (s *shares) give(source netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	if s.taken[source]--; s.taken[source] == 0 {
		delete(s.taken, source)
	}
}

// gate stands between the cache and the upstreams: what the cache answers takes
// no place.
type gate struct {
	plugin.Handler
	shares *shares
}

// ServeDNS implements plugin.Handler.
func (g *gate) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	source := address(w.RemoteAddr())
	if !g.shares.take(source) {
		shareExceeded.Inc()
		return dns.RcodeRefused, fmt.Errorf("%s has its share of forwarded queries under way", source)
	}
	defer g.shares.give(source)
	return g.Handler.ServeDNS(ctx, &keptWriter{w}, r)
}

// keptWriter is the way into the cache.
type keptWriter struct{ dns.ResponseWriter }

// WriteMsg implements dns.ResponseWriter: an answer too long to be kept by us is
// for nobody else to keep either (RFC 1035 section 3.2.1: TTL 0).
func (w *keptWriter) WriteMsg(m *dns.Msg) error {
	if m.Len() > maxKept {
		for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
			for _, rr := range section {
				if h := rr.Header(); h.Rrtype != dns.TypeOPT { // whose TTL is none
					h.Ttl = 0
				}
			}
		}
	}
	return w.ResponseWriter.WriteMsg(m)
}
