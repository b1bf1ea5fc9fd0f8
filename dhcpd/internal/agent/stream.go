package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/densityops/oooi/dhcpd/internal/agentpb"
	"github.com/densityops/oooi/dhcpd/internal/version"
)

const (
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
	// maxMessage bounds a snapshot on the stream.
	maxMessage = 64 << 20
)

// errClosed is the end of a stream that the operator closed.
var errClosed = errors.New("stream has ended")

// follow keeps the stream up until ctx ends.
func (f *Feed) follow(ctx context.Context, events chan<- event) {
	backoff := minBackoff
	for ctx.Err() == nil {
		got, err := f.connect(ctx, events)
		if got {
			backoff = minBackoff
			send(ctx, events, event{})
		}
		if ctx.Err() != nil {
			return
		}
		f.opts.Log.Info("operator is away", "err", err)
		// Jitter of half the time keeps a fleet from coming back as one.
		select {
		case <-ctx.Done():
		case <-time.After(backoff/2 + rand.N(backoff/2)):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

func send(ctx context.Context, events chan<- event, e event) {
	select {
	case events <- e:
	case <-ctx.Done():
	}
}

// connect opens one stream and reads it to its end. It says whether anything
// was received.
func (f *Feed) connect(ctx context.Context, events chan<- event) (bool, error) {
	conn, err := f.dial()
	if err != nil {
		return false, err
	}
	defer conn.Close()
	token, err := os.ReadFile(f.opts.Token)
	if err != nil {
		return false, fmt.Errorf("reading token: %w", err)
	}
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token))))
	defer cancel()
	stream, err := agentpb.NewAgentServiceClient(conn).Watch(ctx, &agentpb.WatchRequest{
		Component:       f.opts.Component,
		ModuleVersion:   f.opts.ModuleVersion,
		Contract:        version.Contract,
		Namespace:       f.opts.Namespace,
		Name:            f.opts.Name,
		ObservedVersion: f.observed.Load().(string),
	})
	if err != nil {
		return false, fmt.Errorf("watching %s/%s: %w", f.opts.Namespace, f.opts.Name, err)
	}
	got := false
	for {
		m, err := stream.Recv()
		if err != nil {
			return got, fmt.Errorf("watching %s/%s: %w", f.opts.Namespace, f.opts.Name, err)
		}
		if m.GetSnapshot() == nil {
			return got, errClosed
		}
		got = true
		send(ctx, events, event{snapshot: m.GetSnapshot()})
	}
}

// dial reads the CA anew each time, since it is rotated.
func (f *Feed) dial() (*grpc.ClientConn, error) {
	host, _, err := net.SplitHostPort(f.opts.Hub)
	if err != nil {
		return nil, fmt.Errorf("hub %q: %w", f.opts.Hub, err)
	}
	pem, err := os.ReadFile(f.opts.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading CA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("reading CA: %s holds no certificate", f.opts.CAFile)
	}
	return grpc.NewClient(f.opts.Hub,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS13})),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	)
}
