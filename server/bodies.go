package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/server/auth"
)

const (
	// smallBody is what a body may have where nobody has shown a credential yet: a token, or one
	// decision. Bodies up to this size do not count against the budget, so decisions and short
	// prompts pass while others have used it up; the number of connections bounds them.
	smallBody = 8 << 10
	// anonymousShare is which part of the budget bodies may use whose sender is not known until
	// they have been read (signed webhooks), and callerShare the part of one principal. So no
	// sender of slow bodies can use up the budget of the others.
	anonymousShare = 8
	callerShare    = 2
)

// bodyBudget bounds the bytes of all request bodies that are held at once.
type bodyBudget struct {
	most int64
	body int64  // the largest body, which must fit into any share
	busy func() // a body was refused

	patience time.Duration

	mu    sync.Mutex
	held  int64
	by    map[string]int64
	freed chan struct{} // closed when bytes are freed while a body waits
}

func newBodyBudget(l Limits, busy func()) *bodyBudget {
	return &bodyBudget{most: l.Bodies, body: l.Body + 1, patience: l.BodiesWait, busy: busy, by: make(map[string]int64)}
}

var errBusyBodies = errors.New("server: the budget of bodies is used up")

// take counts n more bytes of a sender, and waits for them until ctx ends.
func (b *bodyBudget) take(ctx context.Context, sender string, n int64) error {
	for {
		freed := b.tryTake(sender, n)
		if freed == nil {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			b.busy()
			return errBusyBodies
		}
	}
}

func (b *bodyBudget) tryTake(sender string, n int64) <-chan struct{} {
	share := b.most / callerShare
	if sender == "" {
		share = max(b.most/anonymousShare, b.body)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held+n <= b.most && b.by[sender]+n <= share {
		b.held += n
		b.by[sender] += n
		return nil
	}
	if b.freed == nil {
		b.freed = make(chan struct{})
	}
	return b.freed
}

func (b *bodyBudget) free(sender string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= n
	if b.by[sender] -= n; b.by[sender] <= 0 {
		delete(b.by, sender)
	}
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}

func (b *bodyBudget) bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// heldBody is what one request holds of the budget.
type heldBody struct {
	budget *bodyBudget
	sender string
	n      int64
}

const heldBodyKey = "held body"

// holdBody finds, or makes, what the request holds of the budget.
func (in *intake) holdBody(c echo.Context) *heldBody {
	h, ok := c.Get(heldBodyKey).(*heldBody)
	if !ok {
		h = &heldBody{budget: in.bodies, sender: senderOf(c)}
		c.Set(heldBodyKey, h)
	}
	return h
}

// senderOf is whose share of the budget a body uses; "" for senders that are not known yet.
func senderOf(c echo.Context) string {
	who := auth.From(c.Request().Context()).Principal
	if who.Tenant == "" && who.User == "" {
		return ""
	}
	return who.Tenant + "\x00" + who.User
}

// releaseBody gives back what the request holds: at its end, or when a stream begins that needs
// no body any more.
func releaseBody(c echo.Context) {
	if h, ok := c.Get(heldBodyKey).(*heldBody); ok && h.n > 0 {
		h.budget.free(h.sender, h.n)
		h.n = 0
	}
}

// grow counts n more bytes for the request.
func (h *heldBody) grow(ctx context.Context, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, h.budget.patience)
	defer cancel()
	err := h.budget.take(ctx, h.sender, n)
	if err == nil {
		h.n += n
	}
	return err
}

// readBody reads a body of at most limit bytes. The budget is used as the bytes arrive, not by
// what Content-Length promises: a sender that sends nothing holds nothing.
func (in *intake) readBody(c echo.Context, limit int64) ([]byte, error) {
	r := c.Request()
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	rc := http.NewResponseController(c.Response())
	_ = rc.SetReadDeadline(time.Now().Add(in.limits.BodyTime))
	from := http.MaxBytesReader(c.Response().Writer, r.Body, limit)
	held := in.holdBody(c)
	size := int64(512)
	if r.ContentLength > 0 {
		size = min(r.ContentLength+1, smallBody) // one more, so that the end is seen without growing
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
			return nil, bodyError(err)
		}
		if len(raw) < cap(raw) {
			continue
		}
		next := min(int64(cap(raw))*2, limit+1)
		if r.ContentLength >= int64(len(raw)) {
			next = min(next, r.ContentLength+1)
		}
		if next > smallBody {
			if err := held.grow(r.Context(), next-held.n); err != nil {
				return nil, err
			}
		}
		raw = append(make([]byte, 0, next), raw...)
	}
}
