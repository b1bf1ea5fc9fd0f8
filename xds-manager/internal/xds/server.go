package xds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// maxMessage bounds a request: a reconnecting Envoy names everything it holds.
const maxMessage = 64 << 20

// Standalone is the node of an Envoy whose bootstrap names no ProxyServer. It
// is served too: the socket is the pod's own, so no other pod's Envoy can come.
const Standalone = "standalone"

// State is what is known of Envoy.
type State struct {
	// Connected says that Envoy's stream is open.
	Connected bool
	// Stream counts the streams: another one may be another Envoy's.
	Stream int
	// InForce says that since this Envoy connected it has accepted one whole
	// publication.
	InForce bool
	// Accepted is the version of the last publication that it accepted whole.
	Accepted string
	// Settled says that nothing is on its way to Envoy.
	Settled    bool
	Rejections []Rejection
}

// Counters is what the server counts.
type Counters interface {
	Acknowledged(typ string, n int)
	Rejected(typ string, n int)
	UnknownNode()
}

// Server serves the Envoy that NodeID names.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	nodeID   string
	drain    time.Duration
	logger   *slog.Logger
	counters Counters
	notify   func(State)

	mu      sync.Mutex // guards what follows
	target  *goal
	good    *goal
	changed chan struct{}
	state   State
	cancel  context.CancelFunc
	stream  int
}

// Options configure a Server.
type Options struct {
	// NodeID is the one node that is served.
	NodeID string
	// Drain is Envoy's drain time.
	Drain    time.Duration
	Logger   *slog.Logger
	Counters Counters
	// Notify is told of every change of the state, in order.
	Notify func(State)
}

// New makes a server that has nothing to serve yet.
func New(o Options) *Server {
	return &Server{nodeID: o.NodeID, drain: o.Drain, logger: o.Logger, counters: o.Counters, notify: o.Notify, changed: make(chan struct{})}
}

// Publish makes p the configuration to be in force.
func (s *Server) Publish(p Publication) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.target = newGoal(&p)
	close(s.changed)
	s.changed = make(chan struct{})
}

// Trust names a publication that an Envoy has accepted before, such as the one
// from disk: it stands in for what a fresh Envoy rejects.
func (s *Server) Trust(p Publication) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.good == nil {
		s.good = newGoal(&p)
	}
}

// Serve answers on a unix socket until ctx ends. A stale socket file is
// replaced; nobody but the pod's group can open the new one.
func (s *Server) Serve(ctx context.Context, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing stale socket: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("listening for envoy: %w", err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return errors.Join(fmt.Errorf("setting socket mode: %w", err), l.Close())
	}
	g := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s)
	// Envoy's streams never end by themselves: a graceful stop would wait for ever.
	defer context.AfterFunc(ctx, g.Stop)()
	if err := g.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serving envoy: %w", err)
	}
	return nil
}

// DeltaAggregatedResources is Envoy's stream.
func (s *Server) DeltaAggregatedResources(st discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	first, err := st.Recv()
	if err != nil {
		return err
	}
	if id := first.GetNode().GetId(); id != s.nodeID && id != Standalone {
		s.counters.UnknownNode()
		s.logger.Warn("unknown node refused", "node", first.GetNode().GetId())
		return status.Errorf(codes.PermissionDenied, "node %q is not served here", first.GetNode().GetId())
	}
	ctx, cancel := context.WithCancel(st.Context())
	defer cancel()
	id := s.begin(cancel)
	defer s.end(id)
	requests := make(chan *discoveryv3.DeltaDiscoveryRequest, 1)
	requests <- first
	go func() {
		defer cancel()
		for {
			r, err := st.Recv()
			if err != nil {
				return
			}
			select {
			case requests <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	return s.run(ctx, id, st, requests)
}

func (s *Server) run(ctx context.Context, id int, st discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer, requests <-chan *discoveryv3.DeltaDiscoveryRequest) error {
	ses := newSession(s.drain)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		target, good, changed := s.current()
		for _, r := range ses.step(time.Now(), target, good) {
			if err := st.Send(r); err != nil {
				return err
			}
		}
		s.observe(id, ses, target)
		if at, ok := ses.wake(time.Now()); ok {
			timer.Reset(max(time.Until(at), time.Millisecond))
		} else {
			timer.Reset(time.Hour)
		}
		select {
		case r := <-requests:
			s.receive(ses, r)
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			return status.Error(codes.Aborted, "stream replaced or closed")
		}
	}
}

func (s *Server) receive(ses *session, r *discoveryv3.DeltaDiscoveryRequest) {
	acks, nacks := ses.acks[r.TypeUrl], ses.nacks[r.TypeUrl]
	ses.receive(time.Now(), r)
	s.counters.Acknowledged(r.TypeUrl, ses.acks[r.TypeUrl]-acks)
	s.counters.Rejected(r.TypeUrl, ses.nacks[r.TypeUrl]-nacks)
	if r.ErrorDetail != nil {
		s.logger.Error("envoy rejected configuration", "type", r.TypeUrl, "err", tail(r.ErrorDetail.GetMessage()))
	}
}

func (s *Server) current() (target, good *goal, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.target, s.good, s.changed
}

// begin makes a stream the one that counts: there is one Envoy, so an older
// stream is one that its end has left.
func (s *Server) begin(cancel context.CancelFunc) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel()
	}
	s.cancel = cancel
	s.stream++
	s.set(State{Connected: true, Stream: s.stream, Accepted: s.state.Accepted})
	return s.stream
}

func (s *Server) end(id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == s.stream {
		s.cancel = nil
		s.set(State{Stream: id, Accepted: s.state.Accepted, Rejections: s.state.Rejections})
	}
}

// observe takes over what a session found out about its Envoy.
func (s *Server) observe(id int, ses *session, target *goal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id != s.stream {
		return
	}
	next := State{Connected: true, Stream: id, InForce: ses.once, Accepted: s.state.Accepted, Settled: ses.synced, Rejections: ses.rejections()}
	if ses.accepted != "" {
		next.Accepted = ses.accepted
	}
	if ses.synced && len(next.Rejections) == 0 {
		s.good = target
	}
	s.set(next)
}

// set stores a state and tells of it. Caller must hold mu.
func (s *Server) set(next State) {
	if equal(s.state, next) {
		return
	}
	s.state = next
	s.notify(next)
}

func equal(a, b State) bool {
	if a.Connected != b.Connected || a.Stream != b.Stream || a.InForce != b.InForce || a.Accepted != b.Accepted || a.Settled != b.Settled || len(a.Rejections) != len(b.Rejections) {
		return false
	}
	for i := range a.Rejections {
		if a.Rejections[i] != b.Rejections[i] {
			return false
		}
	}
	return true
}
