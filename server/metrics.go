// What this replica counts for Prometheus. The engine, the log, the gateway and the tools report through small
// structs of functions (bridge.Meter, tools.Meter), so that none of them imports Prometheus. metrics_audit.go,
// metrics_gateway.go and metrics_tools.go are parts of this one type.

package server

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"aqueduct/bridge"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/otlp"
	"aqueduct/server/limit"
	"aqueduct/server/route"
)

// Metrics counts what this replica does. It is made before the rooms it listens to. Any goroutine may report: each
// metric has its own lock or is atomic. It lives as long as the process.
type Metrics struct {
	// What the engine and its log report.
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

	// Of /ws/agent.
	proxiesLinked prometheus.Gauge
	framesTaken   *prometheus.CounterVec
	framesRefused *prometheus.CounterVec

	// Of Questions and of the tools that agents call, by tool and how a call ended. Only registered tools are named: names
	// that agents and clients make up would make a series each.
	toolRan       *prometheus.HistogramVec
	asked         *prometheus.HistogramVec
	clientOffline *prometheus.CounterVec

	// Both of these should stay at zero: the first shows that pages are too slow for the live feed, the second that
	// the engine has a fault.
	hintsLost prometheus.Counter
	stranded  prometheus.Counter
	spans     *prometheus.CounterVec
	limits    *limit.Meter
	audit     *auditMetrics
}

// NewMetrics makes a set of its own, apart from any global one: a process that makes two, as tests do, would register each
// name twice in the global one, which panics.
func NewMetrics() *Metrics {
	registry := prometheus.NewRegistry()
	in := metricsIn{promauto.With(registry)}
	m := &Metrics{
		registry:      registry,
		runs:          in.counter("aqueduct_runs_total", "Runs that have ended, by outcome.", "outcome"),
		turns:         in.histogram("aqueduct_turn_seconds", "From a prompt to the end of its Turn, pauses included.", turnTimes(), "status"),
		turnsActive:   in.histogram("aqueduct_turn_active_seconds", "From a prompt to the end of its Turn, without the time in which a question was open.", turnTimes(), "status"),
		firstToken:    in.plain("aqueduct_first_token_seconds", "From a request to the first text of its Run.", 0.005, 14),
		streams:       in.gauge("aqueduct_open_streams", "Streams that are open now."),
		streamsDone:   in.counter("aqueduct_streams_total", "Streams that have ended, by how.", "outcome"),
		delivery:      in.plain("aqueduct_append_to_client_seconds", "From an event's append to its write to a client that was waiting.", 0.0005, 16),
		commitTime:    in.plain("aqueduct_commit_seconds", "How long a commit of events took.", 0.0005, 14),
		commitSize:    in.histogram("aqueduct_commit_size", "What one commit held, by unit.", prometheus.ExponentialBuckets(1, 4, 12), "unit"),
		hintsLost:     in.counter("aqueduct_hints_dropped_total", "Hints of /ws/client that were lost for want of room.").WithLabelValues(),
		stranded:      in.counter("aqueduct_turns_stranded_total", "Turns that nothing moved any more and that were ended: each is a fault of the server.").WithLabelValues(),
		spans:         in.counter("aqueduct_otlp_turns_total", "Turns that were to be exported as spans, by what became of them.", "outcome"),
		agentUp:       in.NewGaugeVec(prometheus.GaugeOpts{Name: "aqueduct_agent_up", Help: "1 when an agent's last health probe was well, else 0."}, []string{"agent"}),
		proxiesLinked: in.gauge("aqueduct_proxies_linked", "acp-proxies that are connected to this replica."),
		framesTaken:   in.counter("aqueduct_proxy_frames_total", "Messages of acp-proxies, by type.", "type"),
		framesRefused: in.counter("aqueduct_proxy_frames_refused_total", "Messages of acp-proxies that were not taken, by reason.", "reason"),
		toolRan:       in.histogram("aqueduct_tool_seconds", "How long running a tool took, by how it ended.", prometheus.ExponentialBuckets(0.005, 2, 20), "kind", "tool", "status"),
		asked:         in.histogram("aqueduct_approval_seconds", "How long a question waited, by what came of it.", prometheus.ExponentialBuckets(0.1, 2.5, 14), "kind", "tool", "status"),
		clientOffline: in.counter("aqueduct_client_offline_total", "Calls of client tools that failed because no client was there, by when that was found.", "cause"),
		limits:        limit.NewMeter(registry),
		audit:         newAuditMetrics(registry),
	}
	for _, o := range []otlp.Outcome{otlp.Exported, otlp.Unsampled, otlp.Failed, otlp.Dropped} {
		m.spans.WithLabelValues(string(o)) // a rate of what never happened is 0, and not unknown
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// metricsIn makes metrics that are registered as they are made.
type metricsIn struct{ promauto.Factory }

// counter makes a counter with labels; without labels it has one series.
func (in metricsIn) counter(name, help string, labels ...string) *prometheus.CounterVec {
	return in.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// gauge makes a gauge without labels.
func (in metricsIn) gauge(name, help string) prometheus.Gauge {
	return in.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// histogram makes a histogram with labels.
func (in metricsIn) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return in.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// plain is a histogram without labels, whose buckets double from start.
func (in metricsIn) plain(name, help string, start float64, count int) prometheus.Histogram {
	return in.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(start, 2, count)})
}

// turnTimes reach from tens of milliseconds to hours: a Turn may wait for people.
func turnTimes() []float64 { return prometheus.ExponentialBuckets(0.05, 2.5, 14) }

// AgentProbed counts the result of an agent's health probe. A gauge and not a counter: an alert asks whether the
// agent is there now.
func (m *Metrics) AgentProbed(id string, err error) {
	up := 1.0
	if err != nil {
		up = 0
	}
	m.agentUp.WithLabelValues(id).Set(up)
}

// SpansOfTurn counts what became of a Turn that was to be exported as spans.
func (m *Metrics) SpansOfTurn(o otlp.Outcome) { m.spans.WithLabelValues(string(o)).Inc() }

// HintDropped counts a hint that was lost for want of room.
func (m *Metrics) HintDropped() { m.hintsLost.Inc() }

// Meter is what bridge reports to. The functions run on the engine's goroutines and must not block; metrics do not.
func (m *Metrics) Meter() bridge.Meter {
	return bridge.Meter{
		RunEnded:   func(outcome string) { m.runs.WithLabelValues(outcome).Inc() },
		FirstToken: func(since time.Duration) { m.firstToken.Observe(since.Seconds()) },
		TurnEnded: func(status string, took, active time.Duration) {
			m.turns.WithLabelValues(status).Observe(took.Seconds())
			m.turnsActive.WithLabelValues(status).Observe(active.Seconds())
		},
		Settled:  m.questionSettled,
		Limited:  m.limits.Refused,
		Stranded: m.stranded.Inc,
	}
}

// Committed is what eventlog reports to. Sessions is how many Sessions shared the commit: the larger it is under
// load, the better the grouping works.
func (m *Metrics) Committed(s eventlog.CommitStats) {
	m.commitTime.Observe(s.Took.Seconds())
	m.commitSize.WithLabelValues("sessions").Observe(float64(s.Sessions))
	m.commitSize.WithLabelValues("events").Observe(float64(s.Events))
	m.commitSize.WithLabelValues("bytes").Observe(float64(s.Bytes))
}

// streamOpened counts a stream that begins; each is followed by one streamClosed.
func (m *Metrics) streamOpened() { m.streams.Inc() }

// streamClosed counts a stream's end, by how it came.
func (m *Metrics) streamClosed(how outcome) {
	m.streams.Dec()
	m.streamsDone.WithLabelValues(string(how)).Inc()
}

// delivered looks at each commit's events once: they share a time. A stream that replays old events has no waiting
// client for them, so what was appended before the stream opened is left out. Events without a position are made up
// for the one client.
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

// metricsPage is GET /metrics, for operators: it covers every tenant. Tenants must not see each other's load, which
// is why no tenant's token opens it.
type metricsPage struct{ metrics *Metrics }

// Mount adds the route; --metrics-listen serves the same on a listener of its own.
func (h *metricsPage) Mount(to *route.Routes) {
	to.Operators(http.MethodGet, "/metrics", echo.WrapHandler(h.metrics))
}

// limitMeter is what the limits of a Server report to. Tests and tools make a Server without Metrics; the limits need
// a meter all the same.
func (m *Metrics) limitMeter() *limit.Meter {
	if m == nil { // without Metrics they are not exposed
		return limit.NewMeter(prometheus.NewRegistry())
	}
	return m.limits
}
