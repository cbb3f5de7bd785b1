// Streams: the life of one SSE response from the first header to its end. stream_writer.go writes, with deadlines and
// heartbeats; stream_frames.go has streams that are no thread's log. What is sent comes from the engine's feeds
// (bridge.Feed).

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
	"aqueduct/server/limit"
	"aqueduct/server/problem"
)

const (
	eventStream = "text/event-stream"
	// writeBytes is the most that one deadline covers. Together with Limits.WriteTime it defines how slow a reader may be: about
	// 3 KiB/s.
	writeBytes = 32 << 10
	// keepBytes bounds the buffers that are kept for the next stream with something to say; an idle stream holds
	// none. A snapshot may be larger; its buffer is then not kept.
	keepBytes = 512 << 10
	// lastWords bounds the time in which a stream sends the rest of the log when the server goes away. The log's newest
	// events are in memory, so only a database that does not answer takes that long.
	lastWords = time.Second
)

// streams answers requests with SSE. All handlers share one. open is the number of streams now, and buffers their
// scratch memory between writes.
type streams struct {
	limits  limit.Limits
	metrics *Metrics
	log     *slog.Logger
	// draining ends when the server goes away; every open stream ends with it.
	draining context.Context
	buffers  sync.Pool // of *[]byte
	open     atomic.Int64
}

// outcome is how a stream came to its end. It is the label of a metric and decides how the response ends.
type outcome string

const (
	outcomeEnded   outcome = "ended"   // all was sent
	outcomeLeft    outcome = "left"    // the client has gone
	outcomeSlow    outcome = "slow"    // the client could not keep up
	outcomeDrained outcome = "drained" // the server is going away
	outcomeFailed  outcome = "failed"  // the log could not be read
)

// admit refuses when no more streams may be opened, or the server is going away. It is asked before anything is
// taken, so that what was taken is also streamed; a few that ask at the same moment may pass together. Both refusals
// are 503, upon which clients come back.
func (s *streams) admit() error {
	if s.draining.Err() != nil {
		return problem.Refuse(limit.ShuttingDown, "")
	}
	// The count is not reserved here: a stream is counted when it begins, so a burst may exceed the limit by the
	// requests that are between the two.
	if s.open.Load() >= s.limits.Streams {
		return problem.Refuse(limit.TooManyStreams, "")
	}
	return nil
}

// serve streams a Feed until it ends, its client leaves, or the server goes away. reconnects is for routes an EventSource
// reads. after is called with how it ended.
//
// A stream that stops before its Feed's end is cut, not closed: official clients take a clean end for the end of the run.
//
// Only a Feed's own end closes the response in order; after a cut the client comes back with its last id and misses
// nothing.
func (s *streams) serve(c echo.Context, feed *bridge.Feed, d agui.Dialect, reconnects bool, after func(outcome)) error {
	defer feed.Close()
	feed.EndWith(s.draining)
	how := s.run(c, c.Request().Context(), reconnects, lastWords, func(ctx context.Context, w *stream) error {
		items, err := feed.Next(ctx)
		if err == nil {
			err = s.forward(w, d, items)
		}
		return err
	})
	if after != nil {
		after(how)
	}
	return cut(how)
}

// run is the life of one stream: it begins the response and calls step, which waits for frames and writes them, until that
// returns an error. io.EOF is the stream's own end.
//
// The writer is closed before the outcome is counted: from then on no heartbeat writes, so what the caller does afterwards
// cannot meet a write of the timer. A panic in step closes it as well.
//
// Draining cancels the stream's context, rest later, which ends a wait in step at once; a write that a slow client holds
// up ends by its own deadline.
func (s *streams) run(c echo.Context, parent context.Context, reconnects bool, rest time.Duration, step func(context.Context, *stream) error) outcome {
	s.open.Add(1)
	defer s.open.Add(-1)
	s.metrics.streamOpened()
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	// The deferred call takes the registration back: draining lives as long as the server, and would keep one for
	// each stream that ever was.
	defer context.AfterFunc(s.draining, func() {
		if rest > 0 {
			time.AfterFunc(rest, cancel)
			return
		}
		cancel()
	})()
	w := s.begin(c, cancel)
	defer w.close()
	err := w.send(s.opening(reconnects))
	for err == nil {
		err = step(ctx, w)
	}
	how := outcomeEnded
	if !errors.Is(err, io.EOF) {
		how = s.why(ctx, w, err)
	}
	w.close()
	s.metrics.streamClosed(how)
	return how
}

// cut ends the response of a stream that did not come to its end, so that its client sees a broken connection and not a clean
// end. net/http closes the connection when a handler panics with this value.
func cut(how outcome) error {
	if how != outcomeEnded {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// forward joins all that is ready into as few writes as can be. A fast agent makes hundreds of deltas a second; one
// write and one flush for all that are ready keep the cost a client and not a delta. The buffer goes back before the
// next wait, so thousands of idle streams hold none. One that has grown too large is left to the collector.
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
		// After the write, so that the time until the client was sent the event is what is measured.
		s.metrics.delivered(items, w.opened)
	}
	return err
}

// opening is what a stream begins with: for an EventSource, when to come back. The span is random between one and two
// times Limits.Retry: after a restart thousands of clients would otherwise come back in the same instant.
func (s *streams) opening(reconnects bool) []byte {
	if !reconnects {
		return nil
	}
	span := s.limits.Retry + rand.N(s.limits.Retry)
	return append(strconv.AppendInt([]byte("retry: "), span.Milliseconds(), 10), "\n\n"...)
}

// why names the reason of an end that was not the feed's own. The order matters: a shutdown cancels the context as
// well, and a failed heartbeat cancels it too, so the more telling reasons are asked first.
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

// begin sends the headers and starts the heartbeat. Headers go out before the first event, so that a client knows at
// once that it is connected. From here on the status is 200, whatever happens.
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
