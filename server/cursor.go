// Positions of clients in a log: how they are sent, and what they mean for a Session, a Run and a thread. Every
// stream and every page of events begins here, so that a position is judged the same way everywhere.
//
// A client may come back with any position there ever was: events are kept for as long as their Session, so nothing is too
// old. What differs is where a position that is not the client's own leads. Before a Run's first event it means the Run's
// beginning; beyond the log it is refused; that of a Run's last event ends an EventSource with 204. The inbox has positions
// of its own (inboxstream.go), and so has the trace (sessiontrace.go).

package server

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"aqueduct/server/problem"
	"aqueduct/store"
)

// givenCursor is the text of the position that a client has, in whichever of the three places it came. The header wins, then
// ?lastEventId=, which polyfills of EventSource send where they can set no header: the URL of an EventSource keeps its ?after=
// for ever, while the other two move on.
func givenCursor(c echo.Context) string {
	return cmp.Or(c.Request().Header.Get("Last-Event-ID"), c.QueryParam("lastEventId"), c.QueryParam("after"))
}

// cursorOf is the position a client has: Last-Event-ID, which an EventSource sends when it
// comes back to the same URL, else ?after=. 0 is none.
func cursorOf(c echo.Context) (int64, error) { return positionIn(givenCursor(c)) }

// positionIn reads a position in a log; "" is 0.
func positionIn(given string) (int64, error) {
	if given == "" {
		return 0, nil
	}
	after, err := strconv.ParseInt(given, 10, 64)
	if err != nil || after < 0 {
		return 0, problem.Refuse(problem.InvalidCursor, "")
	}
	return after, nil
}

// logCursor is cursorOf within the log of a Session. A position beyond the log is an error: the client would
// otherwise wait for events it believes to have. A position beyond the log comes from another database (restored from
// a backup, say) or is made up.
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
		return 0, problem.Refuse(problem.BeyondLog, "The log ends at "+strconv.FormatInt(last, 10)+".")
	}
	return after, nil
}

// runCursor is logCursor within one Run's slice: a position before the slice means its start. done means that the
// client has the whole of a Run that is over. A Run without a FirstSeq has written nothing yet. done is answered with
// 204, upon which an EventSource stops coming back.
func runCursor(c echo.Context, events store.EventReader, in store.Scope, run store.Run) (after int64, done bool, err error) {
	after, err = logCursor(c, events, in, run.SessionID)
	if err != nil {
		return 0, false, err
	}
	// A client may come with a position of an earlier Run: the slice begins with the Run all the same.
	if run.FirstSeq > 0 {
		after = max(after, run.FirstSeq-1)
	}
	return after, run.Status.Terminal() && run.LastSeq > 0 && after >= run.LastSeq, nil
}

// wantsStream reports whether the client asked for SSE rather than a page of JSON. Quality values are not weighed: no
// client that wants JSON names event streams at all.
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
