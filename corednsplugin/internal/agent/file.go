package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/densityops/oooi/corednsplugin/internal/agentpb"
	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

// stateFile is the stream's last snapshot in the state directory.
const stateFile = "coredns-snapshot.json.gz"

// fileReader reads a file when it has changed. A mounted ConfigMap changes by a
// symbolic link that is swapped, so identity counts beside time and size.
type fileReader struct {
	path string
	last fs.FileInfo
	gone bool // reported as missing
}

func (f *fileReader) read() (s *agentpb.Snapshot, changed bool, err error) {
	if f.path == "" {
		return nil, false, nil
	}
	info, err := os.Stat(f.path)
	if err != nil {
		changed, f.gone = !f.gone, true
		return nil, changed, describe(err)
	}
	if f.last != nil && !f.gone && os.SameFile(f.last, info) && f.last.Size() == info.Size() && f.last.ModTime().Equal(info.ModTime()) {
		return nil, false, nil
	}
	data, err := ReadFile(f.path)
	if err != nil {
		changed, f.gone = !f.gone, true
		return nil, changed, describe(err)
	}
	f.last, f.gone = info, false
	s, err = snapshot.Decode(data)
	return s, true, err
}

// errIrregular is returned for a pipe, which would be waited for, a device, which
// may have no end, and a directory.
var errIrregular = errors.New("is no regular file")

// ReadFile reads a snapshot file as a whole. It neither waits nor reads more
// than a snapshot can have.
func ReadFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the file that the user names
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s %w", path, errIrregular)
	case info.Size() > snapshot.MaxBytes:
		return nil, fmt.Errorf("%s: %w", path, snapshot.ErrTooLarge)
	}
	return io.ReadAll(io.LimitReader(f, snapshot.MaxBytes))
}

// describe leaves out what is volatile in a file error.
func describe(err error) error {
	switch {
	case errors.Is(err, errIrregular):
		return errors.New("file is no regular file")
	case errors.Is(err, snapshot.ErrTooLarge):
		return snapshot.ErrTooLarge
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("file does not exist")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("file may not be read")
	default:
		return errors.New("file cannot be read")
	}
}

func (a *Agent) pollFile(ctx context.Context) {
	t := time.NewTicker(a.opts.Poll)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			a.send(ctx, event{tick: true})
		}
	}
}

func (a *Agent) loadState() *snapshot.Config {
	if a.opts.StateDir == "" {
		return nil
	}
	data, err := ReadFile(filepath.Join(a.opts.StateDir, stateFile))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			log.Warningf("Reading the kept snapshot: %v", err)
		}
		return nil
	}
	s, err := snapshot.Decode(data)
	if err != nil {
		log.Warningf("Reading the kept snapshot: %v", err)
		return nil
	}
	c, err := snapshot.Parse(s)
	if err != nil {
		log.Warningf("Reading the kept snapshot: %v", err)
		return nil
	}
	if a.opts.Name != "" && (c.Child.Namespace != a.opts.Namespace || c.Child.Name != a.opts.Name) {
		log.Warningf("The kept snapshot is of %s/%s and is not used", c.Child.Namespace, c.Child.Name)
		return nil
	}
	return &c
}

// saveState replaces the kept snapshot as a whole: a crash leaves the old one
// or the new one.
func (a *Agent) saveState(s *agentpb.Snapshot) error {
	if a.opts.StateDir == "" {
		return nil
	}
	data, err := snapshot.Encode(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.opts.StateDir, 0o750); err != nil {
		return fmt.Errorf("making state directory: %w", err)
	}
	tmp, err := os.CreateTemp(a.opts.StateDir, ".coredns-*")
	if err != nil {
		return fmt.Errorf("making temporary file: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone already when all went well
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(a.opts.StateDir, stateFile))
	}
	if err != nil {
		return fmt.Errorf("writing snapshot: %w", err)
	}
	return nil
}
