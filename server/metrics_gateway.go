package server

import "github.com/prometheus/client_golang/prometheus"

// gatewayMetrics are of /ws/agent.
type gatewayMetrics struct {
	linked  prometheus.Gauge
	frames  *prometheus.CounterVec
	refused *prometheus.CounterVec
}

func newGatewayMetrics(registry *prometheus.Registry) gatewayMetrics {
	g := gatewayMetrics{
		linked: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "aqueduct_proxies_linked", Help: "acp-proxies that are connected to this replica.",
		}),
		frames: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aqueduct_proxy_frames_total", Help: "Messages of acp-proxies, by type.",
		}, []string{"type"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aqueduct_proxy_frames_refused_total", Help: "Messages of acp-proxies that were not taken, by reason.",
		}, []string{"reason"}),
	}
	registry.MustRegister(g.linked, g.frames, g.refused)
	return g
}

// ProxiesLinked, FrameTaken and FrameRefused are what the gateway reports to.
func (m *Metrics) ProxiesLinked(n int) { m.gateway.linked.Set(float64(n)) }

// FrameTaken counts a message of a proxy.
func (m *Metrics) FrameTaken(kind string) { m.gateway.frames.WithLabelValues(kind).Inc() }

// FrameRefused counts one that was not taken.
func (m *Metrics) FrameRefused(reason string) { m.gateway.refused.WithLabelValues(reason).Inc() }
