package dns

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/e2e/lab"
)

// Behaviour D7: 1000 changes under load, each of them a whole new snapshot that
// also moves the upstream now and then. Nothing is lost, no answer is an error,
// and the process is the same at the end.
func TestThousandChangesUnderLoad(t *testing.T) {
	const changes = 1000
	r := idle(t)
	snapshot := func(i int) {
		t.Helper()
		require.NoError(t, Replace(r.SnapshotFile(), manyNames(i)))
	}
	snapshot(0)
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
	for i := range changes {
		snapshot(i + 1)
		began := time.Now()
		for strings.Count(r.CoreDNS.Output(), "in force") < i+2 {
			require.Less(t, time.Since(began), 2*time.Second, "change %d is not in force", i+1)
			<-tick.C
		}
	}
	got, err := r.Dig(t.Context(), r.VM, "@"+ServerIP, "api.hcp-7.clusters.example.com")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("NOERROR 192.0.2.%d", 10+changes%200), got)
	require.NoError(t, load.Signal(syscall.SIGINT))
	require.NoError(t, load.Wait(time.Minute))
	out := load.Output()
	sent, done, lost := figure(t, out, `Queries sent:\s+(\d+)`), figure(t, out, `Queries completed:\s+(\d+)`), figure(t, out, `Queries lost:\s+(\d+)`)
	require.Zero(t, lost, out)
	// What was asked in the moment of the interruption is neither answered nor lost.
	interrupted := 0
	if strings.Contains(out, "Queries interrupted:") {
		interrupted = figure(t, out, `Queries interrupted:\s+(\d+)`)
	}
	require.Less(t, interrupted, 100, out)
	require.Equal(t, sent, done+interrupted, out)
	require.Greater(t, done, 10_000, out)
	require.Regexp(t, `Response codes:\s+NOERROR `+strconv.Itoa(done)+` \(100\.00%\)\n`, out)
	again, err := r.CoreDNS.PID()
	require.NoError(t, err)
	require.Equal(t, pid, again)
}

// manyNames is a snapshot of 50 clusters whose proxy and upstreams depend on i.
func manyNames(i int) string {
	var records []string
	for c := range 50 {
		records = append(records,
			fmt.Sprintf(`{"name": "api.hcp-%d.clusters.example.com", "vlan": {"policy": "DNS_POLICY_ANSWER", "addresses": ["192.0.2.%d"]}}`, c, 10+i%200),
			fmt.Sprintf(`{"name": "*.apps.hcp-%d.clusters.example.com", "vlan": {"policy": "DNS_POLICY_ANSWER", "addresses": ["192.0.2.200"]}}`, c))
	}
	upstreams := `"` + UpstreamIP + `"`
	if i%100 >= 50 {
		upstreams += `, "` + UpstreamIP + `:5353"`
	}
	return fmt.Sprintf(`{"child": {"uid": "u", "generation": %d}, "dns": {"cidr": "192.0.2.0/24", "serverIp": %q, "records": [%s], "upstreams": [%s]}}`,
		i+1, ServerIP, strings.Join(records, ","), upstreams)
}

func figure(t *testing.T, out, pattern string) int {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(out)
	require.NotNil(t, m, out)
	n, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return n
}
