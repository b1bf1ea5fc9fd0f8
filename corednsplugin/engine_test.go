package oooi

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/corednsplugin/internal/agent"
	"github.com/densityops/oooi/corednsplugin/internal/report"
	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

// sink takes reports.
type sink chan report.Object

func (s sink) Write(_ context.Context, o report.Object) error { s <- o; return nil }

// engineFor is an engine that reports into a sink and waits for states.
func engineFor(t *testing.T) (*engine, sink) {
	t.Helper()
	o := &Oooi{metrics: newMetrics(), options: options{namespace: "ns", name: "dns", fence: true, port: 53, resolvConf: t.TempDir() + "/none"}}
	o.open.Store(true)
	e := newEngine(o)
	e.ctx, e.cancel = context.WithCancel(t.Context())
	written := make(sink, 100)
	e.reporter = report.New(written)
	e.wg.Go(func() { e.reporter.Run(e.ctx) })
	t.Cleanup(func() { require.NoError(t, e.stop()) })
	return e, written
}

func (s sink) until(t *testing.T, ok func(report.Agent) bool) report.Object {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		select {
		case o := <-s:
			if ok(o.Status.Agent) {
				return o
			}
		case <-limit:
			require.Fail(t, "no such report")
		}
	}
}

func state(t *testing.T, generation int64, upstreams ...netip.AddrPort) agent.State {
	t.Helper()
	c := config(t, "snapshot.json")
	c.Child = snapshot.Child{Namespace: "ns", Name: "dns", UID: "u", Generation: generation}
	c.Upstreams = nil
	for _, u := range upstreams {
		c.Upstreams = append(c.Upstreams, snapshot.Upstream{Addr: u})
	}
	return agent.State{Config: &c, Connected: true}
}

// Behaviours D7 and H4: a state is served and reported, with all that is wrong.
func TestStatesAreServedAndReported(t *testing.T) {
	r := startResolver(t, answers("198.51.100.9"))
	e, written := engineFor(t)

	e.apply(agent.State{Problems: []snapshot.Problem{{Reason: agent.ReasonHubRefused, Message: "m"}}})
	o := written.until(t, func(a report.Agent) bool { return len(a.Problems) == 1 })
	require.Empty(t, o.Status.Agent.ObservedVersion)
	require.Equal(t, "SERVFAIL", sum(ask(t, e.o, udp(onVLAN, fromWorker), query(apiOfA, dns.TypeA))))

	e.apply(state(t, 1, r.addr, netip.MustParseAddrPort(onVLAN+":53")))
	require.Equal(t, "NOERROR "+proxyOnVLAN, sum(ask(t, e.o, udp(onVLAN, fromWorker), query(apiOfA, dns.TypeA))))
	require.Equal(t, "NOERROR 198.51.100.9", sum(ask(t, e.o, udp(onVLAN, fromWorker), query("example.org.", dns.TypeA))))
	o = written.until(t, func(a report.Agent) bool { return a.ObservedGeneration == 1 })
	require.Equal(t, report.Metadata{Namespace: "ns", Name: "dns", UID: "u"}, o.Metadata)
	a := o.Status.Agent
	require.Equal(t, []any{Version, Contract, 13, e.o.serving.Load().config.Version}, []any{a.ModuleVersion, a.Contract, a.Names, a.ObservedVersion})
	require.Len(t, a.Problems, 1)
	require.Equal(t, ReasonUpstreamIsSelf, a.Problems[0].Reason)

	e.mu.Lock()
	e.listener = errors.New("no device")
	e.mu.Unlock()
	e.apply(state(t, 2))
	a = written.until(t, func(a report.Agent) bool { return a.ObservedGeneration == 2 }).Status.Agent
	require.Equal(t, []report.Problem{{Reason: ReasonListenerNotBound, Message: "no device"}}, a.Problems)
	require.Equal(t, "REFUSED", sum(ask(t, e.o, udp(onVLAN, fromWorker), query("example.org.", dns.TypeA))))
}

// A change that leaves the upstreams as they are keeps them with their caches
// and connections; one that changes them takes new ones.
func TestUpstreamsAreKept(t *testing.T) {
	one, two := startResolver(t, answers("198.51.100.1")), startResolver(t, answers("198.51.100.2"))
	e, _ := engineFor(t)
	e.apply(state(t, 1, one.addr))
	first := e.o.serving.Load()
	e.apply(state(t, 1, one.addr))
	require.Same(t, first, e.o.serving.Load(), "the same snapshot changes nothing")
	byHand := state(t, 1, one.addr)
	byHand.Config.TTL = 7
	e.apply(byHand)
	require.Equal(t, uint32(7), e.o.serving.Load().config.TTL, "a file whose writer forgot the version")
	e.apply(state(t, 2, one.addr))
	require.NotSame(t, first, e.o.serving.Load())
	require.Same(t, first.upstream, e.o.serving.Load().upstream)
	e.apply(state(t, 3, one.addr, two.addr))
	require.NotSame(t, first.upstream, e.o.serving.Load().upstream)
	e.apply(state(t, 4))
	require.Nil(t, e.o.serving.Load().upstream)
}
