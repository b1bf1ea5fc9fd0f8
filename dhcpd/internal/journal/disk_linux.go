package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// directory is a disk that is a directory of the file system.
type directory string

func (d directory) path(name string) string { return filepath.Join(string(d), name) }

func (d directory) Read(name string) ([]byte, error) { return os.ReadFile(d.path(name)) }

func (d directory) Create(name string) (File, error) {
	f, err := os.OpenFile(d.path(name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{File: f, dir: d}, nil
}

func (d directory) Replace(from, to, keep string) error {
	if keep != "" {
		// Evidence is worth a try, and no more.
		_ = os.Remove(d.path(keep))
		_ = os.Link(d.path(to), d.path(keep))
	}
	if err := os.Rename(d.path(from), d.path(to)); err != nil {
		return err
	}
	f, err := os.Open(string(d))
	if err != nil {
		return fmt.Errorf("syncing directory: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("syncing directory: %w", err)
	}
	return nil
}

// osFile syncs data alone: the length does not change between rewrites.
type osFile struct {
	*os.File
	dir directory
}

// Lost compares the open file with the one that has the journal's name. Where
// that cannot be told, nothing is lost.
func (f osFile) Lost() bool {
	there, err := os.Stat(f.dir.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	ours, oerr := f.Stat()
	return err == nil && oerr == nil && !os.SameFile(there, ours)
}

func (f osFile) Sync() error { return unix.Fdatasync(int(f.Fd())) }
