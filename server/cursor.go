package server

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"aqueduct/store"
)

// cursorOf is the position a client has: Last-Event-ID, which an EventSource sends when it
// comes back to the same URL, else ?after=. 0 is none.
func cursorOf(c echo.Context) (int64, error) {
	given := c.Request().Header.Get("Last-Event-ID")
	if given == "" {
		given = c.QueryParam("after")
	}
	if given == "" {
		return 0, nil
	}
	after, err := strconv.ParseInt(given, 10, 64)
	if err != nil || after < 0 {
		return 0, refuse(codeInvalidCursor, "")
	}
	return after, nil
}

// logCursor is cursorOf within the log of a Session. A position beyond the log is not one
// of it: the client is told, and not left waiting for events it thinks it has.
func logCursor(c echo.Context, events store.EventReader, in store.Scope, sessionID string) (int64, error) {
	after, err := cursorOf(c)
	if err != nil || after == 0 {
		return after, err
	}
	last, err := events.LastSeq(c.Request().Context(), in, sessionID)
	if err != nil {
		return 0, err
	}
	if after > last {
		return 0, refuse(codeBeyondLog, "The log ends at "+strconv.FormatInt(last, 10)+".")
	}
	return after, nil
}

// runCursor is logCursor within one Run's slice: before it means from its start. done says
// that the client has the whole of a Run that is over.
func runCursor(c echo.Context, events store.EventReader, in store.Scope, run store.Run) (after int64, done bool, err error) {
	after, err = logCursor(c, events, in, run.SessionID)
	if err != nil {
		return 0, false, err
	}
	if run.FirstSeq > 0 {
		after = max(after, run.FirstSeq-1)
	}
	return after, run.Status.Terminal() && run.LastSeq > 0 && after >= run.LastSeq, nil
}

// wantsStream reports whether the client asked for SSE rather than a page of JSON.
func wantsStream(r *http.Request) bool {
	for _, accept := range r.Header.Values("Accept") {
		for media := range strings.SplitSeq(accept, ",") {
			media, _, _ = strings.Cut(media, ";")
			if strings.EqualFold(strings.TrimSpace(media), eventStream) {
				return true
			}
		}
	}
	return false
}
