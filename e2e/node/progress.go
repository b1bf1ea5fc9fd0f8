package node

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress prints one line a step, with the time since its start.
type Progress struct {
	mu    sync.Mutex // guards out
	out   io.Writer
	start time.Time
}

// NewProgress starts the clock.
func NewProgress(out io.Writer) *Progress {
	return &Progress{out: out, start: time.Now()}
}

// Say prints one line.
func (p *Progress) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "[%6.1fs] %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}
