// Large histories in a chat body: what the thread already has is skipped while the body arrives, so that only what is new
// counts against the limit and is held in memory.

package server

import (
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/server/decode"
	"aqueduct/store"
)

const (
	// chatMessages bounds the messages of one body, of each of which the id is held and asked for. An id is up to 128
	// bytes, so this is a few MiB at most.
	chatMessages = 20_000
	// chatRate is the slowest a large body may come, in bytes a second: BodyTime alone would cut off a history of pictures
	// on a slow line, and without any bound a sender could hold the connection for ever.
	chatRate = 64 << 10
	// chatStep is how much is read before the deadline is moved. A step takes a slow sender four seconds.
	chatStep = 256 << 10
)

// body reads a chat's body and its hash. One that may be larger than Body is skimmed: messages that the thread has
// are read over. Bodies of a known and small size take the plain way, which needs no lookup. The hash is over the
// bytes as they came, skipped messages included, so that a repeated request is recognized even when the thread has
// grown in between.
func (h *chat) body(c echo.Context) (body, sum []byte, err error) {
	r, limits := c.Request(), h.in.Limits
	if r.ContentLength >= 0 && r.ContentLength <= limits.Body {
		body, err = h.in.Body(c)
		hash := sha256.Sum256(body)
		return body, hash[:], err
	}
	// A body of unknown length (chunked) is bounded while it is read.
	if r.ContentLength > limits.History {
		return nil, nil, &http.MaxBytesError{Limit: limits.History}
	}
	// Skimming holds up to Body of what is new, whatever the size of the history.
	// All of it is taken before the first byte: while a history is skimmed it is not known how much of it is new.
	if err := h.in.HoldBody(c).Grow(r.Context(), limits.Body); err != nil {
		return nil, nil, err
	}
	rc, hash := http.NewResponseController(c.Response()), sha256.New()
	from := &pacedBody{from: http.MaxBytesReader(c.Response().Writer, r.Body, limits.History), rc: rc, start: time.Now(), grace: limits.BodyTime}
	body, err = h.skim(c).Read(io.TeeReader(from, hash))
	if err != nil {
		return nil, nil, decode.BodyError(err)
	}
	// From here on a read only serves to notice that the client has gone.
	_ = rc.SetReadDeadline(time.Time{})
	return body, hash.Sum(nil), nil
}

// skim is how a large body of the caller's is read. A thread that does not exist yet knows no messages; everything in
// the body is new then.
func (h *chat) skim(c echo.Context) agui.Skim {
	ctx, in := scoped(c)
	return agui.Skim{
		Held: int(h.in.Limits.Body), Messages: chatMessages, ThreadID: headerID(c.Request().Header),
		Known: func(threadID string, ids []string) (map[string]bool, error) {
			s, err := h.store.SessionByExternalID(ctx, in, threadID)
			if errors.Is(err, store.ErrNotFound) {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			return h.store.KnownMessageIDs(ctx, in, s.ID, ids)
		},
	}
}

// pacedBody is a body that must come at chatRate at least. It belongs to the goroutine that reads the body. A sender
// that falls behind runs into the read deadline of its connection.
type pacedBody struct {
	from  io.Reader
	rc    *http.ResponseController
	start time.Time
	// grace is the time that any body gets, however small.
	grace time.Duration
	read  int64
	until int64 // the deadline allows for so much
}

// Read implements io.Reader. The deadline moves once for every chatStep and not on each read. It is counted from the start, so time saved by a fast
// beginning may be used later.
func (b *pacedBody) Read(p []byte) (int, error) {
	if b.read >= b.until {
		b.until = b.read + chatStep
		_ = b.rc.SetReadDeadline(b.start.Add(b.grace + time.Duration(b.read)*time.Second/chatRate))
	}
	n, err := b.from.Read(p)
	b.read += int64(n)
	return n, err
}
