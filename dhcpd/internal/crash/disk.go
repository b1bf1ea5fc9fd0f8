// Package crash is a disk for tests that dies in the middle of things: a crash
// loses whatever was not synced, and of a write under way any part may be there.
//
// Invariant: what was synced, or replaced, is there after every crash.
package crash

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
)

// The errors of a disk.
var (
	ErrCrash = errors.New("crash")
	ErrFull  = errors.New("no space left on device")
)

// forever is a budget that no test uses up.
const forever = 1 << 30

// File is an open file.
type File = interface {
	WriteAt(p []byte, off int64) (int, error)
	Sync() error
	Close() error
}

// Disk is a directory.
type Disk struct {
	Rand *rand.Rand
	// Budget is how many more operations succeed before the crash.
	Budget int
	// Crashed says that it has come.
	Crashed bool
	// Full: nothing can be written.
	Full bool
	// Died counts the crashes by the operation that they came in.
	Died  map[string]int
	files map[string]*content
}

// New makes an empty disk, whose crashes the seeds decide.
func New(seed, more uint64) *Disk {
	return &Disk{Rand: rand.New(rand.NewPCG(seed, more)), Budget: forever, Died: map[string]int{}, files: map[string]*content{}}
}

// content is a file: what is safe, and what was written since.
type content struct {
	safe    []byte
	pending []write
}

type write struct {
	off int64
	b   []byte
}

func (d *Disk) spend(operation string) error {
	if d.Full {
		return ErrFull
	}
	if d.Budget--; d.Budget >= 0 && !d.Crashed {
		return nil
	}
	if !d.Crashed {
		d.Crashed = true
		d.Died[operation]++
	}
	return ErrCrash
}

// Read is a whole file as its writer sees it.
func (d *Disk) Read(name string) ([]byte, error) {
	c := d.files[name]
	if c == nil {
		return nil, fs.ErrNotExist
	}
	return c.now(), nil
}

func (c *content) now() []byte {
	b := bytes.Clone(c.safe)
	for _, w := range c.pending {
		b = overlay(b, w)
	}
	return b
}

func overlay(b []byte, w write) []byte {
	if n := int(w.off) + len(w.b); n > len(b) {
		b = append(b, make([]byte, n-len(b))...)
	}
	copy(b[w.off:], w.b)
	return b
}

// Create makes an empty file.
func (d *Disk) Create(name string) (File, error) {
	if err := d.spend("create"); err != nil {
		return nil, err
	}
	d.files[name] = &content{}
	return &handle{d, d.files[name]}, nil
}

// Replace is durable when it returns; one that a crash interrupts may have
// happened all the same.
func (d *Disk) Replace(from, to, keep string) error {
	err := d.spend("replace")
	if err == nil || d.Crashed && d.Rand.IntN(2) == 0 {
		if keep != "" && d.files[to] != nil {
			d.files[keep] = d.files[to]
		}
		d.files[to] = d.files[from]
		delete(d.files, from)
	}
	return err
}

type handle struct {
	d *Disk
	c *content
}

func (h *handle) WriteAt(b []byte, off int64) (int, error) {
	err := h.d.spend("write")
	if errors.Is(err, ErrFull) {
		return 0, err
	}
	h.c.pending = append(h.c.pending, write{off, bytes.Clone(b)})
	return len(b), err
}

func (h *handle) Sync() error {
	if err := h.d.spend("sync"); err != nil {
		return err
	}
	h.c.safe, h.c.pending = h.c.now(), nil
	return nil
}

func (h *handle) Close() error { return nil }

// Crash is the power coming back: of each unsynced write, sectors may be lost.
func (d *Disk) Crash() {
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		c := d.files[name]
		for _, w := range c.pending {
			for at, n := 0, 64; at < len(w.b); at += n {
				if at >= 2048 {
					n = len(w.b) // zeros, as one
				}
				if d.Rand.IntN(2) == 0 {
					c.safe = overlay(c.safe, write{w.off + int64(at), w.b[at:min(at+n, len(w.b))]})
				}
			}
		}
		c.pending = nil
	}
	d.Crashed, d.Budget = false, forever
}
