package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/densityops/oooi/dhcpd/internal/agentpb"
	"github.com/densityops/oooi/dhcpd/internal/config"
)

func snapshot(version, uid string, generation int64) *agentpb.Snapshot {
	return &agentpb.Snapshot{Version: version, Child: &agentpb.Child{Namespace: "ns", Name: "n", Uid: uid, Generation: generation}}
}

// What was refused must not be all that a restart finds.
func TestOnlyAGoodSnapshotIsKept(t *testing.T) {
	dir := t.TempDir()
	f := New(Options{Log: slog.New(slog.DiscardHandler), StateDir: dir, Namespace: "ns", Name: "n"})
	f.connected, f.stream = true, snapshot("good", "u", 1)
	f.apply(func(*agentpb.Snapshot) error { return nil })
	f.stream = snapshot("bad", "u", 2)
	f.apply(func(*agentpb.Snapshot) error { return errors.New("refused") })
	kept := New(f.opts).loadSaved()
	require.Equal(t, "good", kept.GetVersion())
}

// A disk that was full holds the stream's last once it takes something again.
func TestASnapshotThatCouldNotBeKeptIsTriedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	f := New(Options{Log: slog.New(slog.DiscardHandler), StateDir: dir, Namespace: "ns", Name: "n"})
	f.connected, f.stream = true, snapshot("one", "u", 1)
	f.apply(func(*agentpb.Snapshot) error { return nil })
	require.NoError(t, os.Mkdir(dir, 0o700))
	f.saveAgain()
	require.Nil(t, New(f.opts).loadSaved(), "before its time the disk is left alone")
	f.saveAt = time.Time{}
	f.saveAgain()
	require.Equal(t, "one", New(f.opts).loadSaved().GetVersion())
	require.NoError(t, os.RemoveAll(dir))
	f.saveAgain()
	require.NoDirExists(t, dir, "what is kept is not written again")
}

// What is no file of a snapshot's size is refused at once.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	pipe, endless := filepath.Join(dir, "pipe"), filepath.Join(dir, "endless")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	file, err := os.Create(endless)
	require.NoError(t, err)
	require.NoError(t, file.Truncate(1<<40))
	require.NoError(t, file.Close())
	for path, want := range map[string]string{
		dir: "no regular file", pipe: "no regular file", "/dev/zero": "no regular file",
		endless: "larger than", filepath.Join(dir, "none"): "no such file",
	} {
		_, err := ReadFile(path)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, path)
	}
}

// The contract: which snapshot counts.
func TestWhichSnapshotCounts(t *testing.T) {
	f, s := snapshot("file", "u", 5), snapshot("stream", "u", 5)
	older, newer, other := snapshot("older", "u", 4), snapshot("newer", "u", 6), snapshot("other", "v", 1)
	for _, c := range []struct {
		name         string
		file, stream *agentpb.Snapshot
		connected    bool
		want         *agentpb.Snapshot
	}{
		{"nothing", nil, nil, false, nil},
		{"the file alone", f, nil, false, f},
		{"the stream's last alone", nil, s, false, s},
		{"connected, the stream alone", newer, s, true, s},
		{"connected, even of another resource", f, other, true, other},
		{"away, the higher generation: the file's", newer, s, false, newer},
		{"away, the higher generation: the stream's", older, s, false, s},
		{"away, the same generation", f, s, false, s},
		{"away, another resource", f, other, false, f},
	} {
		t.Run(c.name, func(t *testing.T) { require.Same(t, c.want, choose(c.file, c.stream, c.connected)) })
	}
}

// hub is an operator.
type hub struct {
	agentpb.UnimplementedAgentServiceServer
	send chan *agentpb.Snapshot

	mu    sync.Mutex
	asked []*agentpb.WatchRequest // guarded by mu
	token string                  // guarded by mu
}

func (h *hub) Watch(r *agentpb.WatchRequest, s grpc.ServerStreamingServer[agentpb.WatchResponse]) error {
	md, _ := metadata.FromIncomingContext(s.Context())
	h.mu.Lock()
	h.asked = append(h.asked, r)
	if v := md.Get("authorization"); len(v) > 0 {
		h.token = v[0]
	}
	h.mu.Unlock()
	for {
		select {
		case <-s.Context().Done():
			return s.Context().Err()
		case x, ok := <-h.send:
			if !ok {
				return status.Error(codes.Unavailable, "stopping")
			}
			if err := s.Send(&agentpb.WatchResponse{Snapshot: x}); err != nil {
				return err
			}
		}
	}
}

// serve runs a hub with a certificate of its own, and returns its address.
func serve(t *testing.T, h *hub, dir string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hub"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte("secret\n"), 0o600))
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})))
	agentpb.RegisterAgentServiceServer(srv, h)
	go func() { _ = srv.Serve(l) }() // ends with Stop
	t.Cleanup(srv.Stop)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return "localhost:" + port
}

func TestTheStreamIsFollowedAndItsLastIsKept(t *testing.T) {
	dir := t.TempDir()
	h := &hub{send: make(chan *agentpb.Snapshot, 1)}
	o := Options{
		Log: slog.New(slog.DiscardHandler), StateDir: dir, Hub: serve(t, h, dir), CAFile: filepath.Join(dir, "ca.crt"), Token: filepath.Join(dir, "token"),
		Component: "dhcpd", ModuleVersion: "v1", Namespace: "ns", Name: "n",
	}
	ctx, stop := context.WithCancel(t.Context())
	got := make(chan string, 8)
	refuse := errors.New("refused")
	take := func(s *agentpb.Snapshot) error {
		got <- s.GetVersion()
		if s.GetVersion() == "bad" {
			return refuse
		}
		return nil
	}
	f := New(o)
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx, take) }()
	h.send <- snapshot("one", "u", 1)
	require.Equal(t, "one", <-got)
	require.True(t, f.Connected())
	h.send <- snapshot("bad", "u", 2)
	require.Equal(t, "bad", <-got)
	h.send <- snapshot("two", "u", 3)
	require.Equal(t, "two", <-got)
	h.mu.Lock()
	require.Equal(t, "Bearer secret", h.token)
	require.Equal(t, "dhcpd", h.asked[0].GetComponent())
	require.Equal(t, "agent.v1", h.asked[0].GetContract())
	h.mu.Unlock()
	close(h.send)
	require.Eventually(t, func() bool { return !f.Connected() }, time.Minute, 5*time.Millisecond)
	require.Eventually(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.asked) > 1 && h.asked[len(h.asked)-1].GetObservedVersion() == "two"
	}, time.Minute, 10*time.Millisecond, "it comes back, and says what it has")
	stop()
	require.NoError(t, <-done)

	// A restart without operator and API server.
	o.Hub = ""
	ctx, stop = context.WithCancel(t.Context())
	go func() { done <- New(o).Run(ctx, take) }()
	require.Equal(t, "two", <-got)
	stop()
	require.NoError(t, <-done)
	o.Name = "another"
	require.Nil(t, New(o).loadSaved())
	require.NoError(t, os.WriteFile(filepath.Join(dir, savedName), []byte("junk"), 0o600))
	o.Name = "n"
	require.Nil(t, New(o).loadSaved())
}

func TestAMountedFileIsFollowed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "snapshot.json")
	write := func(s *agentpb.Snapshot) {
		b, err := config.Encode(s)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file+".new", b, 0o600))
		require.NoError(t, os.Rename(file+".new", file))
	}
	ctx, stop := context.WithCancel(t.Context())
	got, done := make(chan string, 8), make(chan error, 1)
	go func() {
		done <- New(Options{Log: slog.New(slog.DiscardHandler), File: file}).Run(ctx, func(s *agentpb.Snapshot) error {
			got <- s.GetVersion()
			return nil
		})
	}()
	write(snapshot("one", "u", 1))
	require.Equal(t, "one", <-got)
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	write(snapshot("two", "u", 2))
	require.Equal(t, "two", <-got)
	stop()
	require.NoError(t, <-done)
}

func TestAHubThatCannotBeAskedIsNamed(t *testing.T) {
	dir := t.TempDir()
	f := New(Options{Log: slog.New(slog.DiscardHandler), Hub: "no-port", CAFile: filepath.Join(dir, "ca.crt")})
	_, err := f.connect(t.Context(), nil)
	require.ErrorContains(t, err, "no-port")
	f.opts.Hub = "localhost:1"
	_, err = f.connect(t.Context(), nil)
	require.ErrorContains(t, err, "reading CA")
	require.NoError(t, os.WriteFile(f.opts.CAFile, []byte("junk"), 0o600))
	_, err = f.connect(t.Context(), nil)
	require.ErrorContains(t, err, "no certificate")
}
