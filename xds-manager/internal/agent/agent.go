package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// filePoll is how often the mounted snapshot is looked at, beside being told of
// changes in its directory.
const filePoll = 500 * time.Millisecond

const lastGoodFile = "snapshot.json.gz"

// Options configure an Agent. A Hub without an address is none.
type Options struct {
	File     string
	StateDir string
	Hub      Hub
	Logger   *slog.Logger
	// Observed is the version in force.
	Observed func() string
	// Connected is told whether the stream is open.
	Connected func(bool)
}

// Agent brings in snapshots.
type Agent struct {
	o Options
	// lastGood is what the state directory held at the start; it never changes.
	lastGood *Snapshot
	choice   choice
	current  *Snapshot
	// held is what the file held when it was last read; nil while it cannot be.
	held []byte
	// faults are what keeps an input from being used, by input.
	faults map[string]string
}

// Update is what the agent hands out: the snapshot that counts, and what is
// wrong with the inputs that do not.
type Update struct {
	// Snapshot is nil as long as there is none.
	Snapshot *Snapshot
	// Streamed says that it came by stream and is to be kept on disk.
	Streamed bool
	// Faults are words about inputs that could not be read.
	Faults []string
}

// New makes an agent and reads the last good snapshot from the state directory.
func New(o Options) *Agent {
	a := &Agent{o: o, faults: map[string]string{}}
	if o.StateDir == "" {
		return a
	}
	s, err := readLastGood(o.StateDir)
	switch {
	case err == nil && o.Hub.other(s):
		o.Logger.Warn("last good snapshot is another resource's and is not used", "namespace", s.Namespace, "name", s.Name)
	case err == nil:
		a.lastGood, a.choice.streamed = &s, &s
	case !errors.Is(err, fs.ErrNotExist):
		o.Logger.Warn("last good snapshot is unusable", "err", err)
	}
	return a
}

// LastGood is the snapshot from disk, nil if there was none at the start.
func (a *Agent) LastGood() *Snapshot { return a.lastGood }

func readLastGood(dir string) (Snapshot, error) {
	b, err := Read(filepath.Join(dir, lastGoodFile))
	if err != nil {
		return Snapshot{}, err
	}
	return Decode(b)
}

// Run hands every change of the snapshot that counts to apply, until ctx ends.
func (a *Agent) Run(ctx context.Context, apply func(Update)) error {
	events := make(chan event)
	if a.o.Hub.Address != "" {
		go a.o.Hub.follow(ctx, a.o.Logger, a.o.Observed, events)
	}
	tick := time.NewTicker(filePoll)
	defer tick.Stop()
	var told <-chan struct{}
	if a.o.File != "" {
		told = watchDir(ctx, a.o.File, a.o.Logger)
	}
	a.readMounted()
	a.offer(apply, true)
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			a.take(e)
			a.offer(apply, true)
		case <-told:
			a.offer(apply, a.readMounted())
		case <-tick.C:
			a.offer(apply, a.readMounted())
		}
	}
}

func (a *Agent) take(e event) {
	a.o.Connected(e.connected)
	a.choice.connected = e.connected && (e.snapshot != nil || a.choice.connected)
	delete(a.faults, "stream")
	switch {
	case e.snapshot != nil:
		a.choice.streamed = e.snapshot
	case e.connected:
		a.faults["stream"] = e.err.Error()
		a.o.Logger.Error("streamed snapshot refused", "err", e.err)
	}
}

// readMounted looks at the file and says whether anything changed.
func (a *Agent) readMounted() bool {
	if a.o.File == "" {
		return false
	}
	b, err := Read(a.o.File)
	if err != nil {
		a.held = nil // what comes back may be what it was
		return a.fault("file", err.Error())
	}
	if a.held != nil && bytes.Equal(b, a.held) {
		return false
	}
	a.held = b
	s, err := Decode(b)
	if err != nil {
		a.o.Logger.Error("mounted snapshot refused", "err", err)
		return a.fault("file", err.Error())
	}
	delete(a.faults, "file")
	a.choice.file = &s
	return true
}

func (a *Agent) fault(input, words string) bool {
	if a.faults[input] == words {
		return false
	}
	a.faults[input] = words
	return true
}

func (a *Agent) offer(apply func(Update), changed bool) {
	if !changed {
		return
	}
	s := a.choice.pick()
	if s != nil && (a.current == nil || a.current.Version != s.Version || a.current.Generation != s.Generation) {
		a.o.Logger.Info("snapshot chosen", "snapshot", s.Version, "generation", s.Generation, "streamed", s == a.choice.streamed)
	}
	a.current = s
	u := Update{Snapshot: s, Streamed: s != nil && s == a.choice.streamed}
	for _, input := range []string{"file", "stream"} {
		if w := a.faults[input]; w != "" {
			u.Faults = append(u.Faults, w)
		}
	}
	apply(u)
}

// Keep writes a snapshot to the state directory, whole or not at all.
func Keep(dir string, s Snapshot) error {
	b, err := encode(s)
	if err != nil {
		return err
	}
	if err := Replace(dir, lastGoodFile, b); err != nil {
		return fmt.Errorf("keeping snapshot: %w", err)
	}
	return nil
}

// Replace writes a file of the state directory, whole or not at all.
func Replace(dir, name string, b []byte) error {
	// One name always: an error that holds it is a problem in the status, and
	// must be the same words each time.
	f, err := os.OpenFile(filepath.Join(dir, name+".new"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
