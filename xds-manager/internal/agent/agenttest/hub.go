// Package agenttest is the operator's side of the agent's stream, for tests.
//
// It serves the contract on loopback with a certificate of its own CA and
// accepts one token. It refuses to decide anything: it sends what a test gives
// it, in order.
package agenttest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/densityops/oooi/xds-manager/internal/agentpb"
)

// Token is the one that opens the stream.
const Token = "secret"

// Hub is a running hub.
type Hub struct {
	agentpb.UnimplementedAgentServiceServer

	// Address is where it listens, CAFile and TokenFile what a client needs.
	Address   string
	CAFile    string
	TokenFile string
	// Snapshots are sent to whoever has the stream open.
	Snapshots chan *agentpb.Snapshot
	// Requests are the handshakes so far.
	Requests chan *agentpb.WatchRequest

	server *grpc.Server
}

// Watch is the stream.
func (h *Hub) Watch(r *agentpb.WatchRequest, st grpc.ServerStreamingServer[agentpb.WatchResponse]) error {
	md, _ := metadata.FromIncomingContext(st.Context())
	if got := strings.Join(md.Get("authorization"), ","); got != "Bearer "+Token {
		return status.Error(codes.Unauthenticated, "another token")
	}
	h.Requests <- r
	for {
		select {
		case s := <-h.Snapshots:
			if err := st.Send(&agentpb.WatchResponse{Snapshot: s}); err != nil {
				return err
			}
		case <-st.Context().Done():
			return context.Cause(st.Context())
		}
	}
}

// Stop ends the hub and every stream.
func (h *Hub) Stop() { h.server.Stop() }

// Start serves until the test ends; what a client needs is written into dir.
func Start(t *testing.T, dir string) *Hub {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hub"}, NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	must(err)
	h := &Hub{
		CAFile: filepath.Join(dir, "ca.crt"), TokenFile: filepath.Join(dir, "token"),
		Snapshots: make(chan *agentpb.Snapshot), Requests: make(chan *agentpb.WatchRequest, 8),
		server: grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}))),
	}
	must(os.WriteFile(h.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(os.WriteFile(h.TokenFile, []byte(Token+"\n"), 0o600))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "localhost:0")
	must(err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(err)
	h.Address = net.JoinHostPort("localhost", port)
	agentpb.RegisterAgentServiceServer(h.server, h)
	go func() { _ = h.server.Serve(l) }()
	t.Cleanup(h.Stop)
	return h
}
