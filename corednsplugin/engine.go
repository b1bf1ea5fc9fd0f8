package oooi

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/densityops/oooi/corednsplugin/internal/agent"
	"github.com/densityops/oooi/corednsplugin/internal/report"
	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

// Version is the module's version.
const Version = "v0.1.0"

// Contract is the version of the contract with the operator.
const Contract = agent.Contract

// ReasonListenerNotBound means that a listening socket could not be bound to its
// device, so the server stays silent, or that the device has gone since.
const ReasonListenerNotBound = "ListenerNotBound"

// engine brings snapshots into force for one handler and reports about it.
type engine struct {
	o        *Oooi
	agent    *agent.Agent
	reporter *report.Reporter // nil without a resource to report to
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	end      func(error) // ends the process

	mu        sync.Mutex
	state     agent.State        // guarded by mu
	upstreams []snapshot.Problem // guarded by mu
	listener  error              // guarded by mu
	bound     bound              // guarded by mu: what the sockets hear
	away      error              // guarded by mu: which of it has gone
	reported  []snapshot.Problem // guarded by mu: what the metric says
	announced bool               // guarded by mu
	loops     []loop             // guarded by mu: found by the last probe
	node      fileStamp          // guarded by mu: resolv.conf as it was read
	asked     []netip.AddrPort   // guarded by mu: upstreams to probe
	probeAt   time.Time          // guarded by mu
	ctx       context.Context    //nolint:containedctx // the life between start and stop
}

func newEngine(o *Oooi) *engine {
	opts := o.options
	return &engine{o: o, end: end, agent: agent.New(agent.Options{
		File: opts.snapshot, Hub: opts.hub, HubCA: opts.hubCA, Token: opts.token,
		Namespace: opts.namespace, Name: opts.name, StateDir: opts.stateDir, ModuleVersion: Version,
	})}
}

// end ends the process, for whoever runs it to start it anew.
func end(why error) { log.Fatalf("Ending, to be started anew: %v", why) }

// start brings what lies on disk into force before the sockets are opened, so
// the first query finds it.
func (e *engine) start() error {
	e.ctx, e.cancel = context.WithCancel(context.Background())
	observeProblems(nil) // what the server had before a reload
	e.o.open.Store(!e.o.options.bind)
	if e.o.options.bind || e.o.options.announce {
		whenListening(e)
	}
	if e.o.options.name != "" {
		e.startReporter()
	}
	e.apply(e.agent.Load())
	e.wg.Go(func() { e.agent.Run(e.ctx, e.apply) })
	e.wg.Go(e.watch)
	return nil
}

func (e *engine) startReporter() {
	c, err := report.NewCluster(e.o.options.kubeconfig)
	if err != nil {
		if !errors.Is(err, report.ErrNoCluster) {
			log.Errorf("No status will be reported: %v", err)
		}
		return
	}
	e.reporter = report.New(c)
	e.wg.Go(func() { e.reporter.Run(e.ctx) })
}

// stop ends everything that start began.
func (e *engine) stop() error {
	e.cancel()
	e.wg.Wait()
	if s := e.o.serving.Load(); s != nil && s.upstream != nil {
		s.upstream.stopLater()
	}
	return nil
}

// listening is called when the servers' sockets are open.
func (e *engine) listening() {
	var to bound
	var err error
	if e.o.options.bind {
		if to, err = bindListeners(); err != nil {
			log.Errorf("Not answering: %v", err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listener, e.bound = err, to
	e.o.open.Store(err == nil)
	e.announceOnce()
	e.report()
}

// apply puts a state into force.
func (e *engine) apply(s agent.State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.o.serving.Load()
	e.state = s
	connected := 0.0
	if s.Connected {
		connected = 1
	}
	streamConnected.Set(connected)
	// By content: a file that somebody writes by hand may keep its version.
	if s.Config != nil && (before == nil || !reflect.DeepEqual(before.config, *s.Config)) {
		e.serve(before, *s.Config)
	}
	e.announceOnce()
	e.report()
}

// serve swaps the serving state. The caller holds mu.
func (e *engine) serve(before *serving, c snapshot.Config) {
	began := time.Now()
	e.node = stamp(e.o.options.resolvConf)
	all, problems := resolvers(&c, func() ([]string, error) { return nodeResolvers(e.o.options.resolvConf) },
		e.own(&c), e.o.options.port)
	if before == nil || !slices.Equal(all, e.asked) || !slices.Equal(before.config.Zones, c.Zones) {
		e.asked, e.probeAt = all, began.Add(probeDelay)
	}
	addrs, blocked, looping := withoutLoops(all, e.loops)
	problems = append(problems, looping...)
	var up, old *upstream
	if before != nil {
		old = before.upstream
	}
	switch {
	case old != nil && slices.Equal(old.addrs, addrs):
		up, old = old, nil
	case len(addrs) > 0:
		var err error
		if up, err = newUpstream(addrs, &e.o.shares); err != nil {
			log.Errorf("Upstreams cannot be used: %v", err)
			problems = append(problems, snapshot.Problem{Reason: ReasonNoUpstreams, Message: "the upstreams cannot be used"})
		}
	}
	e.upstreams = problems
	next := newServing(c, e.o.options.vlan, up)
	next.blocked = blocked
	e.o.serving.Store(next)
	if old != nil {
		old.stopLater()
	}
	now := time.Now()
	observeApplied(&c, began, now)
	log.Infof("Snapshot %s generation %d in force: %d names, %d upstreams", c.Version, c.Child.Generation, names(&c), len(addrs))
}

// watch looks for what no snapshot tells: a resolv.conf that changes, upstreams
// that lead back to us, and the state of the pod's network.
func (e *engine) watch() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	network := time.NewTicker(10 * time.Second)
	defer network.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case now := <-t.C:
			e.followDevices()
			e.followResolvConf()
			e.probeLoops(now)
		case <-network.C:
			e.mu.Lock()
			e.report()
			e.mu.Unlock()
		}
	}
}

// followDevices reports an address that has gone with its device. When it is back
// on another one, the process ends: what runs it starts it anew, on the new
// device.
func (e *engine) followDevices() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.bound) == 0 || e.listener != nil {
		return
	}
	held, err := listDevices()
	if err != nil {
		log.Warningf("Looking after the listeners: %v", err)
		return
	}
	if err := e.bound.deaf(held); err != nil {
		e.o.open.Store(false)
		e.end(err)
		return
	}
	before := e.away
	if e.away = e.bound.away(held); (e.away == nil) != (before == nil) {
		if e.away != nil {
			log.Errorf("Not heard: %v", e.away)
		}
		e.report()
	}
}

func (e *engine) followResolvConf() {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.o.serving.Load()
	if s == nil || !slices.ContainsFunc(s.config.Upstreams, func(u snapshot.Upstream) bool { return u.Node }) ||
		e.node == stamp(e.o.options.resolvConf) {
		return
	}
	e.serve(s, s.config)
	e.report()
}

// probeLoops probes when it is time to, without holding mu meanwhile.
func (e *engine) probeLoops(now time.Time) {
	e.mu.Lock()
	s := e.o.serving.Load()
	due := s != nil && e.o.open.Load() && !now.Before(e.probeAt)
	upstreams := e.asked
	if due {
		e.probeAt = now.Add(probeEvery)
	}
	e.mu.Unlock()
	if !due {
		return
	}
	found := e.o.probes.find(e.ctx, upstreams, suffixes(s.config.Zones))
	e.mu.Lock()
	defer e.mu.Unlock()
	if s = e.o.serving.Load(); e.ctx.Err() == nil && !slices.Equal(found, e.loops) {
		e.loops = found
		e.serve(s, s.config)
		e.report()
	}
}

// fileStamp tells one state of a file from another.
type fileStamp struct {
	size int64
	time int64
}

func stamp(file string) fileStamp {
	info, err := os.Stat(file)
	if err != nil {
		return fileStamp{}
	}
	return fileStamp{info.Size(), info.ModTime().UnixNano()}
}

// own is every address that is this server.
func (e *engine) own(c *snapshot.Config) []netip.Addr {
	own := append([]netip.Addr{c.ServerIP}, c.Own...)
	for _, a := range []netip.Addr{e.o.options.vlan, e.o.options.pod} {
		if a.IsValid() {
			own = append(own, a)
		}
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		log.Warningf("Listing addresses: %v", err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				own = append(own, ip.Unmap())
			}
		}
	}
	return own
}

// report gathers the problems and hands them on. The caller holds mu.
func (e *engine) report() {
	problems := slices.Concat(e.state.Problems, e.upstreams)
	if err := errors.Join(e.listener, e.away); err != nil {
		problems = append(problems, snapshot.Problem{Reason: ReasonListenerNotBound, Message: err.Error()})
	}
	s := e.o.serving.Load()
	if s != nil {
		problems = append(problems, s.config.Problems...)
		problems = append(problems, networkProblems(&s.config, e.o.options)...)
	}
	problems = snapshot.SortProblems(problems)
	if !slices.Equal(problems, e.reported) {
		e.reported = problems
		observeProblems(problems)
	}
	if e.reporter == nil {
		return
	}
	out := report.Object{
		APIVersion: report.APIVersion, Kind: report.Kind,
		Metadata: report.Metadata{Namespace: e.o.options.namespace, Name: e.o.options.name},
		Status:   report.Status{Agent: report.Agent{ModuleVersion: Version, Contract: Contract, Problems: report.Problems(problems)}},
	}
	if s != nil {
		out.Metadata.UID = s.config.Child.UID
		out.Status.Agent.ObservedVersion = s.config.Version
		out.Status.Agent.ObservedGeneration = s.config.Child.Generation
		out.Status.Agent.Names = names(&s.config)
	}
	e.reporter.Set(out)
}

// announceOnce starts to make our address known, once the sockets are open and
// a snapshot says what the VLAN is. The caller holds mu.
func (e *engine) announceOnce() {
	s := e.o.serving.Load()
	if e.announced || !e.o.options.announce || !e.o.open.Load() || s == nil {
		return
	}
	e.announced = true
	e.wg.Go(func() { announce(e.ctx, s.config.ServerIP, s.config.CIDR) })
}
