// What the gateway reports: it knows nothing of Prometheus and calls these three.

package server

import ()

// ProxiesLinked, FrameTaken and FrameRefused are what the gateway (/ws/agent) reports to. ProxiesLinked sets how many proxies are
// connected to this replica now.
func (m *Metrics) ProxiesLinked(n int) { m.proxiesLinked.Set(float64(n)) }

// FrameTaken counts a message of a proxy. The types are those of the protocol, so their number is bounded.
func (m *Metrics) FrameTaken(kind string) { m.framesTaken.WithLabelValues(kind).Inc() }

// FrameRefused counts one that was not taken.
func (m *Metrics) FrameRefused(reason string) { m.framesRefused.WithLabelValues(reason).Inc() }
