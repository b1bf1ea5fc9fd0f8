package app

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/densityops/oooi/xds-manager/internal/routes"
)

const (
	probeInterval = 30 * time.Second
	probeTimeout  = 2 * time.Second
	maxProbes     = 8
	// tellAfter misses in a row: a VIP that moves to another node misses one.
	tellAfter = 2
)

// prober knows which endpoints on the VLAN itself (the VIPs of *.apps) take
// connections. An address that is assigned and announced may still be out of
// reach, where a port of the VLAN's switch drops what does not come from its
// VM's own address (metallb/metallb#1239, ovn-kubernetes/ovn-kubernetes#3926).
// Only the engine's goroutine uses it.
type prober struct {
	answers chan map[netip.AddrPort]bool
	busy    bool
	last    time.Time
	misses  map[netip.AddrPort]int
}

func newProber() *prober {
	return &prober{answers: make(chan map[netip.AddrPort]bool, 1), misses: map[netip.AddrPort]int{}}
}

// vips are the table's endpoints on the VLAN.
func vips(t routes.Table) []netip.AddrPort {
	var out []netip.AddrPort
	seen := map[netip.AddrPort]bool{}
	for _, b := range t.Backends {
		for _, e := range b.Endpoints {
			if at := netip.AddrPortFrom(e.Addr, e.Port); t.CIDR.Contains(e.Addr) && !seen[at] {
				seen[at] = true
				out = append(out, at)
			}
		}
	}
	return out
}

// start asks all of them, unless that was done a moment ago.
func (p *prober) start(ctx context.Context, now time.Time, targets []netip.AddrPort) {
	if len(targets) == 0 {
		clear(p.misses)
		return
	}
	if p.busy || now.Sub(p.last) < probeInterval {
		return
	}
	p.busy, p.last = true, now
	go func() { p.answers <- connectTo(ctx, targets) }()
}

// take remembers a round of answers; endpoints that were not asked are forgotten.
func (p *prober) take(answers map[netip.AddrPort]bool) {
	p.busy = false
	misses := map[netip.AddrPort]int{}
	for at, ok := range answers {
		if !ok {
			misses[at] = p.misses[at] + 1
		}
	}
	p.misses = misses
}

// problems are the table's endpoints that were missed again and again.
func (p *prober) problems(t routes.Table) []routes.Problem {
	var out []routes.Problem
	for _, b := range t.Backends {
		for _, e := range b.Endpoints {
			if at := netip.AddrPortFrom(e.Addr, e.Port); t.CIDR.Contains(e.Addr) && p.misses[at] >= tellAfter {
				out = append(out, routes.Problem{Object: b.Name, Reason: ReasonVIPUnreachable, Message: fmt.Sprintf(
					"backend %q: %s on the VLAN takes no connection from the proxy; does a speaker announce it, and may its VM's port send for it?", b.Name, at)})
			}
		}
	}
	return out
}

// connectTo opens and closes one TCP connection to each.
func connectTo(ctx context.Context, targets []netip.AddrPort) map[netip.AddrPort]bool {
	out := map[netip.AddrPort]bool{}
	var mu sync.Mutex // guards out
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxProbes)
	dialer := net.Dialer{Timeout: probeTimeout}
	for _, at := range targets {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			conn, err := dialer.DialContext(ctx, "tcp", at.String())
			if err == nil {
				_ = conn.Close()
			}
			mu.Lock()
			defer mu.Unlock()
			out[at] = err == nil
		})
	}
	wg.Wait()
	return out
}
