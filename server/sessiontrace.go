// The trace of a whole Session, as pages and live. Positions here have two halves, because the log and the Records
// are two series: "<seq>~<pos>" stands behind event seq and Record pos.

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

	"aqueduct/bridge/trace/reader"
	"aqueduct/server/auth"
	"aqueduct/server/channel"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/wsconn"
	"aqueduct/store"
)

// Together they bound one page to twenty thousand entries that are looked at.
const (
	// traceWindow is how many entries a stream reads at a time, and a page that filters.
	traceWindow = 500
	// traceWindows bounds how much of a Session one page looks at for its filter; the page then has the position to continue
	// from.
	traceWindows = 40
)

// session is GET /v1/sessions/{id}/events: everything on record of a Session, which is what /ws/agent calls a run:
// the events of all its Runs, and Records, those of no Run too. The id may be the server's or the client's; the
// server's goes first.
func (h *trace) session(c echo.Context, id string) error {
	ctx := c.Request().Context()
	in := auth.From(ctx).Review()
	s, err := h.store.Session(ctx, in, id)
	if errors.Is(err, store.ErrNotFound) {
		s, err = h.store.SessionByExternalID(ctx, in, id)
	}
	s, err = orShared(c, h.store, id, s, err)
	if err != nil {
		return err
	}
	return h.writeSession(c, s)
}

// sessionEntryJSON is an entry of a Session's trace. Its session_id is the same in every entry of a page; it is for
// clients that collect entries of several Sessions.
type sessionEntryJSON struct {
	entryJSON
	SessionID string `json:"session_id"`
}

// writeSession gives a page, or with Accept: text/event-stream the trace live. The query is checked before the
// position, and the position before anything is read.
func (h *trace) writeSession(c echo.Context, s store.Session) error {
	var q traceQuery
	if err := h.in.Query(c, &q); err != nil {
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

// cursor is the position the client has, "<seq>~<pos>" with "~<part>" in the midst of what belongs to one event. An
// event of the log may give several entries; part counts those that the client has of it.
func (h *trace) cursor(c echo.Context, sessionID string) (at reader.Cursor, err error) {
	given := givenCursor(c)
	if given == "" {
		return at, nil
	}
	parts := strings.Split(given, "~")
	var numbers [3]int64
	for i, part := range parts {
		var n int64
		if n, err = strconv.ParseInt(part, 10, 64); err != nil || n < 0 || i == len(numbers) {
			return at, problem.Refuse(problem.InvalidCursor, "")
		}
		numbers[i] = n
	}
	// One number alone is a position of a log, not of a trace.
	if len(parts) < 2 || numbers[2] > maxParts {
		return at, problem.Refuse(problem.InvalidCursor, "")
	}
	ctx := c.Request().Context()
	last, err := h.store.LastSeq(ctx, auth.From(ctx).Review(), sessionID)
	if err == nil && numbers[0] > last {
		err = problem.Refuse(problem.BeyondLog, "The log ends at "+strconv.FormatInt(last, 10)+".")
	}
	return reader.Cursor{Seq: numbers[0], Pos: numbers[1], Part: int(numbers[2])}, err
}

// maxParts is more than belongs to one event. It keeps a made-up position from overflowing an int on a small machine.
const maxParts = 1 << 20

// cursorText is a position as cursor reads it.
func cursorText(at reader.Cursor) string {
	text := strconv.FormatInt(at.Seq, 10) + "~" + strconv.FormatInt(at.Pos, 10)
	if at.Part > 0 {
		text += "~" + strconv.Itoa(at.Part)
	}
	return text
}

// sessionEntry is an entry in the shape of this route.
func sessionEntry(s store.Session, e reader.Entry) sessionEntryJSON {
	return sessionEntryJSON{SessionID: s.ID, entryJSON: entryOf(e)}
}

// pageSession gives one page. position goes into ?after= for what comes later, and into Last-Event-ID; next is there
// as long as there is more now. Both may be given together: a client that pages to the end and then follows live uses
// the last position.
func (h *trace) pageSession(c echo.Context, s store.Session, at reader.Cursor, filter traceFilter, size int) error {
	ctx := c.Request().Context()
	out := struct {
		SessionID string             `json:"session_id"`
		ThreadID  string             `json:"thread_id"`
		Events    []sessionEntryJSON `json:"events"`
		Next      string             `json:"next,omitempty"`
		Position  string             `json:"position"`
	}{SessionID: s.ID, ThreadID: s.ExternalID, Events: []sessionEntryJSON{}}
	at, more, err := tracePage(ctx, reader.OfSession(h.store, auth.From(ctx).Review(), s.ID), at, filter, size, func(e reader.Entry) {
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

// streamSession follows the trace until its thread is deleted. What is not asked for moves the client's position as
// well, with the next entry that is. An idle stream looks for its Session now and then (channel.SessionCheckEvery),
// which is how it notices that its thread was deleted.
func (h *trace) streamSession(c echo.Context, s store.Session, at reader.Cursor, filter traceFilter) error {
	if err := h.out.admit(); err != nil {
		return err
	}
	caller := auth.From(c.Request().Context())
	from := reader.OfSession(h.store, caller.Review(), s.ID)
	// The bell is watched before the first read: what is written between a read and its wait rings it, so no entry
	// waits for the next one.
	bell, stop := h.sessions.Feeds().Watch(s.ID)
	defer stop()
	setID(c.Response().Header(), headerThread, s.ExternalID)
	looked := time.Now()
	// The loop goes on without a frame as long as there are entries that the filter leaves out, and waits only at the
	// end of the log.
	return h.out.frames(c, caller.Until, func(ctx context.Context) ([]byte, error) {
		for {
			// at moves only behind what was read, so an outage between a read and its frames repeats the read.
			entries, err := from.Read(ctx, at, traceWindow)
			if err == nil && len(entries) == 0 && time.Since(looked) > channel.SessionCheckEvery {
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
			if err := awaitRing(ctx, bell); err != nil {
				return nil, err
			}
		}
	})
}

// sessionFrames are the frames of those entries that the filter wants. Each has its position as id, so the client can
// come back behind any of them.
func sessionFrames(s store.Session, entries []reader.Entry, filter traceFilter) ([]byte, error) {
	var frames []byte
	for _, e := range entries {
		if !filter.wants(e.Type, e.Source) {
			continue
		}
		data, err := wsconn.Marshal(sessionEntry(s, e))
		if err != nil {
			return nil, err
		}
		frames = appendFrame(frames, cursorText(e.At), "", bytes.TrimSuffix(data, []byte("\n")))
	}
	return frames, nil
}

// ofSession serves /api/runs/{id}/events for the id of a Session: its log across all Runs, or with records its trace.
// A Session's log and the slice of a Run are the same events; only the bounds differ.
func (h *runs) ofSession(c echo.Context, q runEventsQuery, records bool, filter traceFilter) error {
	id, err := decode.PathID(c, "id")
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
	feed, err := h.sessions.Feeds().Thread(ctx, in, s, at)
	if err != nil {
		return err
	}
	return h.out.serve(c, feed, filter.dialect(), true, nil)
}

// sessionPage gives events of a Session's log after a position; next goes into ?after= and is absent at the end of
// the log. The end of the log is read once at the beginning, so events that arrive meanwhile belong to the next page.
func (h *runs) sessionPage(c echo.Context, s store.Session, after int64, limit int, filter traceFilter) error {
	ctx, in := scoped(c)
	last, err := h.store.LastSeq(ctx, in, s.ID)
	if err != nil {
		return err
	}
	out := struct {
		Thread threadJSON  `json:"thread"`
		Events []eventJSON `json:"events"`
		Next   int64       `json:"next,omitempty"`
	}{Thread: threadOut(s), Events: []eventJSON{}}
	page := eventPage{events: h.store, filter: filter, limit: limit}
	if out.Events, after, err = page.read(c, s.ID, after, last, traceWindows); err != nil {
		return err
	}
	if after < last {
		out.Next = after
	}
	return c.JSON(http.StatusOK, out)
}
