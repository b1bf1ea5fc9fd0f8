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
	name  string
	start time.Time
}

// NewProgress starts the clock of what has that name.
func NewProgress(out io.Writer, name string) *Progress {
	return &Progress{out: out, name: name, start: time.Now()}
}

// Say prints one line.
func (p *Progress) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "[%s %6.1fs] %s\n", p.name, time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}
