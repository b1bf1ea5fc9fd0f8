package dns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

// Behaviour D7: 1000 changes of the snapshot file under load.
func TestThousandChangesByFile(t *testing.T) {
	r := idle(t)
	thousandChanges(t, r, func(i int) {
		t.Helper()
		require.NoError(t, Replace(r.SnapshotFile(), manyNames(i).json()))
	})
}

// Behaviour D7, architecture R2: the same by the stream alone. The operator that
// sends them is a stand-in that speaks the contract (its own side is tested with
// it): a change of the resource to the answer is measured in e2e/pods. Then the
// operator dies and the server goes on; it is killed, too, and serves the last
// snapshot of the stream from its disk.
func TestThousandChangesByStream(t *testing.T) {
	r := idle(t)
	h := startHub(t, r)
	r.Env = append(r.Env, h.env...)
	thousandChanges(t, r, func(i int) { h.send(t, manyNames(i).message(i)) })
	require.Regexp(t, `WATCH .*coredns.*agent\.v1.*ns.*dns`, h.Output())
	out, err := r.Pod.Run(t.Context(), "curl", "-sf", "-m", "10", "http://"+PodIP+":9094/metrics")
	require.NoError(t, err)
	require.Contains(t, out, "\ncoredns_oooi_stream_connected 1\n")

	require.NoError(t, h.Kill())
	want := fmt.Sprintf("NOERROR 192.0.2.%d", 10+changes%200)
	got, err := r.Dig(t.Context(), r.VM, "@"+ServerIP, "api.hcp-7.clusters.example.com")
	require.NoError(t, err)
	require.Equal(t, want, got, "without the operator")
	require.NoError(t, r.CoreDNS.Kill())
	require.NoError(t, r.Start(t.Context()))
	got, err = r.Dig(t.Context(), r.VM, "@"+ServerIP, "api.hcp-7.clusters.example.com")
	require.NoError(t, err)
	require.Equal(t, want, got, "without the operator, after kill -9")
}

// Architecture R2, behaviour H4: neither a disk nor the API server is needed to
// serve. The disk that is missing is named, and what is not is served all the same.
func TestWithoutDiskAndAPI(t *testing.T) {
	r := idle(t)
	h := startHub(t, r)
	kubeconfig := filepath.Join(r.Dir, "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": "http://`+UpstreamIP+`:1"}}],
		"contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}]}`), 0o644)) //nolint:gosec // for a program without rights
	r.Env = append(h.env, "OOOI_STATE_DIR=/proc/none", "OOOI_KUBECONFIG="+kubeconfig)
	h.send(t, manyNames(0).message(0))
	require.NoError(t, r.Start(t.Context()))
	problems(t, r, "SnapshotNotKept")
	for i := range 3 {
		h.send(t, manyNames(i).message(i))
		require.NoError(t, lab.Until(t.Context(), time.Minute, "the change", func(ctx context.Context) error {
			got, err := r.Dig(ctx, r.VM, "@"+ServerIP, "api.hcp-7.clusters.example.com")
			if err == nil && got != fmt.Sprintf("NOERROR 192.0.2.%d", 10+i) {
				err = errors.New(got)
			}
			return err
		}))
	}
	require.Contains(t, r.CoreDNS.Output(), "Reporting status: ")
}

const changes = 1000

// thousandChanges starts the server and changes all that it serves, its upstreams
// too now and then, while dnsperf asks. Nothing is lost, no answer is an error,
// and the process is the same at the end.
func thousandChanges(t *testing.T, r *Rig, change func(i int)) {
	t.Helper()
	change(0)
	require.NoError(t, r.Start(t.Context()))
	pid, err := r.CoreDNS.PID()
	require.NoError(t, err)

	var queries strings.Builder
	for i := range 50 {
		fmt.Fprintf(&queries, "api.hcp-%d.clusters.example.com A\nx%d.apps.hcp-%d.clusters.example.com A\napi.hcp-%d.clusters.example.com AAAA\nf%d.example.org A\n", i, i, i, i, i)
	}
	file := filepath.Join(r.Dir, "queries")
	require.NoError(t, os.WriteFile(file, []byte(queries.String()), 0o600))
	load, err := r.VM.Start(lab.Spec{Args: []string{"dnsperf", "-s", ServerIP, "-d", file, "-l", "600", "-Q", "2000", "-c", "4", "-T", "1", "-t", "5"}})
	require.NoError(t, err)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	took := make([]time.Duration, changes)
	for i := range changes {
		change(i + 1)
		began := time.Now()
		for strings.Count(r.CoreDNS.Output(), "in force") < i+2 {
			require.Less(t, time.Since(began), time.Minute, "change %d is not in force", i+1)
			<-tick.C
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	t.Logf("a change was in force after %v (median), %v (p99), %v (worst)", took[changes/2], took[changes*99/100], took[changes-1])
	require.Less(t, took[changes*99/100], time.Second, "a change is in force within a second")
	got, err := r.Dig(t.Context(), r.VM, "@"+ServerIP, "api.hcp-7.clusters.example.com")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("NOERROR 192.0.2.%d", 10+changes%200), got)
	require.NoError(t, load.Signal(syscall.SIGINT))
	require.NoError(t, load.Wait(time.Minute))
	requireNothingLost(t, load.Output())
	again, err := r.CoreDNS.PID()
	require.NoError(t, err)
	require.Equal(t, pid, again)
}

// requireNothingLost reads what dnsperf says at its end.
func requireNothingLost(t *testing.T, out string) {
	t.Helper()
	sent, done, lost := figure(t, out, `Queries sent:\s+(\d+)`), figure(t, out, `Queries completed:\s+(\d+)`), figure(t, out, `Queries lost:\s+(\d+)`)
	require.Zero(t, lost, out)
	// What was asked in the moment of the interruption is neither answered nor lost.
	interrupted := 0
	if strings.Contains(out, "Queries interrupted:") {
		interrupted = figure(t, out, `Queries interrupted:\s+(\d+)`)
	}
	require.Less(t, interrupted, 100, out)
	require.Equal(t, sent, done+interrupted, out)
	require.Greater(t, done, 5_000, out)
	require.Regexp(t, `Response codes:\s+NOERROR `+strconv.Itoa(done)+` \(100\.00%\)\n`, out)
	t.Logf("%d queries, none lost", done)
}

func figure(t *testing.T, out, pattern string) int {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(out)
	require.NotNil(t, m, out)
	n, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return n
}
