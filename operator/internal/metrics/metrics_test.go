package metrics_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/densityops/oooi/operator/internal/metrics"
)

// gathered are the metrics of an operator in which everything has happened once.
func gathered(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewRegistry()
	s := metrics.New(registry, "v0.1.0", func() map[string]int { return map[string]int{"dhcp": 2} }, func() []string { return []string{"Machine.cluster.x-k8s.io"} },
		func() time.Time { return time.Unix(1_800_000_000, 0) }, func() bool { return true })
	s.Planned(3 * time.Millisecond)
	s.Wrote("PATCH", "infras/status")
	s.Changed("Infra", "Ready", "ReconciliationSucceeded")
	families, err := registry.Gather()
	require.NoError(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
	out := map[string]*dto.MetricFamily{}
	for _, f := range families {
		out[f.GetName()] = f
	}
	return out
}

// The metrics are those that the README names, with its labels, and none has a
// label whose values grow with what is served.
func TestTheMetricsAreTheDocumentedOnes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	named := map[string]string{}
	for _, m := range regexp.MustCompile("`(oooi_operator_[a-z_]+)(?:\\{([a-z,]+)\\})?`").FindAllStringSubmatch(string(text), -1) {
		named[m[1]] = m[2]
	}
	families := gathered(t)
	require.Equal(t, slices.Sorted(maps.Keys(named)), slices.Sorted(maps.Keys(families)))
	for name, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		for _, l := range regexp.MustCompile("[a-z]+").FindAllString(named[name], -1) {
			require.Contains(t, labels, l, name)
		}
		require.Len(t, labels, len(regexp.MustCompile("[a-z]+").FindAllString(named[name], -1)), name)
	}
	require.InDelta(t, 2, families["oooi_operator_hub_streams"].GetMetric()[0].GetGauge().GetValue(), 0)
	require.InDelta(t, 1, families["oooi_operator_may_write"].GetMetric()[0].GetGauge().GetValue(), 0)
	require.InDelta(t, 1_800_000_000, families["oooi_operator_hub_certificate_expiry_timestamp_seconds"].GetMetric()[0].GetGauge().GetValue(), 0)
}

// Before there is a certificate there is no date: an alert would go off at 1970.
func TestNoCertificateHasNoDate(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics.New(registry, "v0.1.0", func() map[string]int { return nil }, func() []string { return nil }, func() time.Time { return time.Time{} }, func() bool { return false })
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		require.NotEqual(t, "oooi_operator_hub_certificate_expiry_timestamp_seconds", f.GetName())
	}
}
