package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/densityops/oooi/dhcpd/internal/config"
	"github.com/densityops/oooi/dhcpd/internal/lease"
)

// Metrics are the server's metrics. Messages is for one goroutine at a time.
type Metrics struct {
	Registry *prometheus.Registry

	messages   *prometheus.CounterVec
	resolved   map[[2]string]prometheus.Counter
	snapshot   *prometheus.GaugeVec
	applied    prometheus.Gauge
	connected  prometheus.Gauge
	problems   *prometheus.GaugeVec
	addresses  *prometheus.GaugeVec
	statusTime prometheus.Gauge
	holder     prometheus.Gauge
}

// New registers the metrics.
func New(moduleVersion, contract string) *Metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := &Metrics{Registry: r, resolved: map[[2]string]prometheus.Counter{}}
	vec := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		r.MustRegister(g)
		return g
	}
	one := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		r.MustRegister(g)
		return g
	}
	m.messages = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "oooi_dhcpd_messages_total", Help: "Messages received, by type and by what became of them.",
	}, []string{"type", "outcome"})
	r.MustRegister(m.messages)
	vec("oooi_dhcpd_build_info", "Always 1; the labels tell which build runs.", "version", "contract").WithLabelValues(moduleVersion, contract).Set(1)
	m.snapshot = vec("oooi_dhcpd_snapshot_info", "Always 1; the label is the version of the snapshot in force.", "version")
	m.applied = one("oooi_dhcpd_snapshot_applied_timestamp_seconds", "When the snapshot in force was applied.")
	m.connected = one("oooi_dhcpd_stream_connected", "Whether the operator's stream is up.")
	m.problems = vec("oooi_dhcpd_problems", "Problems that the status shows, by reason.", "reason")
	m.addresses = vec("oooi_dhcpd_addresses", "Addresses by what they are used for.", "state")
	m.statusTime = one("oooi_dhcpd_status_written_timestamp_seconds", "When the resource's status was last written.")
	m.holder = one("oooi_dhcpd_allocating", "Whether this server may give addresses to new clients.")
	return m
}

// Message counts one message.
func (m *Metrics) Message(typ, outcome string) {
	k := [2]string{typ, outcome}
	c := m.resolved[k]
	if c == nil {
		c = m.messages.WithLabelValues(typ, outcome)
		m.resolved[k] = c
	}
	c.Inc()
}

// Snapshot notes that a snapshot has come into force.
func (m *Metrics) Snapshot(version string, at time.Time) {
	m.snapshot.Reset()
	m.snapshot.WithLabelValues(version).Set(1)
	m.applied.Set(float64(at.UnixNano()) / 1e9)
}

// Status notes that the status was written.
func (m *Metrics) Status(at time.Time) { m.statusTime.Set(float64(at.UnixNano()) / 1e9) }

// Update takes over what is polled.
func (m *Metrics) Update(s lease.Stats, allocating, connected bool, problems []config.Problem) {
	for state, n := range map[string]int{
		"total": s.Total, "active": s.Active, "free": s.Free, "declined": s.Declined,
		"offered": s.Offered, "cooling": s.Cooling, "resting": s.Resting, "set_aside": s.SetAside,
	} {
		m.addresses.WithLabelValues(state).Set(float64(n))
	}
	m.connected.Set(number(connected))
	m.holder.Set(number(allocating))
	m.problems.Reset()
	for _, p := range problems {
		m.problems.WithLabelValues(p.Reason).Inc()
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
