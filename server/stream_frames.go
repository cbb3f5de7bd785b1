// The frames of one stream: the events of a feed in the dialect of the client, with their ids.

package server

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/internal/jsontext"
	"aqueduct/internal/retry"
	"aqueduct/store"
)

// frames streams what next gives, SSE frames that are not a thread's log, until it returns io.EOF, the client leaves,
// its credential ends, or the server goes away. An error of a store that is away is waited out: such a stream has
// lost nothing. Like serve, it cuts a stream that stops before its end. until is the end of the caller's credential,
// zero for none. next is called again after an outage, so it must keep what it has read and not sent yet.
func (s *streams) frames(c echo.Context, until time.Time, next func(context.Context) ([]byte, error)) error {
	parent := c.Request().Context()
	if !until.IsZero() {
		var stop context.CancelFunc
		// Cut like any other: the client comes back with the same credential and then gets 401.
		parent, stop = context.WithDeadline(parent, until)
		defer stop()
	}
	return cut(s.run(c, parent, true, 0, func(ctx context.Context, w *stream) error {
		frames, err := next(ctx)
		switch {
		case errors.Is(err, store.ErrUnavailable):
			_ = retry.Sleep(ctx, retry.Pause) // next returns ctx's error
			return nil
		case err == nil:
			err = w.send(frames)
		}
		return err
	}))
}

// appendFrame appends one SSE frame. data is JSON on one line. An empty id leaves the client's last id as it was.
// event names the type for addEventListener; without one the client's onmessage gets it.
func appendFrame(dst []byte, id, event string, data []byte) []byte {
	if event != "" {
		dst = append(append(append(dst, "event: "...), event...), '\n')
	}
	if id != "" {
		dst = append(append(append(dst, "id: "...), id...), '\n')
	}
	return append(jsontext.AppendLine(append(dst, "data: "...), data), "\n\n"...)
}

// position is an id of a frame; "" for none. An id of "0" would move the client back to the beginning.
func position(seq int64) string {
	if seq == 0 {
		return ""
	}
	return strconv.FormatInt(seq, 10)
}
