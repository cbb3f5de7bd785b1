package server

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
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
	in := auth.From(ctx).Scope()
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
	if err != nil {
		return err
	}
	return h.write(c, turn.ID)
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

// traceCursor is where a page ended in each of the two series: "<seq>~<record id>".
type traceCursor struct {
	seq    int64
	record string
}

func parseTraceCursor(s string) (traceCursor, error) {
	if s == "" {
		return traceCursor{}, nil
	}
	seq, record, ok := strings.Cut(s, "~")
	n, err := strconv.ParseInt(seq, 10, 64)
	if !ok || err != nil || n < 0 || record != "" && !bridge.ValidName(record) {
		return traceCursor{}, refuse(codeInvalidCursor, "")
	}
	return traceCursor{seq: n, record: record}, nil
}

func (t traceCursor) String() string { return strconv.FormatInt(t.seq, 10) + "~" + t.record }

// traceJSON is one page.
type traceJSON struct {
	RunID  string      `json:"run_id"`
	Events []entryJSON `json:"events"`
	Next   string      `json:"next,omitempty"`
}

// write gives one page; next goes into ?after= for more.
func (h *trace) write(c echo.Context, turnID string) error {
	var q traceQuery
	if err := h.in.query(c, &q); err != nil {
		return err
	}
	at, err := parseTraceCursor(q.After)
	if err != nil {
		return err
	}
	filter, err := traceFilterOf(c)
	if err != nil {
		return err
	}
	size := store.Page{Limit: q.Limit}.Size()
	ctx := c.Request().Context()
	records, err := bridge.Trace(ctx, h.store, auth.From(ctx).Scope(), turnID)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(records, func(r store.Record) bool { return r.ID == at.record }); i >= 0 {
		records = records[i+1:]
	}
	out := traceJSON{RunID: turnID, Events: []entryJSON{}}
	for more := true; more && len(out.Events) < size; {
		window := size - len(out.Events)
		if filter.selects() {
			window = max(window, traceWindow)
		}
		events, err := h.events(c, turnID, at.seq, window)
		if err != nil {
			return err
		}
		more = len(events) == window
		var some []entryJSON
		some, records, at = merge(turnID, events, more, records, size-len(out.Events), at, filter)
		out.Events = append(out.Events, some...)
	}
	if len(out.Events) == size {
		out.Next = at.String()
	}
	return c.JSON(http.StatusOK, out)
}

// placed is an event of a slice with its place.
type placed struct {
	row   store.EventRow
	seq   int64
	event []byte
}

// events reads up to n events of the Turn's slices after a position.
func (h *trace) events(c echo.Context, turnID string, after int64, n int) ([]placed, error) {
	ctx := c.Request().Context()
	runs, err := h.store.RunsOfTurn(ctx, auth.From(ctx).Scope(), turnID)
	if err != nil {
		return nil, err
	}
	var out []placed
	for _, run := range runs {
		if run.FirstSeq == 0 || run.LastSeq > 0 && run.LastSeq <= after {
			continue
		}
		err := eachEvent(c, h.store, run, max(after, run.FirstSeq-1), func(row store.EventRow, seq int64, event []byte) bool {
			out = append(out, placed{row, seq, event})
			return len(out) < n
		})
		if err != nil || len(out) >= n {
			return out, err
		}
	}
	return out, nil
}

// merge joins the two series by time, each keeping its own order: positions, not clocks,
// order the log. It gives n entries at most of those that are asked for, and what is left of
// the Records. When more events follow it stops with the last that it has.
func merge(turnID string, events []placed, more bool, records []store.Record, n int, at traceCursor, filter traceFilter) ([]entryJSON, []store.Record, traceCursor) {
	entries := make([]entryJSON, 0, min(n, len(events)+len(records)))
	for len(entries) < n && len(events)+len(records) > 0 && (len(events) > 0 || !more) {
		if len(events) == 0 || len(records) > 0 && comesFirst(records[0], events[0].row) {
			r := records[0]
			records, at.record = records[1:], r.ID
			if filter.wants(r.Type, r.Source) {
				entries = append(entries, entryJSON{
					EventID: r.ID, RunID: turnID, TS: r.TS.UnixMilli(), Source: shownSource(r.Source), Type: r.Type, Payload: orNull(r.Payload),
				})
			}
			continue
		}
		e := events[0]
		events, at.seq = events[1:], e.seq
		if kind := string(agui.TypeOf(e.event)); filter.wants(kind, bridge.SourceAGUI) {
			entries = append(entries, entryJSON{
				EventID: e.row.SessionID + ":" + strconv.FormatInt(e.seq, 10), RunID: turnID,
				TS: e.row.TS.UnixMilli(), Source: string(bridge.SourceAGUI), Type: kind, Payload: e.event,
			})
		}
	}
	return entries, records, at
}

// comesFirst orders a Record and events of one millisecond: what begins something stands
// before the events of it, what ends something after.
func comesFirst(r store.Record, events store.EventRow) bool {
	switch r.Type {
	case "user_input", "run_started", "agent_invoke_started":
		return !r.TS.After(events.TS)
	}
	return r.TS.Before(events.TS)
}

func orNull(raw []byte) rawJSON {
	if len(raw) == 0 {
		return rawJSON("null")
	}
	return raw
}
