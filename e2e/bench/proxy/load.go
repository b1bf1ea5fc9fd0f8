package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

// The load speaks just enough TLS for a router: a real ClientHello, and then
// raw bytes, so that what is measured is the proxy and not cryptography.

// sink keeps what a TLS client would send first.
type sink struct {
	net.Conn
	buf bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error)      { s.buf.Write(p); return 0, io.ErrClosedPipe }
func (s *sink) Read([]byte) (int, error)         { return 0, io.EOF }
func (s *sink) Close() error                     { return nil }
func (s *sink) SetDeadline(time.Time) error      { return nil }
func (s *sink) SetReadDeadline(time.Time) error  { return nil }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }

// helloFor is a ClientHello as Go sends it, post-quantum key share included.
func helloFor(name string) []byte {
	s := &sink{}
	_ = tls.Client(s, &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}).HandshakeContext(context.Background())
	return s.buf.Bytes()
}

const (
	megabyte = 1 << 20
	chunk    = 256 << 10
)

// serveBackend reads a hello, answers one byte, and then echoes single bytes or
// sends as many megabytes as "D" and eight digits ask for.
func serveBackend(addr string) error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return err
	}
	data := make([]byte, chunk)
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer func() { _ = c.Close() }()
			_ = answer(c, data)
		}()
	}
}

func answer(c net.Conn, data []byte) error {
	head := make([]byte, 5)
	if _, err := io.ReadFull(c, head); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, c, int64(head[3])<<8|int64(head[4])); err != nil {
		return err
	}
	b := make([]byte, 9)
	if _, err := c.Write(b[:1]); err != nil {
		return err
	}
	for {
		if _, err := io.ReadFull(c, b[:1]); err != nil {
			return err
		}
		if b[0] != 'D' {
			if _, err := c.Write(b[:1]); err != nil {
				return err
			}
			continue
		}
		if _, err := io.ReadFull(c, b[1:]); err != nil {
			return err
		}
		n, err := strconv.Atoi(string(b[1:]))
		if err != nil {
			return err
		}
		for range n * megabyte / chunk {
			if _, err := c.Write(data); err != nil {
				return err
			}
		}
	}
}

// result is what one load measured.
type result struct {
	N       int     `json:"n"`
	Errors  int     `json:"errors"`
	Seconds float64 `json:"seconds"`
	P50us   float64 `json:"p50_us"`
	P99us   float64 `json:"p99_us"`
	Bytes   int64   `json:"bytes"`
}

func connect(addr string, hello []byte) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	nc, err := d.DialContext(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := nc.(*net.TCPConn)
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err = c.Write(hello); err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// worker is one client; it measures single operations until stop.
type worker struct {
	addr  string
	hello []byte
	conn  *net.TCPConn
	bytes int64
}

func (w *worker) newConnection() error {
	c, err := connect(w.addr, w.hello)
	if err != nil {
		return err
	}
	// A reset leaves no TIME_WAIT that would use up the ports.
	_ = c.SetLinger(0)
	return c.Close()
}

func (w *worker) roundTrip() error {
	if w.conn == nil {
		c, err := connect(w.addr, w.hello)
		if err != nil {
			return err
		}
		w.conn = c
	}
	if _, err := w.conn.Write([]byte{'P'}); err != nil {
		return err
	}
	_, err := io.ReadFull(w.conn, make([]byte, 1))
	return err
}

func (w *worker) download() error {
	const mb = 64
	c, err := connect(w.addr, w.hello)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprintf(c, "D%08d", mb); err != nil {
		return err
	}
	n, err := io.CopyN(discard{}, c, mb*megabyte)
	w.bytes += n
	return err
}

// discard reads into a buffer of its own: io.Discard would splice nothing but
// allocate small ones.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// load runs workers for a time and prints the result as JSON.
func load(kind, addr, name string, seconds float64, workers int) error {
	hello := helloFor(name)
	stop := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	var mu sync.Mutex // guards all and sum
	var all []float64
	var sum result
	var wg sync.WaitGroup
	began := time.Now()
	for range workers {
		wg.Go(func() {
			w := &worker{addr: addr, hello: hello}
			op := map[string]func() error{"conn": w.newConnection, "rtt": w.roundTrip, "bulk": w.download}[kind]
			var lat []float64
			failed := 0
			for time.Now().Before(stop) {
				at := time.Now()
				if err := op(); err != nil {
					failed++
					w.conn = nil
					continue
				}
				lat = append(lat, float64(time.Since(at).Microseconds()))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, lat...)
			sum.Errors += failed
			sum.Bytes += w.bytes
		})
	}
	wg.Wait()
	slices.Sort(all)
	sum.N, sum.Seconds = len(all), time.Since(began).Seconds()
	if len(all) > 0 {
		sum.P50us, sum.P99us = all[len(all)/2], all[len(all)*99/100]
	}
	return json.NewEncoder(os.Stdout).Encode(sum)
}

// hold opens idle connections, says so, and keeps them until its input ends.
func hold(addr, name string, count int) error {
	hello := helloFor(name)
	held := make([]*net.TCPConn, 0, count)
	for range count {
		c, err := connect(addr, hello)
		if err != nil {
			return err
		}
		held = append(held, c)
	}
	fmt.Println(len(held))
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}
