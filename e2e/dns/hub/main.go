// Command hub stands in for the operator's gRPC service in the tests of the DNS
// server: TLS, a bearer token, one stream of snapshots.
//
// It reads WatchResponses from stdin, one a line in base64, and sends the newest
// to every stream, as the operator does. It writes its CA into a file and says on
// stdout who watches. It judges nothing: what a snapshot holds is the test's.
package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8443", "address")
	ca := flag.String("ca", "ca.crt", "file that the CA is written to")
	token := flag.String("token", "secret", "what a caller has to bring")
	flag.Parse()
	if err := run(*listen, *ca, *token); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(listen, ca, token string) error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", listen)
	if err != nil {
		return err
	}
	cert, err := certificate(l.Addr().(*net.TCPAddr).IP, ca)
	if err != nil {
		return err
	}
	h := &hub{token: token, changed: make(chan struct{})}
	go h.read(os.Stdin)
	s := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(cert)), grpc.ForceServerCodec(bytesCodec{}))
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "oooi.agent.v1.AgentService",
		HandlerType: (*any)(nil),
		Streams:     []grpc.StreamDesc{{StreamName: "Watch", Handler: h.watch, ServerStreams: true}},
	}, h)
	return s.Serve(l)
}

// hub holds the newest message.
type hub struct {
	token string

	mu      sync.Mutex
	newest  []byte        // guarded by mu
	changed chan struct{} // guarded by mu: closed when newest changes
}

func (h *hub) read(in io.Reader) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		message, err := base64.StdEncoding.DecodeString(lines.Text())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		h.mu.Lock()
		h.newest = message
		close(h.changed)
		h.changed = make(chan struct{})
		h.mu.Unlock()
	}
}

func (h *hub) watch(_ any, stream grpc.ServerStream) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	if !slices.Equal(md.Get("authorization"), []string{"Bearer " + h.token}) {
		return status.Error(codes.Unauthenticated, "not the token")
	}
	var request []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(os.Stdout, "WATCH %q\n", request)
	for {
		h.mu.Lock()
		message, changed := h.newest, h.changed
		h.mu.Unlock()
		if message != nil {
			if err := stream.SendMsg(&message); err != nil {
				return err
			}
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-changed:
		}
	}
}

// bytesCodec leaves messages as they are on the wire.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (bytesCodec) Name() string                  { return "proto" }
func (bytesCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = data
	return nil
}

// certificate makes a certificate for an address that signs itself.
func certificate(ip net.IP, file string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{ip}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, os.WriteFile(file, text, 0o644) //nolint:gosec // public
}
