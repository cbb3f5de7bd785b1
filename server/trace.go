// The trace of a Turn: what was sent to the client, what the agent sent, and what the platform did, as one series. It
// is for debugging and audits, so auditors may read it too (Caller.Review).

package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/bridge/trace/reader"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/route"
	"aqueduct/store"
)

// trace is GET /v1/runs/{run_id}/events of the platform contract (§9.2): the slices of a
// Turn, which the contract calls a run, and its Records, as one series in time.
type trace struct {
	sessions *bridge.Sessions
	store    store.Store
	in       *decode.Decoder
	out      *streams
}

// Mount adds the routes, for users and auditors.
func (h *trace) Mount(to *route.Routes) {
	to.Callers(http.MethodGet, "/v1/runs/:id/events", withID("id", h.get))
	to.Callers(http.MethodGet, "/v1/sessions/:id/events", withID("id", h.session))
}

// get is the trace of one Turn. The id may be a Turn's, a Run's of the server or the client, or a Session's, because
// agents and clients know the same work by different ids. They are tried in this order, each in the caller's scope;
// only then come threads that are shared.
func (h *trace) get(c echo.Context, id string) error {
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

// getShared is get of what others have shared. From here on the context is the share's, so what is read is that one
// thread.
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

// entryJSON is one entry in the contract's shape. event_id is unique and stays; payload is the event or the frame as
// it was.
type entryJSON struct {
	EventID string          `json:"event_id"`
	RunID   string          `json:"run_id,omitempty"` // none of what belongs to no Turn
	TS      int64           `json:"ts"`               // Unix milliseconds
	Source  string          `json:"source"`           // agui, acp (as an acp-proxy sent it), platform
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
}

// traceQuery is one page of a trace; After is a position as traceJSON has it.
type traceQuery struct {
	Limit int    `query:"limit" validate:"gte=0,lte=1000"`
	After string `query:"after" validate:"max=200"`
}

// traceJSON is one page. next is there while there is more now; position always.
type traceJSON struct {
	RunID    string      `json:"run_id"`
	Events   []entryJSON `json:"events"`
	Next     string      `json:"next,omitempty"`
	Position string      `json:"position"`
}

// write gives one page of a Turn's trace; next goes into ?after= for more, and is there as long as there is more now.
// position goes there for what comes later. The Turn is read before the position, so an id that is not visible is 404
// whatever else was sent.
func (h *trace) write(c echo.Context, turnID string) error {
	var q traceQuery
	if err := h.in.Query(c, &q); err != nil {
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
	at, more, err := tracePage(ctx, reader.OfTurn(h.store, in, turn), at, filter, store.Page{Limit: q.Limit}.Size(), func(e reader.Entry) {
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

// tracePage reads up to size entries that the filter wants, or about pageMost bytes of them. It looks at no more than
// traceWindows windows, and returns where it came to and whether more may follow. The bound keeps a filter that
// matches nothing from reading a Session of gigabytes in one request; the client goes on from the position it gets.
// With a filter a window is read at a time, because most entries may be left out; without one no more than is asked
// for.
func tracePage(ctx context.Context, from *reader.Trace, at reader.Cursor, filter traceFilter, size int, add func(reader.Entry)) (reader.Cursor, bool, error) {
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

// entryOf is the JSON of an entry.
func entryOf(e reader.Entry) entryJSON {
	return entryJSON{EventID: e.ID, RunID: e.TurnID, TS: e.TS.UnixMilli(), Source: shownSource(e.Source), Type: e.Type, Payload: orNull(e.Payload)}
}

// orNull is JSON that may be missing: an empty RawMessage cannot be encoded.
func orNull(raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}
