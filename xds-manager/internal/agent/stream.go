package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/densityops/oooi/xds-manager/internal/agentpb"
)

const (
	firstBackoff = time.Second
	lastBackoff  = 30 * time.Second
	dialTimeout  = 20 * time.Second
)

// Hub says where the operator's stream is and how to open it.
type Hub struct {
	Address   string
	CAFile    string
	TokenFile string
	Namespace string
	Name      string
	Module    string
	Component string
}

// other says that a snapshot is not of our own resource, as far as that is known.
func (h Hub) other(s Snapshot) bool {
	return h.Name != "" && (s.Namespace != h.Namespace || s.Name != h.Name)
}

// event is what the stream tells: a snapshot, or that it ended.
type event struct {
	snapshot  *Snapshot
	connected bool
	err       error
}

// follow keeps the stream open until ctx ends. It waits between tries from one
// second to thirty, with jitter, so that no crowd of agents returns at once.
func (h Hub) follow(ctx context.Context, logger *slog.Logger, observed func() string, out chan<- event) {
	pause := firstBackoff
	for ctx.Err() == nil {
		received, err := h.watch(ctx, observed(), out)
		if ctx.Err() != nil {
			return
		}
		logger.Warn("operator's stream ended", "err", err, "retry", pause.String())
		if !send(ctx, out, event{err: err}) {
			return
		}
		if received {
			pause = firstBackoff
		}
		wait(ctx, pause/2+rand.N(pause/2))
		pause = min(2*pause, lastBackoff)
	}
}

func send(ctx context.Context, out chan<- event, e event) bool {
	select {
	case out <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// watch opens one stream and reads it to its end.
func (h Hub) watch(ctx context.Context, observed string, out chan<- event) (received bool, err error) {
	conn, err := h.dial()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	token, err := os.ReadFile(h.TokenFile)
	if err != nil {
		return false, fmt.Errorf("reading token: %w", err)
	}
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token))))
	defer cancel()
	// A stream without a first answer is no stream.
	first := time.AfterFunc(dialTimeout, cancel)
	defer first.Stop()
	st, err := agentpb.NewAgentServiceClient(conn).Watch(ctx, &agentpb.WatchRequest{
		Component: h.Component, ModuleVersion: h.Module, Contract: Contract,
		Namespace: h.Namespace, Name: h.Name, ObservedVersion: observed,
	})
	if err != nil {
		return false, fmt.Errorf("opening stream: %w", err)
	}
	for {
		r, err := st.Recv()
		if err != nil {
			return received, fmt.Errorf("reading stream: %w", err)
		}
		first.Stop()
		s, err := parse(r.GetSnapshot())
		e := event{snapshot: &s, connected: true}
		if err != nil {
			e = event{connected: true, err: fmt.Errorf("parsing streamed snapshot: %w", err)}
		}
		received = true
		if !send(ctx, out, e) {
			return received, ctx.Err()
		}
	}
}

// dial reads the trust anchors anew, so that a rotated CA is taken up by the
// next connection. The server's name is the host that was configured.
func (h Hub) dial() (*grpc.ClientConn, error) {
	host, _, err := net.SplitHostPort(h.Address)
	if err != nil {
		return nil, fmt.Errorf("reading hub address: %w", err)
	}
	pem, err := os.ReadFile(h.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading hub CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("reading hub CA: %s holds no certificate", h.CAFile)
	}
	conn, err := grpc.NewClient("passthrough:///"+h.Address,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: host, MinVersion: tls.VersionTLS13})),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxSnapshot)),
	)
	if err != nil {
		return nil, fmt.Errorf("dialling hub: %w", err)
	}
	return conn, nil
}
