package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/densityops/oooi/xds-manager/internal/agent"
	"github.com/densityops/oooi/xds-manager/internal/report"
	"github.com/densityops/oooi/xds-manager/internal/resolve"
	"github.com/densityops/oooi/xds-manager/internal/routes"
	"github.com/densityops/oooi/xds-manager/internal/translate"
	"github.com/densityops/oooi/xds-manager/internal/xds"
)

// The reasons of problems that only the running pod can have. They are API.
const (
	ReasonSnapshotInvalid     = "SnapshotInvalid"
	ReasonConfigRejected      = "ConfigRejected"
	ReasonAddressNotAssigned  = "AddressNotAssigned"
	ReasonForwardingEnabled   = "ForwardingEnabled"
	ReasonEndpointUnresolved  = "EndpointUnresolved"
	ReasonSnapshotNotKept     = "SnapshotNotKept"
	ReasonTranslationRejected = "TranslationRejected"
	ReasonVIPUnreachable      = "VIPUnreachable"
)

const (
	// truncated is how Envoy ends a rejection of more than some 4,000 bytes:
	// it begins with the resource, so the reason may be what is missing.
	truncated = "...(truncated)"

	turn            = time.Second
	resolveInterval = 30 * time.Second
	maxLookups      = 8
	// keepRetry is when a snapshot that could not be kept is tried again: a disk
	// that was full or away comes back.
	keepRetry = 5 * time.Second
)

// engine owns what the manager decides with. Everything reaches it through
// inbox and leaves it from its one goroutine.
type engine struct {
	app    *App
	logger *slog.Logger
	health health
	kick   chan struct{}

	mu       sync.Mutex // guards the inbox: update, envoy and observed
	update   agent.Update
	envoy    xds.State
	observed string

	// Below, run's goroutine alone.
	table       routes.Table
	translator  translate.Translator
	snapshot    *agent.Snapshot
	source      *agent.Snapshot // what published was made of
	published   translate.Resources
	publishedAt time.Time
	version     string
	problems    map[string][]routes.Problem
	resolved    map[string][]netip.Addr
	lookups     chan lookups
	resolving   bool
	resolvedAt  time.Time
	kept        string
	keepAfter   time.Time
	announced   netip.Addr
	lastEnv     translate.Env
	prober      *prober

	resolvedKept      map[string][]netip.Addr // what of resolved lies on disk
	resolvedKeepAfter time.Time
}

func newEngine(a *App) *engine {
	e := &engine{
		app: a, logger: a.o.Logger, kick: make(chan struct{}, 1), problems: map[string][]routes.Problem{},
		lookups: make(chan lookups, 1), health: newHealth(), prober: newProber(),
	}
	e.resolved = loadResolved(a.o.StateDir, a.o.Logger)
	e.resolvedKept = e.resolved
	e.health.turn(time.Now())
	return e
}

func (e *engine) wake() {
	select {
	case e.kick <- struct{}{}:
	default:
	}
}

// snapshotIs takes an update from the agent.
func (e *engine) snapshotIs(u agent.Update) {
	e.mu.Lock()
	e.update = u
	e.mu.Unlock()
	e.wake()
}

// envoyIs takes a state from the xDS server.
func (e *engine) envoyIs(s xds.State) {
	e.mu.Lock()
	e.envoy = s
	e.mu.Unlock()
	e.health.ready.Store(s.InForce)
	e.wake()
}

// observedVersion is the snapshot in force.
func (e *engine) observedVersion() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.observed
}

func (e *engine) inbox() (agent.Update, xds.State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.update, e.envoy
}

func (e *engine) run(ctx context.Context) error {
	tick := time.NewTicker(turn)
	defer tick.Stop()
	e.trustDisk()
	for {
		e.health.turn(time.Now())
		e.pass(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-e.kick:
		case <-tick.C:
		case l := <-e.lookups:
			e.resolving = false
			e.take(l)
		case answers := <-e.prober.answers:
			e.prober.take(answers)
		}
	}
}

// trustDisk lets the snapshot that an Envoy accepted in an earlier life stand
// in for what a fresh Envoy might reject.
func (e *engine) trustDisk() {
	s := e.app.agent.LastGood()
	if s == nil {
		return
	}
	t, _ := s.Table.Validate()
	env, err := e.env(t)
	if err != nil {
		return
	}
	if r, _, err := translate.Snapshot(t, env); err == nil {
		e.app.server.Trust(xds.Publication{Version: s.Version, Resources: r})
	}
}

// pass brings everything up to date with the inbox. It is cheap where nothing
// changed.
func (e *engine) pass(ctx context.Context) {
	u, state := e.inbox()
	e.set("agent", faults(u.Faults))
	if u.Snapshot != nil && u.Snapshot != e.snapshot {
		e.accept(u.Snapshot)
	}
	if e.snapshot != nil {
		e.startLookups(ctx)
		before := e.publishedAt
		if e.publish(ctx); e.publishedAt != before {
			state.Settled = false // it was looked at before that
		}
		e.keepResolved()
		e.prober.start(ctx, time.Now(), vips(e.table))
		e.set("probe", e.prober.problems(e.table))
		e.keep(u, state)
	}
	e.set("envoy", rejected(state.Rejections))
	if e.app.tuner != nil && state.Connected && e.snapshot != nil {
		e.app.tuner.set(settings{accessLog: e.table.AccessLog, logLevel: e.table.LogLevel, stream: state.Stream})
	}
	e.tell(state)
}

func faults(words []string) []routes.Problem {
	var out []routes.Problem
	for _, w := range words {
		out = append(out, routes.Problem{Reason: ReasonSnapshotInvalid, Message: w})
	}
	return out
}

func rejected(rs []xds.Rejection) []routes.Problem {
	var out []routes.Problem
	for _, r := range rs {
		hint := ""
		if strings.HasSuffix(r.Message, truncated) {
			hint = " (it cut its own words; its log has them whole)" // in front, since status is cut at the end
		}
		out = append(out, routes.Problem{Object: r.Name, Reason: ReasonConfigRejected, Message: fmt.Sprintf("envoy rejected %q%s: %s", r.Name, hint, r.Message)})
	}
	return out
}

func (e *engine) set(source string, ps []routes.Problem) {
	if len(ps) == 0 {
		delete(e.problems, source)
	} else {
		e.problems[source] = ps
	}
}

// accept makes a snapshot the one to be served, unless that would take every
// backend away because none of them is valid.
func (e *engine) accept(s *agent.Snapshot) {
	if e.snapshot != nil && e.snapshot.Version == s.Version && reflect.DeepEqual(e.snapshot.Table, s.Table) && reflect.DeepEqual(e.snapshot.Problems, s.Problems) {
		if e.source == e.snapshot {
			e.source = s // the same again, from a stream that is new
		}
		e.snapshot = s
		return
	}
	t, problems := s.Table.Validate()
	e.set("table", slices.Concat(s.Problems, problems))
	if len(t.Backends) == 0 && (len(s.Table.Backends) > 0 || len(s.Problems) > 0) {
		if s = e.app.agent.LastGood(); e.snapshot != nil || s == nil {
			return
		}
		t, _ = s.Table.Validate()
	}
	e.snapshot, e.table = s, t
	e.resolvedAt = time.Time{}
	e.logger.Info("snapshot accepted", "snapshot", s.Version, "backends", len(t.Backends), "problems", len(e.problems["table"]))
}

// env finds out what only the pod knows.
func (e *engine) env(t routes.Table) (translate.Env, error) {
	env := translate.Env{Resolved: usable(e.resolved, policyOf(t))}
	var err, perr error
	env.VLANDevice, err = deviceOf(t.ServerIP)
	if e.app.o.PodIP != "" {
		env.PodIP = netip.MustParseAddr(e.app.o.PodIP)
		env.PodDevice, perr = deviceOf(env.PodIP)
	}
	return env, errors.Join(err, perr)
}

func (e *engine) publish(ctx context.Context) {
	began := time.Now()
	env, err := e.env(e.table)
	if err != nil {
		e.set("device", []routes.Problem{{Reason: ReasonAddressNotAssigned, Message: err.Error()}})
		return
	}
	e.set("device", e.forwarding(env.VLANDevice.Name))
	e.startAnnouncing(ctx, env.VLANDevice.Name)
	// Not by version: a file that somebody writes by hand may keep its own.
	if e.source == e.snapshot && !e.stale(env) {
		return
	}
	r, problems, err := e.translator.Snapshot(e.table, env)
	e.set("translate", problems)
	if err != nil {
		e.set("translate", append(problems, routes.Problem{Reason: ReasonTranslationRejected, Message: err.Error()}))
		return
	}
	e.lastEnv, e.source = env, e.snapshot
	e.published, e.version, e.publishedAt = r, e.snapshot.Version, began
	e.mu.Lock()
	e.observed = e.version
	e.mu.Unlock()
	e.app.server.Publish(xds.Publication{Version: e.version, Resources: r})
	e.app.metrics.Applied(time.Now(), e.version, r.Backends, time.Since(began))
	e.logger.Info("published", "snapshot", e.version, "backends", r.Backends, "listeners", len(r.Listeners), "took", time.Since(began).String())
}

// stale says that the pod changed under a published table.
func (e *engine) stale(env translate.Env) bool {
	return env.VLANDevice != e.lastEnv.VLANDevice || env.PodDevice != e.lastEnv.PodDevice || env.PodIP != e.lastEnv.PodIP ||
		!maps.EqualFunc(env.Resolved, e.lastEnv.Resolved, slices.Equal[[]netip.Addr])
}

func (e *engine) forwarding(device string) []routes.Problem {
	if e.app.o.Fence == "on" || !forwards(device) {
		return nil
	}
	return []routes.Problem{{Reason: ReasonForwardingEnabled, Message: fmt.Sprintf(
		"the pod passes on packets that reach it through %s: allow the fence (NET_ADMIN for an init container), or append to the plugins of the NetworkAttachmentDefinition: "+
			`{"type":"tuning","sysctl":{"net.ipv4.conf.IFNAME.forwarding":"0"}}`, device)}}
}

func (e *engine) startAnnouncing(ctx context.Context, device string) {
	if e.announced == e.table.ServerIP {
		return
	}
	e.announced = e.table.ServerIP
	go announce(ctx, e.logger, device, e.table.ServerIP, e.table.CIDR, e.table.Reserved)
}

// keep stores a streamed snapshot once Envoy has accepted all of it: what lies
// on disk has been proven.
func (e *engine) keep(u agent.Update, state xds.State) {
	s := e.snapshot
	mark := fmt.Sprintf("%s %d %s", s.Version, s.Generation, s.UID)
	if !u.Streamed || u.Snapshot != s || e.app.o.StateDir == "" || e.kept == mark || !state.Settled || len(state.Rejections) > 0 || state.Accepted != s.Version {
		return
	}
	if time.Now().Before(e.keepAfter) {
		return
	}
	if err := agent.Keep(e.app.o.StateDir, *s); err != nil {
		e.keepAfter = time.Now().Add(keepRetry)
		e.logger.Error("snapshot not kept", "err", err, "retry", keepRetry.String())
		e.set("keep", []routes.Problem{{Reason: ReasonSnapshotNotKept, Message: err.Error()}})
		return
	}
	e.kept = mark
	e.set("keep", nil)
}

// tell brings metrics and status up to date.
func (e *engine) tell(state xds.State) {
	m := e.app.metrics
	m.Envoy(state.Connected, state.InForce, state.Accepted)
	if state.Settled && state.Accepted == e.version && !e.publishedAt.IsZero() {
		took := time.Since(e.publishedAt)
		m.Synced(took)
		e.logger.Info("accepted by envoy", "snapshot", e.version, "took", took.String())
		e.publishedAt = time.Time{}
	}
	var all []routes.Problem
	for _, ps := range e.problems {
		all = append(all, ps...)
	}
	all = routes.SortProblems(all)
	byReason := map[string]int{}
	for _, p := range all {
		byReason[p.Reason]++
	}
	m.Problems(byReason)
	if e.app.reporter == nil {
		return
	}
	out := report.Agent{
		ObservedVersion: e.version, ModuleVersion: e.app.o.Module, Contract: agent.Contract,
		AcceptedVersion: state.Accepted, Backends: int32(e.published.Backends),
	}
	if e.snapshot != nil {
		out.ObservedGeneration = e.snapshot.Generation
	}
	for _, p := range all {
		out.Problems = append(out.Problems, report.Problem{Reason: p.Reason, Message: p.Message})
	}
	e.app.reporter.Set(out)
}

// lookups are the answers of one round.
type lookups struct {
	found  map[string][]netip.Addr
	failed map[string]error
}

func (e *engine) hosts() []string {
	set := map[string]bool{}
	for _, b := range e.table.Backends {
		for _, ep := range b.Endpoints {
			if ep.Host != "" {
				set[ep.Host] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

func (e *engine) startLookups(ctx context.Context) {
	if e.resolving || time.Since(e.resolvedAt) < resolveInterval {
		return
	}
	e.resolvedAt = time.Now()
	hosts := e.hosts()
	if len(hosts) == 0 {
		e.resolved = map[string][]netip.Addr{}
		e.set("resolve", nil)
		return
	}
	e.resolving = true
	policy := policyOf(e.table)
	go func() { e.lookups <- lookUp(ctx, policy, hosts) }()
}

func lookUp(ctx context.Context, p resolve.Policy, hosts []string) lookups {
	out := lookups{found: map[string][]netip.Addr{}, failed: map[string]error{}}
	var mu sync.Mutex // guards out
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxLookups)
	for _, h := range hosts {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			addrs, err := p.Host(ctx, h)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				out.failed[h] = err
				return
			}
			out.found[h] = addrs
		})
	}
	wg.Wait()
	return out
}

// take merges answers: a name that fails keeps its last good addresses.
func (e *engine) take(l lookups) {
	next := map[string][]netip.Addr{}
	var problems []routes.Problem
	for _, h := range e.hosts() {
		switch {
		case l.found[h] != nil:
			next[h] = l.found[h]
			e.app.metrics.Lookup(true)
		case l.failed[h] != nil:
			e.app.metrics.Lookup(false)
			problems = append(problems, routes.Problem{Object: h, Reason: ReasonEndpointUnresolved, Message: fmt.Sprintf("endpoint %q has no usable address", h)})
			e.logger.Warn("endpoint not resolved", "host", h, "err", l.failed[h])
			fallthrough
		default:
			if old, ok := e.resolved[h]; ok {
				next[h] = old
			}
		}
	}
	e.resolved = next
	e.set("resolve", problems)
}
