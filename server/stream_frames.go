package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/store"
)

// frames streams what next gives, SSE frames that are not a thread's log, until it returns
// io.EOF, the client leaves, its credential ends, or the server goes away. An error of a store
// that is away is waited out: such a stream has lost nothing. Like serve, it cuts a stream
// that stops before its end.
func (s *streams) frames(c echo.Context, until time.Time, next func(context.Context) ([]byte, error)) error {
	s.open.Add(1)
	defer s.open.Add(-1)
	s.metrics.streamOpened()
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	if !until.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithDeadline(ctx, until)
		defer stop()
	}
	defer context.AfterFunc(s.draining, cancel)()
	w := s.begin(c, cancel)
	defer w.close()
	how := s.copyFrames(ctx, w, next)
	w.close()
	s.metrics.streamClosed(how)
	if how != outcomeEnded {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// storeRest is the pause before a store that is away is asked again.
const storeRest = 250 * time.Millisecond

func (s *streams) copyFrames(ctx context.Context, w *stream, next func(context.Context) ([]byte, error)) outcome {
	if err := w.send(s.opening(true)); err != nil {
		return s.why(ctx, w, err)
	}
	for {
		frames, err := next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return outcomeEnded
		case errors.Is(err, store.ErrUnavailable):
			select {
			case <-after(storeRest):
			case <-ctx.Done():
			}
			continue
		case err == nil:
			err = w.send(frames)
		}
		if err != nil {
			return s.why(ctx, w, err)
		}
	}
}

// appendFrame appends one SSE frame. data is JSON on one line. An empty id leaves the client's
// last id as it was.
func appendFrame(dst []byte, id, event string, data []byte) []byte {
	if event != "" {
		dst = append(append(append(dst, "event: "...), event...), '\n')
	}
	if id != "" {
		dst = append(append(append(dst, "id: "...), id...), '\n')
	}
	return append(append(append(dst, "data: "...), data...), "\n\n"...)
}

// position is an id of a frame; "" for none.
func position(seq int64) string {
	if seq == 0 {
		return ""
	}
	return strconv.FormatInt(seq, 10)
}
