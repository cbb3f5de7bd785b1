package server

import (
	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
	"aqueduct/server/problem"
)

// connect joins a thread: its past and its present events. It starts and settles nothing, whatever is in the body. The body is the same RunAgentInput as
// that of a chat; taking an answer out of it would settle a question each time a page is reloaded.
func (h *chat) connect(c echo.Context) error {
	a, err := h.read(c)
	if err != nil {
		return h.refuse(c, a, err)
	}
	a.req.JoinOnly, a.req.Answers, a.answers = true, nil, false
	if err := h.place(c, a); err != nil {
		return h.refuse(c, a, err)
	}
	// A TDesign page without a thread gets an empty Run instead, since it connects at every load.
	if a.req.ThreadID == "" && a.req.Dialect != bridge.DialectTDesign {
		return problem.Refuse(problem.InvalidBody, "A threadId is needed to join a thread.")
	}
	return h.stream(c, a)
}
