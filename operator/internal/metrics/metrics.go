// Package metrics names what the operator counts (oooi_operator_...). No label
// holds a hardware address, a host name or an IP address.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Set are the operator's own metrics.
type Set struct {
	plan      prometheus.Histogram
	writes    *prometheus.CounterVec
	reconcile *prometheus.CounterVec
	info      *prometheus.GaugeVec
}

// New registers the metrics. streams, missing, authorityEnds and mayWrite are asked
// at each scrape.
func New(reg prometheus.Registerer, version string, streams func() map[string]int, missing func() []string,
	authorityEnds func() time.Time, mayWrite func() bool,
) *Set {
	s := &Set{
		plan: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "oooi_operator_plan_duration_seconds", Help: "Time that the plan of one Infra takes.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oooi_operator_api_writes_total", Help: "Writes to the API server by verb and resource.",
		}, []string{"verb", "resource"}),
		reconcile: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oooi_operator_condition_transitions_total", Help: "Conditions that changed, by kind, type and reason.",
		}, []string{"kind", "type", "reason"}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "oooi_operator_info", Help: "The operator's version; always 1.",
		}, []string{"version"}),
	}
	s.info.WithLabelValues(version).Set(1)
	reg.MustRegister(s.plan, s.writes, s.reconcile, s.info, &asked{streams: streams, missing: missing, ends: authorityEnds, mayWrite: mayWrite})
	return s
}

// Planned records how long a plan took.
func (s *Set) Planned(d time.Duration) { s.plan.Observe(d.Seconds()) }

// Wrote counts a write to the API server.
func (s *Set) Wrote(verb, resource string) { s.writes.WithLabelValues(verb, resource).Inc() }

// Changed counts a condition that has changed.
func (s *Set) Changed(kind, conditionType, reason string) {
	s.reconcile.WithLabelValues(kind, conditionType, reason).Inc()
}

var (
	streamsDesc = prometheus.NewDesc("oooi_operator_hub_streams", "Open streams of agents by component.", []string{"component"}, nil)
	missingDesc = prometheus.NewDesc("oooi_operator_kind_missing", "1 for each optional kind that the cluster does not serve.", []string{"kind"}, nil)
	endsDesc    = prometheus.NewDesc("oooi_operator_hub_certificate_expiry_timestamp_seconds", "When the hub's serving certificate ends.", nil, nil)
	writeDesc   = prometheus.NewDesc("oooi_operator_may_write", "1 while this replica is sure to lead, so that its writes are sent, else 0.", nil, nil)
)

// asked are values that others hold.
type asked struct {
	streams func() map[string]int
	missing func() []string
	ends    func() time.Time

	mayWrite func() bool
}

// Describe implements prometheus.Collector.
func (a *asked) Describe(ch chan<- *prometheus.Desc) {
	ch <- streamsDesc
	ch <- missingDesc
	ch <- endsDesc
	ch <- writeDesc
}

// Collect implements prometheus.Collector.
func (a *asked) Collect(ch chan<- prometheus.Metric) {
	for component, n := range a.streams() {
		ch <- prometheus.MustNewConstMetric(streamsDesc, prometheus.GaugeValue, float64(n), component)
	}
	for _, kind := range a.missing() {
		ch <- prometheus.MustNewConstMetric(missingDesc, prometheus.GaugeValue, 1, kind)
	}
	if ends := a.ends(); !ends.IsZero() {
		ch <- prometheus.MustNewConstMetric(endsDesc, prometheus.GaugeValue, float64(ends.Unix()))
	}
	may := 0.0
	if a.mayWrite() {
		may = 1
	}
	ch <- prometheus.MustNewConstMetric(writeDesc, prometheus.GaugeValue, may)
}
