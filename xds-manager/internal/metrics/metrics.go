// Package metrics holds what the manager counts and measures.
//
// It refuses labels that a tenant could fill: no host names, no addresses.
// Invariant: every name passes promlint.
package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics are the manager's own.
type Metrics struct {
	Registry *prometheus.Registry

	snapshotApplied  prometheus.Gauge
	snapshotInfo     *prometheus.GaugeVec
	acceptedInfo     *prometheus.GaugeVec
	hubConnected     prometheus.Gauge
	envoyConnected   prometheus.Gauge
	envoyInForce     prometheus.Gauge
	backends         prometheus.Gauge
	translateSeconds prometheus.Histogram
	syncSeconds      prometheus.Histogram
	problems         *prometheus.GaugeVec
	acks             *prometheus.CounterVec
	nacks            *prometheus.CounterVec
	unknownNodes     prometheus.Counter
	lookups          *prometheus.CounterVec
	statusWrites     *prometheus.CounterVec
}

// New makes the metrics and registers them, with Go's and the process's own.
func New(version string) *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		Registry:        prometheus.NewRegistry(),
		snapshotApplied: gauge("oooi_xds_snapshot_applied_timestamp_seconds", "When the snapshot in force was applied."),
		snapshotInfo:    gauges("oooi_xds_snapshot_info", "The snapshot in force.", "version"),
		acceptedInfo:    gauges("oooi_xds_accepted_info", "The snapshot that Envoy has accepted as a whole.", "version"),
		hubConnected:    gauge("oooi_xds_stream_connected", "Whether the operator's stream is open."),
		envoyConnected:  gauge("oooi_xds_envoy_connected", "Whether Envoy's stream is open."),
		envoyInForce:    gauge("oooi_xds_envoy_in_force", "Whether Envoy has accepted a whole snapshot since it connected."),
		backends:        gauge("oooi_xds_backends", "Backends in force."),
		translateSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "oooi_xds_translate_duration_seconds", Help: "How long a snapshot took to become Envoy's resources.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 12),
		}),
		syncSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "oooi_xds_sync_duration_seconds", Help: "How long from a publication to Envoy's last acknowledgement.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
		problems:     gauges("oooi_xds_problems", "Problems by reason.", "reason"),
		acks:         counters("oooi_xds_acks_total", "Responses that Envoy acknowledged, by resource type.", "type"),
		nacks:        counters("oooi_xds_nacks_total", "Responses that Envoy rejected, by resource type.", "type"),
		unknownNodes: prometheus.NewCounter(prometheus.CounterOpts{Name: "oooi_xds_unknown_nodes_total", Help: "Streams refused because of their node id."}),
		lookups:      counters("oooi_xds_lookups_total", "Look-ups of endpoint host names, by result.", "result"),
		statusWrites: counters("oooi_xds_status_writes_total", "Writes of our status, by result.", "result"),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "oooi_xds_build_info", Help: "The manager's version.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	m.Registry.MustRegister(build, m.snapshotApplied, m.snapshotInfo, m.acceptedInfo, m.hubConnected, m.envoyConnected, m.envoyInForce,
		m.backends, m.translateSeconds, m.syncSeconds, m.problems, m.acks, m.nacks, m.unknownNodes, m.lookups, m.statusWrites,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func short(typ string) string {
	return strings.ToLower(typ[strings.LastIndexByte(typ, '.')+1:])
}

// Acknowledged counts acknowledgements.
func (m *Metrics) Acknowledged(typ string, n int) { m.acks.WithLabelValues(short(typ)).Add(float64(n)) }

// Rejected counts rejections.
func (m *Metrics) Rejected(typ string, n int) { m.nacks.WithLabelValues(short(typ)).Add(float64(n)) }

// UnknownNode counts a refused stream.
func (m *Metrics) UnknownNode() { m.unknownNodes.Inc() }

// HubConnected says whether the operator's stream is open.
func (m *Metrics) HubConnected(on bool) { set(m.hubConnected, on) }

// Envoy says how Envoy stands.
func (m *Metrics) Envoy(connected, inForce bool, accepted string) {
	set(m.envoyConnected, connected)
	set(m.envoyInForce, inForce)
	only(m.acceptedInfo, accepted)
}

// Applied notes a snapshot that was published.
func (m *Metrics) Applied(at time.Time, version string, backends int, took time.Duration) {
	m.snapshotApplied.Set(float64(at.UnixNano()) / 1e9)
	only(m.snapshotInfo, version)
	m.backends.Set(float64(backends))
	m.translateSeconds.Observe(took.Seconds())
}

// Synced notes how long Envoy took to accept a publication.
func (m *Metrics) Synced(took time.Duration) { m.syncSeconds.Observe(took.Seconds()) }

// Problems notes the present problems by reason.
func (m *Metrics) Problems(byReason map[string]int) {
	m.problems.Reset()
	for r, n := range byReason {
		m.problems.WithLabelValues(r).Set(float64(n))
	}
}

// Lookup counts a look-up of a host name.
func (m *Metrics) Lookup(ok bool) { m.lookups.WithLabelValues(result(ok)).Inc() }

// StatusWrite counts a write of the status.
func (m *Metrics) StatusWrite(ok bool) { m.statusWrites.WithLabelValues(result(ok)).Inc() }

func result(ok bool) string {
	if ok {
		return "ok"
	}
	return "error"
}

func set(g prometheus.Gauge, on bool) {
	if on {
		g.Set(1)
	} else {
		g.Set(0)
	}
}

func only(v *prometheus.GaugeVec, label string) {
	v.Reset()
	if label != "" {
		v.WithLabelValues(label).Set(1)
	}
}
