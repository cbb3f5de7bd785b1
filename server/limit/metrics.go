// This file counts refusals, by the name of the limit, which stays as it is: dashboards have it. Those that are known
// here are made with the counter, so that a limit which was never reached shows as 0 and not as absent.

package limit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Meter count what was not let in.
type Meter struct {
	registry  *prometheus.Registry
	refusals  *prometheus.CounterVec
	evictions *prometheus.CounterVec
}

// NewMeter registers the counters.
func NewMeter(registry *prometheus.Registry) *Meter {
	in := promauto.With(registry)
	m := &Meter{
		registry: registry,
		refusals: in.NewCounterVec(prometheus.CounterOpts{
			Name: "aqueduct_limit_refusals_total", Help: "Requests and sockets that a limit refused, by limit.",
		}, []string{"limit"}),
		evictions: in.NewCounterVec(prometheus.CounterOpts{
			Name: "aqueduct_anonymous_evicted_total", Help: "Connections and sockets without a credential that were closed for newer ones.",
		}, []string{"kind"}),
	}
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

// Refused counts one refusal by the named limit.
func (m *Meter) Refused(limit string) { m.refusals.WithLabelValues(limit).Inc() }

// Evicted counts one anonymous connection or socket that was closed for a newer one.
func (m *Meter) Evicted(kind string) { m.evictions.WithLabelValues(kind).Inc() }

// Watch exposes what there is now.
func (m *Meter) Watch(conns *Connections, open *Sockets, bodies *BodyBudget) {
	in := promauto.With(m.registry)
	gauge := func(name, help, caller string, now func() int) {
		in.NewGaugeFunc(prometheus.GaugeOpts{
			Name: name, Help: help, ConstLabels: prometheus.Labels{"caller": caller},
		}, func() float64 { return float64(now()) })
	}
	const connections, connectionsHelp = "aqueduct_connections", "Connections that are open now, by whether a credential was shown on them."
	const sockets, socketsHelp = "aqueduct_sockets", "WebSockets that are open now, by whether their callers are known."
	gauge(connections, connectionsHelp, "known", func() int { n, _ := conns.counts(); return n })
	gauge(connections, connectionsHelp, "anonymous", func() int { _, n := conns.counts(); return n })
	gauge(sockets, socketsHelp, "known", func() int { n, _ := open.counts(); return n })
	gauge(sockets, socketsHelp, "anonymous", func() int { _, n := open.counts(); return n })
	in.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aqueduct_body_bytes", Help: "Bytes of request bodies that are held now.",
	}, func() float64 { return float64(bodies.bytes()) })
}
