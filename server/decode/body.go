// Bodies of requests: how they are read, and how the memory they use is bounded. A body is read whole before its
// handler runs, so its bytes are counted while they arrive.

package decode

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/internal/strictjson"
	"aqueduct/server/auth"
	"aqueduct/server/limit"
	"aqueduct/store"
)

const heldBodyKey = "held body"

// HoldBody finds, or makes, what the request holds of the budget. The holding lives in the request's context, so that
// the guard can release it at the end without knowing which handler read the body.
func (in *Decoder) HoldBody(c echo.Context) *limit.HeldBody {
	h, ok := c.Get(heldBodyKey).(*limit.HeldBody)
	if !ok {
		h = in.bodies.Hold(senderOf(c))
		c.Set(heldBodyKey, h)
	}
	return h
}

// BodyOf reads a body, up to most bytes of it, that uses a principal's share of the budget, and may not be larger than that:
// the body of an agent, which is known by a token of its own.
func (in *Decoder) BodyOf(c echo.Context, who store.Principal, most int64) ([]byte, error) {
	c.Set(heldBodyKey, in.bodies.Hold(sender(who)))
	return in.readBody(c, min(most, in.bodies.Share()))
}

// Hold counts bytes that an answer needs in memory like those of a body, until the end of the request.
func (in *Decoder) Hold(c echo.Context, who store.Principal, size int64) error {
	h := in.bodies.Hold(sender(who))
	c.Set(heldBodyKey, h)
	return h.GrowTo(c.Request().Context(), size)
}

// senderOf is whose share of the budget a body uses; "" for senders that are not known yet.
func senderOf(c echo.Context) string { return sender(auth.From(c.Request().Context()).Principal) }

func sender(who store.Principal) string {
	if who.Tenant == "" && who.User == "" {
		return ""
	}
	return who.Tenant + "\x00" + who.User
}

// ReleaseBody gives back what the request holds: at its end, or when a stream begins that needs
// no body any more.
func ReleaseBody(c echo.Context) {
	if h, ok := c.Get(heldBodyKey).(*limit.HeldBody); ok {
		h.Release()
	}
}

const (
	// smallValues is up to how many values a small body counts nothing against the budget.
	smallValues = 512
	// decodedTimes is how often the bytes of a body are in memory besides itself until it is taken: decoded, masked, and in the rows
	// that are written.
	decodedTimes = 6
)

// Weigh counts what a body takes besides its bytes once it is decoded. It is called before that. A small body with few values
// counts nothing, so that decisions pass while others have used up the budget.
func (in *Decoder) Weigh(c echo.Context, size, values int) error {
	if size <= limit.SmallBody && values <= smallValues {
		return nil
	}
	return in.HoldBody(c).Weigh(c.Request().Context(), decodedTimes*int64(size)+int64(values)*strictjson.ValueBytes)
}

// ParkBody is called before a request begins to wait for a person with its body in memory: see limit.HeldBody.Park.
func ParkBody(c echo.Context) error {
	if h, ok := c.Get(heldBodyKey).(*limit.HeldBody); ok {
		return h.Park()
	}
	return nil
}

// readBody reads a body of at most limit bytes. The budget is used as the bytes arrive, not by what Content-Length
// promises: a sender that sends nothing holds nothing. Buffers double as they fill and are counted before they grow;
// up to SmallBody nothing is counted. The wait for the budget ends after Limits.BodiesWait with too_many_bodies.
func (in *Decoder) readBody(c echo.Context, most int64) ([]byte, error) {
	r := c.Request()
	if r.ContentLength > most {
		return nil, &http.MaxBytesError{Limit: most}
	}
	rc := http.NewResponseController(c.Response())
	_ = rc.SetReadDeadline(time.Now().Add(in.Limits.BodyTime))
	from := http.MaxBytesReader(c.Response().Writer, r.Body, most)
	held := in.HoldBody(c)
	size := int64(512)
	if r.ContentLength > 0 {
		size = min(r.ContentLength+1, limit.SmallBody) // one more, so that the end is seen without growing
	}
	raw := make([]byte, 0, size)
	for {
		n, err := from.Read(raw[len(raw):cap(raw)])
		raw = raw[:len(raw)+n]
		if errors.Is(err, io.EOF) {
			// From here on a read only serves to notice that the client has gone.
			_ = rc.SetReadDeadline(time.Time{})
			return raw, nil
		}
		if err != nil {
			return nil, BodyError(err)
		}
		if len(raw) < cap(raw) {
			continue
		}
		next := min(int64(cap(raw))*2, most+1)
		if r.ContentLength >= int64(len(raw)) {
			next = min(next, r.ContentLength+1)
		}
		if next > limit.SmallBody {
			if err := held.GrowTo(r.Context(), next); err != nil {
				return nil, err
			}
		}
		raw = append(make([]byte, 0, next), raw...)
	}
}
