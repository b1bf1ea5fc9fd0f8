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
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
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

	"github.com/densityops/oooi/corednsplugin/internal/agentpb"
	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

const patience = 10 * time.Second

// hub is an operator on loopback.
type hub struct {
	agentpb.UnimplementedAgentServiceServer

	addr, ca, token string
	server          *grpc.Server

	mu       sync.Mutex
	requests []*agentpb.WatchRequest // guarded by mu
	bearer   []string                // guarded by mu
	refuse   error                   // guarded by mu
	out      chan *agentpb.Snapshot
	cut      chan struct{}
}

func (h *hub) Watch(r *agentpb.WatchRequest, s grpc.ServerStreamingServer[agentpb.WatchResponse]) error {
	md, _ := metadata.FromIncomingContext(s.Context())
	h.mu.Lock()
	h.requests = append(h.requests, r)
	h.bearer = append(h.bearer, strings.Join(md.Get("authorization"), ","))
	refuse := h.refuse
	h.mu.Unlock()
	if refuse != nil {
		return refuse
	}
	for {
		select {
		case <-s.Context().Done():
			return nil
		case <-h.cut:
			return status.Error(codes.Unavailable, "going away")
		case snap := <-h.out:
			if err := s.Send(&agentpb.WatchResponse{Snapshot: snap}); err != nil {
				return err
			}
		}
	}
}

func startHub(t *testing.T) *hub {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hub"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	require.NoError(t, err)
	dir := t.TempDir()
	h := &hub{
		ca: filepath.Join(dir, "ca.crt"), token: filepath.Join(dir, "token"),
		out: make(chan *agentpb.Snapshot), cut: make(chan struct{}),
	}
	require.NoError(t, os.WriteFile(h.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(h.token, []byte("secret\n"), 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	h.addr = "localhost:" + port
	h.server = grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})))
	agentpb.RegisterAgentServiceServer(h.server, h)
	go func() { _ = h.server.Serve(l) }()
	t.Cleanup(h.server.Stop)
	return h
}

func (h *hub) options(state string) Options {
	return Options{Hub: h.addr, HubCA: h.ca, Token: h.token, Namespace: "ns", Name: "dns", StateDir: state, ModuleVersion: "v9", Poll: time.Millisecond}
}

func (h *hub) last() (*agentpb.WatchRequest, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.requests) == 0 {
		return nil, ""
	}
	return h.requests[len(h.requests)-1], h.bearer[len(h.bearer)-1]
}

func snap(version string, generation int64) *agentpb.Snapshot {
	return &agentpb.Snapshot{
		Version: version, Child: &agentpb.Child{Namespace: "ns", Name: "dns", Uid: "u", Generation: generation},
		Config: &agentpb.Snapshot_Dns{Dns: &agentpb.DNSConfig{Cidr: "192.0.2.0/24", ServerIp: "192.0.2.3"}},
	}
}

// run starts an agent and returns the states that it tells, newest last.
func run(t *testing.T, opts Options) (first State, states <-chan State) {
	t.Helper()
	a := New(opts)
	first = a.Load()
	out := make(chan State, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Run(ctx, func(s State) { out <- s })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return first, out
}

// wait takes states until one pleases.
func wait(t *testing.T, states <-chan State, what string, ok func(State) bool) State {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case s := <-states:
			if ok(s) {
				return s
			}
		case <-limit:
			require.Fail(t, "waited in vain", what)
		}
	}
}

func serves(version string) func(State) bool {
	return func(s State) bool { return s.Config != nil && s.Config.Version == version }
}

func has(reason string) func(State) bool {
	return func(s State) bool {
		for _, p := range s.Problems {
			if p.Reason == reason {
				return true
			}
		}
		return false
	}
}

// Behaviours D7 and H4, architecture R2: a snapshot by stream, its copy on
// disk, and what happens when the operator goes.
func TestStream(t *testing.T) {
	h := startHub(t)
	state := t.TempDir()
	first, states := run(t, h.options(state))
	require.Nil(t, first.Config)

	h.out <- snap("v1", 1)
	s := wait(t, states, "first snapshot", serves("v1"))
	require.True(t, s.Connected)
	require.Empty(t, s.Problems)
	r, bearer := h.last()
	require.Equal(t, "Bearer secret", bearer)
	require.Equal(t, []string{"coredns", "v9", "agent.v1", "ns", "dns", ""},
		[]string{r.Component, r.ModuleVersion, r.Contract, r.Namespace, r.Name, r.ObservedVersion})

	bad := snap("bad", 2)
	bad.GetDns().Cidr = "nonsense"
	h.out <- bad
	s = wait(t, states, "refusal", has(ReasonSnapshotInvalid))
	require.Equal(t, "v1", s.Config.Version, "the last good snapshot stays")

	h.out <- snap("v3", 3)
	s = wait(t, states, "third snapshot", serves("v3"))
	require.Empty(t, s.Problems)

	h.cut <- struct{}{}
	s = wait(t, states, "end of the stream", func(s State) bool { return !s.Connected })
	require.Equal(t, "v3", s.Config.Version)

	h.out <- snap("v4", 4)
	wait(t, states, "snapshot after reconnecting", serves("v4"))
	r, _ = h.last()
	require.Equal(t, "v3", r.ObservedVersion)

	require.Eventually(t, func() bool { return New(Options{StateDir: state}).Load().Config.Version == "v4" }, patience, 10*time.Millisecond,
		"a restart without the operator serves the last good one")
}

// A refusal that the user can mend is a problem, an operator that is away is none.
func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"another contract", status.Error(codes.FailedPrecondition, "agent.v2 only"), ReasonContractMismatch},
		{"no token", status.Error(codes.Unauthenticated, "who"), ReasonHubRefused},
		{"another child's token", status.Error(codes.PermissionDenied, "not yours"), ReasonHubRefused},
		{"no such child", status.Error(codes.NotFound, "gone"), ReasonHubRefused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := startHub(t)
			h.refuse = tc.err
			_, states := run(t, h.options(""))
			s := wait(t, states, tc.want, has(tc.want))
			for _, p := range s.Problems {
				require.NotContains(t, p.Message, status.Convert(tc.err).Message(), "messages hold nothing volatile")
			}
			h.mu.Lock()
			h.refuse = nil
			h.mu.Unlock()
			h.out <- snap("v1", 1)
			s = wait(t, states, "snapshot after the refusal", serves("v1"))
			require.Empty(t, s.Problems)
		})
	}
	require.Nil(t, refusal(status.Error(codes.Unavailable, "away")))
}

func TestCredentialsThatCannotBeRead(t *testing.T) {
	h := startHub(t)
	for name, break_ := range map[string]func(*Options){
		"no CA bundle":        func(o *Options) { o.HubCA = filepath.Join(t.TempDir(), "none") },
		"a CA bundle of text": func(o *Options) { o.HubCA = h.token },
		"no token":            func(o *Options) { o.Token = filepath.Join(t.TempDir(), "none") },
		"no port":             func(o *Options) { o.Hub = "localhost" },
	} {
		t.Run(name, func(t *testing.T) {
			opts := h.options("")
			break_(&opts)
			_, states := run(t, opts)
			wait(t, states, name, has(ReasonHubCredentials))
		})
	}
}

// A server with another certificate is not the operator.
func TestWrongCertificateIsRefused(t *testing.T) {
	h, other := startHub(t), startHub(t)
	opts := h.options("")
	opts.HubCA = other.ca
	a := New(opts)
	_, err := a.watch(t.Context())
	require.ErrorContains(t, err, "certificate")
}

func write(t *testing.T, file string, s *agentpb.Snapshot) {
	t.Helper()
	data, err := snapshot.Encode(s)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file+".new", data, 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}

// Behaviour D7: the file, its changes, and what is no snapshot. Hazard 141.
func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot.json.gz")
	first, states := run(t, Options{File: file, Poll: time.Millisecond})
	require.Nil(t, first.Config)
	require.True(t, has(ReasonSnapshotInvalid)(first))

	write(t, file, snap("v1", 1))
	s := wait(t, states, "file", serves("v1"))
	require.Empty(t, s.Problems)

	require.NoError(t, os.WriteFile(file, []byte("junk"), 0o600))
	s = wait(t, states, "junk", has(ReasonSnapshotInvalid))
	require.Equal(t, "v1", s.Config.Version, "the last good snapshot stays")

	write(t, file, snap("v2", 2))
	s = wait(t, states, "second file", serves("v2"))
	require.Empty(t, s.Problems)

	require.NoError(t, os.Remove(file))
	s = wait(t, states, "no file", has(ReasonSnapshotInvalid))
	require.Equal(t, "v2", s.Config.Version)

	write(t, file, snap("v2", 2))
	wait(t, states, "the same file again", func(s State) bool { return len(s.Problems) == 0 })
}

// What is no file of a snapshot's size is refused at once.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	pipe, endless := filepath.Join(dir, "pipe"), filepath.Join(dir, "endless")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	f, err := os.Create(endless)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(1<<40))
	require.NoError(t, f.Close())
	for path, want := range map[string]string{
		dir: "is no regular file", pipe: "is no regular file", "/dev/zero": "is no regular file",
		endless: snapshot.ErrTooLarge.Error(), filepath.Join(dir, "none"): "file does not exist",
	} {
		first, _ := run(t, Options{File: path, Poll: time.Millisecond})
		require.Nil(t, first.Config)
		require.Len(t, first.Problems, 1)
		require.Contains(t, first.Problems[0].Message, want)
		require.NotContains(t, first.Problems[0].Message, dir, "messages hold nothing volatile")
	}
}

// A mounted ConfigMap changes by a link that is swapped.
func TestFileBehindALink(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "snapshot.json.gz")
	for _, v := range []string{"one", "two"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, v), 0o700))
		write(t, filepath.Join(dir, v, "snapshot.json.gz"), snap(v, 1))
	}
	require.NoError(t, os.Symlink("one", filepath.Join(dir, "..data")))
	require.NoError(t, os.Symlink(filepath.Join("..data", "snapshot.json.gz"), file))
	first, states := run(t, Options{File: file, Poll: time.Millisecond})
	require.Equal(t, "one", first.Config.Version)
	require.NoError(t, os.Symlink("two", filepath.Join(dir, "..new")))
	require.NoError(t, os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
	wait(t, states, "swapped link", serves("two"))
}

// A copy on disk that is broken is as good as none.
func TestBrokenStateIsIgnored(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, stateFile), []byte("torn"), 0o600))
	require.Nil(t, New(Options{StateDir: dir}).Load().Config)
	write(t, filepath.Join(dir, stateFile), &agentpb.Snapshot{})
	require.Nil(t, New(Options{StateDir: dir}).Load().Config)
}

// A state directory that was another resource's says nothing of ours.
func TestStateOfAnotherResourceIsIgnored(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, stateFile), snap("v1", 1))
	c := New(Options{StateDir: dir}).Load().Config
	require.NotNil(t, c)
	require.NotNil(t, New(Options{StateDir: dir, Namespace: c.Child.Namespace, Name: c.Child.Name}).Load().Config)
	require.Nil(t, New(Options{StateDir: dir, Namespace: c.Child.Namespace, Name: "another"}).Load().Config)
}

// A full or read-only disk stops nothing, and is named until it is mended.
func TestStateThatCannotBeWrittenStopsNothing(t *testing.T) {
	h := startHub(t)
	dir := filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.WriteFile(dir, nil, 0o600)) // a file where a directory should be
	_, states := run(t, h.options(dir))
	h.out <- snap("v1", 1)
	s := wait(t, states, "snapshot", serves("v1"))
	require.Empty(t, s.Problems, "in force before the disk is asked")
	s = wait(t, states, "problem", has(ReasonSnapshotNotKept))
	require.NotContains(t, s.Problems[0].Message, dir, "messages hold nothing volatile")
	h.out <- snap("v2", 2)
	wait(t, states, "next snapshot", func(s State) bool { return serves("v2")(s) && has(ReasonSnapshotNotKept)(s) })
	require.NoError(t, os.Remove(dir))
	wait(t, states, "end of the problem without a new snapshot", func(s State) bool { return len(s.Problems) == 0 })
	require.Equal(t, "v2", New(Options{StateDir: dir}).Load().Config.Version)
	h.out <- snap("v3", 3)
	wait(t, states, "one more snapshot", serves("v3"))
	require.Eventually(t, func() bool { return New(Options{StateDir: dir}).Load().Config.Version == "v3" }, patience, time.Millisecond)
}
