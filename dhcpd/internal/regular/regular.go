// Package regular reads regular files.
//
// It refuses to wait: a pipe, a device and a directory are errors, whatever lay
// at the path before, and so is a file that is larger than its reader can use.
//
// Invariant: what is returned is the whole file, and at most as long as the limit.
package regular

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// Read reads a file of at most limit bytes. It looks at what it has opened, not
// at what lay there before.
func Read(path string, limit int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the file that the user names
	if err != nil {
		return nil, err
	}
	defer file.Close() // only read
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file (%s)", path, info.Mode())
	case info.Size() > limit:
		return nil, tooLarge(path, limit)
	}
	b, err := io.ReadAll(io.LimitReader(file, limit+1)) // it may have grown since
	switch {
	case err != nil:
		return nil, err
	case int64(len(b)) > limit:
		return nil, tooLarge(path, limit)
	}
	return b, nil
}

func tooLarge(path string, limit int64) error {
	return fmt.Errorf("%s is larger than %d bytes", path, limit)
}
