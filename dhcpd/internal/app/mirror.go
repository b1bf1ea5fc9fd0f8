package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/densityops/oooi/dhcpd/internal/holder"
	"github.com/densityops/oooi/dhcpd/internal/lease"
	"github.com/densityops/oooi/dhcpd/internal/report"
	"github.com/densityops/oooi/dhcpd/internal/server"
)

const (
	// turn is how often the mirror looks whether something is due.
	turn = 200 * time.Millisecond
	// bindingsAfter joins bindings of a boot storm into few writes, well
	// below the 5 s in which each must be mirrored.
	bindingsAfter = time.Second
	// problemsAfter is how often a mere change of problems is written: what
	// anybody can cause on the VLAN must not flood the API server.
	problemsAfter = 5 * time.Second
	// figuresAfter is how often mere counters are written.
	figuresAfter = time.Minute
	// machinesWithin is how long a new holder waits for the machines to be
	// read before it gives addresses: what they use is theirs.
	machinesWithin = 30 * time.Second
	// ownerWithin is how long a new holder lets another station that answers
	// for our address keep it from giving addresses. It may be a predecessor,
	// which gives from its own block alone, and that rests here; but anybody on
	// the VLAN can claim the address, for as long as he likes.
	ownerWithin = 3 * time.Minute
	// callTime bounds each call to the API server.
	callTime = 10 * time.Second
	// stopTime bounds the farewell.
	stopTime = 5 * time.Second
	// errorPause is the least time between failing calls.
	errorPause = 2 * time.Second
	// keptName holds, for a restart of the container while the API server is
	// away, that this pod is the holder and what it has set aside.
	keptName = "coordination.json"
)

// statusClient reads and writes the resource's status.
type statusClient interface {
	Read(ctx context.Context) (report.State, error)
	Write(ctx context.Context, agent report.Agent, resourceVersion string) (report.State, error)
}

// kept is what a restarted container must know of its earlier life.
type kept struct {
	Holder string         `json:"holder"`
	Blocks []report.Block `json:"blocks"`
}

// mirror keeps the status and the coordination Lease, and decides from both
// what the table may do.
type mirror struct {
	app    *App
	srv    *server.Server
	status statusClient
	lease  *holder.Lease
	// complete: the journal of this pod was whole, so what it does not hold
	// was not given.
	complete bool
	// alone says whether no other station answers for our address.
	alone func() bool

	merged    bool // the status was read and taken over
	claimed   bool // machines' own reports count
	allocates bool
	began     time.Time
	heldAt    time.Time // when the Lease was taken
	renewAt   time.Time
	retryAt   time.Time
	written   facts // what was written last, figures aside
	figures   string
	listed    listing
	figuresAt time.Time // when anything was written last
	gen       uint64
	genAt     time.Time // when gen was seen to differ, zero = it does not
	said      string
}

// facts are what the status says, as JSON, but for mere figures.
type facts struct{ bindings, problems, rest string }

// listing is the bindings of one generation of the table: thousands of them are
// too many to be listed at each turn.
type listing struct {
	bindings []report.Binding
	json     string // empty = not listed yet
	gen      uint64
}

func (l *listing) update(t *lease.Table) {
	if l.json != "" && l.gen == t.Generation() {
		return
	}
	l.gen, l.bindings = t.Generation(), toBindings(t.Bindings())
	b, _ := json.Marshal(l.bindings) // plain structs always encode
	l.json = string(b)
}

func (a *App) newMirror(srv *server.Server, complete bool) (*mirror, error) {
	c, err := report.New(a.cluster, a.opts.Namespace, a.opts.Name)
	if err != nil {
		return nil, err
	}
	l, err := coordinationv1.NewForConfig(a.cluster)
	if err != nil {
		return nil, fmt.Errorf("making Lease client: %w", err)
	}
	return &mirror{
		app: a, srv: srv, status: c, complete: complete, began: a.now(), alone: srv.Alone,
		lease: &holder.Lease{Client: l.Leases(a.opts.Namespace), Name: a.opts.Lease, Identity: a.holder},
	}, nil
}

// run mirrors until ctx ends, and then says goodbye.
func (m *mirror) run(ctx context.Context) error {
	m.resume()
	t := time.NewTicker(turn)
	defer t.Stop()
	for {
		now := m.app.now()
		if now.After(m.retryAt) {
			if err := m.step(ctx, now); err != nil && ctx.Err() == nil {
				m.complain(err)
				m.retryAt = m.app.now().Add(errorPause)
			}
		}
		select {
		case <-ctx.Done():
			m.farewell(context.WithoutCancel(ctx))
			return nil
		case <-t.C:
		}
	}
}

// complain logs an error once.
func (m *mirror) complain(err error) {
	if err.Error() != m.said {
		m.said = err.Error()
		m.app.log.Warn("status is not mirrored; what is known is served", "err", err)
	}
}

// resume goes on where an earlier life of this pod was interrupted: it was the
// holder, and its journal is whole.
func (m *mirror) resume() {
	k, err := readKept(m.app.opts.StateDir)
	if err != nil || k.Holder != m.app.holder || !m.complete {
		m.srv.Allow(lease.Mode{Blocks: true})
		return
	}
	m.lease.Assume()
	m.srv.Do(func(t *lease.Table, _ time.Time) { t.Reclaim(ranges(k.Blocks)) })
	m.allow(true)
}

func (m *mirror) allow(allocate bool) {
	m.allocates = allocate
	m.srv.Allow(lease.Mode{Allocate: allocate, Blocks: true})
}

// step does what is due.
func (m *mirror) step(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if !now.Before(m.renewAt) {
		if err := m.renew(ctx, now); err != nil {
			return err
		}
	}
	if !m.merged {
		if err := m.merge(ctx); err != nil {
			return err
		}
	}
	if !m.lease.Holds() {
		return nil
	}
	if !m.claimed && (m.machinesKnown() || now.Sub(m.began) > machinesWithin) {
		m.claimed = true
		m.app.allowClaims(m.srv)
	}
	return m.write(ctx, now)
}

// renew looks after the Lease. What the status says is taken over whenever
// this pod becomes the holder, and now and then while another one is: it
// renews leases too, as the holder last knew them.
func (m *mirror) renew(ctx context.Context, now time.Time) error {
	held := m.lease.Holds()
	if err := m.lease.Try(ctx, now); err != nil {
		return err
	}
	m.renewAt = now.Add(holder.Every)
	switch holds := m.lease.Holds(); {
	case held && !holds:
		m.lost()
	case held != holds:
		m.merged, m.heldAt = false, now
	case !holds:
		m.merged = false
	}
	return nil
}

// merge takes over what the status says: all of it, unless it is this very
// pod's own and the journal has it.
func (m *mirror) merge(ctx context.Context) error {
	s, err := m.status.Read(ctx)
	if err != nil {
		return err
	}
	own := s.Agent.Holder == m.app.holder && m.complete
	m.srv.Do(func(t *lease.Table, now time.Time) {
		if own {
			t.Reclaim(ranges(s.Agent.Blocks))
			return
		}
		t.Merge(bindings(s.Agent.Bindings), now)
		t.Rest(ranges(s.Agent.Blocks), now)
		t.Sync(m.srv.Directory(), now) // no news of machines may come for long
	})
	m.merged = true
	m.app.log.Debug("status taken over", "holder", s.Agent.Holder, "own", own, "bindings", len(s.Agent.Bindings), "blocks", len(s.Agent.Blocks))
	return nil
}

// lost is called when another pod holds the Lease: it has all rights now.
func (m *mirror) lost() {
	m.app.log.Warn("another pod has taken over; known leases are renewed, no new ones given")
	m.allow(false)
	m.srv.Do(func(t *lease.Table, _ time.Time) { t.Relinquish() })
	m.merged, m.claimed, m.complete = false, false, false
	m.written = facts{}
	m.app.forbidClaims()
	removeKept(m.app.opts.StateDir)
}

func (m *mirror) machinesKnown() bool {
	x := m.app.index.Load()
	return x != nil && x.Complete(m.app.cfg.Load())
}

// write brings the status up to date, if it is not.
func (m *mirror) write(ctx context.Context, now time.Time) error {
	alone := m.alone()
	may := m.allocates || (m.claimed && (alone || m.waited(now)))
	agent, blocks, gen, low := m.gather(may)
	if !m.due(agent, gen, low, now) {
		return nil
	}
	if err := m.store(ctx, agent); err != nil {
		if apierrors.IsConflict(err) {
			return nil // written in between, most likely by the operator; next turn
		}
		return err
	}
	m.noteWritten(agent, gen, now)
	m.srv.Do(func(t *lease.Table, _ time.Time) { t.Confirm(blocks) })
	if err := writeKept(m.app.opts.StateDir, kept{Holder: m.app.holder, Blocks: agent.Blocks}); err != nil {
		m.complain(err)
	}
	if may && !m.allocates {
		m.allow(true)
		m.app.log.Info("giving addresses", "holder", m.app.holder, "alone", alone)
	}
	return nil
}

// waited says whether whoever answers for our address has been waited for: one
// lease time, after which its clients have renewed here, or a few minutes.
func (m *mirror) waited(now time.Time) bool {
	return now.Sub(m.heldAt) >= min(ownerWithin, m.app.cfg.Load().Lease.LeaseTime)
}

// gather reads what the status should say, and sets a block aside first where
// one is needed and we may.
func (m *mirror) gather(may bool) (agent report.Agent, blocks []lease.Range, gen uint64, low bool) {
	problems := m.app.reported(m.srv)
	m.srv.Do(func(t *lease.Table, now time.Time) {
		if may && (t.Low() || !m.allocates) {
			t.SetAside(now)
		}
		blocks, low = t.Blocks(), t.Unconfirmed() || may && !m.allocates
		gen = t.Generation()
		m.listed.update(t)
		agent = m.app.agent(t, problems, m.listed.bindings)
	})
	agent.Blocks = toBlocks(blocks)
	return agent, blocks, gen, low
}

// store writes the status over the one that is there, unless that is another
// pod's.
func (m *mirror) store(ctx context.Context, agent report.Agent) error {
	s, err := m.status.Read(ctx)
	if err != nil {
		return err
	}
	if other := s.Agent.Holder; other != "" && other != m.app.holder && m.written != (facts{}) {
		// Find out who has the Lease.
		m.merged, m.written, m.renewAt = false, facts{}, time.Time{}
		return fmt.Errorf("status was written by %s", other)
	}
	_, err = m.status.Write(ctx, agent, s.ResourceVersion)
	return err
}

// due says whether the status must be written now.
func (m *mirror) due(agent report.Agent, gen uint64, low bool, now time.Time) bool {
	says, figures := m.split(agent)
	if gen != m.gen && m.genAt.IsZero() {
		m.genAt = now
	}
	switch {
	case m.written == (facts{}) || low:
		return true
	case says == m.written:
		m.gen, m.genAt = gen, time.Time{}
	case m.changeDue(says, gen, now):
		return true
	}
	return figures != m.figures && now.Sub(m.figuresAt) >= figuresAfter
}

// changeDue says whether what is not written yet has waited long enough.
func (m *mirror) changeDue(says facts, gen uint64, now time.Time) bool {
	mere := says // as written, but for problems
	mere.problems = m.written.problems
	if mere == m.written {
		return now.Sub(m.figuresAt) >= problemsAfter
	}
	return gen == m.gen || now.Sub(m.genAt) >= bindingsAfter
}

func (m *mirror) noteWritten(agent report.Agent, gen uint64, now time.Time) {
	m.written, m.figures = m.split(agent)
	m.figuresAt, m.gen, m.genAt, m.said = now, gen, time.Time{}, ""
	m.app.metrics.Status(time.Now())
}

// split parts what must be written at once from what may wait.
func (m *mirror) split(agent report.Agent) (facts, string) {
	pool := agent.Pool
	problems, _ := json.Marshal(agent.Problems) // plain structs always encode
	agent.Pool, agent.Bindings, agent.Problems = nil, nil, nil
	rest, _ := json.Marshal(agent)
	figures, _ := json.Marshal(pool)
	return facts{bindings: m.listed.json, problems: string(problems), rest: string(rest)}, string(figures)
}

// farewell mirrors all and names no block, so that a successor has nothing to
// wait for.
func (m *mirror) farewell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if !m.lease.Holds() || !m.merged {
		return
	}
	m.allow(false)
	problems := m.app.reported(m.srv)
	var agent report.Agent
	m.srv.Do(func(t *lease.Table, _ time.Time) {
		t.Relinquish()
		agent = m.app.agent(t, problems, toBindings(t.Bindings()))
		agent.Blocks = toBlocks(t.Blocks())
	})
	err := m.finalWrite(ctx, agent)
	if err == nil {
		removeKept(m.app.opts.StateDir)
		err = m.lease.Release(ctx)
	}
	if err != nil {
		m.app.log.Warn("stopping without a farewell; the successor waits for the addresses that were set aside", "err", err)
	}
}

// finalWrite tries again when somebody else writes in between.
func (m *mirror) finalWrite(ctx context.Context, agent report.Agent) error {
	for {
		s, err := m.status.Read(ctx)
		if err != nil {
			return err
		}
		if s.Agent.Holder != m.app.holder {
			return errors.New("another pod has written the status")
		}
		if _, err = m.status.Write(ctx, agent, s.ResourceVersion); !apierrors.IsConflict(err) {
			return err
		}
	}
}

func readKept(dir string) (kept, error) {
	var k kept
	b, err := os.ReadFile(filepath.Join(dir, keptName))
	if err == nil {
		err = json.Unmarshal(b, &k)
	}
	return k, err
}

func writeKept(dir string, k kept) error {
	if dir == "" {
		return nil
	}
	b, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("keeping coordination: %w", err)
	}
	tmp := filepath.Join(dir, keptName+".new")
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("keeping coordination: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, keptName)); err != nil {
		return fmt.Errorf("keeping coordination: %w", err)
	}
	return nil
}

func removeKept(dir string) {
	if dir != "" {
		_ = os.Remove(filepath.Join(dir, keptName)) // absent is as good
	}
}
