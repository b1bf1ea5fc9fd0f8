package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/dhcp"
	"github.com/densityops/oooi/dhcpd/internal/journal"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// Options are what a server is made of.
type Options struct {
	Log *slog.Logger
	// Now must never step: the wall clock at the start, moved on by the
	// monotonic clock.
	Now func() time.Time
	// Journal is where records go; nil keeps none.
	Journal *journal.Journal
	// Observe is called for each message with its type and outcome, and with
	// lock held.
	Observe func(typ, outcome string)
}

// Server serves one network.
type Server struct {
	opts Options

	// mu guards everything below.
	mu      sync.Mutex
	table   *lease.Table
	handler dhcp.Handler
	cfg     *config.Config
	records []lease.Record
	allowed lease.Mode // what the table may do if records can be stored
	probes  probes
	probing chan struct{}
	known   []lease.MAC // machines, which have a socket of their own
	conn    *conn       // while there is a session
	watch   watch
	claims  claims
	hops    map[netip.Addr]*hop // next ones, by relay
	newcome newcomers
	limit   limiter
	naks    bucket
	rates   map[lease.MAC]*bucket // of machines
	debug   bool
	msg     dhcp.Message
	fresh   []lease.Binding // new ones of this batch
	wall    time.Duration
	mended  time.Time
	broken  bool // the journal is, and that was logged

	serving atomic.Bool
	asked   atomic.Bool
	waiting atomic.Bool // there are probes
	relays  atomic.Bool // there are next hops to relays
	device  atomic.Pointer[Device]
}

// noMachines is the directory until there is one.
type noMachines struct{}

func (noMachines) VMs(lease.MAC) []lease.VM        { return nil }
func (noMachines) Exists(lease.VM) lease.Existence { return lease.Unknown }
func (noMachines) Len() int                        { return 0 }

// New makes a server with the records of an earlier life.
func New(opts Options, cfg *config.Config, records []lease.Record) *Server {
	now := opts.Now()
	s := &Server{
		opts:    opts,
		table:   lease.New(cfg.Lease, now),
		cfg:     cfg,
		allowed: lease.Mode{Allocate: true},
		probes:  probes{},
		rates:   map[lease.MAC]*bucket{},
		probing: make(chan struct{}, 1),
		debug:   opts.Log.Enabled(context.Background(), slog.LevelDebug),
	}
	s.table.Restore(records, now)
	s.handler = dhcp.Handler{Config: cfg, Table: s.table, Directory: noMachines{}}
	if opts.Journal != nil {
		s.wall = wallAhead(now)
		opts.Journal.SetWall(s.wall)
		s.compact()
	}
	s.setMode()
	return s
}

// wallAhead is how far the wall clock is ahead of now.
func wallAhead(now time.Time) time.Duration { return time.Now().Round(0).Sub(now.Round(0)) }

// Configure takes a new configuration over.
func (s *Server) Configure(cfg *config.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg = cfg
	s.handler.Config = s.fitting()
	s.table.Configure(cfg.Lease, s.opts.Now())
	s.commit()
}

// fitting is the configuration with an MTU that our own device can take: a
// client with a larger one could not talk to us.
func (s *Server) fitting() *config.Config {
	d := s.device.Load()
	if d == nil || d.MTU <= 0 || int(s.cfg.MTU) <= d.MTU {
		return s.cfg
	}
	c := *s.cfg
	c.MTU = uint16(d.MTU)
	return &c
}

// SetDirectory takes over what is known about virtual machines, and their
// addresses, sorted.
func (s *Server) SetDirectory(d lease.Directory, machines []lease.MAC) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler.Directory = d
	if !slices.Equal(s.known, machines) {
		s.known = machines
		clear(s.rates)
		if s.conn != nil {
			if err := s.conn.share(machines); err != nil {
				s.opts.Log.Warn("socket filter cannot be changed", "err", err)
			}
		}
	}
	s.handler.Newcomer = s.newcome.wait
	s.table.Sync(d, s.opts.Now())
	s.commit()
}

// Directory is what is known about virtual machines. The caller must be inside of Do.
func (s *Server) Directory() lease.Directory { return s.handler.Directory }

// Do calls f with the table and stores what it has changed. It returns false
// when that could not be stored.
func (s *Server) Do(f func(t *lease.Table, now time.Time)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.table, s.opts.Now())
	return s.commit()
}

// Allow says what the table may do.
func (s *Server) Allow(m lease.Mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = m
	s.setMode()
}

func (s *Server) setMode() {
	m := s.allowed
	m.ReadOnly = s.opts.Journal != nil && s.opts.Journal.Err() != nil
	s.table.SetMode(m)
}

// commit stores the records that are due. When that fails, bindings that
// nobody has been told of are undone, and no new ones are made until the
// journal is mended.
func (s *Server) commit() bool {
	s.records = s.table.Take(s.records[:0])
	j := s.opts.Journal
	if j == nil {
		s.given()
		return true
	}
	if len(s.records) == 0 {
		return j.Err() == nil
	}
	if j.Large() && j.Err() == nil {
		s.compact()
	} else {
		s.judge(j.Commit(s.records), "written to")
	}
	if j.Err() == nil {
		s.given()
		return true
	}
	now := s.opts.Now()
	for _, b := range s.fresh {
		s.table.Revoke(b.IP, now)
	}
	s.fresh = s.fresh[:0]
	s.setMode()
	return false
}

// given logs the new leases that are stored now.
func (s *Server) given() {
	for _, b := range s.fresh {
		s.opts.Log.Info("lease given", "mac", b.MAC.String(), "ip", b.IP.String(), "vm", b.VM.String())
	}
	s.fresh = s.fresh[:0]
}

// compact rewrites the journal, which also mends it.
func (s *Server) compact() {
	s.judge(s.opts.Journal.Compact(s.table.Records()), "rewritten")
	s.setMode()
}

// judge logs when the journal breaks, be it at the start, and when it is mended.
func (s *Server) judge(err error, what string) {
	switch {
	case err != nil && !s.broken:
		s.opts.Log.Error("lease journal cannot be "+what+"; new clients get no address", "err", err)
	case err == nil && s.broken:
		s.opts.Log.Info("lease journal is writable again")
	}
	s.broken = err != nil
}

// Tick does what is due by time; call it every second.
func (s *Server) Tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	s.table.Tick(now)
	s.commit()
	j := s.opts.Journal
	if j == nil {
		return
	}
	// A step of the wall clock would make what is on disk end at another
	// time than the clients were told.
	if w := wallAhead(now); (w - s.wall).Abs() > 5*time.Second {
		s.wall = w
		j.SetWall(w)
		s.compact()
	}
	switch {
	case j.Err() != nil && now.Sub(s.mended) >= 5*time.Second:
		s.mended = now
		s.compact()
	case j.Err() == nil && j.Lost():
		s.warn("gone", now, "lease journal is gone from its place; it is written anew")
		s.compact()
	}
}

// packet handles one message and queues the answer on c.
func (s *Server) packet(c *conn, p packet, now time.Time) {
	if p.port == clientPort {
		s.foreign(p, now)
		return
	}
	if s.unread(p, now) {
		return
	}
	m := &s.msg
	if err := m.Parse(p.payload); err != nil {
		s.drop(err, now)
		return
	}
	if p.framed && !s.genuine(m, p.from, now) {
		s.drop(errSpoofed, now)
		return
	}
	r := s.handler.Handle(m, now, c.slot())
	if r.Probe {
		s.opts.Observe(m.Type.String(), outcomeProbing)
		s.probe(c, pending{message: p.payload, owner: m.MAC}, r.IP, now)
		return
	}
	if r.Type == dhcp.Nak && !s.isMachine(m.MAC) && !s.naks.take(now, nakRate, nakBurst) {
		s.opts.Observe(m.Type.String(), outcomeLimited)
		return
	}
	s.settled(m, r, now)
	if r.Answer == nil {
		return
	}
	size := len(r.Answer) - headers
	if slot := c.slot(); cap(r.Answer) != cap(slot) { // it did not fit and was moved
		copy(slot[:cap(slot)][headers:], r.Answer[headers:])
	}
	c.queue(size, r.To, r.New)
}

// isMachine says whether a known machine has this address.
func (s *Server) isMachine(m lease.MAC) bool { return len(s.handler.Directory.VMs(m)) > 0 }

// settled counts and logs a message that has got its answer, or none.
func (s *Server) settled(m *dhcp.Message, r dhcp.Result, now time.Time) {
	s.opts.Observe(m.Type.String(), string(r.Outcome))
	if r.Outcome == dhcp.NotForUs {
		s.chosen(m, now)
	}
	s.note(m, r, now)
	if r.New && r.Answer != nil {
		s.fresh = append(s.fresh, lease.Binding{MAC: m.MAC, IP: r.IP, VM: r.VM})
	}
}

// note writes the transaction to the log.
func (s *Server) note(m *dhcp.Message, r dhcp.Result, now time.Time) {
	if r.Outcome == dhcp.DeclinedTaken || r.Outcome == dhcp.DeclinedKept {
		if r.Outcome == dhcp.DeclinedKept {
			s.watch.declines.note(m.MAC, fmt.Sprintf("%s of %s (%s)", r.IP, m.MAC, r.VM), now)
		}
		s.warn("declined", now, "client found its address in use", "mac", m.MAC.String(), "ip", r.IP.String(), "reason", string(r.Outcome), "vm", r.VM.String())
		return
	}
	if s.debug && !r.New {
		s.opts.Log.Debug("message", "type", m.Type.String(), "mac", m.MAC.String(), "reason", string(r.Outcome), "answer", r.Type.String(), "ip", r.IP.String(), "relay", m.GIAddr.String())
	}
}
