package agent

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	clog "github.com/coredns/coredns/plugin/pkg/log"

	"github.com/densityops/oooi/corednsplugin/internal/agentpb"
	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

var log = clog.NewWithPlugin("oooi")

// Component is our name in the handshake.
const Component = "coredns"

// Contract is the version of the contract that we speak.
const Contract = "agent.v1"

// Reasons of problems that getting a snapshot can have.
const (
	// ReasonSnapshotInvalid: the newest snapshot cannot be used, an older one serves.
	ReasonSnapshotInvalid = "SnapshotInvalid"
	// ReasonContractMismatch: the operator speaks another contract.
	ReasonContractMismatch = "ContractMismatch"
	// ReasonHubRefused: the operator does not accept our token.
	ReasonHubRefused = "HubRefused"
	// ReasonHubCredentials: CA bundle or token cannot be read.
	ReasonHubCredentials = "HubCredentials"
	// ReasonSnapshotNotKept: the stream's last snapshot is not on disk.
	ReasonSnapshotNotKept = "SnapshotNotKept"
)

// Options say where snapshots come from. An empty field switches its source off.
type Options struct {
	File          string        // mounted snapshot
	Hub           string        // host:port of the operator
	HubCA         string        // PEM bundle
	Token         string        // ServiceAccount token
	Namespace     string        // of our own resource
	Name          string        // of our own resource
	StateDir      string        // keeps the stream's last snapshot
	ModuleVersion string        // for the handshake
	Poll          time.Duration // how often the file is looked at
}

// State is what is known now.
type State struct {
	Config    *snapshot.Config // nil before the first good snapshot
	Connected bool
	Problems  []snapshot.Problem
}

// Agent collects snapshots. Load must be called before Run.
type Agent struct {
	opts   Options
	events chan event

	observed atomic.Pointer[string] // version in force, for the handshake

	cand    candidates
	file    fileReader
	invalid map[string]string // source -> what is wrong with its newest snapshot
	refused *snapshot.Problem // why the operator does not let us in
	fresh   *agentpb.Snapshot // of the stream, to be kept
	keepAt  time.Time         // not before
	unkept  bool              // the stream's last snapshot could not be written
}

// event is what the sources tell the one goroutine that decides; an empty one,
// that it is time to look at what it has to do.
type event struct {
	snapshot *agentpb.Snapshot // from the stream
	down     bool              // the stream ended
	refused  *snapshot.Problem // with down: why
	tick     bool              // time to look at the file
}

// New returns an agent that has not looked at anything yet.
func New(opts Options) *Agent {
	if opts.Poll <= 0 {
		opts.Poll = 50 * time.Millisecond // one stat(2); the file is the fallback of the stream
	}
	return &Agent{opts: opts, events: make(chan event), invalid: map[string]string{}, file: fileReader{path: opts.File}}
}

// Load reads what lies on disk.
func (a *Agent) Load() State {
	a.cand.stream = a.loadState()
	a.readFile()
	return a.state()
}

// Run watches all sources until ctx ends and calls notify, from one goroutine,
// after everything that may have changed the state.
func (a *Agent) Run(ctx context.Context, notify func(State)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if a.opts.File != "" {
		wg.Go(func() { a.pollFile(ctx) })
	}
	if a.opts.Hub != "" && a.opts.Name != "" {
		wg.Go(func() { a.dialHub(ctx) })
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-a.events:
			if a.handle(e) {
				notify(a.state())
			}
			if a.keep(ctx) { // after it is in force: a slow disk delays nothing
				notify(a.state())
			}
		}
	}
}

// send hands an event over, or gives up when ctx ends.
func (a *Agent) send(ctx context.Context, e event) {
	select {
	case <-ctx.Done():
	case a.events <- e:
	}
}

// handle says whether anything may have changed.
func (a *Agent) handle(e event) bool {
	switch {
	case e.tick:
		return a.readFile()
	case e.down:
		changed := a.cand.connected || e.refused != a.refused
		a.cand.connected, a.refused = false, e.refused
		return changed
	case e.snapshot != nil:
		a.fromStream(e.snapshot)
		return true
	}
	return false
}

func (a *Agent) fromStream(s *agentpb.Snapshot) {
	a.refused = nil
	c, err := snapshot.Parse(s)
	if err != nil {
		// The stream alone counts while it is up, but nothing can be served
		// from this: what serves stays.
		log.Errorf("Snapshot of the stream refused: %v", err)
		a.invalid["stream"] = err.Error()
		return
	}
	delete(a.invalid, "stream")
	a.cand.stream, a.cand.connected = &c, true
	a.fresh, a.keepAt = s, time.Time{}
}

// keepRetry is when a snapshot that could not be written is tried again: a disk
// that was full comes back.
const keepRetry = 5 * time.Second

// keep writes a snapshot of the stream that is not on disk yet. It says whether
// the outcome differs from that of the last.
func (a *Agent) keep(ctx context.Context) bool {
	if a.fresh == nil || time.Now().Before(a.keepAt) {
		return false
	}
	before, err := a.unkept, a.saveState(a.fresh)
	if a.unkept = err != nil; a.unkept {
		log.Warningf("Keeping the snapshot on disk, again in %v: %v", keepRetry, err)
		a.keepAt = time.Now().Add(keepRetry)
		time.AfterFunc(keepRetry, func() { a.send(ctx, event{}) })
	} else {
		a.fresh = nil
	}
	return a.unkept != before
}

func (a *Agent) readFile() bool {
	s, changed, err := a.file.read()
	if !changed {
		return false
	}
	if err == nil {
		var c snapshot.Config
		if c, err = snapshot.Parse(s); err == nil {
			delete(a.invalid, "file")
			a.cand.file = &c
			return true
		}
	}
	log.Errorf("Snapshot file refused: %v", err)
	a.invalid["file"] = err.Error()
	return true
}

func (a *Agent) state() State {
	s := State{Config: choose(a.cand), Connected: a.cand.connected}
	for source, why := range a.invalid {
		s.Problems = append(s.Problems, snapshot.Problem{Reason: ReasonSnapshotInvalid, Message: source + ": " + why})
	}
	if s.Config != nil {
		a.observed.Store(&s.Config.Version)
	}
	if a.refused != nil {
		s.Problems = append(s.Problems, *a.refused)
	}
	if a.unkept {
		s.Problems = append(s.Problems, snapshot.Problem{
			Reason:  ReasonSnapshotNotKept,
			Message: "the state directory cannot be written: a restart without the operator serves an older snapshot or the file's",
		})
	}
	return s
}
