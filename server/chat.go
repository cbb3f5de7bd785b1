// The chat: POST /api/agui/chat and /connect. The request is read by chatbody.go (chathistory.go for large ones) and
// answered with a stream by stream.go; refusal.go words what is not taken. Everything between is the engine's
// (bridge.Sessions).

package server

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/agui/tdesign"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/server/auth"
	"aqueduct/server/decode"
	"aqueduct/server/problem"
	"aqueduct/server/route"
	"aqueduct/store"
)

// The headers that name the thread and the Run of a response. A client that sent neither id reads here which ones
// were made up for it. Both are exposed to pages of other origins.
const (
	headerThread = "X-Thread-Id"
	headerRun    = "X-Run-Id"
)

// chat is POST /api/agui/chat and /api/agui/connect. It holds no logic of Runs: bridge takes the request, and the
// response tails the log. It has no state of its own: the response of a chat is one more reader of the log, and may
// end without any effect on the Run.
type chat struct {
	sessions *bridge.Sessions
	store    store.Store
	in       *decode.Decoder
	// in bounds and reads what comes, out bounds and writes what goes.
	out *streams
}

// Mount adds the routes. Both need the role user; tokens of approvers are refused before the body is read. Both
// stream from a POST, which an EventSource cannot send; its routes are those of runs.go and threads.go.
func (h *chat) Mount(to *route.Routes) {
	to.Callers(http.MethodPost, "/api/agui/chat", h.post)
	to.Callers(http.MethodPost, "/api/agui/connect", h.connect)
}

// post takes a message or an answer and streams what it leads to. Until the stream begins, a refusal is answered in
// the client's own dialect: TDesign pages show a RUN_ERROR in a stream and nothing of an HTTP error. The order is
// that of cost: parse, find the thread, and only then take a place among the streams and hand the request to the
// engine.
func (h *chat) post(c echo.Context) error {
	a, err := h.read(c)
	if err != nil {
		return h.refuse(c, a, err)
	}
	if err := h.place(c, a); err != nil {
		return h.refuse(c, a, err)
	}
	return h.stream(c, a)
}

// read reads the request. On an error the chatInput, where there is one, has the client to answer. That client
// matters: a TDesign page and a client that answers a question get refusals as a stream.
func (h *chat) read(c echo.Context) (*chatInput, error) {
	var q chatQuery
	if err := h.in.Query(c, &q); err != nil {
		return nil, err
	}
	body, sum, err := h.body(c)
	if err != nil {
		return nil, err
	}
	a, err := readChatInput(c, h.in, body, sum, q)
	if err != nil {
		return a, err
	}
	for i, answer := range a.req.Answers {
		a.req.Answers[i] = h.options().Complete(answer)
	}
	last := c.Request().Header.Get("Last-Event-ID")
	a.req.Again = last != ""
	a.req.After, err = positionIn(last)
	return a, err
}

// place finds the thread of a TDesign page that names none: the one its answer belongs to, else its browser's own. A
// body without anything in it gets no thread. An answer goes before the browser's thread, because the page may show a
// card of another thread; the question belongs to exactly one.
func (h *chat) place(c echo.Context, a *chatInput) error {
	if a.req.Dialect != bridge.DialectTDesign || a.req.ThreadID != "" {
		return nil
	}
	for _, answer := range a.req.Answers {
		_, err := h.store.ToolCall(c.Request().Context(), auth.From(c.Request().Context()).Scope(), answer.QuestionID)
		if err == nil {
			return nil // bridge finds the thread by the question
		}
		if !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	// A cookie is set only for a message: a page that merely loads its history must not get a thread for that.
	switch a.req.ThreadID = browserThreadID(c.Request()); {
	case a.req.ThreadID == "" && len(a.req.Messages) > 0 && a.req.After == 0:
		a.req.ThreadID = newBrowserThread(c)
	case len(a.req.Messages) == 0 && !a.answers && !a.req.JoinOnly:
		a.req.ThreadID = ""
	}
	return nil
}

// stream hands the request to the engine and streams the Run that it led to. The place of a stream is taken first: a prompt
// that was accepted and then refused for want of streams would run without its client. From the reply on the body is given
// back to the budget, because a stream may last for hours. In a thread of others the context becomes the share's.
func (h *chat) stream(c echo.Context, a *chatInput) error {
	if err := h.out.admit(); err != nil {
		return h.refuse(c, a, err)
	}
	ctx := c.Request().Context()
	reply, err := h.take(c, a)
	if err != nil {
		return h.refuse(c, a, err)
	}
	// Without this the messages and pictures of the body would stay in memory for as long as the stream lasts. The
	// fields that are kept are those that a refusal of the feed still needs.
	a.req = bridge.ChatRequest{Dialect: a.req.Dialect, JoinOnly: a.req.JoinOnly, ThreadID: a.req.ThreadID, RunID: a.req.RunID} // a stream is long, and needs no body
	// A thousand streams with a body of megabytes each would otherwise use up the budget for everybody.
	decode.ReleaseBody(c)
	// From here on the stream ends with the share.
	if reply.Access != nil {
		lend(c, h.store, auth.From(ctx), *reply.Access)
		ctx = c.Request().Context()
	}
	// The request is taken by now. Where the feed fails the Run goes on, and the same body with its runId, sent
	// again, gets that Run from its first event.
	feed, err := h.sessions.Feeds().Chat(ctx, auth.From(ctx).Scope(), reply, a.query.Follow)
	if err != nil {
		return h.refuse(c, a, err)
	}
	header := c.Response().Header()
	setID(header, headerThread, reply.Session.ExternalID)
	setID(header, headerRun, cmp.Or(reply.Run.ExternalID, reply.RunID))
	// on_leave=cancel is for pages without a reconnect: their Run ends with the client that started it. It is also a setting
	// of agents. A client that was disconnected because it read too slowly counts as gone. A client that was disconnected by
	// a shutdown does not, because it will come back.
	d := dialectFor(a.req.Dialect, reply.Session.State, reply.CallNames, h.options().ID)
	if reply.Sent > 0 {
		d = &continued{Dialect: d, after: reply.Sent}
	}
	return h.out.serve(c, feed, d, false, func(how outcome) {
		if reply.Run.ID != "" && (how == outcomeLeft || how == outcomeSlow) {
			h.sessions.Cancels().Left(reply.Session, reply.Run.TurnID, a.query.OnLeave == "cancel")
		}
	})
}

// options are the ids that the options of questions have on pages.
func (h *chat) options() approval.OptionIDs { return h.sessions.Approvals().OptionIDs() }

// take hands the request to the engine. A request with a position is a repeated one, unless it has something new. A repeated
// one is continued, and is not counted as a prompt or an answer.
func (h *chat) take(c echo.Context, a *chatInput) (bridge.Reply, error) {
	ctx := c.Request().Context()
	if a.req.Again {
		if reply, resumed, err := h.sessions.Resume(ctx, a.req); resumed || err != nil {
			return reply, err
		}
	}
	if err := h.mayTake(c, a); err != nil {
		return bridge.Reply{}, err
	}
	return h.sessions.Chat(ctx, a.req)
}

// mayTake counts what the request asks for: an answer, or a Run. A join is neither. It is asked behind the place of a
// stream and before the engine: what is counted is then also taken, unless the engine refuses it.
func (h *chat) mayTake(c echo.Context, a *chatInput) error {
	switch {
	case a.answers && !a.acts():
		return h.in.MayDecide(c, a.req.Principal)
	case a.req.JoinOnly || len(a.req.Messages) == 0:
		return nil
	}
	return h.in.MayRun(c, a.req.Principal)
}

// dialectFor is a fresh dialect for one stream. A dialect has state (which messages are open, what the page's state
// is), so two streams must never share one.
func dialectFor(name string, stateBefore []byte, callNames map[string]string, optionID tdesign.OptionID) agui.Dialect {
	switch name {
	case bridge.DialectTDesign:
		return tdesign.New(stateBefore, callNames, optionID)
	case bridge.DialectV0:
		return agui.NewV0()
	}
	return agui.NewV1()
}

// continued is a dialect for a client that has all frames up to a position. It reads the events up to there, because it may
// depend on them, and gives no frames of them.
type continued struct {
	agui.Dialect
	after int64
}

// AppendFrames implements agui.Dialect.
func (d *continued) AppendFrames(dst []byte, id int64, event []byte) []byte {
	out := d.Dialect.AppendFrames(dst, id, event)
	if id <= d.after {
		return out[:len(dst)]
	}
	return out
}

// refuse answers a request that was not taken. Clients that only understand streams get a stream, and so does a
// client that answered a question: an official client that gets an HTTP error to an answer never sends on that thread
// again. a is nil when not even the dialect is known; then an HTTP problem is all that can be sent.
func (h *chat) refuse(c echo.Context, a *chatInput, err error) error {
	if a == nil {
		return err
	}
	p := problem.Of(err)
	switch page := a.req.Dialect == bridge.DialectTDesign; {
	case page, a.answers:
		return sendRefusal(c, a, problem.Report(h.out.log, c, err))
	case a.req.JoinOnly && p.Code == bridge.RefusedNothingToDo:
		return problem.Refuse(problem.NotFound, "There is no such thread.")
	}
	return err
}
