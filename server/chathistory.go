package server

import (
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/server/auth"
	"aqueduct/store"
)

const (
	// chatMessages bounds the messages of one body, of each of which the id is held and asked for.
	chatMessages = 20_000
	// chatRate is the slowest a large body may come, in bytes a second: BodyTime alone would cut off a history of pictures
	// on a slow line, and without any bound a sender could hold the connection for ever.
	chatRate = 64 << 10
	// chatStep is how much is read before the deadline is moved.
	chatStep = 256 << 10
)

// body reads a chat's body and its hash. One that may be larger than Body is skimmed: messages that the thread has are
// read over.
func (h *chat) body(c echo.Context) (body, sum []byte, err error) {
	r, limits := c.Request(), h.in.limits
	if r.ContentLength >= 0 && r.ContentLength <= limits.Body {
		body, err = h.in.body(c)
		hash := sha256.Sum256(body)
		return body, hash[:], err
	}
	if r.ContentLength > limits.History {
		return nil, nil, &http.MaxBytesError{Limit: limits.History}
	}
	// Skimming holds up to Body of what is new, whatever the size of the history.
	if err := h.in.holdBody(c).grow(r.Context(), limits.Body); err != nil {
		return nil, nil, err
	}
	rc, hash := http.NewResponseController(c.Response()), sha256.New()
	from := &pacedBody{from: http.MaxBytesReader(c.Response().Writer, r.Body, limits.History), rc: rc, start: time.Now(), grace: limits.BodyTime}
	body, err = h.skim(c).Read(io.TeeReader(from, hash))
	if err != nil {
		return nil, nil, bodyError(err)
	}
	// From here on a read only serves to notice that the client has gone.
	_ = rc.SetReadDeadline(time.Time{})
	return body, hash.Sum(nil), nil
}

// skim is how a large body of the caller's is read.
func (h *chat) skim(c echo.Context) agui.Skim {
	ctx := c.Request().Context()
	in := auth.From(ctx).Scope()
	return agui.Skim{
		Held: int(h.in.limits.Body), Messages: chatMessages, ThreadID: headerID(c.Request().Header),
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

// pacedBody is a body that must come at chatRate at least.
type pacedBody struct {
	from  io.Reader
	rc    *http.ResponseController
	start time.Time
	grace time.Duration
	read  int64
	until int64 // the deadline allows for so much
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	if b.read >= b.until {
		b.until = b.read + chatStep
		_ = b.rc.SetReadDeadline(b.start.Add(b.grace + time.Duration(b.read)*time.Second/chatRate))
	}
	n, err := b.from.Read(p)
	b.read += int64(n)
	return n, err
}
