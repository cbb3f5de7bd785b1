package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/bridge"
)

const (
	eventStream = "text/event-stream"
	// writeBytes is the most that one deadline covers. Together with Limits.WriteTime it
	// says how slow a reader may be: about 3 KiB/s.
	writeBytes = 32 << 10
	// keepBytes bounds the buffers that are kept for the next stream with something to say;
	// an idle stream holds none.
	keepBytes = 512 << 10
)

// streams answers requests with SSE.
type streams struct {
	limits   Limits
	metrics  *Metrics
	log      *slog.Logger
	draining context.Context
	buffers  sync.Pool // of *[]byte
	open     atomic.Int64
}

func newStreams(cfg Config, draining context.Context) *streams {
	return &streams{limits: cfg.Limits, metrics: cfg.Metrics, log: cfg.Logger, draining: draining}
}

// outcome is how a stream came to its end.
type outcome string

const (
	outcomeEnded   outcome = "ended"   // all was sent
	outcomeLeft    outcome = "left"    // the client has gone
	outcomeSlow    outcome = "slow"    // the client could not keep up
	outcomeDrained outcome = "drained" // the server is going away
	outcomeFailed  outcome = "failed"  // the log could not be read
)

// admit refuses when no more streams may be opened, or the server is going away. It is
// asked before anything is taken, so that what was taken is also streamed; a few that ask
// at the same moment may pass together.
func (s *streams) admit() error {
	if s.draining.Err() != nil {
		return refuse(codeShuttingDown, "")
	}
	if s.open.Load() >= s.limits.Streams {
		return refuse(bridge.RefusedTooManyStreams, "")
	}
	return nil
}

// serve streams a Feed until it ends, its client leaves, or the server goes away. reconnects
// is for routes an EventSource reads. after hears how it ended.
//
// A stream that stops before its Feed's end is cut, not closed: official clients take a
// clean end for the end of the run.
func (s *streams) serve(c echo.Context, feed *bridge.Feed, d agui.Dialect, reconnects bool, after func(outcome)) error {
	defer feed.Close()
	s.open.Add(1)
	defer s.open.Add(-1)
	s.metrics.streamOpened()
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)()
	w := s.begin(c, cancel)
	defer w.close()
	how := s.copy(ctx, w, feed, d, reconnects)
	w.close()
	s.metrics.streamClosed(how)
	if after != nil {
		after(how)
	}
	if how != outcomeEnded {
		panic(http.ErrAbortHandler)
	}
	return nil
}

func (s *streams) copy(ctx context.Context, w *stream, feed *bridge.Feed, d agui.Dialect, reconnects bool) outcome {
	if err := w.send(s.opening(reconnects)); err != nil {
		return s.why(ctx, w, err)
	}
	for {
		items, err := feed.Next(ctx)
		if errors.Is(err, io.EOF) {
			return outcomeEnded
		}
		if err == nil {
			err = s.forward(w, d, items)
		}
		if err != nil {
			return s.why(ctx, w, err)
		}
	}
}

// forward joins all that is ready into as few writes as can be.
func (s *streams) forward(w *stream, d agui.Dialect, items []bridge.Item) error {
	buf, _ := s.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	frames := (*buf)[:0]
	for i := range items {
		frames = d.AppendFrames(frames, items[i].Seq, items[i].Event)
	}
	err := w.send(frames)
	if cap(frames) <= keepBytes {
		*buf = frames
		s.buffers.Put(buf)
	}
	if err == nil {
		s.metrics.delivered(items, w.opened)
	}
	return err
}

// opening is what a stream begins with: for an EventSource, when to come back.
func (s *streams) opening(reconnects bool) []byte {
	if !reconnects {
		return nil
	}
	span := s.limits.Retry + rand.N(s.limits.Retry)
	return append(strconv.AppendInt([]byte("retry: "), span.Milliseconds(), 10), "\n\n"...)
}

func (s *streams) why(ctx context.Context, w *stream, err error) outcome {
	switch {
	case s.draining.Err() != nil:
		return outcomeDrained
	case w.slow():
		return outcomeSlow
	case ctx.Err() != nil, w.failed():
		return outcomeLeft
	}
	s.log.Error("stream cut: its log could not be read", slog.Any("error", err))
	return outcomeFailed
}

func (s *streams) begin(c echo.Context, cancel context.CancelFunc) *stream {
	h := c.Response().Header()
	h.Set("Content-Type", eventStream)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx holds streams back otherwise
	c.Response().WriteHeader(http.StatusOK)
	w := &stream{
		w: c.Response().Writer, rc: http.NewResponseController(c.Response().Writer),
		limits: s.limits, cancel: cancel, last: time.Now(), opened: time.Now(),
	}
	w.beat = time.AfterFunc(s.limits.Heartbeat, w.heartbeat)
	return w
}
