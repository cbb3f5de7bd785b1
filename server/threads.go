package server

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// threads is /api/threads: what a caller talked about. Its words are AG-UI's.
type threads struct {
	sessions *bridge.Sessions
	store    store.Store
	in       *intake
	out      *streams
}

func (h *threads) mount(to *routes) {
	to.callers(http.MethodGet, "/api/threads", h.list)
	to.callers(http.MethodGet, "/api/threads/:id", h.get)
	to.callers(http.MethodPatch, "/api/threads/:id", h.rename)
	to.callers(http.MethodDelete, "/api/threads/:id", h.remove)
	to.callers(http.MethodGet, "/api/threads/:id/messages", h.messages)
	to.callers(http.MethodGet, "/api/threads/:id/parts/:sha256", h.part)
	to.callers(http.MethodGet, "/api/threads/:id/events", h.events)
}

type threadJSON struct {
	ID        string      `json:"id"`
	SessionID string      `json:"sessionId"` // ours; the run_id on /ws/agent
	Title     string      `json:"title"`
	AgentID   string      `json:"agentId"`
	CreatedAt time.Time   `json:"createdAt"`
	UpdatedAt time.Time   `json:"updatedAt"`
	Shared    *sharedJSON `json:"shared,omitempty"` // of a thread of somebody else
}

type sharedJSON struct {
	Owner  string   `json:"owner"`
	Rights []string `json:"rights"`
}

// sharedThreadOut is a thread of somebody else. It goes by our id: the client's may be that of a thread of the
// caller's own.
func sharedThreadOut(a store.Access) threadJSON {
	out := threadOut(a.Session)
	out.ID, out.Shared = a.Session.ID, &sharedJSON{Owner: a.Session.User, Rights: rightsOf(a.Write, a.Decide)}
	return out
}

func threadOut(s store.Session) threadJSON {
	return threadJSON{ID: s.ExternalID, SessionID: s.ID, Title: s.Title, AgentID: s.AgentID, CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC()}
}

type threadsQuery struct {
	Limit int    `query:"limit" validate:"gte=0,lte=1000"`
	After string `query:"after" validate:"omitempty,uuid"`
}

// list gives the newest threads first; next goes into ?after= for more.
func (h *threads) list(c echo.Context) error {
	var q threadsQuery
	if err := h.in.query(c, &q); err != nil {
		return err
	}
	page := store.Page{Limit: q.Limit, After: q.After}
	ctx := c.Request().Context()
	who := auth.From(ctx).Principal
	rows, err := h.store.Sessions(ctx, store.Reaching(who), page)
	if err != nil {
		return err
	}
	out := struct {
		Threads []threadJSON `json:"threads"`
		Next    string       `json:"next,omitempty"`
	}{Threads: make([]threadJSON, 0, len(rows))}
	for _, s := range rows {
		one := threadOut(s)
		if s.User != who.User {
			a, err := h.store.Access(ctx, who, store.AccessBy{SessionID: s.ID})
			if errors.Is(err, store.ErrNotFound) {
				continue // not shared any more
			}
			if err != nil {
				return err
			}
			one = sharedThreadOut(a)
		}
		out.Threads = append(out.Threads, one)
	}
	if len(rows) == page.Size() {
		out.Next = rows[len(rows)-1].ID
	}
	return c.JSON(http.StatusOK, out)
}

// find takes the client's thread id, ours, or @browser.
func (h *threads) find(c echo.Context) (store.Session, error) {
	ctx := c.Request().Context()
	in := auth.From(ctx).Scope()
	if c.Param("id") == browserThread {
		return h.store.SessionByExternalID(ctx, in, browserThreadID(c.Request()))
	}
	id, err := pathID(c, "id")
	if err != nil {
		return store.Session{}, err
	}
	return h.named(c, id)
}

// named takes the client's thread id or ours.
func (h *threads) named(c echo.Context, id string) (store.Session, error) {
	return sessionFor(c, h.store, id)
}

// get is one thread with what is under way in it.
func (h *threads) get(c echo.Context) error {
	s, err := h.find(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	in := auth.From(ctx).Scope()
	out := struct {
		threadJSON
		State     rawJSON  `json:"state,omitempty"`
		LastRun   *runJSON `json:"lastRun,omitempty"`
		Questions []string `json:"questions"`
	}{threadJSON: threadOut(s), State: s.State, Questions: []string{}}
	if in.Session() != "" {
		a, err := h.store.Access(ctx, auth.From(ctx).Principal, store.AccessBy{SessionID: s.ID})
		if err != nil {
			return err
		}
		out.threadJSON = sharedThreadOut(a)
	}
	switch run, err := h.store.LastRun(ctx, in, s.ID); {
	case err == nil:
		out.LastRun = runOut(run, s)
		if run.Status == store.RunFailed {
			broken, err := h.store.BrokenRuns(ctx, in, s.ID, run.ID, run.ID)
			if err != nil {
				return err
			}
			for _, b := range broken {
				out.LastRun.ErrorMessage = bridge.EndMessage(b)
			}
		}
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	open, err := h.store.OpenToolCalls(ctx, in, s.ID)
	if err != nil {
		return err
	}
	for _, call := range open {
		out.Questions = append(out.Questions, call.ID)
	}
	return c.JSON(http.StatusOK, out)
}

type renameBody struct {
	Title string `json:"title" validate:"required,max=200"`
}

func (h *threads) rename(c echo.Context) error {
	var body renameBody
	if err := h.in.json(c, &body); err != nil {
		return err
	}
	s, err := h.find(c)
	if err != nil {
		return err
	}
	if err := own(c, s); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if err := h.sessions.Rename(ctx, auth.From(ctx).Principal, s.ExternalID, body.Title); err != nil {
		return err
	}
	s.Title = body.Title
	return c.JSON(http.StatusOK, threadOut(s))
}

func (h *threads) remove(c echo.Context) error {
	s, err := h.find(c)
	if err != nil {
		return err
	}
	if err := own(c, s); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if err := h.sessions.Delete(ctx, auth.From(ctx).Principal, s.ExternalID); err != nil {
		return err
	}
	h.sessions.Inbox().LookAgain(s.Tenant) // its questions are nobody's to decide any more
	return c.NoContent(http.StatusNoContent)
}

// messagesBytes is about how much one page of messages holds, however many are asked for. One message is given whole,
// whatever its size: this is where what a snapshot cuts can be read.
const messagesBytes = 4 << 20

type messagesQuery struct {
	Limit  int    `query:"limit" validate:"gte=0,lte=1000"`
	Before string `query:"before" validate:"omitempty,uuid"`
	Format string `query:"format" validate:"omitempty,oneof=tdesign agui"`
	Run    string `query:"run" validate:"max=128"`
}

// messages is the history, as a bare array so that a page can hand it on as it is.
func (h *threads) messages(c echo.Context) error {
	var q messagesQuery
	if err := h.in.query(c, &q); err != nil {
		return err
	}
	s, err := h.find(c)
	if err != nil {
		return err
	}
	least := bridge.InlinePart
	if q.Format != "agui" {
		least = 0 // a page has nothing but URLs to show parts by
	}
	rows, err := h.transcript(c, s, q.Run, store.Page{Limit: q.Limit, Before: q.Before, MaxBytes: messagesBytes}, least)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	broken, err := h.brokenRuns(ctx, auth.From(ctx).Scope(), s.ID, rows)
	if err != nil {
		return err
	}
	if q.Format == "agui" {
		return c.JSON(http.StatusOK, plainHistory(markPlain(rows, broken)))
	}
	history, err := pageHistory(rows)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, markBroken(history, rows, broken))
}

// transcript reads a page of what was said. What a Run that is still open has said is left
// out: its stream says it from the start.
// With a Run it is the history that ends with the Turn of that Run, whichever branch it is on.
func (h *threads) transcript(c echo.Context, s store.Session, runID string, page store.Page, least int) ([]store.Message, error) {
	ctx := c.Request().Context()
	in := auth.From(ctx).Scope()
	turnID, err := h.branch(c, s, runID)
	if err != nil {
		return nil, err
	}
	rows, whole, err := h.sessions.History(ctx, in, s.ID, turnID, page, least)
	if err != nil {
		return nil, err
	}
	if !whole && len(rows) > 0 {
		c.Response().Header().Set("Link", nextLink(c.Request().URL, rows[0].ID))
	}
	last, err := h.store.LastRun(ctx, in, s.ID)
	if errors.Is(err, store.ErrNotFound) {
		return rows, nil
	}
	if err == nil && last.Status == store.RunRunning {
		rows = without(rows, last.ID)
	}
	return rows, err
}

// branch is the Turn that ends the branch a Run is on; "" without a Run: the current branch.
func (h *threads) branch(c echo.Context, s store.Session, runID string) (string, error) {
	if runID == "" {
		return "", nil
	}
	if !bridge.ValidExternalID(runID) {
		return "", refuse(bridge.RefusedInvalidID, "")
	}
	ctx := c.Request().Context()
	in := auth.From(ctx).Scope()
	run, err := h.store.RunByExternalID(ctx, in, s.ID, runID)
	if errors.Is(err, store.ErrNotFound) {
		run, err = h.store.Run(ctx, in, runID)
	}
	if err == nil && run.SessionID != s.ID {
		err = store.ErrNotFound
	}
	return run.TurnID, err
}

// nextLink points to the page of older entries (RFC 8288).
func nextLink(u *url.URL, before string) string {
	q := u.Query()
	q.Set("before", before)
	return "<" + u.EscapedPath() + "?" + q.Encode() + `>; rel=` + strconv.Quote("next")
}

// without leaves out what came out of a Run.
func without(rows []store.Message, runID string) []store.Message {
	kept := rows[:0]
	for _, m := range rows {
		if !m.Output || m.RunID != runID {
			kept = append(kept, m)
		}
	}
	return kept
}

// events tails a thread across its Runs, without end.
func (h *threads) events(c echo.Context) error {
	if err := h.out.admit(); err != nil {
		return err
	}
	s, err := h.find(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	in := auth.From(ctx).Scope()
	after, err := logCursor(c, h.store, in, s.ID)
	if err != nil {
		return err
	}
	feed, err := h.sessions.ThreadFeed(ctx, in, s, after)
	if err != nil {
		return err
	}
	setID(c.Response().Header(), headerThread, s.ExternalID)
	return h.out.serve(c, feed, agui.NewV1(), true, nil)
}
