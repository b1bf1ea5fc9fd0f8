package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

func golden() Object {
	return Object{
		APIVersion: APIVersion, Kind: Kind,
		Metadata: Metadata{Namespace: "clusters", Name: "example-dns"},
		Status: Status{Agent: Agent{
			ObservedVersion:    "sha256:0f3b1c0000000000000000000000000000000000000000000000000000000000",
			ObservedGeneration: 3, ModuleVersion: "v0.1.0", Contract: "agent.v1", Names: 12,
			Problems: Problems([]snapshot.Problem{
				{Reason: "UpstreamIsSelf", Message: "upstream 192.0.2.3:53 is this DNS server itself or loopback and is not used"},
				{Reason: "InvalidRecord", Message: `records: "api..test": bad label ""`},
			}),
		}},
	}
}

// Behaviour H4, architecture R4: the stanza as the operator's CRD takes it.
func TestGolden(t *testing.T) {
	want, err := os.ReadFile(filepath.Join("testdata", "status.golden.json"))
	require.NoError(t, err)
	got, err := json.MarshalIndent(golden(), "", "  ")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got)+"\n")
}

// Behaviour H4: a status that the resource's schema would refuse is never written.
func TestProblemsFitTheSchema(t *testing.T) {
	var many []snapshot.Problem
	for i := range 1000 {
		many = append(many, snapshot.Problem{Reason: "InvalidRecord", Message: fmt.Sprintf("%04d", i)})
	}
	require.Len(t, Problems(many[:256]), 256)
	got := Problems(many)
	require.Len(t, got, 256)
	require.Equal(t, Problem{"InvalidRecord", "0254"}, got[254])
	require.Equal(t, Problem{ReasonMoreProblems, "745 problems more are not listed"}, got[255])
	long := Problems([]snapshot.Problem{{Reason: "ListenerNotBound", Message: strings.Repeat("ü", 5000)}})
	require.Len(t, []rune(long[0].Message), 2048)
}

// writer records what is written, and fails while told to.
type writer struct {
	mu    sync.Mutex
	tries int
	names []int
	fail  error
}

func (w *writer) Write(_ context.Context, o Object) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tries++
	if w.fail != nil {
		return w.fail
	}
	w.names = append(w.names, o.Status.Agent.Names)
	return nil
}

func (w *writer) failing(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = err
}

func (w *writer) tried() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tries
}

func (w *writer) wrote() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]int(nil), w.names...)
}

func report(names int) Object {
	o := golden()
	o.Status.Agent.Names = names
	return o
}

func running(t *testing.T, w Writer) *Reporter {
	t.Helper()
	r := New(w)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

// Behaviour B8: what did not change is not written; what changes often is one
// write a second.
func TestWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(writer)
		r := running(t, w)
		r.Set(report(1))
		synctest.Wait()
		require.Equal(t, []int{1}, w.wrote(), "the first report is written at once")
		r.Set(report(1))
		<-time.After(time.Minute)
		require.Equal(t, []int{1}, w.wrote(), "an equal report is not written")
		for i := range 100 {
			r.Set(report(i))
			synctest.Wait()
		}
		<-time.After(time.Minute)
		got := w.wrote()
		require.Equal(t, 99, got[len(got)-1])
		require.LessOrEqual(t, len(got), 3)
	})
}

// An API server that is away costs retries, further and further apart, and the
// newest report arrives when it is back.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writer{fail: errors.New("away")}
		r := running(t, w)
		r.Set(report(1))
		<-time.After(10 * time.Minute)
		r.Set(report(2))
		synctest.Wait()
		require.Less(t, w.tried(), 60)
		require.Greater(t, w.tried(), 10)
		w.failing(nil)
		<-time.After(time.Minute)
		require.Equal(t, []int{2}, w.wrote())
	})
}

// The write is a server-side apply of the status alone, forced, in our name.
func TestApply(t *testing.T) {
	var method, url, kind string
	var body Object
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method, url, kind = r.Method, r.URL.String(), r.Header.Get("Content-Type")
		_ = json.NewDecoder(r.Body).Decode(&body)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(s.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: s.URL})
	require.NoError(t, err)
	require.NoError(t, (&Cluster{client: client}).Write(t.Context(), golden()))
	require.Equal(t, http.MethodPatch, method)
	require.Equal(t, "/apis/hostedcluster.densityops.com/v1alpha1/namespaces/clusters/dnsservers/example-dns/status?fieldManager=oooi-coredns&force=true", url)
	require.Contains(t, kind, "application/apply-patch")
	require.Equal(t, golden(), body)
}

func TestClusters(t *testing.T) {
	_, err := NewCluster("")
	require.ErrorIs(t, err, ErrNoCluster)
	_, err = NewCluster(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":""}}],"current-context":"c"}`), 0o600))
	c, err := NewCluster(file)
	require.NoError(t, err)
	require.ErrorIs(t, c.Write(t.Context(), golden()), syscall.ECONNREFUSED, "nobody listens there")
}
