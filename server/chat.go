package server

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/agui/tdesign"
	"aqueduct/bridge"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// The headers that tell which thread and Run a response is of.
const (
	headerThread = "X-Thread-Id"
	headerRun    = "X-Run-Id"
)

// chat is POST /api/agui/chat and /api/agui/connect. It holds no logic of Runs: bridge
// takes the request, and the response tails the log.
type chat struct {
	sessions *bridge.Sessions
	store    store.Store
	in       *intake
	out      *streams
}

func (h *chat) mount(to *routes) {
	to.callers(http.MethodPost, "/api/agui/chat", h.post)
	to.callers(http.MethodPost, "/api/agui/connect", h.connect)
}

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

// read reads the request. On an error the ask, where there is one, tells whom to answer.
func (h *chat) read(c echo.Context) (*ask, error) {
	var q chatQuery
	if err := h.in.query(c, &q); err != nil {
		return nil, err
	}
	body, sum, err := h.body(c)
	if err != nil {
		return nil, err
	}
	return readAsk(c, body, sum, q)
}

// place finds the thread of a TDesign page that names none: the one its answer belongs
// to, else its browser's own. A body without anything in it gets no thread.
func (h *chat) place(c echo.Context, a *ask) error {
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
	switch a.req.ThreadID = browserThreadID(c.Request()); {
	case a.req.ThreadID == "" && len(a.req.Messages) > 0:
		a.req.ThreadID = newBrowserThread(c)
	case len(a.req.Messages) == 0 && !a.answers && !a.req.JoinOnly:
		a.req.ThreadID = ""
	}
	return nil
}

// stream takes the request and streams what it came to.
func (h *chat) stream(c echo.Context, a *ask) error {
	if err := h.out.admit(); err != nil {
		return h.refuse(c, a, err)
	}
	ctx := c.Request().Context()
	if err := h.mayTake(c, a); err != nil {
		return h.refuse(c, a, err)
	}
	reply, err := h.sessions.Chat(ctx, a.req)
	if err != nil {
		return h.refuse(c, a, err)
	}
	a.req = bridge.ChatRequest{Dialect: a.req.Dialect, JoinOnly: a.req.JoinOnly, ThreadID: a.req.ThreadID, RunID: a.req.RunID} // a stream is long, and needs no body
	releaseBody(c)
	if reply.Access != nil {
		lend(c, h.store, auth.From(ctx), *reply.Access)
		ctx = c.Request().Context()
	}
	feed, err := h.sessions.Feed(ctx, auth.From(ctx).Scope(), reply, a.query.Follow)
	if err != nil {
		return h.refuse(c, a, err)
	}
	header := c.Response().Header()
	setID(header, headerThread, reply.Session.ExternalID)
	setID(header, headerRun, firstOf(reply.Run.ExternalID, reply.RunID))
	return h.out.serve(c, feed, dialectFor(a.req.Dialect, reply.Session.State, reply.CallNames), false, func(how outcome) {
		if a.query.OnLeave == "cancel" && reply.Run.ID != "" && (how == outcomeLeft || how == outcomeSlow) {
			h.sessions.Left(reply.Session.ID, reply.Run.TurnID)
		}
	})
}

// mayTake counts what the request asks for: an answer, or a Run. A join is neither.
func (h *chat) mayTake(c echo.Context, a *ask) error {
	switch {
	case a.answers:
		return h.in.mayDecide(c, a.req.Principal)
	case a.req.JoinOnly || len(a.req.Messages) == 0:
		return nil
	}
	return h.in.mayRun(c, a.req.Principal)
}

// dialectFor is a fresh dialect for one stream.
func dialectFor(name string, stateBefore []byte, callNames map[string]string) agui.Dialect {
	switch name {
	case bridge.DialectTDesign:
		return tdesign.New(stateBefore, callNames)
	case bridge.DialectV0:
		return agui.NewV0()
	}
	return agui.NewV1()
}

// refuse answers a request that was not taken. Clients that only understand streams get
// one, and so does whoever answered a question: an official client that gets an HTTP error
// to an answer never speaks on that thread again.
func (h *chat) refuse(c echo.Context, a *ask, err error) error {
	if a == nil {
		return err
	}
	p := problemOf(err)
	switch page := a.req.Dialect == bridge.DialectTDesign; {
	case page, a.answers:
		return sendRefusal(c, a, report(h.out.log, c, err))
	case a.req.JoinOnly && p.Code == bridge.RefusedNothingToDo:
		return refuse(codeNotFound, "There is no such thread.")
	}
	return err
}
