// Threads over HTTP: the list, one thread, its history and its events. A thread is a Session of the engine; the id in
// the path is the client's own, the server's, or @browser for the thread of a TDesign page (browser.go).

package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/internal/grams"
	"aqueduct/internal/ids"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// threads is /api/threads: what a caller talked about. Its words are AG-UI's. Other handlers of threads (shares,
// control, parts) share its find.
type threads struct {
	sessions  *bridge.Sessions
	approvals *approval.Service
	store     store.Store
	in        *decode.Decoder
	out       *streams
}

// Mount adds the routes, for users. Tokens of approvers open none of them: who decides need not read along.
func (h *threads) Mount(to *route.Routes) {
	to.Callers(http.MethodGet, "/api/threads", h.list)
	to.Callers(http.MethodGet, "/api/threads/:id", h.get)
	to.Callers(http.MethodPatch, "/api/threads/:id", h.change)
	to.Callers(http.MethodDelete, "/api/threads/:id", h.remove)
	to.Callers(http.MethodGet, "/api/threads/:id/messages", h.messages)
	to.Callers(http.MethodGet, "/api/threads/:id/events", h.events)
}

// threadJSON is a thread in a list. ID is the client's own; for a thread of another user it is the server's. It is
// the same in lists, in details and in pages of events.
type threadJSON struct {
	ID        string      `json:"id"`
	SessionID string      `json:"sessionId"` // ours; the run_id on /ws/agent
	Title     string      `json:"title"`
	AgentID   string      `json:"agentId"`
	CreatedAt time.Time   `json:"createdAt"`
	UpdatedAt time.Time   `json:"updatedAt"`
	Archived  bool        `json:"archived"`
	Shared    *sharedJSON `json:"shared,omitempty"` // of another user's thread
}

// threadDetailJSON is one thread with what is under way in it. Questions are the ids of open tool calls; a client
// that reloads compares them with the cards it shows.
type threadDetailJSON struct {
	threadJSON
	State     json.RawMessage `json:"state,omitempty"`
	LastRun   *runJSON        `json:"lastRun,omitempty"`
	Questions []string        `json:"questions"`
}

// sharedJSON is whose the thread is, and what the caller may do in it.
type sharedJSON struct {
	Owner  string   `json:"owner"`
	Rights []string `json:"rights"`
}

// sharedThreadOut is another user's thread. It is named by the server's id: the client's id may be that of a thread of the
// caller's own.
func sharedThreadOut(a store.Access) threadJSON {
	out := threadOut(a.Session)
	out.Archived = false // only its owner archives a thread
	out.ID, out.Shared = a.Session.ID, &sharedJSON{Owner: a.Session.User, Rights: rightsOf(a.Write, a.Decide)}
	return out
}

// threadOut is the JSON of a Session of the caller's own.
func threadOut(s store.Session) threadJSON {
	return threadJSON{ID: s.ExternalID, SessionID: s.ID, Title: s.Title, AgentID: s.AgentID, CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(), Archived: s.Archived}
}

// threadsQuery asks for one page of the list: of all threads, of archived or other threads, or of those with all words of q.
type threadsQuery struct {
	Limit    int    `query:"limit" validate:"gte=0,lte=1000"`
	After    string `query:"after" validate:"omitempty,uuid"`
	Archived *bool  `query:"archived"`
	Q        string `query:"q" validate:"max=200"`
}

// list gives the newest threads first, the caller's own and those that are shared with the caller; next goes into
// ?after= for more. The rights of a shared one are read after the list: a share that ended in between leaves its
// thread out. A page may so have fewer entries than its limit and still be followed by another: next counts the rows
// that were read.
func (h *threads) list(c echo.Context) error {
	var q threadsQuery
	if err := h.in.Query(c, &q); err != nil {
		return err
	}
	ctx, caller := callerOf(c)
	who := caller.Principal
	rows, next, err := h.rows(ctx, store.Reaching(who), store.SearchQuery{
		Words: grams.Words(q.Q), Archived: q.Archived, Page: store.Page{Limit: q.Limit, After: q.After},
	})
	if err != nil {
		return err
	}
	out := struct {
		Threads []threadJSON `json:"threads"`
		Next    string       `json:"next,omitempty"`
	}{Threads: make([]threadJSON, 0, len(rows)), Next: next}
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
	return c.JSON(http.StatusOK, out)
}

// rows reads a page of the list. Without words it reads all threads.
func (h *threads) rows(ctx context.Context, in store.Scope, query store.SearchQuery) (rows []store.Session, next string, err error) {
	switch {
	case len(query.Words) > 0:
		return h.sessions.Threads().Search(ctx, in, query)
	case query.Archived != nil:
		rows, err = h.store.SessionsArchived(ctx, in, *query.Archived, query.Page)
	default:
		rows, err = h.store.Sessions(ctx, in, query.Page)
	}
	return rows, nextOf(rows, query.Size(), func(s store.Session) string { return s.ID }), err
}

// find takes the client's thread id, ours, or @browser. @browser means the thread of the browser's cookie; without a
// cookie there is none.
func (h *threads) find(c echo.Context) (store.Session, error) {
	ctx, in := scoped(c)
	if c.Param("id") == browserThread {
		// Without a cookie this is "", which is the id of no thread.
		return h.store.SessionByExternalID(ctx, in, browserThreadID(c.Request()))
	}
	id, err := decode.PathID(c, "id")
	if err != nil {
		return store.Session{}, err
	}
	return sessionFor(c, h.store, id)
}

// findOwn is find for what only the owner of a thread may do.
func (h *threads) findOwn(c echo.Context) (store.Session, error) {
	s, err := h.find(c)
	if err == nil && auth.From(c.Request().Context()).Scope().Session() != "" {
		err = fault.New(bridge.RefusedNotShared, "Only the owner of this thread may do that.")
	}
	return s, err
}

// get is one thread with what is under way in it. For a thread of another user the rights are read again, so that the
// answer shows those of now.
func (h *threads) get(c echo.Context) error {
	s, err := h.find(c)
	if err != nil {
		return err
	}
	ctx, in := scoped(c)
	out := threadDetailJSON{threadJSON: threadOut(s), State: s.State, Questions: []string{}}
	// A scope that is narrowed to one Session is that of a share.
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
	// Client tools that wait for their result are among them.
	open, err := h.store.OpenToolCalls(ctx, in, s.ID)
	if err != nil {
		return err
	}
	for _, call := range open {
		out.Questions = append(out.Questions, call.ID)
	}
	return c.JSON(http.StatusOK, out)
}

// threadBody lists the changes of PATCH: one of its members, or both.
type threadBody struct {
	Title    *string `json:"title" validate:"required_without=Archived,omitempty,min=1,max=200"`
	Archived *bool   `json:"archived"`
}

// change changes a thread of the caller's own, and answers with the stored thread. Only the owner may change the title and
// the archive, even if a share has the right to write.
func (h *threads) change(c echo.Context) error {
	var body threadBody
	if err := h.in.KnownJSON(c, &body); err != nil {
		return err
	}
	s, err := h.findOwn(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if err := h.sessions.Threads().Change(ctx, auth.From(ctx).Principal, s.ExternalID, bridge.ThreadChange(body)); err != nil {
		return err
	}
	s, err = h.find(c) // as it is kept
	return reply(c, http.StatusOK, threadOut(s), err)
}

// remove deletes a thread of the caller's own with everything in it. The live feeds of inboxes are compared with the rows
// once more: a deletion settles no question, so no settlement would take the thread's questions out of them.
func (h *threads) remove(c echo.Context) error {
	s, err := h.findOwn(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if err := h.sessions.Threads().Delete(ctx, auth.From(ctx).Principal, s.ExternalID); err != nil {
		return err
	}
	h.approvals.Feed.Reconcile(s.Tenant) // its questions are in no inbox any more
	return c.NoContent(http.StatusNoContent)
}

// messagesBytes is about how much one page of messages holds, however many are asked for. One message is given whole,
// whatever its size: this is where what a snapshot cuts can be read. Pictures and documents are not in it where the
// client gets URLs for them.
const messagesBytes = 4 << 20

// messagesQuery is one page of a history, its form, and the Run whose branch of the conversation is meant. before is
// the id of the oldest message that the client has.
type messagesQuery struct {
	Limit  int    `query:"limit" validate:"gte=0,lte=1000"`
	Before string `query:"before" validate:"omitempty,uuid"`
	Format string `query:"format" validate:"omitempty,oneof=tdesign agui"`
	Run    string `query:"run" validate:"max=128"`
}

// messages is the history, as a bare array so that a page can hand it on as it is. There is no envelope to carry a
// position, so the next page is named by a Link header.
func (h *threads) messages(c echo.Context) error {
	var q messagesQuery
	if err := h.in.Query(c, &q); err != nil {
		return err
	}
	s, err := h.find(c)
	if err != nil {
		return err
	}
	// Parts above this size are replaced by URLs in the answer.
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
		return c.JSON(http.StatusOK, eachOut(markPlain(rows, broken), func(m store.Message) json.RawMessage { return m.Data }))
	}
	history, err := pageHistory(rows, h.approvals.OptionIDs().ID)
	return reply(c, http.StatusOK, markBroken(history, rows, broken), err)
}

// transcript reads a page of messages. The messages of a Run that is still open are left out: its stream sends them
// from the start. With a Run it is the history that ends with the Turn of that Run, whichever branch it is on. The
// Link to older messages is set here, because only the read knows whether there are any.
func (h *threads) transcript(c echo.Context, s store.Session, runID string, page store.Page, least int) ([]store.Message, error) {
	ctx, in := scoped(c)
	turnID, err := h.branch(c, s, runID)
	if err != nil {
		return nil, err
	}
	rows, whole, err := h.sessions.Transcript().History(ctx, in, s.ID, turnID, page, least)
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
		// What the client itself sent for that Run stays: its stream does not repeat it.
		rows = slices.DeleteFunc(rows, func(m store.Message) bool { return m.Output && m.RunID == last.ID })
	}
	return rows, err
}

// branch is the Turn that ends the branch a Run is on; "" without a Run: the current branch. A Run of another thread
// is not found, although its id exists: its branch would end a history that it is no part of.
func (h *threads) branch(c echo.Context, s store.Session, runID string) (string, error) {
	if runID == "" {
		return "", nil
	}
	if !ids.Valid(runID) {
		return "", problem.Refuse(bridge.RefusedInvalidID, "")
	}
	ctx, in := scoped(c)
	run, err := h.store.RunByExternalID(ctx, in, s.ID, runID)
	if errors.Is(err, store.ErrNotFound) {
		run, err = h.store.Run(ctx, in, runID)
	}
	if err == nil && run.SessionID != s.ID {
		err = store.ErrNotFound
	}
	return run.TurnID, err
}

// nextLink points to the page of older entries (RFC 8288). The other parameters stay as the client gave them.
func nextLink(u *url.URL, before string) string {
	q := u.Query()
	q.Set("before", before)
	return "<" + u.EscapedPath() + "?" + q.Encode() + `>; rel=` + strconv.Quote("next")
}

// events tails a thread across its Runs, without end. It sends AG-UI 1.0 to every client: a tail across Runs has no
// meaning to a TDesign page.
func (h *threads) events(c echo.Context) error {
	if err := h.out.admit(); err != nil {
		return err
	}
	s, err := h.find(c)
	if err != nil {
		return err
	}
	ctx, in := scoped(c)
	after, err := logCursor(c, h.store, in, s.ID)
	if err != nil {
		return err
	}
	feed, err := h.sessions.Feeds().Thread(ctx, in, s, after)
	if err != nil {
		return err
	}
	setID(c.Response().Header(), headerThread, s.ExternalID)
	return h.out.serve(c, feed, agui.NewV1(), true, nil)
}
