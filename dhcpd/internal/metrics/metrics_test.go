package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// behaviour C9: metrics by message type and outcome, as Prometheus likes them.
func TestMetricsPassPromlint(t *testing.T) {
	m := New("v0.1.0", "agent.v1")
	m.Message("discover", "answered")
	m.Message("discover", "answered")
	m.Snapshot("sha256:1", time.Unix(1, 0))
	m.Snapshot("sha256:2", time.Unix(2, 0))
	m.Status(time.Unix(3, 0))
	m.Update(lease.Stats{Total: 100, Active: 2, Free: 98}, true, false, []config.Problem{{Reason: "X", Message: "a"}, {Reason: "X", Message: "b"}})
	problems, err := testutil.GatherAndLint(m.Registry)
	require.NoError(t, err)
	require.Empty(t, problems)
	require.InDelta(t, 2, testutil.ToFloat64(m.messages.WithLabelValues("discover", "answered")), 0)
	require.Equal(t, 1, testutil.CollectAndCount(m.snapshot), "one version at a time")
	require.InDelta(t, 2, testutil.ToFloat64(m.problems.WithLabelValues("X")), 0)
	require.InDelta(t, 98, testutil.ToFloat64(m.addresses.WithLabelValues("free")), 0)
}
