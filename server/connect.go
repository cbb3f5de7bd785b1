package server

import (
	"github.com/labstack/echo/v4"

	"aqueduct/bridge"
)

// connect joins a thread: what was said, and what is being said. It starts and settles
// nothing, whatever is in the body.
func (h *chat) connect(c echo.Context) error {
	a, err := h.read(c)
	if err != nil {
		return h.refuse(c, a, err)
	}
	a.req.JoinOnly, a.req.Answers, a.answers = true, nil, false
	if err := h.place(c, a); err != nil {
		return h.refuse(c, a, err)
	}
	if a.req.ThreadID == "" && a.req.Dialect != bridge.DialectTDesign {
		return refuse(codeInvalidBody, "A threadId is needed to join a thread.")
	}
	return h.stream(c, a)
}
