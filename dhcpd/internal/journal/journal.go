package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/densityops/oooi/dhcpd/internal/lease"
)

const (
	name    = "leases.journal"
	newName = "leases.journal.new"
	badName = "leases.journal.damaged-"
	// compactAt is the least size that is worth rewriting.
	compactAt = 1 << 20
	// maxKept is how many damaged files are kept.
	maxKept = 4
)

// ErrBroken is returned while an earlier write has failed.
var ErrBroken = errors.New("journal cannot be written to")

// File is an open file of a Disk.
type File = interface {
	WriteAt(p []byte, off int64) (int, error)
	Sync() error
	Close() error
}

// Disk is what the journal lies on: a directory, or in tests one that crashes.
type Disk interface {
	Read(name string) ([]byte, error)
	Create(name string) (File, error)
	// Replace puts from in the place of to, at once. What was there stays as
	// keep, if that is a name and it can be done. It is durable on return.
	Replace(from, to, keep string) error
}

// Journal is an open journal. It is not safe for concurrent use.
type Journal struct {
	disk Disk
	file File
	end  int64 // of the frames
	size int64 // of the file, zeros included
	base int64 // end after the last rewrite
	buf  []byte
	keep string // what the damaged file will be called
	wall time.Duration
	err  error
}

// Found says what Open has found.
type Found struct {
	// Records are all that could be read, in the order of their writing.
	Records []lease.Record
	// Fresh: there was no file.
	Fresh bool
	// Damaged: the file could not be read to its end, so records may be
	// missing. Once it is replaced it is kept as KeptAs.
	Damaged bool
	KeptAs  string
}

// Open reads the journal of dir. It always returns a usable value.
func Open(dir string) (*Journal, Found) { return OpenOn(directory(dir)) }

// OpenOn is Open for any disk.
func OpenOn(d Disk) (*Journal, Found) {
	j := &Journal{disk: d}
	b, err := d.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		j.err = ErrBroken // until the first Compact
		return j, Found{Fresh: true}
	}
	var f Found
	if err != nil {
		f.Damaged = true
	} else {
		var whole bool
		f.Records, whole = scan(b)
		f.Damaged = !whole
	}
	if f.Damaged {
		j.keep = j.aside()
		f.KeptAs = j.keep
	}
	j.err = ErrBroken
	return j, f
}

// aside is the first free of a few names for a damaged file, or the last of
// them. The file keeps its own until another is in its place: a process that
// ends in between finds it again.
func (j *Journal) aside() string {
	for i := 1; i < maxKept; i++ {
		to := badName + strconv.Itoa(i)
		if _, err := j.disk.Read(to); errors.Is(err, fs.ErrNotExist) {
			return to
		}
	}
	return badName + strconv.Itoa(maxKept)
}

// SetWall tells how far the wall clock is ahead of the clock that records are
// made with.
func (j *Journal) SetWall(ahead time.Duration) { j.wall = ahead }

// Err is why nothing can be stored, nil if all is well.
func (j *Journal) Err() error { return j.err }

// Large says whether Compact is worth its while.
func (j *Journal) Large() bool { return j.end > compactAt && j.end > 2*j.base }

// Lost says that the file is no longer where it is looked for at a start: it was
// deleted or replaced, and what is written to it nobody will read.
func (j *Journal) Lost() bool {
	f, ok := j.file.(interface{ Lost() bool })
	return ok && f.Lost()
}

// Commit appends records. When it returns nil they are on disk.
func (j *Journal) Commit(records []lease.Record) error {
	if j.err != nil {
		return j.err
	}
	if len(records) == 0 {
		return nil
	}
	b := j.buf[:0]
	for _, r := range records {
		b = appendFrame(b, r, j.wall)
	}
	j.buf = b
	if err := j.write(b); err != nil {
		j.fail(err)
		return j.err
	}
	return nil
}

func (j *Journal) write(b []byte) error {
	end := j.end + int64(len(b))
	if end >= j.size {
		size := (end/growBy + 2) * growBy
		if _, err := j.file.WriteAt(make([]byte, size-j.size), j.size); err != nil {
			return err
		}
		j.size = size
	}
	if _, err := j.file.WriteAt(b, j.end); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.end = end
	return nil
}

func (j *Journal) fail(err error) {
	j.err = fmt.Errorf("%w: %w", ErrBroken, err)
	if j.file != nil {
		_ = j.file.Close() // it is given up
		j.file = nil
	}
}

// Compact writes a new file that holds exactly records, and puts it in the
// place of the old one. It also mends a broken journal.
func (j *Journal) Compact(records []lease.Record) error {
	f, err := j.disk.Create(newName)
	if err != nil {
		j.fail(fmt.Errorf("creating %s: %w", newName, err))
		return j.err
	}
	b := []byte(header)
	for _, r := range records {
		b = appendFrame(b, r, j.wall)
	}
	end := int64(len(b))
	size := (end/growBy + 1) * growBy
	b = append(b, make([]byte, size-end)...)
	err = func() error {
		if _, err := f.WriteAt(b, 0); err != nil {
			return fmt.Errorf("writing %s: %w", newName, err)
		}
		if err := f.Sync(); err != nil {
			return fmt.Errorf("syncing %s: %w", newName, err)
		}
		return j.disk.Replace(newName, name, j.keep)
	}()
	if err != nil {
		_ = f.Close()
		j.fail(err)
		return j.err
	}
	if j.file != nil {
		_ = j.file.Close() // replaced; its content is in the new one
	}
	j.file, j.end, j.base, j.size, j.keep, j.err = f, end, end, size, "", nil
	return nil
}

// Close ends the use of the file.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}

// Read lists the records of dir's journal without opening it for writing.
func Read(dir string) (Found, error) {
	b, err := directory(dir).Read(name)
	if err != nil {
		return Found{}, fmt.Errorf("reading lease journal: %w", err)
	}
	r, whole := scan(b)
	return Found{Records: r, Damaged: !whole}, nil
}
