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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/densityops/oooi/corednsplugin/internal/agentpb"
	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

const (
	minBackoff   = time.Second
	maxBackoff   = 30 * time.Second
	keepaliveGap = 30 * time.Second
	maxMessage   = 64 << 20
)

var errCredentials = errors.New("credentials")

// dialHub keeps one stream open until ctx ends. CA bundle and token are read
// anew for each connection, as both are rotated.
func (a *Agent) dialHub(ctx context.Context) {
	backoff := minBackoff
	for ctx.Err() == nil {
		got, err := a.watch(ctx)
		if ctx.Err() != nil {
			return
		}
		log.Warningf("Stream to %s ended: %v", a.opts.Hub, err)
		a.send(ctx, event{down: true, refused: refusal(err)})
		if got {
			backoff = minBackoff
		}
		wait := backoff/2 + rand.N(backoff/2)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// watch runs one stream; got says whether it brought a snapshot.
func (a *Agent) watch(ctx context.Context) (got bool, err error) {
	creds, token, err := a.credentials()
	if err != nil {
		return false, err
	}
	conn, err := grpc.NewClient("dns:///"+a.opts.Hub,
		grpc.WithTransportCredentials(creds),
		grpc.WithDisableServiceConfig(), // no TXT queries for it
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveGap, Timeout: keepaliveGap / 3}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return false, fmt.Errorf("dialling: %w", err)
	}
	defer conn.Close() // nothing is left to do with it
	observed := ""
	if c := a.observed.Load(); c != nil {
		observed = *c
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	stream, err := agentpb.NewAgentServiceClient(conn).Watch(ctx, &agentpb.WatchRequest{
		Component: Component, ModuleVersion: a.opts.ModuleVersion, Contract: Contract,
		Namespace: a.opts.Namespace, Name: a.opts.Name, ObservedVersion: observed,
	})
	if err != nil {
		return false, err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return got, err
		}
		if s := m.GetSnapshot(); s != nil {
			got = true
			a.send(ctx, event{snapshot: s})
		}
	}
}

func (a *Agent) credentials() (credentials.TransportCredentials, string, error) {
	pem, err := os.ReadFile(a.opts.HubCA)
	if err != nil {
		return nil, "", fmt.Errorf("%w: reading CA bundle: %w", errCredentials, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, "", fmt.Errorf("%w: no certificate in CA bundle", errCredentials)
	}
	token, err := os.ReadFile(a.opts.Token)
	if err != nil {
		return nil, "", fmt.Errorf("%w: reading token: %w", errCredentials, err)
	}
	host, _, err := net.SplitHostPort(a.opts.Hub)
	if err != nil {
		return nil, "", fmt.Errorf("%w: hub address: %w", errCredentials, err)
	}
	creds := credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: host, MinVersion: tls.VersionTLS12})
	return creds, strings.TrimSpace(string(token)), nil
}

var (
	problemContract = &snapshot.Problem{
		Reason:  ReasonContractMismatch,
		Message: "the operator does not speak " + Contract + "; the last good snapshot serves",
	}
	problemRefused = &snapshot.Problem{
		Reason:  ReasonHubRefused,
		Message: "the operator does not accept this pod's token for its resource; the last good snapshot serves",
	}
	problemCredentials = &snapshot.Problem{
		Reason:  ReasonHubCredentials,
		Message: "CA bundle or token for the operator cannot be read; the last good snapshot serves",
	}
)

// refusal is nil for what mends itself: an operator that is away.
func refusal(err error) *snapshot.Problem {
	if errors.Is(err, errCredentials) {
		return problemCredentials
	}
	switch status.Code(err) {
	case codes.FailedPrecondition:
		return problemContract
	case codes.Unauthenticated, codes.PermissionDenied, codes.NotFound:
		return problemRefused
	}
	return nil
}
