package server

import "github.com/prometheus/client_golang/prometheus"

// limitMetrics count what was not let in.
type limitMetrics struct {
	registry  *prometheus.Registry
	refusals  *prometheus.CounterVec
	evictions *prometheus.CounterVec
}

func newLimitMetrics(registry *prometheus.Registry) *limitMetrics {
	m := &limitMetrics{
		registry: registry,
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aqueduct_limit_refusals_total", Help: "Requests and sockets that a limit refused, by limit.",
		}, []string{"limit"}),
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aqueduct_anonymous_evicted_total", Help: "Connections and sockets without a credential that were closed for newer ones.",
		}, []string{"kind"}),
	}
	registry.MustRegister(m.refusals, m.evictions)
	for _, limit := range []string{
		"runs", "decisions", "invokes", "credentials", "bodies", "sockets", "sockets_per_principal", "connections", "turns", "questions", "bytes",
	} {
		m.refusals.WithLabelValues(limit)
	}
	for _, kind := range []string{"connection", "socket"} {
		m.evictions.WithLabelValues(kind)
	}
	return m
}

// limitMeter is what the limits of a Server report to.
func (m *Metrics) limitMeter() *limitMetrics {
	if m == nil { // nobody reads them
		return newLimitMetrics(prometheus.NewRegistry())
	}
	return m.limits
}

func (m *limitMetrics) refused(limit string) { m.refusals.WithLabelValues(limit).Inc() }
func (m *limitMetrics) evicted(kind string)  { m.evictions.WithLabelValues(kind).Inc() }

// watch exposes what there is now.
func (m *limitMetrics) watch(conns *connLimiter, open *sockets, bodies *bodyBudget) {
	gauge := func(name, help, label, value string, now func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: name, Help: help, ConstLabels: prometheus.Labels{label: value},
		}, func() float64 { return float64(now()) })
	}
	const connections, connectionsHelp = "aqueduct_connections", "Connections that are open now, by whether a credential was shown on them."
	const sockets, socketsHelp = "aqueduct_sockets", "WebSockets that are open now, by whether their callers are known."
	m.registry.MustRegister(
		gauge(connections, connectionsHelp, "caller", "known", func() int { n, _ := conns.counts(); return n }),
		gauge(connections, connectionsHelp, "caller", "anonymous", func() int { _, n := conns.counts(); return n }),
		gauge(sockets, socketsHelp, "caller", "known", func() int { n, _ := open.counts(); return n }),
		gauge(sockets, socketsHelp, "caller", "anonymous", func() int { _, n := open.counts(); return n }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "aqueduct_body_bytes", Help: "Bytes of request bodies that are held now.",
		}, func() float64 { return float64(bodies.bytes()) }),
	)
}
