package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"aqueduct/bridge/tools"
	"aqueduct/store"
)

// toolMetrics are of the tools that agents call, by tool and how a call ended.
type toolMetrics struct {
	ran    *prometheus.HistogramVec
	waited *prometheus.HistogramVec
}

func newToolMetrics(registry *prometheus.Registry) toolMetrics {
	m := toolMetrics{
		ran: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "aqueduct_tool_seconds", Help: "How long running a tool took, by how it ended.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 16),
		}, []string{"tool", "status"}),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "aqueduct_approval_seconds", Help: "How long a tool call waited for a decision, by what was decided.", Buckets: prometheus.ExponentialBuckets(0.1, 2.5, 14),
		}, []string{"tool", "status"}),
	}
	registry.MustRegister(m.ran, m.waited)
	return m
}

// ToolMeter is what bridge/tools reports to.
func (m *Metrics) ToolMeter() tools.Meter {
	return tools.Meter{
		Ended: func(tool string, status store.ToolCallStatus, took time.Duration) {
			m.tools.ran.WithLabelValues(tool, string(status)).Observe(took.Seconds())
		},
		Waited: func(tool, decided string, took time.Duration) {
			m.tools.waited.WithLabelValues(tool, decided).Observe(took.Seconds())
		},
	}
}
