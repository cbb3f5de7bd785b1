package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/eventlog"
	"aqueduct/server/auth"
	"aqueduct/store"
)

const (
	// traceWindow is how many entries a stream reads at a time, and a page that filters.
	traceWindow = 500
	// traceWindows bounds how much of a Session one page looks at for what its filter asks for;
	// the page then says where to go on.
	traceWindows = 40
)

// session is GET /v1/sessions/{id}/events: everything on record of a Session, which is what
// /ws/agent calls a run: the events of all its Runs, and Records, those of no Run too.
func (h *trace) session(c echo.Context) error {
	id, err := pathID(c, "id")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	in := auth.From(ctx).Review()
	s, err := h.store.Session(ctx, in, id)
	if errors.Is(err, store.ErrNotFound) {
		s, err = h.store.SessionByExternalID(ctx, in, id)
	}
	if errors.Is(err, store.ErrNotFound) {
		var a store.Access
		a, err = shared(c, h.store, store.AccessBy{SessionID: id})
		s = a.Session
	}
	if err != nil {
		return err
	}
	return h.writeSession(c, s)
}

// sessionEntryJSON is an entry of a Session's trace.
type sessionEntryJSON struct {
	entryJSON
	SessionID string `json:"session_id"`
}

// writeSession gives a page, or with Accept: text/event-stream the trace live.
func (h *trace) writeSession(c echo.Context, s store.Session) error {
	var q traceQuery
	if err := h.in.query(c, &q); err != nil {
		return err
	}
	filter, err := traceFilterOf(c)
	if err != nil {
		return err
	}
	at, err := h.cursor(c, s.ID)
	if err != nil {
		return err
	}
	if wantsStream(c.Request()) {
		return h.streamSession(c, s, at, filter)
	}
	return h.pageSession(c, s, at, filter, store.Page{Limit: q.Limit}.Size())
}

// cursor is the position the client has, "<seq>~<pos>" with "~<part>" in the midst of
// what belongs to one event.
func (h *trace) cursor(c echo.Context, sessionID string) (at bridge.TraceCursor, err error) {
	given := c.Request().Header.Get("Last-Event-ID")
	if given == "" {
		given = c.QueryParam("after")
	}
	if given == "" {
		return at, nil
	}
	parts := strings.Split(given, "~")
	var numbers [3]int64
	for i, part := range parts {
		var n int64
		if n, err = strconv.ParseInt(part, 10, 64); err != nil || n < 0 || i == len(numbers) {
			return at, refuse(codeInvalidCursor, "")
		}
		numbers[i] = n
	}
	if len(parts) < 2 || numbers[2] > maxParts {
		return at, refuse(codeInvalidCursor, "")
	}
	ctx := c.Request().Context()
	last, err := h.store.LastSeq(ctx, auth.From(ctx).Review(), sessionID)
	if err == nil && numbers[0] > last {
		err = refuse(codeBeyondLog, "The log ends at "+strconv.FormatInt(last, 10)+".")
	}
	return bridge.TraceCursor{Seq: numbers[0], Pos: numbers[1], Part: int(numbers[2])}, err
}

// maxParts is more than belongs to one event.
const maxParts = 1 << 20

func cursorText(at bridge.TraceCursor) string {
	text := strconv.FormatInt(at.Seq, 10) + "~" + strconv.FormatInt(at.Pos, 10)
	if at.Part > 0 {
		text += "~" + strconv.Itoa(at.Part)
	}
	return text
}

func sessionEntry(s store.Session, e bridge.TraceEntry) sessionEntryJSON {
	return sessionEntryJSON{SessionID: s.ID, entryJSON: entryOf(e)}
}

// pageSession gives one page. position goes into ?after= for what comes later, and into
// Last-Event-ID; next is there as long as there is more now.
func (h *trace) pageSession(c echo.Context, s store.Session, at bridge.TraceCursor, filter traceFilter, size int) error {
	ctx := c.Request().Context()
	out := struct {
		SessionID string             `json:"session_id"`
		ThreadID  string             `json:"thread_id"`
		Events    []sessionEntryJSON `json:"events"`
		Next      string             `json:"next,omitempty"`
		Position  string             `json:"position"`
	}{SessionID: s.ID, ThreadID: s.ExternalID, Events: []sessionEntryJSON{}}
	at, more, err := tracePage(ctx, h.sessions.SessionTrace(auth.From(ctx).Review(), s.ID), at, filter, size, func(e bridge.TraceEntry) {
		out.Events = append(out.Events, sessionEntry(s, e))
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

// streamSession follows the trace until its thread is deleted. What is not asked for moves the
// client's position as well, with the next entry that is.
func (h *trace) streamSession(c echo.Context, s store.Session, at bridge.TraceCursor, filter traceFilter) error {
	if err := h.out.admit(); err != nil {
		return err
	}
	caller := auth.From(c.Request().Context())
	from := h.sessions.SessionTrace(caller.Review(), s.ID)
	bell, stop := h.sessions.Overhear(s.ID)
	defer stop()
	setID(c.Response().Header(), headerThread, s.ExternalID)
	looked := time.Now()
	return h.out.frames(c, caller.Until, func(ctx context.Context) ([]byte, error) {
		for {
			entries, err := from.Read(ctx, at, traceWindow)
			if err == nil && len(entries) == 0 && time.Since(looked) > lookForSession {
				looked = time.Now()
				_, err = h.store.Session(ctx, caller.Review(), s.ID)
			}
			if errors.Is(err, store.ErrNotFound) {
				return nil, io.EOF
			}
			if err != nil {
				return nil, err
			}
			frames, err := sessionFrames(s, entries, filter)
			if err != nil {
				return nil, err
			}
			if len(entries) > 0 {
				at = entries[len(entries)-1].At
			}
			if len(frames) > 0 {
				return frames, nil
			}
			if len(entries) > 0 {
				continue
			}
			for _, again := range []<-chan struct{}{after(restBetweenLooks), bell} {
				select {
				case <-again:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
		}
	})
}

func sessionFrames(s store.Session, entries []bridge.TraceEntry, filter traceFilter) ([]byte, error) {
	var frames []byte
	for _, e := range entries {
		if !filter.wants(e.Type, e.Source) {
			continue
		}
		data, err := plainText(sessionEntry(s, e))
		if err != nil {
			return nil, err
		}
		frames = appendFrame(frames, cursorText(e.At), "", bytes.TrimSuffix(data, []byte("\n")))
	}
	return frames, nil
}

// ofSession serves /api/runs/{id}/events for the id of a Session: its log across all Runs, or
// with records its trace.
func (h *runs) ofSession(c echo.Context, q runEventsQuery, records bool, filter traceFilter) error {
	id, err := pathID(c, "id")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	in := auth.From(ctx).Review()
	s, err := h.store.Session(ctx, in, id)
	if errors.Is(err, store.ErrNotFound) {
		var a store.Access
		a, err = shared(c, h.store, store.AccessBy{SessionID: id})
		s, ctx, in = a.Session, c.Request().Context(), a.Scope()
	}
	if err != nil {
		return err
	}
	if records || filter.records() {
		return h.trace.writeSession(c, s)
	}
	at, err := logCursor(c, h.store, in, s.ID)
	if err != nil {
		return err
	}
	setID(c.Response().Header(), headerThread, s.ExternalID)
	if !wantsStream(c.Request()) {
		return h.sessionPage(c, s, at, store.Page{Limit: q.Limit}.Size(), filter)
	}
	if err := h.out.admit(); err != nil {
		return err
	}
	feed, err := h.sessions.ThreadFeed(ctx, in, s, at)
	if err != nil {
		return err
	}
	return h.out.serve(c, feed, filter.dialect(), true, nil)
}

// sessionPage gives events of a Session's log after a position; next goes into ?after= and is
// absent at the end of the log.
func (h *runs) sessionPage(c echo.Context, s store.Session, after int64, limit int, filter traceFilter) error {
	ctx := c.Request().Context()
	in := auth.From(ctx).Scope()
	last, err := h.store.LastSeq(ctx, in, s.ID)
	if err != nil {
		return err
	}
	out := struct {
		Thread threadJSON  `json:"thread"`
		Events []eventJSON `json:"events"`
		Next   int64       `json:"next,omitempty"`
	}{Thread: threadOut(s), Events: []eventJSON{}}
	size := 0
	full := func() bool { return len(out.Events) >= limit || size >= pageMost }
	for windows := 0; after < last && !full() && windows < traceWindows; windows++ {
		rows, err := h.store.Events(ctx, in, s.ID, after, pageBytes)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			break
		}
		for _, row := range rows {
			eventlog.Each([]store.EventRow{row}, func(seq int64, event []byte) bool {
				if seq <= after {
					return true
				}
				if after = seq; filter.wants(string(agui.TypeOf(event)), bridge.SourceAGUI) {
					out.Events = append(out.Events, eventJSON{Seq: seq, TS: row.TS.UTC(), Event: event})
					size += len(event)
				}
				return !full()
			})
			if full() {
				break
			}
		}
	}
	if after < last {
		out.Next = after
	}
	return c.JSON(http.StatusOK, out)
}
