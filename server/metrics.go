package server

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"aqueduct/bridge"
	"aqueduct/bridge/eventlog"
)

// Metrics counts what this replica does. It is made before the rooms it listens to.
type Metrics struct {
	registry    *prometheus.Registry
	runs        *prometheus.CounterVec
	turns       *prometheus.HistogramVec
	turnsActive *prometheus.HistogramVec
	firstToken  prometheus.Histogram
	streams     prometheus.Gauge
	streamsDone *prometheus.CounterVec
	delivery    prometheus.Histogram
	commitTime  prometheus.Histogram
	commitSize  *prometheus.HistogramVec
	agentUp     *prometheus.GaugeVec
	gateway     gatewayMetrics
	tools       toolMetrics
	hintsLost   prometheus.Counter
	stranded    prometheus.Counter
	limits      *limitMetrics
	audit       *auditMetrics
}

// NewMetrics makes a set of its own, apart from any global one.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aqueduct_runs_total", Help: "Runs that have ended, by outcome.",
		}, []string{"outcome"}),
		turns:       turnHistogram("aqueduct_turn_seconds", "From a prompt to the end of its Turn, pauses included."),
		turnsActive: turnHistogram("aqueduct_turn_active_seconds", "From a prompt to the end of its Turn, without the time in which a question was open."),
		firstToken:  histogram("aqueduct_first_token_seconds", "From a request to the first text of its Run.", 0.005, 2, 14),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "aqueduct_open_streams", Help: "Streams that are open now.",
		}),
		streamsDone: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aqueduct_streams_total", Help: "Streams that have ended, by how.",
		}, []string{"outcome"}),
		delivery:   histogram("aqueduct_append_to_client_seconds", "From an event's append to its write to a client that was waiting.", 0.0005, 2, 16),
		commitTime: histogram("aqueduct_commit_seconds", "How long a commit of events took.", 0.0005, 2, 14),
		commitSize: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "aqueduct_commit_size", Help: "What one commit held, by unit.", Buckets: prometheus.ExponentialBuckets(1, 4, 12),
		}, []string{"unit"}),
	}
	m.hintsLost = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "aqueduct_hints_dropped_total", Help: "Hints of /ws/client that were lost for want of room.",
	})
	m.stranded = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "aqueduct_turns_stranded_total", Help: "Turns that nothing moved any more and that were ended: each is a fault of the server.",
	})
	m.gateway = newGatewayMetrics(m.registry)
	m.tools = newToolMetrics(m.registry)
	m.limits = newLimitMetrics(m.registry)
	m.audit = newAuditMetrics(m.registry)
	m.agentUp = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "aqueduct_agent_up", Help: "1 when an agent's last health probe was well, else 0.",
	}, []string{"agent"})
	m.registry.MustRegister(m.agentUp, m.hintsLost, m.stranded, m.runs, m.turns, m.turnsActive, m.firstToken, m.streams, m.streamsDone, m.delivery, m.commitTime, m.commitSize,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func histogram(name, help string, start, factor float64, count int) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(start, factor, count),
	})
}

// turnHistogram reaches from tens of milliseconds to hours: a Turn may wait for people.
func turnHistogram(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.05, 2.5, 14),
	}, []string{"status"})
}

// AgentProbed is told what an agent's health probe found.
func (m *Metrics) AgentProbed(id string, err error) {
	up := 1.0
	if err != nil {
		up = 0
	}
	m.agentUp.WithLabelValues(id).Set(up)
}

// HintDropped is told of each hint that was lost for want of room.
func (m *Metrics) HintDropped() { m.hintsLost.Inc() }

// Meter is what bridge reports to.
func (m *Metrics) Meter() bridge.Meter {
	return bridge.Meter{
		RunEnded:   func(outcome string) { m.runs.WithLabelValues(outcome).Inc() },
		FirstToken: func(since time.Duration) { m.firstToken.Observe(since.Seconds()) },
		TurnEnded: func(status string, took, active time.Duration) {
			m.turns.WithLabelValues(status).Observe(took.Seconds())
			m.turnsActive.WithLabelValues(status).Observe(active.Seconds())
		},
		Settled:  m.questionSettled,
		Limited:  m.limits.refused,
		Stranded: m.stranded.Inc,
	}
}

// Committed is what eventlog reports to.
func (m *Metrics) Committed(s eventlog.CommitStats) {
	m.commitTime.Observe(s.Took.Seconds())
	m.commitSize.WithLabelValues("sessions").Observe(float64(s.Sessions))
	m.commitSize.WithLabelValues("events").Observe(float64(s.Events))
	m.commitSize.WithLabelValues("bytes").Observe(float64(s.Bytes))
}

func (m *Metrics) streamOpened() { m.streams.Inc() }

func (m *Metrics) streamClosed(how outcome) {
	m.streams.Dec()
	m.streamsDone.WithLabelValues(string(how)).Inc()
}

// delivered looks at each commit's events once: they share a time.
func (m *Metrics) delivered(items []bridge.Item, opened time.Time) {
	var last time.Time
	for i := range items {
		if items[i].Seq == 0 || items[i].TS.Equal(last) {
			continue
		}
		last = items[i].TS
		if !last.Before(opened) {
			m.delivery.Observe(time.Since(last).Seconds())
		}
	}
}

// ServeHTTP gives the metrics in the text form of Prometheus.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// metricsPage is GET /metrics.
type metricsPage struct{ metrics *Metrics }

func (h *metricsPage) mount(to *routes) {
	to.callers(http.MethodGet, "/metrics", echo.WrapHandler(h.metrics))
}
