// What tools and questions report. A question is counted once, when it is settled, on whichever replica that happens.

package server

import (
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/tools"
	"aqueduct/store"
)

// ToolMeter is what bridge/tools reports to.
func (m *Metrics) ToolMeter() tools.Meter {
	return tools.Meter{
		Ended: func(tool string, status store.ToolCallStatus, took time.Duration) {
			m.toolRan.WithLabelValues(string(store.KindServer), tool, string(status)).Observe(took.Seconds())
		},
		Settled: m.questionSettled,
		Offline: func(cause string) { m.clientOffline.WithLabelValues(cause).Inc() },
	}
}

// questionSettled counts how long a Question waited. A client's tool was run meanwhile. Its name is left out for
// everything but tools that this server registered: each name is a time series for ever. Clocks of two replicas may
// differ by a little, hence no time below zero.
func (m *Metrics) questionSettled(q approval.Question) {
	if q.ClientTool() {
		took := max(0, q.Call.EndedAt.Sub(q.Call.CreatedAt)).Seconds()
		m.asked.WithLabelValues(string(store.KindClient), "", string(q.Call.Status)).Observe(took)
		m.toolRan.WithLabelValues(string(store.KindClient), "", string(q.Call.Status)).Observe(took)
		return
	}
	tool := ""
	if q.Call.Kind == store.KindServer {
		tool = q.Call.Name
	}
	took := max(0, q.Approval.DecidedAt.Sub(q.Approval.CreatedAt)).Seconds()
	m.asked.WithLabelValues(string(q.Approval.Kind), tool, string(q.Approval.Status)).Observe(took)
}
