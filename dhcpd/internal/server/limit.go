package server

import (
	"time"

	"github.com/densityops/oooi/dhcpd/internal/lease"
)

const (
	// A NAK is a broadcast that every machine has to look at, and anybody can
	// ask for one. Strangers get this many a second, and a burst of them; who
	// gets none asks again.
	nakRate  = 100
	nakBurst = 500
	// A machine is read this often a second, and a burst: more than a client
	// has to say, and little enough that one that never stops takes nothing
	// from the others of its lane.
	machineRate  = 50
	machineBurst = 200
	// logEvery is how often a line of one kind is written.
	logEvery = 10 * time.Second
)

// bucket is a token bucket.
type bucket struct {
	tokens float64
	last   time.Time
}

func (b *bucket) take(now time.Time, rate, burst float64) bool {
	b.tokens = min(burst, b.tokens+rate*now.Sub(b.last).Seconds())
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// unread says whether a message of the machines' lane is one too many of its
// station's. The lane's filter looks at four bytes of an address: whoever else
// has them shares one allowance with all like him.
func (s *Server) unread(p packet, now time.Time) bool {
	if !p.urgent {
		return false
	}
	who := p.from
	if !s.isMachine(who) {
		who = lease.MAC{}
	}
	b := s.rates[who]
	if b == nil {
		b = &bucket{tokens: machineBurst, last: now}
		s.rates[who] = b
	}
	if b.take(now, machineRate, machineBurst) {
		return false
	}
	s.opts.Observe("unread", "too_many")
	if s.limit.due("unread", now) {
		s.warn("unread", now, "a station sends too much; the rest is not read", "mac", p.from.String())
	}
	return true
}

// warn writes one line of a kind every ten seconds, and how many were left out
// since the last.
func (s *Server) warn(kind string, now time.Time, msg string, args ...any) {
	if left, ok := s.limit.allow(kind, now); ok {
		if left > 0 {
			args = append(args, "left_out", left)
		}
		s.opts.Log.Warn(msg, args...)
	}
}

// limiter decides which log lines pass, by their kinds, which are few.
type limiter struct{ of map[string]*line }

type line struct {
	last time.Time
	left int // out, since the last
}

// due says whether the next line of a kind will pass, and counts one that will
// not: it saves the work of making it.
func (l *limiter) due(kind string, now time.Time) bool {
	x := l.of[kind]
	if x == nil || now.Sub(x.last) >= logEvery {
		return true
	}
	x.left++
	return false
}

func (l *limiter) allow(kind string, now time.Time) (left int, ok bool) {
	if !l.due(kind, now) {
		return 0, false
	}
	if l.of == nil {
		l.of = map[string]*line{}
	}
	x := l.of[kind]
	if x == nil {
		x = &line{}
		l.of[kind] = x
	}
	left = x.left
	x.last, x.left = now, 0
	return left, true
}
