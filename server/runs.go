// Runs over HTTP: one Run, its events as a page or a stream, and its cancellation. The same routes take a Session's
// id (ofSession in sessiontrace.go) and with ?records=1 the trace of a Turn (trace.go).

package server

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/trace/reader"
	"aqueduct/server/answer"
	"aqueduct/server/auth"
	"aqueduct/server/channel"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// pageBytes is about how much of a log one page of JSON reads at a time. It is as much as one query holds in memory
// for one request.
const pageBytes = 1 << 20

// pageMost is about how much one page of JSON holds, however many events are asked for: each may have 1 MiB.
const pageMost = 4 << 20

// runs is /api/runs: slices of the log, as pages or as a tail. Its words are AG-UI's. It keeps nothing between
// requests.
type runs struct {
	sessions *bridge.Sessions
	queue    channel.Queue
	store    store.Store
	in       *decode.Decoder
	out      *streams
	trace    *trace
}

// Mount adds the routes. Auditors read traces by /v1 and not here, where the thread itself would be open to them.
func (h *runs) Mount(to *route.Routes) {
	to.Callers(http.MethodGet, "/api/runs/:id", h.get)
	to.Callers(http.MethodGet, "/api/runs/:id/events", h.events)
	to.Callers(http.MethodPost, "/api/runs/:id/cancel", withID("id", h.cancel))
}

// runJSON is a Run: its ids on both sides, its place in the log, and how it ended. ID is the server's and RunID the
// client's; FirstSeq and LastSeq are zero until the slice has a beginning and an end.
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
	ErrorMessage string     `json:"errorMessage,omitempty"` // as GET /api/threads/{id} has it for the last Run
	CreatedAt    time.Time  `json:"createdAt"`
	StartedAt    *time.Time `json:"startedAt,omitempty"`
	EndedAt      *time.Time `json:"endedAt,omitempty"`
	Turn         *turnJSON  `json:"turn,omitempty"`
}

// turnJSON is the Turn that a Run is a part of; it may still be under way when the Run has ended with questions.
// usage is what the agent reported of its tokens, as it came.
type turnJSON struct {
	Status       string          `json:"status"`
	AgentID      string          `json:"agentId"`
	Usage        json.RawMessage `json:"usage,omitempty"`
	ErrorCode    string          `json:"errorCode,omitempty"`
	ErrorMessage string          `json:"errorMessage,omitempty"`
}

// runOut is the JSON of a stored Run of a Session. ErrorMessage is left to the routes that read it.
func runOut(r store.Run, s store.Session) *runJSON {
	return &runJSON{
		ID: r.ID, RunID: r.ExternalID, ThreadID: s.ExternalID, TurnID: r.TurnID, ParentRun: r.ParentRunID, Status: string(r.Status),
		FirstSeq: r.FirstSeq, LastSeq: r.LastSeq, ErrorCode: r.ErrorCode,
		CreatedAt: r.CreatedAt.UTC(), StartedAt: answer.TimeOrNil(r.StartedAt), EndedAt: answer.TimeOrNil(r.EndedAt),
	}
}

// find reads the Run of the path, by the client's id or the server's. When the caller has no such Run, one in a
// thread that is shared with the caller counts; the request's context is then the share's, so that what it opens ends
// with the share. The own one is looked for first, because ids of clients may be the same in threads of different
// users.
func (h *runs) find(c echo.Context) (run store.Run, s store.Session, err error) {
	id, err := decode.PathID(c, "id")
	if err != nil {
		return run, s, err
	}
	ctx, in := scoped(c)
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

// get shows a Run and its Turn.
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

// cancel asks for the end of the Run's Turn. One that is over stays as it is. The answer is 202: the agent is asked
// to stop, and the end comes in the stream.
func (h *runs) cancel(c echo.Context, id string) error {
	ctx := c.Request().Context()
	if done, err := h.queue.Cancel(ctx, auth.From(ctx).Scope(), id); err != nil || done {
		return reply(c, http.StatusAccepted, cancelledTask{id, string(store.TaskCancelled)}, err)
	}
	run, err := h.sessions.Cancels().Cancel(ctx, auth.From(ctx).Principal, id)
	if errors.Is(err, store.ErrNotFound) {
		run, err = h.cancelShared(c, id)
		// The share has replaced the request's context: what is read below is read in its scope.
		ctx = c.Request().Context()
	}
	if err != nil {
		return err
	}
	s, err := h.store.Session(ctx, auth.From(ctx).Scope(), run.SessionID)
	return reply(c, http.StatusAccepted, runOut(run, s), err)
}

// cancelledTask is what was cancelled in the queue, before it was a Run.
type cancelledTask struct {
	RunID  string `json:"runId"`
	Status string `json:"status"`
}

// cancelShared cancels in a thread of others, which takes the right to write. The Run is found through the share, and
// the one who cancels is the caller.
func (h *runs) cancelShared(c echo.Context, id string) (store.Run, error) {
	a, err := shared(c, h.store, store.AccessBy{RunID: id})
	if err != nil {
		return store.Run{}, err
	}
	if !a.Write {
		return store.Run{}, bridge.NotShared("write")
	}
	ctx := c.Request().Context()
	return h.sessions.Cancels().CancelWithin(ctx, a.Scope(), auth.From(ctx).Principal, id)
}

// runEventsQuery is how much of a Run's slice is asked for, and in which form. records asks for the trace of the Turn
// in place of the events of the slice.
type runEventsQuery struct {
	Records bool `query:"records"`
	Limit   int  `query:"limit" validate:"gte=0,lte=1000"`
}

// events gives a Run's slice: with Accept: text/event-stream its tail, with ?records=1 the trace of its Turn, else a
// page. Which of the forms a request means is found out before anything is read of the log.
func (h *runs) events(c echo.Context) error {
	var q runEventsQuery
	if err := h.in.Query(c, &q); err != nil {
		return err
	}
	filter, err := traceFilterOf(c)
	if err != nil {
		return err
	}
	// A filter that names another source than agui asks for records without saying so.
	// Positions of this route are those of the log alone, so a stream of records is refused below.
	records := q.Records || filter.records() && !wantsStream(c.Request())
	run, s, err := h.find(c)
	// The Run of the path is looked for first, and then a Session of that id, because /ws/agent calls a Session a
	// run.
	switch {
	case errors.Is(err, store.ErrNotFound):
		return h.ofSession(c, q, records, filter)
	case err != nil:
		return err
	case records:
		return h.trace.write(c, run.TurnID)
	case filter.records():
		return problem.Refuse(problem.InvalidQuery, "Records are followed by /v1/sessions/{id}/events.")
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
	// The client has the whole slice and the Run is over.
	case done:
		return c.NoContent(http.StatusNoContent) // an EventSource then stays away
	}
	return h.tail(c, run, after, filter)
}

// tail streams the slice live. The stream reconnects with retry:, since an EventSource reads this route.
func (h *runs) tail(c echo.Context, run store.Run, after int64, filter traceFilter) error {
	if err := h.out.admit(); err != nil {
		return err
	}
	ctx := c.Request().Context()
	feed, err := h.sessions.Feeds().Run(ctx, auth.From(ctx).Scope(), run, after)
	if err != nil {
		return err
	}
	return h.out.serve(c, feed, filter.dialect(), true, nil)
}

// eventJSON is one event as it is kept, with its position and the time of its commit.
type eventJSON struct {
	Seq   int64           `json:"seq"`
	TS    time.Time       `json:"ts"`
	Event json.RawMessage `json:"event"`
}

// page gives events of the slice after a position; next goes into ?after= for more and is absent at the end of a Run
// that is over. A Run that has not begun has an empty page, and next is where to go on.
func (h *runs) page(c echo.Context, run store.Run, s store.Session, after int64, limit int, filter traceFilter) error {
	out := struct {
		Run    *runJSON    `json:"run"`
		Events []eventJSON `json:"events"`
		Next   int64       `json:"next,omitempty"`
	}{Run: runOut(run, s), Events: []eventJSON{}}
	if run.FirstSeq > 0 && (run.LastSeq == 0 || after < run.LastSeq) {
		// The last event of a slice ends the page: what follows in the log belongs to the next Run.
		page := eventPage{events: h.store, filter: filter, limit: limit, ends: agui.IsTerminal}
		var err error
		// Windows need no bound here: a Run's slice has one of its own (RunBytes), and its last event ends the page.
		if out.Events, after, err = page.read(c, run.SessionID, after, math.MaxInt64, math.MaxInt); err != nil {
			return err
		}
	}
	if run.LastSeq == 0 || after < run.LastSeq {
		out.Next = after
	}
	return c.JSON(http.StatusOK, out)
}

// eventPage is one page of a Session's log: the events that a filter wants, up to a number of them and about pageMost
// bytes. It is used by one request and then thrown away. An event is added whole, so a page may be larger than
// pageMost by one event.
type eventPage struct {
	events store.EventReader
	filter traceFilter
	limit  int
	ends   func(event []byte) bool // whether the page ends with this event

	found []eventJSON
	size  int
	over  bool
}

// read reads on from a position, in at most so many windows of pageBytes and no further than until, and returns the
// position it came to. Without the bound on windows a filter that selects nothing would read the whole log for one
// page. Rows of the log hold several events each, and the first row may begin before the position; events up to it
// are skipped.
func (p *eventPage) read(c echo.Context, sessionID string, after, until int64, windows int) ([]eventJSON, int64, error) {
	ctx := c.Request().Context()
	p.found = []eventJSON{}
	for ; windows > 0 && after < until; windows-- {
		rows, err := p.events.Events(ctx, auth.From(ctx).Scope(), sessionID, after, pageBytes)
		if err != nil || len(rows) == 0 {
			return p.found, after, err
		}
		for _, row := range rows {
			eventlog.Each([]store.EventRow{row}, func(seq int64, event []byte) bool {
				if seq > after {
					after = seq
					p.add(row, seq, event)
				}
				return !p.over
			})
			if p.over {
				return p.found, after, nil
			}
		}
	}
	return p.found, after, nil
}

// add takes an event into the page where the filter wants it. Events that the filter leaves out move the position all
// the same, or the next page would read them again.
func (p *eventPage) add(row store.EventRow, seq int64, event []byte) {
	if p.filter.wants(string(agui.TypeOf(event)), reader.SourceAGUI) {
		p.found = append(p.found, eventJSON{Seq: seq, TS: row.TS.UTC(), Event: event})
		p.size += len(event)
	}
	p.over = len(p.found) >= p.limit || p.size >= pageMost || p.ends != nil && p.ends(event)
}
