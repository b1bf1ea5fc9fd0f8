package oooi

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

// ReasonForwardLoop means that an upstream sends some names back to this server.
const ReasonForwardLoop = "ForwardLoop"

// An upstream may lead back to us by ways that its address does not show: the
// cluster's DNS that forwards our domains to our Service. So each upstream is
// asked for names that nobody else knows, below the root and below our domains.
// What comes back is not forwarded again.
const (
	probeLabel    = "oooi-loop"
	probeEvery    = 5 * time.Minute
	probeDelay    = time.Second // after a change, so that many changes are one probe
	probeTimeout  = 2 * time.Second
	probeSuffixes = 16 // domains that are probed at most, the shortest first
	probeAtOnce   = 16
)

// probe is one question that is under way.
type probe struct {
	upstream netip.AddrPort
	suffix   string // "" is the root
	caught   atomic.Bool
}

// probes holds the questions that are under way, by their nonce.
type probes struct{ active sync.Map }

// caught tells whether a question is a probe of ours that came back. low is the
// name's wire form in lower case.
func (p *probes) caught(low []byte) bool {
	const nonceLen, labelAt = 32, 33
	if len(low) < labelAt+1+len(probeLabel) || low[0] != nonceLen || int(low[labelAt]) != len(probeLabel) ||
		string(low[labelAt+1:labelAt+1+len(probeLabel)]) != probeLabel {
		return false
	}
	v, ok := p.active.Load(string(low[1:labelAt]))
	if ok {
		v.(*probe).caught.Store(true) //nolint:forcetypeassert // nothing else is stored
	}
	return ok
}

// find asks every upstream below every suffix and returns what came back.
func (p *probes) find(ctx context.Context, upstreams []netip.AddrPort, suffixes []string) []loop {
	var wg sync.WaitGroup
	slots := make(chan struct{}, probeAtOnce)
	var asked []*probe
	for _, u := range upstreams {
		for _, s := range suffixes {
			q := &probe{upstream: u, suffix: s}
			asked = append(asked, q)
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				p.ask(ctx, q)
			})
		}
	}
	wg.Wait()
	var found []loop
	for _, q := range asked {
		if q.caught.Load() {
			found = append(found, loop{q.upstream, q.suffix})
		}
	}
	return found
}

// ask sends one probe; what is answered does not matter.
func (p *probes) ask(ctx context.Context, q *probe) {
	var raw [16]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return
	}
	nonce := hex.EncodeToString(raw[:])
	p.active.Store(nonce, q)
	defer p.active.Delete(nonce)
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	m := new(dns.Msg).SetQuestion(dns.Fqdn(strings.TrimSuffix(nonce+"."+probeLabel+"."+q.suffix, ".")), dns.TypeTXT)
	_, _, _ = new(dns.Client).ExchangeContext(ctx, m, q.upstream.String())
}

// loop is a finding: an upstream that sends what is below suffix back to us.
type loop struct {
	upstream netip.AddrPort
	suffix   string
}

// suffixes are the domains that are probed: the root, our zones and what they
// lie in.
func suffixes(zones []string) []string {
	var out []string
	for _, z := range zones {
		out = append(out, z)
		if _, p, ok := strings.Cut(z, "."); ok && strings.Contains(p, ".") {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	out = slices.Compact(out)
	return append([]string{""}, out[:min(len(out), probeSuffixes)]...)
}

// withoutLoops takes out the upstreams that send everything back, and names the
// domains that the others send back.
func withoutLoops(upstreams []netip.AddrPort, found []loop) (use []netip.AddrPort, blocked map[string]bool, problems []snapshot.Problem) {
	for _, u := range upstreams {
		if slices.Contains(found, loop{u, ""}) {
			problems = append(problems, snapshot.Problem{
				Reason:  ReasonUpstreamIsSelf,
				Message: fmt.Sprintf("upstream %s sends our queries back to this DNS server and is not used", u),
			})
			continue
		}
		use = append(use, u)
		for _, l := range found {
			if l.upstream != u {
				continue
			}
			if blocked == nil {
				blocked = map[string]bool{}
			}
			blocked[wire(l.suffix)] = true
			problems = append(problems, snapshot.Problem{
				Reason:  ReasonForwardLoop,
				Message: fmt.Sprintf("upstream %s sends names below %s back to this DNS server: those that are not ours are refused", u, l.suffix),
			})
		}
	}
	return use, blocked, problems
}

// isBlocked tells whether a name lies in a domain that would come back.
func (s *serving) isBlocked(low []byte) bool {
	if len(s.blocked) == 0 {
		return false
	}
	for off := 0; low[off] != 0; off += 1 + int(low[off]) {
		if s.blocked[string(low[off:])] {
			return true
		}
	}
	return false
}
