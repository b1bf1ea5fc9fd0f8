package oooi

import (
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/densityops/oooi/corednsplugin/internal/snapshot"
)

// The values of the label result.
const (
	resultAnswer = iota
	resultAny
	resultNoData
	resultName
	resultForwarded
	resultNoUpstream
	resultLoop
	resultStranger
	resultRefused
	resultNoSnapshot
	resultCount
)

var resultNames = [resultCount]string{
	resultAnswer: "answer", resultAny: "any", resultNoData: "nodata", resultName: "nxdomain",
	resultForwarded: "forwarded", resultNoUpstream: "no_upstream", resultLoop: "loop",
	resultStranger: "stranger", resultRefused: "refused", resultNoSnapshot: "no_snapshot",
}

// results maps what a lookup came to onto the label.
var results = [...]int{
	outForward: resultForwarded, outAnswer: resultAnswer, outAny: resultAny,
	outNoData: resultNoData, outName: resultName, outApex: resultAnswer,
}

var (
	queryCount = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "queries_total",
		Help:      "Counter of queries by view and by what became of them.",
	}, []string{"view", "result"})
	shareExceeded = promauto.NewCounter(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "share_exceeded_total",
		Help:      "Counter of queries that were not forwarded because their source had its share under way.",
	})
	appliedTime = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "snapshot_applied_timestamp_seconds",
		Help:      "Unix time at which the snapshot in force was applied.",
	})
	applyDuration = promauto.NewHistogram(prometheus.HistogramOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "snapshot_apply_duration_seconds",
		Help:      "Time that it took to compile a snapshot and to put it into force.",
		Buckets:   prometheus.ExponentialBuckets(0.0005, 4, 8),
	})
	snapshotInfo = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "snapshot_info",
		Help:      "Always 1; the version of the snapshot in force.",
	}, []string{"version"})
	nameCount = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "names",
		Help:      "Number of owned records and workers in force.",
	})
	problemCount = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "problems",
		Help:      "Number of problems by reason.",
	}, []string{"reason"})
	streamConnected = promauto.NewGauge(prometheus.GaugeOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "stream_connected",
		Help:      "1 while the stream to the operator is connected.",
	})
)

// metrics holds the counters of the hot path, looked up once.
type metrics struct {
	queries [sides + 1][resultCount]prometheus.Counter
}

func newMetrics() *metrics {
	m := new(metrics)
	for v := range sides + 1 {
		name := v.String()
		if v == sides {
			name = "none"
		}
		for r, result := range resultNames {
			m.queries[v][r] = queryCount.WithLabelValues(name, result)
		}
	}
	return m
}

func (m *metrics) count(view side, result int) { m.queries[view][result].Inc() }

func observeApplied(c *snapshot.Config, began, now time.Time) {
	applyDuration.Observe(now.Sub(began).Seconds())
	appliedTime.Set(float64(now.UnixMilli()) / 1000)
	snapshotInfo.Reset()
	snapshotInfo.WithLabelValues(c.Version).Set(1)
	nameCount.Set(float64(names(c)))
}

func observeProblems(problems []snapshot.Problem) {
	problemCount.Reset()
	for _, p := range problems {
		problemCount.WithLabelValues(p.Reason).Inc()
	}
}

func names(c *snapshot.Config) int { return len(c.Records) + len(c.Hosts) }
