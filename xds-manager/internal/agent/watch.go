package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
)

// watchDir kicks when something is renamed into or written in the directory of
// a file: a ConfigMap volume swaps a link there. It is only faster than looking
// from time to time, so where the kernel refuses it, nothing is lost.
func watchDir(ctx context.Context, file string, logger *slog.Logger) <-chan struct{} {
	kick := make(chan struct{}, 1)
	f, err := openWatch(filepath.Dir(file))
	if err != nil {
		logger.Warn("snapshot's directory is not watched, only polled", "err", err)
		return kick
	}
	context.AfterFunc(ctx, func() { _ = f.Close() })
	go func() {
		buf := make([]byte, 64<<10)
		for {
			if _, err := f.Read(buf); err != nil {
				return
			}
			select {
			case kick <- struct{}{}:
			default:
			}
		}
	}()
	return kick
}

func openWatch(dir string) (*os.File, error) {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("starting inotify: %w", err)
	}
	// A non-blocking descriptor goes to Go's poller, so that Close ends a Read.
	f := os.NewFile(uintptr(fd), "inotify")
	if _, err := syscall.InotifyAddWatch(fd, dir, syscall.IN_MOVED_TO|syscall.IN_CLOSE_WRITE); err != nil {
		return nil, fmt.Errorf("watching %s: %w", dir, closeWith(f, err))
	}
	return f, nil
}

func closeWith(f *os.File, err error) error {
	if cerr := f.Close(); cerr != nil {
		return fmt.Errorf("%w (and closing: %w)", err, cerr)
	}
	return err
}
