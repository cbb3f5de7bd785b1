package server

import (
	"bytes"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/server/limit"
)

// sink is a connection that takes everything at once.
type sink struct {
	http.ResponseWriter
	n int
}

func (s *sink) Write(p []byte) (int, error)      { s.n += len(p); return len(p), nil }
func (s *sink) FlushError() error                { return nil }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }

// newForward is a stream on a sink and what it is given at once.
func newForward(batch int) (s *streams, w *stream, items []bridge.Item, to *sink) {
	s = &streams{limits: limit.Limits{}.WithDefaults(), metrics: NewMetrics(), log: slog.New(slog.DiscardHandler)}
	to = new(sink)
	w = &stream{limits: s.limits, w: to, rc: http.NewResponseController(to)}
	event := []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"01a1fe33-3f5a-71bb-b75b-9353615e9075","delta":"` + string(bytes.Repeat([]byte("x"), 32)) + `"}`)
	for i := range batch {
		items = append(items, bridge.Item{Seq: int64(i + 1), TS: time.Now(), Event: event})
	}
	return s, w, items, to
}

// TestForwardAllocates nothing: what a stream costs is the copy and the write.
func TestForwardAllocates(t *testing.T) {
	// Not parallel: other tests' allocations and collections would be counted.
	s, w, items, to := newForward(100)
	// What it takes once is taken here; under -race a sync.Pool drops at random.
	s.buffers = sync.Pool{New: func() any { b := make([]byte, 0, 64<<10); return &b }}
	d := agui.NewV1()
	allocs := testing.AllocsPerRun(100, func() {
		if err := s.forward(w, d, items); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 3 || to.n == 0 {
		t.Errorf("%v allocations for %d events", allocs, len(items))
	}
}

func BenchmarkForward(b *testing.B) {
	s, w, items, _ := newForward(64)
	d := agui.NewV1()
	b.ReportAllocs()
	for b.Loop() {
		if err := s.forward(w, d, items); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(items)), "ns/event")
}
