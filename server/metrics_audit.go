// The head of the audit as two metrics. A scrape that is kept by another system is evidence from outside: an audit
// that was cut or rewritten later does not reach it any more.

package server

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"aqueduct/bridge/approval/audit"
)

// auditMetrics is where the audit's chain ends: its length, and the first 48 bits of its last hash as a number, which
// a float64 holds exactly. As a label a hash would make a new series of every entry. Both come from one moment, so
// that a scrape kept elsewhere is a head that audit verify takes. Collect is called by the scrape's goroutine and
// head is stored by the one that reads the audit.
type auditMetrics struct {
	// head is replaced whole, so a scrape never sees the position of one entry with the hash of another. It is nil
	// until the audit was read for the first time.
	head    atomic.Pointer[audit.Head]
	entries *prometheus.Desc
	hash    *prometheus.Desc
}

// auditHashDigits is how many hex digits of the hash are in the metric. Twelve digits are 48 bits, and a float64 has
// 53 for whole numbers.
const auditHashDigits = 12

// newAuditMetrics registers both metrics as one collector, because they are read together.
func newAuditMetrics(in *prometheus.Registry) *auditMetrics {
	m := &auditMetrics{
		entries: prometheus.NewDesc("aqueduct_audit_entries", "Entries of the audit: the position of its head.", nil, nil),
		hash:    prometheus.NewDesc("aqueduct_audit_head_hash48", "The first 12 hex digits of the hash of the audit's head, as a number.", nil, nil),
	}
	in.MustRegister(m)
	return m
}

// Describe implements prometheus.Collector.
func (m *auditMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- m.entries
	to <- m.hash
}

// Collect implements prometheus.Collector. Before the first head is known nothing is exposed, since a zero would look
// like an audit that was emptied.
func (m *auditMetrics) Collect(to chan<- prometheus.Metric) {
	h := m.head.Load()
	if h == nil {
		return
	}
	number := uint64(0)
	if len(h.Hash) >= auditHashDigits {
		number, _ = strconv.ParseUint(h.Hash[:auditHashDigits], 16, 64) // hex, by our own hand
	}
	to <- prometheus.MustNewConstMetric(m.entries, prometheus.GaugeValue, float64(h.Seq))
	to <- prometheus.MustNewConstMetric(m.hash, prometheus.GaugeValue, float64(number))
}

// AuditHead records where the audit's chain ends.
func (m *Metrics) AuditHead(h audit.Head) { m.audit.head.Store(&h) }
