package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"

	"github.com/densityops/oooi/e2e/lab"
)

// Backend answers every connection's first bytes with its name and a line
// feed, echoes what follows, and answers the client's end with "bye".
type Backend struct {
	Name string

	listener net.Listener
	mu       sync.Mutex // guards what follows
	first    []byte
	conns    map[net.Conn]bool
	accepted int
}

// NewBackend starts a backend on an address of the host.
func NewBackend(h *lab.Host, name string, addr netip.AddrPort) (*Backend, error) {
	l, err := Listen(h, addr)
	if err != nil {
		return nil, fmt.Errorf("starting backend %s: %w", name, err)
	}
	b := &Backend{Name: name, listener: l, conns: map[net.Conn]bool{}}
	go b.serve()
	return b, nil
}

func (b *Backend) serve() {
	for {
		c, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		b.conns[c] = true
		b.accepted++
		b.mu.Unlock()
		go b.answer(c)
	}
}

func (b *Backend) answer(c net.Conn) {
	defer func() {
		b.mu.Lock()
		delete(b.conns, c)
		b.mu.Unlock()
		_ = c.Close()
	}()
	buf := make([]byte, 32<<10)
	n, err := c.Read(buf)
	if err != nil {
		return
	}
	b.mu.Lock()
	b.first = bytes.Clone(buf[:n])
	b.mu.Unlock()
	if _, err := io.WriteString(c, b.Name+"\n"); err != nil {
		return
	}
	for {
		n, err := c.Read(buf)
		if n > 0 {
			if _, err := c.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_, _ = io.WriteString(c, "bye")
			return
		}
	}
}

// First is what the newest connection began with.
func (b *Backend) First() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.first
}

// Open is the number of open connections, Accepted of all so far.
func (b *Backend) Open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.conns)
}

// Accepted is the number of connections so far.
func (b *Backend) Accepted() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.accepted
}

// Close stops listening and ends every connection.
func (b *Backend) Close() {
	_ = b.listener.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		_ = c.Close()
	}
}
