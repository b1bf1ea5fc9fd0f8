package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
)

func exposition(t *testing.T, m *Metrics) string {
	t.Helper()
	families, err := m.Registry.Gather()
	require.NoError(t, err)
	var out strings.Builder
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "oooi_") {
			_, err := expfmt.MetricFamilyToText(&out, f)
			require.NoError(t, err)
		}
	}
	return out.String()
}

func filled() *Metrics {
	m := New("v0.1.0")
	m.Acknowledged("type.googleapis.com/envoy.config.cluster.v3.Cluster", 3)
	m.Rejected("type.googleapis.com/envoy.config.listener.v3.Listener", 1)
	m.UnknownNode()
	m.HubConnected(true)
	m.Envoy(true, true, "sha256:aa")
	m.Applied(time.Unix(1700000000, 0), "sha256:aa", 15, 3*time.Millisecond)
	m.Synced(20 * time.Millisecond)
	m.Problems(map[string]int{"ConfigRejected": 1})
	m.Lookup(true)
	m.StatusWrite(false)
	return m
}

func TestEveryMetricPassesPromlint(t *testing.T) {
	problems, err := promlint.New(strings.NewReader(exposition(t, filled()))).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestTheMetricsSayWhatHappened(t *testing.T) {
	text := exposition(t, filled())
	for _, want := range []string{
		`oooi_xds_acks_total{type="cluster"} 3`, `oooi_xds_nacks_total{type="listener"} 1`, `oooi_xds_unknown_nodes_total 1`,
		`oooi_xds_stream_connected 1`, `oooi_xds_envoy_connected 1`, `oooi_xds_snapshot_info{version="sha256:aa"} 1`,
		`oooi_xds_problems{reason="ConfigRejected"} 1`, `oooi_xds_backends 15`, `oooi_xds_status_writes_total{result="error"} 1`,
	} {
		require.Contains(t, text, want)
	}
}

func TestOnlyTheNewestVersionIsShown(t *testing.T) {
	m := filled()
	m.Applied(time.Unix(1700000001, 0), "sha256:bb", 15, time.Millisecond)
	require.NotContains(t, exposition(t, m), `snapshot_info{version="sha256:aa"}`)
}
