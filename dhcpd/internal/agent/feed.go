package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/densityops/oooi/dhcpd/internal/agentpb"
	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/regular"
)

const (
	// filePoll is how often the mounted file is looked at. The kubelet swaps
	// a symbolic link, so the content is what is compared.
	filePoll = 500 * time.Millisecond
	// saveRetry is when a snapshot that could not be kept is tried again.
	saveRetry = 5 * time.Second
	// savedName is the stream's last snapshot in the state directory.
	savedName = "snapshot.json"
)

// Options say where snapshots come from.
type Options struct {
	Log *slog.Logger
	// File is the mounted snapshot, StateDir where the stream's last is kept.
	// Either may be empty.
	File, StateDir string
	// Hub is the operator's address; empty = no stream.
	Hub           string
	CAFile, Token string
	Component     string
	ModuleVersion string
	Namespace     string
	Name          string
}

// Feed is the sources together.
type Feed struct {
	opts      Options
	file      *agentpb.Snapshot
	mark      []byte // its bytes
	said      string // about it, last
	stream    *agentpb.Snapshot
	connected bool
	inForce   *agentpb.Snapshot
	unsaved   *agentpb.Snapshot // the stream's last, when it could not be kept
	saveAt    time.Time         // when it is tried again
	online    atomic.Bool
	observed  atomic.Value // string
}

// New makes a feed.
func New(o Options) *Feed {
	f := &Feed{opts: o}
	f.observed.Store("")
	return f
}

// Connected says whether the stream is up.
func (f *Feed) Connected() bool { return f.online.Load() }

// event is news from the stream.
type event struct {
	snapshot *agentpb.Snapshot // nil = connection lost
}

// Run sends each snapshot that comes into force to out, until ctx ends. What
// take refuses stays out of force, and the last good one in it.
func (f *Feed) Run(ctx context.Context, take func(*agentpb.Snapshot) error) error {
	f.stream = f.loadSaved()
	events := make(chan event)
	if f.opts.Hub != "" {
		go f.follow(ctx, events)
	}
	t := time.NewTicker(filePoll)
	defer t.Stop()
	for {
		f.look()
		f.apply(take)
		f.saveAgain()
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			f.connected = e.snapshot != nil
			f.online.Store(f.connected)
			if f.connected {
				f.stream = e.snapshot
			}
		case <-t.C:
		}
	}
}

// apply puts the snapshot that counts in force, if it is another. The stream's is
// kept for a restart once it has proved good.
func (f *Feed) apply(take func(*agentpb.Snapshot) error) {
	s := choose(f.file, f.stream, f.connected)
	if s == nil || proto.Equal(s, f.inForce) {
		return
	}
	f.inForce = s
	if err := take(s); err != nil {
		f.opts.Log.Error("snapshot refused; the last good one stays", "snapshot", s.GetVersion(), "err", err)
		return
	}
	f.observed.Store(s.GetVersion())
	if s == f.stream && f.connected {
		f.save(s)
	}
}

// look reads the mounted file, if it has changed. One that cannot be read
// leaves the last good one in its place.
func (f *Feed) look() {
	if f.opts.File == "" {
		return
	}
	b, err := ReadFile(f.opts.File)
	if err == nil {
		if f.mark != nil && bytes.Equal(b, f.mark) {
			return
		}
		f.mark = b
		var s *agentpb.Snapshot
		if s, err = config.Decode(b); err == nil {
			f.file, f.said = s, ""
			return
		}
	}
	if err.Error() != f.said {
		f.said = err.Error()
		f.opts.Log.Warn("snapshot file cannot be read", "err", err)
	}
}

// ReadFile reads a snapshot's bytes. It refuses what is no regular file, never
// waits for somebody to write into a pipe, and reads no more than a snapshot has.
func ReadFile(path string) ([]byte, error) {
	b, err := regular.Read(path, config.MaxSnapshot)
	if err != nil {
		return nil, fmt.Errorf("reading snapshot: %w", err)
	}
	return b, nil
}

func (f *Feed) loadSaved() *agentpb.Snapshot {
	if f.opts.StateDir == "" {
		return nil
	}
	b, err := ReadFile(filepath.Join(f.opts.StateDir, savedName))
	var s *agentpb.Snapshot
	if err == nil {
		s, err = config.Decode(b)
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		f.opts.Log.Warn("saved snapshot cannot be read", "err", err)
		return nil
	case s.GetChild().GetNamespace() != f.opts.Namespace || s.GetChild().GetName() != f.opts.Name:
		return nil // of another resource
	}
	return s
}

// save keeps a snapshot of the stream, whole or not at all.
func (f *Feed) save(s *agentpb.Snapshot) {
	if f.opts.StateDir == "" {
		return
	}
	f.unsaved = nil
	if err := save(f.opts.StateDir, s); err != nil {
		f.opts.Log.Warn("snapshot cannot be kept", "err", err, "retry", saveRetry.String())
		f.unsaved, f.saveAt = s, time.Now().Add(saveRetry)
	}
}

// saveAgain keeps what could not be kept before: a disk that was full comes back.
func (f *Feed) saveAgain() {
	if f.unsaved != nil && !time.Now().Before(f.saveAt) {
		f.save(f.unsaved)
	}
}

func save(dir string, s *agentpb.Snapshot) error {
	b, err := config.Encode(s)
	if err != nil {
		return fmt.Errorf("encoding snapshot: %w", err)
	}
	tmp, err := os.CreateTemp(dir, savedName+".")
	if err != nil {
		return fmt.Errorf("saving snapshot: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already if all went well
	if _, err = tmp.Write(b); err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(dir, savedName))
	}
	if err != nil {
		return fmt.Errorf("saving snapshot: %w", err)
	}
	return nil
}
