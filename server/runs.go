package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/eventlog"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// pageBytes is about how much of a log one page of JSON reads at a time.
const pageBytes = 1 << 20

// pageMost is about how much one page of JSON holds, however many events are asked for: each may have 1 MiB.
const pageMost = 4 << 20

// runs is /api/runs: slices of the log, as pages or as a tail. Its words are AG-UI's.
type runs struct {
	sessions *bridge.Sessions
	store    store.Store
	in       *intake
	out      *streams
	trace    *trace
}

func (h *runs) mount(to *routes) {
	to.callers(http.MethodGet, "/api/runs/:id", h.get)
	to.callers(http.MethodGet, "/api/runs/:id/events", h.events)
	to.callers(http.MethodPost, "/api/runs/:id/cancel", h.cancel)
}

type runJSON struct {
	ID           string     `json:"id"`
	RunID        string     `json:"runId"`
	ThreadID     string     `json:"threadId"`
	TurnID       string     `json:"turnId"`
	ParentRun    string     `json:"parentRunId,omitempty"`
	Status       string     `json:"status"`
	FirstSeq     int64      `json:"firstSeq,omitempty"`
	LastSeq      int64      `json:"lastSeq,omitempty"`
	ErrorCode    string     `json:"errorCode,omitempty"`
	ErrorMessage string     `json:"errorMessage,omitempty"` // as GET /api/threads/{id} tells it of the last Run
	CreatedAt    time.Time  `json:"createdAt"`
	StartedAt    *time.Time `json:"startedAt,omitempty"`
	EndedAt      *time.Time `json:"endedAt,omitempty"`
	Turn         *turnJSON  `json:"turn,omitempty"`
}

type turnJSON struct {
	Status       string  `json:"status"`
	AgentID      string  `json:"agentId"`
	Usage        rawJSON `json:"usage,omitempty"`
	ErrorCode    string  `json:"errorCode,omitempty"`
	ErrorMessage string  `json:"errorMessage,omitempty"`
}

func runOut(r store.Run, s store.Session) *runJSON {
	return &runJSON{
		ID: r.ID, RunID: r.ExternalID, ThreadID: s.ExternalID, TurnID: r.TurnID, ParentRun: r.ParentRunID, Status: string(r.Status),
		FirstSeq: r.FirstSeq, LastSeq: r.LastSeq, ErrorCode: r.ErrorCode,
		CreatedAt: r.CreatedAt.UTC(), StartedAt: moment(r.StartedAt), EndedAt: moment(r.EndedAt),
	}
}

// moment is a time that may not have come.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func (h *runs) find(c echo.Context) (run store.Run, s store.Session, err error) {
	id, err := pathID(c, "id")
	if err != nil {
		return run, s, err
	}
	ctx := c.Request().Context()
	in := auth.From(ctx).Scope()
	run, err = h.store.FindRun(ctx, in, id)
	if errors.Is(err, store.ErrNotFound) {
		var a store.Access
		if a, err = shared(c, h.store, store.AccessBy{RunID: id}); err == nil {
			ctx, in = c.Request().Context(), a.Scope()
			run, err = h.store.FindRun(ctx, in, id)
		}
	}
	if err != nil {
		return run, s, err
	}
	s, err = h.store.Session(ctx, in, run.SessionID)
	return run, s, err
}

func (h *runs) get(c echo.Context) error {
	run, s, err := h.find(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	turn, err := h.store.Turn(ctx, auth.From(ctx).Scope(), run.TurnID)
	if err != nil {
		return err
	}
	out := runOut(run, s)
	out.Turn = &turnJSON{
		Status: string(turn.Status), AgentID: turn.AgentID, Usage: turn.Usage,
		ErrorCode: turn.ErrorCode, ErrorMessage: turn.ErrorMessage,
	}
	return c.JSON(http.StatusOK, out)
}

// cancel asks for the end of the Run's Turn. One that is over stays as it is.
func (h *runs) cancel(c echo.Context) error {
	id, err := pathID(c, "id")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	run, err := h.sessions.Cancel(ctx, auth.From(ctx).Principal, id)
	if errors.Is(err, store.ErrNotFound) {
		run, err = h.cancelShared(c, id)
		ctx = c.Request().Context()
	}
	if err != nil {
		return err
	}
	s, err := h.store.Session(ctx, auth.From(ctx).Scope(), run.SessionID)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusAccepted, runOut(run, s))
}

// cancelShared cancels in a thread of others, which takes the right to write.
func (h *runs) cancelShared(c echo.Context, id string) (store.Run, error) {
	a, err := shared(c, h.store, store.AccessBy{RunID: id})
	if err != nil {
		return store.Run{}, err
	}
	if !a.Write {
		return store.Run{}, bridge.NotShared("write")
	}
	ctx := c.Request().Context()
	return h.sessions.CancelWithin(ctx, a.Scope(), auth.From(ctx).Principal, id)
}

type runEventsQuery struct {
	Records bool `query:"records"`
	Limit   int  `query:"limit" validate:"gte=0,lte=1000"`
}

// events gives a Run's slice: with Accept: text/event-stream its tail, with ?records=1 the
// trace of its Turn, else a page.
func (h *runs) events(c echo.Context) error {
	var q runEventsQuery
	if err := h.in.query(c, &q); err != nil {
		return err
	}
	filter, err := traceFilterOf(c)
	if err != nil {
		return err
	}
	records := q.Records || filter.records() && !wantsStream(c.Request())
	run, s, err := h.find(c)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return h.ofSession(c, q, records, filter)
	case err != nil:
		return err
	case records:
		return h.trace.write(c, run.TurnID)
	case filter.records():
		return refuse(codeInvalidQuery, "Records are followed by /v1/sessions/{id}/events.")
	}
	in := auth.From(c.Request().Context()).Scope()
	after, done, err := runCursor(c, h.store, in, run)
	if err != nil {
		return err
	}
	setID(c.Response().Header(), headerThread, s.ExternalID)
	setID(c.Response().Header(), headerRun, run.ExternalID)
	switch {
	case !wantsStream(c.Request()):
		return h.page(c, run, s, after, store.Page{Limit: q.Limit}.Size(), filter)
	case done:
		return c.NoContent(http.StatusNoContent) // an EventSource then stays away
	}
	return h.tail(c, run, after, filter)
}

func (h *runs) tail(c echo.Context, run store.Run, after int64, filter traceFilter) error {
	if err := h.out.admit(); err != nil {
		return err
	}
	ctx := c.Request().Context()
	feed, err := h.sessions.RunFeed(ctx, auth.From(ctx).Scope(), run, after)
	if err != nil {
		return err
	}
	return h.out.serve(c, feed, filter.dialect(), true, nil)
}

type eventJSON struct {
	Seq   int64     `json:"seq"`
	TS    time.Time `json:"ts"`
	Event rawJSON   `json:"event"`
}

// page gives events of the slice after a position; next goes into ?after= for more and is
// absent at the end of a Run that is over.
func (h *runs) page(c echo.Context, run store.Run, s store.Session, after int64, limit int, filter traceFilter) error {
	out := struct {
		Run    *runJSON    `json:"run"`
		Events []eventJSON `json:"events"`
		Next   int64       `json:"next,omitempty"`
	}{Run: runOut(run, s), Events: []eventJSON{}}
	if run.FirstSeq > 0 && (run.LastSeq == 0 || after < run.LastSeq) {
		size := 0
		err := eachEvent(c, h.store, run, after, func(row store.EventRow, seq int64, event []byte) bool {
			if after = seq; filter.wants(string(agui.TypeOf(event)), bridge.SourceAGUI) {
				out.Events = append(out.Events, eventJSON{Seq: seq, TS: row.TS.UTC(), Event: event})
				size += len(event)
			}
			return len(out.Events) < limit && size < pageMost
		})
		if err != nil {
			return err
		}
	}
	if run.LastSeq == 0 || after < run.LastSeq {
		out.Next = after
	}
	return c.JSON(http.StatusOK, out)
}

// eachEvent reads a Run's slice after a position until fn says false or nothing is left.
// The position lies before the slice's end.
func eachEvent(c echo.Context, events store.EventReader, run store.Run, after int64, fn func(row store.EventRow, seq int64, event []byte) bool) error {
	ctx := c.Request().Context()
	for {
		rows, err := events.Events(ctx, auth.From(ctx).Scope(), run.SessionID, after, pageBytes)
		if err != nil || len(rows) == 0 {
			return err
		}
		more := true
		for _, row := range rows {
			eventlog.Each([]store.EventRow{row}, func(seq int64, event []byte) bool {
				if seq > after {
					more = fn(row, seq, event) && !agui.IsTerminal(event) // the last of a slice
				}
				return more
			})
			if !more {
				return nil
			}
		}
		after = rows[len(rows)-1].LastSeq
	}
}
