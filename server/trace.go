package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// trace is GET /v1/runs/{run_id}/events of the platform contract (§9.2): the slices of a
// Turn, which the contract calls a run, and its Records, as one series in time.
type trace struct {
	sessions *bridge.Sessions
	store    store.Store
	in       *intake
	out      *streams
}

func (h *trace) mount(to *routes) {
	to.callers(http.MethodGet, "/v1/runs/:id/events", h.get)
	to.callers(http.MethodGet, "/v1/sessions/:id/events", h.session)
}

func (h *trace) get(c echo.Context) error {
	id, err := pathID(c, "id")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	in := auth.From(ctx).Review()
	turn, err := h.store.Turn(ctx, in, id)
	if errors.Is(err, store.ErrNotFound) {
		var run store.Run // a later Run of the Turn, or the client's own runId
		if run, err = h.store.FindRun(ctx, in, id); err == nil {
			return h.write(c, run.TurnID)
		}
		if errors.Is(err, store.ErrNotFound) { // what /ws/agent calls a run_id is our Session
			var s store.Session
			if s, err = h.store.Session(ctx, in, id); err == nil {
				return h.writeSession(c, s)
			}
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		return h.getShared(c, id)
	}
	if err != nil {
		return err
	}
	return h.write(c, turn.ID)
}

// getShared is get of what others have shared.
func (h *trace) getShared(c echo.Context, id string) error {
	a, err := shared(c, h.store, store.AccessBy{RunID: id})
	if errors.Is(err, store.ErrNotFound) {
		if a, err = shared(c, h.store, store.AccessBy{SessionID: id}); err == nil {
			return h.writeSession(c, a.Session)
		}
	}
	if err != nil {
		return err
	}
	run, err := h.store.FindRun(c.Request().Context(), a.Scope(), id)
	if err != nil {
		return err
	}
	return h.write(c, run.TurnID)
}

// entryJSON is one entry in the contract's shape.
type entryJSON struct {
	EventID string  `json:"event_id"`
	RunID   string  `json:"run_id,omitempty"` // none of what belongs to no Turn
	TS      int64   `json:"ts"`               // Unix milliseconds
	Source  string  `json:"source"`           // agui, acp (as an acp-proxy sent it), platform, upstream
	Type    string  `json:"type"`
	Payload rawJSON `json:"payload"`
}

type traceQuery struct {
	Limit int    `query:"limit" validate:"gte=0,lte=1000"`
	After string `query:"after" validate:"max=200"`
}

// traceJSON is one page.
type traceJSON struct {
	RunID    string      `json:"run_id"`
	Events   []entryJSON `json:"events"`
	Next     string      `json:"next,omitempty"`
	Position string      `json:"position"`
}

// write gives one page of a Turn's trace; next goes into ?after= for more, and is there as long as there is more now.
// position goes there for what comes later.
func (h *trace) write(c echo.Context, turnID string) error {
	var q traceQuery
	if err := h.in.query(c, &q); err != nil {
		return err
	}
	filter, err := traceFilterOf(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	in := auth.From(ctx).Review()
	turn, err := h.store.Turn(ctx, in, turnID)
	if err != nil {
		return err
	}
	at, err := h.cursor(c, turn.SessionID)
	if err != nil {
		return err
	}
	out := traceJSON{RunID: turnID, Events: []entryJSON{}}
	at, more, err := tracePage(ctx, h.sessions.TurnTrace(in, turn), at, filter, store.Page{Limit: q.Limit}.Size(), func(e bridge.TraceEntry) {
		out.Events = append(out.Events, entryOf(e))
	})
	if err != nil {
		return err
	}
	out.Position = cursorText(at)
	if more {
		out.Next = out.Position
	}
	return c.JSON(http.StatusOK, out)
}

// tracePage reads up to size entries that the filter wants, or about pageMost bytes of them. It looks at no more than traceWindows windows, and says where it
// came to, and whether more may follow.
func tracePage(ctx context.Context, from *bridge.Trace, at bridge.TraceCursor, filter traceFilter, size int, add func(bridge.TraceEntry)) (bridge.TraceCursor, bool, error) {
	found, bytes, more := 0, 0, true
	full := func() bool { return found == size || bytes >= pageMost }
	for windows := 0; !full() && more && windows < traceWindows; windows++ {
		want := size - found
		if filter.selects() {
			want = max(want, traceWindow)
		}
		entries, err := from.Read(ctx, at, want)
		if err != nil {
			return at, false, err
		}
		more = len(entries) > 0
		for _, e := range entries {
			if full() {
				break
			}
			if at = e.At; filter.wants(e.Type, e.Source) {
				found, bytes = found+1, bytes+len(e.Payload)
				add(e)
			}
		}
	}
	return at, more, nil
}

func entryOf(e bridge.TraceEntry) entryJSON {
	return entryJSON{EventID: e.ID, RunID: e.TurnID, TS: e.TS.UnixMilli(), Source: shownSource(e.Source), Type: e.Type, Payload: orNull(e.Payload)}
}

func orNull(raw []byte) rawJSON {
	if len(raw) == 0 {
		return rawJSON("null")
	}
	return raw
}
