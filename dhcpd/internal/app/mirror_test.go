package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/densityops/oooi/dhcpd/internal/agentpb"
	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/holder"
	"github.com/densityops/oooi/dhcpd/internal/lease"
	"github.com/densityops/oooi/dhcpd/internal/metrics"
	"github.com/densityops/oooi/dhcpd/internal/report"
	"github.com/densityops/oooi/dhcpd/internal/server"
	"github.com/densityops/oooi/dhcpd/internal/vmi"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// cluster is an API server: one status and one Lease, with optimistic locking.
type cluster struct {
	agent   report.Agent
	version int
	lease   coordinationv1.Lease
	leaseV  int
	writes  int
}

// link is one pod's way to it.
type link struct {
	c   *cluster
	cut bool
}

var errCut = errors.New("connection refused")

func (l *link) Read(context.Context) (report.State, error) {
	if l.cut {
		return report.State{}, errCut
	}
	return report.State{Agent: clone(l.c.agent), ResourceVersion: strconv.Itoa(l.c.version)}, nil
}

func (l *link) Write(_ context.Context, a report.Agent, v string) (report.State, error) {
	switch {
	case l.cut:
		return report.State{}, errCut
	case v != strconv.Itoa(l.c.version):
		return report.State{}, apierrors.NewConflict(schema.GroupResource{Resource: report.Resource}, "n", errors.New("changed"))
	}
	l.c.version++
	l.c.writes++
	l.c.agent = clone(a)
	return report.State{Agent: a, ResourceVersion: strconv.Itoa(l.c.version)}, nil
}

func clone(a report.Agent) report.Agent {
	var out report.Agent
	b, _ := json.Marshal(a)
	_ = json.Unmarshal(b, &out)
	return out
}

func (l *link) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	if l.cut {
		return nil, errCut
	}
	o := l.c.lease.DeepCopy()
	o.ResourceVersion = strconv.Itoa(l.c.leaseV)
	return o, nil
}

func (l *link) Update(_ context.Context, o *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	switch {
	case l.cut:
		return nil, errCut
	case o.ResourceVersion != strconv.Itoa(l.c.leaseV):
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "l", errors.New("changed"))
	}
	l.c.leaseV++
	l.c.lease = *o.DeepCopy()
	return o, nil
}

// pod is a server with its mirror, without sockets, on a clock of the test.
type pod struct {
	app  *App
	srv  *server.Server
	m    *mirror
	link *link
}

// bench makes pods on one cluster and one clock.
type bench struct {
	t   *testing.T
	c   *cluster
	now time.Time
	cfg *config.Config
	n   int
}

func newBench(t *testing.T) *bench {
	t.Helper()
	cfg, err := config.From(&agentpb.Snapshot{Version: "v1", Config: &agentpb.Snapshot_Dhcp{Dhcp: &agentpb.DHCPConfig{
		Cidr: "192.0.2.0/24", Gateway: "192.0.2.1", ServerIp: "192.0.2.2", LeaseSeconds: 1200,
		Range: &agentpb.AddressRange{Start: "192.0.2.100", End: "192.0.2.139"},
	}}})
	require.NoError(t, err)
	return &bench{t: t, c: &cluster{}, now: start, cfg: cfg}
}

func (b *bench) clock() time.Time { return b.now }

// pod starts a pod with no journal, as after the loss of its node. alone says
// whether no other station answers for the server's address.
func (b *bench) pod(dir string) *pod {
	b.n++
	a := &App{
		opts: Options{StateDir: dir, Fence: true}, log: slog.New(slog.DiscardHandler), now: b.clock,
		metrics: metrics.New("v", "c"), holder: "pod-" + strconv.Itoa(b.n),
	}
	a.cfg.Store(b.cfg)
	a.index.Store(new(vmi.Index))
	srv := server.New(server.Options{Log: a.log, Now: b.clock, Observe: a.metrics.Message}, b.cfg, nil)
	a.server.Store(srv)
	l := &link{c: b.c}
	p := &pod{app: a, srv: srv, link: l, m: &mirror{
		app: a, srv: srv, status: l, began: b.now, alone: func() bool { return true },
		lease: &holder.Lease{Client: l, Name: "l", Identity: a.holder},
	}}
	p.m.resume()
	return p
}

// pass lets time go by, with everybody's mirror at work.
func (b *bench) pass(d time.Duration, pods ...*pod) {
	for end := b.now.Add(d); b.now.Before(end); {
		b.now = b.now.Add(time.Second)
		for _, p := range pods {
			p.srv.Tick()
			_ = p.m.step(b.t.Context(), b.now) // failing is part of the game
		}
	}
}

func mac(n int) lease.MAC { return lease.MAC{2, 0, 0, 0, byte(n >> 8), byte(n)} }

// dora is a client's exchange with a pod.
func (p *pod) dora(n int) (netip.Addr, lease.Reason) {
	var a lease.Answer
	p.srv.Do(func(t *lease.Table, now time.Time) {
		c := lease.Client{MAC: mac(n)}
		if a = t.Offer(c, netip.Addr{}, now); a.Verdict == lease.Ack {
			a = t.Request(c, a.IP, now)
		}
	})
	return a.IP, a.Reason
}

func (p *pod) renew(n int, ip netip.Addr) lease.Answer {
	var a lease.Answer
	p.srv.Do(func(t *lease.Table, now time.Time) { a = t.Request(lease.Client{MAC: mac(n)}, ip, now) })
	return a
}

// behaviour C5: a binding is in the status within 5 s, renewals write nothing.
func TestBindingsAreMirroredAndRenewalsAreNot(t *testing.T) {
	b := newBench(t)
	p := b.pod("")
	_, reason := p.dora(1)
	require.Equal(t, lease.NotAllocating, reason, "nothing before the Lease")
	b.pass(3*time.Second, p)
	require.Equal(t, "pod-1", b.c.agent.Holder)
	require.Equal(t, []report.Block{{Start: "192.0.2.100", End: "192.0.2.104"}}, b.c.agent.Blocks)
	ip, reason := p.dora(1)
	require.Equal(t, lease.OK, reason)
	b.pass(5*time.Second, p)
	require.Equal(t, []report.Binding{{MACAddress: mac(1).String(), IP: ip.String()}}, b.c.agent.Bindings)
	require.Equal(t, []report.Block{{Start: "192.0.2.101", End: "192.0.2.104"}}, b.c.agent.Blocks)
	require.Equal(t, "1/40", b.c.agent.Pool.ActiveOfTotal)
	b.pass(2*time.Minute, p)
	before := b.c.writes
	for range 10 {
		require.Equal(t, lease.Ack, p.renew(1, ip).Verdict)
		b.pass(time.Minute, p)
	}
	require.Equal(t, before, b.c.writes)
}

// behaviour C5, hazard 39, case C15: while the API is away, for three lease
// times, the block is given from; then new clients get nothing, and known ones
// go on.
func TestWithoutTheAPIOnlyTheBlockIsGiven(t *testing.T) {
	b := newBench(t)
	p := b.pod("")
	b.pass(3*time.Second, p)
	known, _ := p.dora(50)
	b.pass(3*time.Second, p)
	p.link.cut = true
	for range 12 {
		b.pass(5*time.Minute, p)
		require.Equal(t, lease.Answer{Verdict: lease.Ack, Reason: lease.OK, IP: known}, p.renew(50, known))
	}
	var got []netip.Addr
	for n := range 10 {
		if ip, reason := p.dora(n); reason == lease.OK {
			got = append(got, ip)
		} else {
			require.Equal(t, lease.NotSetAside, reason)
		}
	}
	require.Len(t, got, 4)
	b.pass(5*time.Minute, p)
	require.Equal(t, lease.Ack, p.renew(50, known).Verdict)
	p.link.cut = false
	b.pass(5*time.Second, p)
	ip, reason := p.dora(20)
	require.Equal(t, lease.OK, reason)
	require.NotContains(t, append(got, known), ip)
}

// behaviour C9: mere counters are written at most once a minute.
func TestFiguresAreWrittenOnceAMinute(t *testing.T) {
	b := newBench(t)
	p := b.pod("")
	b.pass(2*time.Minute, p)
	before := b.c.writes
	for i := range 50 {
		p.srv.Do(func(t *lease.Table, now time.Time) {
			if t.Withdraw(mac(1)); i%2 == 0 {
				t.Offer(lease.Client{MAC: mac(1)}, netip.Addr{}, now)
			}
		})
		b.pass(time.Second, p)
	}
	require.LessOrEqual(t, b.c.writes-before, 2, "the figures once, and the block once, of fifty changes")
	p.srv.Do(func(t *lease.Table, now time.Time) { t.Offer(lease.Client{MAC: mac(1)}, netip.Addr{}, now) })
	b.pass(time.Minute, p)
	require.Equal(t, 39, b.c.agent.Pool.Free)
}

// behaviour C9: problems that come and go all the time are not written each time.
func TestProblemsThatNeverRestAreWrittenNowAndThen(t *testing.T) {
	b := newBench(t)
	p := b.pod("")
	b.pass(time.Minute, p)
	before := b.c.writes
	for i := range 60 {
		cfg := *b.cfg
		cfg.Problems = []config.Problem{{Reason: "InvalidOption", Message: strconv.Itoa(i)}}
		p.app.cfg.Store(&cfg)
		b.pass(time.Second, p)
	}
	require.LessOrEqual(t, b.c.writes-before, 14, "one in five seconds, and the figures")
	b.pass(6*time.Second, p)
	require.Equal(t, []report.Problem{{Reason: "InvalidOption", Message: "59"}}, b.c.agent.Problems)
}

// behaviour C5: pod and disk are gone. Who had a lease keeps it, mirrored or
// not, and nobody gets it twice.
func TestAPodThatLostEverythingGivesNothingTwice(t *testing.T) {
	b := newBench(t)
	p := b.pod("")
	b.pass(3*time.Second, p)
	mirrored, _ := p.dora(1)
	b.pass(5*time.Second, p)
	late, _ := p.dora(2) // not mirrored any more
	next := b.pod("")
	b.pass(10*time.Second, next)
	_, reason := next.dora(3)
	require.Equal(t, lease.NotAllocating, reason, "the old one's Lease still counts")
	require.Equal(t, lease.Ack, next.renew(1, mirrored).Verdict, "but what is known is renewed")
	b.pass(20*time.Second, next)
	require.Equal(t, "pod-2", b.c.agent.Holder)
	for n := 10; n < 40; n++ {
		ip, _ := next.dora(n)
		require.NotEqual(t, mirrored, ip)
		require.NotEqual(t, late, ip)
		b.pass(2*time.Second, next)
	}
	require.Equal(t, lease.Ack, next.renew(2, late).Verdict)
}

// behaviours C5, C6: a clean stop leaves nothing to wait for.
func TestACleanStopLetsTheNextPodStartAtOnce(t *testing.T) {
	b := newBench(t)
	p := b.pod(t.TempDir())
	b.pass(3*time.Second, p)
	ip, _ := p.dora(1)
	p.m.farewell(t.Context())
	require.Empty(t, b.c.agent.Blocks)
	require.Len(t, b.c.agent.Bindings, 1)
	next := b.pod("")
	b.pass(2*time.Second, next)
	require.Equal(t, "pod-2", b.c.agent.Holder)
	other, reason := next.dora(2)
	require.Equal(t, lease.OK, reason)
	require.NotEqual(t, ip, other)
}

// behaviour C6: a pod with the Lease gives nothing while another station
// answers for its address.
func TestNothingIsGivenWhileAnotherAnswersForTheAddress(t *testing.T) {
	b := newBench(t)
	p := b.pod("")
	alone := false
	p.m.alone = func() bool { return alone }
	b.pass(10*time.Second, p)
	require.Equal(t, "pod-1", b.c.agent.Holder)
	require.Empty(t, b.c.agent.Blocks)
	_, reason := p.dora(1)
	require.Equal(t, lease.NotAllocating, reason)
	alone = true
	b.pass(2*time.Second, p)
	_, reason = p.dora(1)
	require.Equal(t, lease.OK, reason)
	alone = false
	_, reason = p.dora(2)
	require.Equal(t, lease.OK, reason, "once it gives, a station that claims its address does not stop it")
}

// behaviour C6: whoever goes on claiming our address cannot keep a pod with the
// Lease from giving addresses for ever; it gives none of its predecessor's.
func TestAStationThatClaimsTheAddressIsWaitedForOnlySoLong(t *testing.T) {
	for _, c := range []struct {
		name  string
		lease time.Duration
		want  time.Duration
	}{
		{"a few minutes", 20 * time.Minute, 3 * time.Minute},
		{"a lease time, where that is less", time.Minute, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.cfg.Lease.LeaseTime = c.lease
			old := b.pod("")
			b.pass(3*time.Second, old)
			theirs, _ := old.dora(1)
			b.pass(5*time.Second, old)
			late, _ := old.dora(2)
			next := b.pod("")
			next.m.alone = func() bool { return false }
			for !next.m.lease.Holds() {
				b.pass(time.Second, next)
			}
			taken := b.now
			for reason := lease.NotAllocating; reason == lease.NotAllocating; {
				b.pass(time.Second, next)
				require.Less(t, b.now.Sub(taken), c.want+5*time.Second)
				var ip netip.Addr
				ip, reason = next.dora(3)
				require.NotEqual(t, theirs, ip)
				require.NotEqual(t, late, ip)
			}
			require.GreaterOrEqual(t, b.now.Sub(taken), c.want)
			require.Equal(t, "pod-2", b.c.agent.Holder)
		})
	}
}

// behaviour C6: the pod that comes back from a partition never writes over its
// successor, and gives nothing any more.
func TestAPodThatComesBackOverwritesNothing(t *testing.T) {
	b := newBench(t)
	old := b.pod("")
	b.pass(3*time.Second, old)
	old.link.cut = true
	next := b.pod("")
	b.pass(40*time.Second, old, next)
	require.Equal(t, "pod-2", b.c.agent.Holder)
	mine, _ := next.dora(1)
	b.pass(3*time.Second, old, next)
	theirs, reason := old.dora(2)
	require.Equal(t, lease.OK, reason, "cut off, it goes on with its own block")
	require.NotEqual(t, mine, theirs)
	old.link.cut = false
	b.pass(10*time.Second, old, next)
	require.Equal(t, "pod-2", b.c.agent.Holder)
	require.Contains(t, b.c.agent.Bindings, report.Binding{MACAddress: mac(1).String(), IP: mine.String()})
	_, reason = old.dora(3)
	require.Equal(t, lease.NotAllocating, reason)
	require.Equal(t, lease.Ack, next.renew(2, theirs).Verdict, "the successor takes the client over")
	require.Equal(t, lease.Ack, old.renew(1, mine).Verdict, "and the old one renews as the successor knows it")
}

// behaviour C5: the container restarts while the API is away.
func TestARestartedContainerGoesOnWithItsBlock(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	p := b.pod(dir)
	b.pass(3*time.Second, p)
	ip, _ := p.dora(1)
	var records []lease.Record
	p.srv.Do(func(t *lease.Table, _ time.Time) { records = t.Records() })

	again := b.pod(dir)
	again.app.holder, again.m.lease.Identity, again.m.complete = p.app.holder, p.app.holder, true
	again.link.cut = true
	again.srv.Do(func(t *lease.Table, now time.Time) { t.Restore(records, now) })
	again.m.resume()
	require.Equal(t, lease.Ack, again.renew(1, ip).Verdict)
	other, reason := again.dora(2)
	require.Equal(t, lease.OK, reason)
	require.NotEqual(t, ip, other)
}

// behaviours C5, C6: two pods, partitions and losses at any moment, clients
// that talk to either. No address is given twice as long as a client talks to
// one of them, and no partition outlasts a lease.
func TestPartitionsAndLossesGiveNothingTwice(t *testing.T) {
	for seed := range uint64(60) {
		b := newBench(t)
		r := rand.New(rand.NewPCG(seed, 3))
		pods := []*pod{b.pod(""), b.pod("")}
		type belief struct {
			ip    netip.Addr
			until time.Time
		}
		beliefs := map[int]belief{}
		told := func(n int, ip netip.Addr) {
			for m, x := range beliefs {
				if m != n && x.ip == ip && x.until.After(b.now) {
					t.Fatalf("seed %d: %s is given to %d while %d has it", seed, ip, n, m)
				}
			}
			beliefs[n] = belief{ip, b.now.Add(20 * time.Minute)}
		}
		for range 400 {
			i := r.IntN(2)
			p := pods[i]
			switch n := r.IntN(30); r.IntN(8) {
			case 0, 1, 2:
				x, ok := beliefs[n]
				if ok && x.until.After(b.now) {
					if a := p.renew(n, x.ip); a.Verdict == lease.Ack {
						told(n, a.IP)
					}
				} else if ip, reason := p.dora(n); reason == lease.OK {
					told(n, ip)
				}
			case 3:
				p.link.cut = r.IntN(2) == 0
			case 4:
				pods[i] = b.pod("")
			default:
				b.pass(time.Duration(1+r.IntN(25))*time.Second, pods...)
			}
			// Everybody renews in time, with whichever pod answers.
			for n, x := range beliefs {
				if left := x.until.Sub(b.now); left > 0 && left < 10*time.Minute {
					for _, q := range pods {
						if q.renew(n, x.ip).Verdict == lease.Ack {
							told(n, x.ip)
							break
						}
					}
				}
			}
		}
	}
}
