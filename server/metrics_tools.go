package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aqueduct/bridge/inbox"
	"aqueduct/bridge/tools"
	"aqueduct/store"
)

// toolMetrics are of Questions and of the tools that agents call, by tool and how a call ended. Only registered tools are
// named: names that agents and clients make up would make a series each.
type toolMetrics struct {
	ran     *prometheus.HistogramVec
	waited  *prometheus.HistogramVec
	offline *prometheus.CounterVec
}

func newToolMetrics(registry *prometheus.Registry) toolMetrics {
	m := toolMetrics{
		ran: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "aqueduct_tool_seconds", Help: "How long running a tool took, by how it ended.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 20),
		}, []string{"kind", "tool", "status"}),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "aqueduct_approval_seconds", Help: "How long a question waited, by what came of it.", Buckets: prometheus.ExponentialBuckets(0.1, 2.5, 14),
		}, []string{"kind", "tool", "status"}),
		offline: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aqueduct_client_offline_total", Help: "Calls of client tools that failed because no client was there, by when that was found.",
		}, []string{"cause"}),
	}
	registry.MustRegister(m.ran, m.waited, m.offline)
	return m
}

// ToolMeter is what bridge/tools reports to.
func (m *Metrics) ToolMeter() tools.Meter {
	return tools.Meter{
		Ended: func(tool string, status store.ToolCallStatus, took time.Duration) {
			m.tools.ran.WithLabelValues(string(store.KindServer), tool, string(status)).Observe(took.Seconds())
		},
		Settled: m.questionSettled,
		Offline: func(cause string) { m.tools.offline.WithLabelValues(cause).Inc() },
	}
}

// questionSettled counts how long a Question waited. A client's tool was run meanwhile.
func (m *Metrics) questionSettled(q inbox.Question) {
	if q.ClientTool() {
		took := max(0, q.Call.EndedAt.Sub(q.Call.CreatedAt)).Seconds()
		m.tools.waited.WithLabelValues(string(store.KindClient), "", string(q.Call.Status)).Observe(took)
		m.tools.ran.WithLabelValues(string(store.KindClient), "", string(q.Call.Status)).Observe(took)
		return
	}
	tool := ""
	if q.Call.Kind == store.KindServer {
		tool = q.Call.Name
	}
	took := max(0, q.Approval.DecidedAt.Sub(q.Approval.CreatedAt)).Seconds()
	m.tools.waited.WithLabelValues(string(q.Approval.Kind), tool, string(q.Approval.Status)).Observe(took)
}
