// Package problem maps errors to what clients get: the one table of codes with their HTTP status, and the RFC 9457 body.
package problem

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/internal/fault"
	"aqueduct/server/limit"
	"aqueduct/store"
)

// Problem is the body of an HTTP error (RFC 9457). It is an error itself, so that handlers return it; nothing in it
// comes from inside. For example
// {"type":"about:blank","title":"Conflict","status":409,"code":"already_decided","detail":"…"}.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail,omitempty"`
	// ErrorID is in the log line of a fault of the server, so that a person can report it.
	ErrorID string `json:"errorId,omitempty"`
	// The decision that stands, of already_decided.
	Approval any `json:"approval,omitempty"`
	ToolCall any `json:"tool_call,omitempty"`
	// Cause in the words of another API, for the routes of its clients.
	Shaped any `json:"error,omitempty"`

	// RetryAfter is the value of that header; zero is the default of the status.
	RetryAfter time.Duration `json:"-"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// Refuse makes a problem of a code in the table; detail "" is the code's own meaning. A code that is not in the
// table, or has no status, becomes internal_error without its text: what was not meant for clients does not reach
// them.
func Refuse(code, detail string) *Problem {
	c, ok := codeOf(code)
	if !ok || c.Status == 0 {
		c, _ = codeOf(Internal)
		detail = ""
	}
	if detail == "" {
		detail = c.Meaning
	}
	return &Problem{Type: "about:blank", Title: http.StatusText(c.Status), Status: c.Status, Code: c.Name, Detail: detail}
}

// RefuseAgent returns the refusal of a token at a route for agents.
func RefuseAgent() *Problem {
	return Refuse(Unauthorized, "This route is for agents. It takes the run token of their call as Authorization: Bearer: x-aqueduct-run-token of POST /invoke, "+
		"AQUEDUCT_TOKEN of an ACP agent. Tools, models and context also take the API key of an agent's program (aqueduct service-account create --agent). "+
		"No other token opens it, nor a run token whose run has ended.")
}

// Unknown refuses a member of a body, or a query parameter, that a route does not accept. known are those that it accepts.
func Unknown(name string, known []string) *Problem {
	takes := "no query parameters"
	if len(known) > 0 {
		takes = strings.Join(known, ", ")
	}
	return Refuse(UnknownMember, fmt.Sprintf("%s: not known here. This route takes %s.", strconv.Quote(Truncate(name)), takes))
}

// RefuseFor is refuse for a limit on how often something may be done: the client may try again
// after wait.
func RefuseFor(code string, wait time.Duration) *Problem {
	p := Refuse(code, "")
	p.RetryAfter = wait
	return p
}

// Of maps an error to what a client gets. An unknown error becomes internal_error, and its text stays in the log. The
// order matters where an error has several causes in its chain: a Problem wins over everything, then an error with a
// code; a deadline that a caller set is a database that did not answer.
func Of(err error) *Problem {
	var (
		p       *Problem
		refused *fault.Error
		input   *agui.InputError
		large   *http.MaxBytesError
		fresh   *agui.TooLargeError
		web     *echo.HTTPError
		often   *limit.TooOften
	)
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &refused):
		return Refuse(refused.Code, Truncate(refused.Message))
	case errors.As(err, &often):
		return RefuseFor(limit.TooManyRequests, often.After)
	case errors.As(err, &input):
		return Refuse(InvalidBody, inputDetail(input))
	case errors.As(err, &large):
		return Refuse(TooLarge, fmt.Sprintf("The body may have %d bytes.", large.Limit))
	case errors.As(err, &fresh):
		return Refuse(TooLarge, fmt.Sprintf("What is new in the body may be %d %s; messages that the thread has do not count.", fresh.Limit, fresh.Unit))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Refuse(TooSlow, "")
	case errors.Is(err, store.ErrNotFound):
		return Refuse(NotFound, "")
	case errors.Is(err, store.ErrFull):
		return Refuse(Full, "")
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrUnknownOutcome), errors.Is(err, store.ErrFenced),
		errors.Is(err, context.DeadlineExceeded):
		return Refuse(Unavailable, "")
	case errors.As(err, &web):
		return routing(web)
	}
	return Refuse(Internal, "")
}

// Truncate bounds words of an agent's or a proxy's. It cuts at a whole character, so that the answer stays valid
// UTF-8.
func Truncate(text string) string {
	const most = 500
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// routing words what the router itself refuses.
func routing(web *echo.HTTPError) *Problem {
	switch web.Code {
	case http.StatusNotFound:
		return Refuse(NotFound, "")
	case http.StatusMethodNotAllowed:
		return Refuse(Method, "")
	}
	return Refuse(Internal, "")
}

// inputDetail names the place in the body by its JSON pointer; "" is the body as a whole.
func inputDetail(e *agui.InputError) string {
	if e.Path == "" {
		return "The body is " + e.Reason + "."
	}
	return "At " + e.Path + ": " + e.Reason + "."
}

// Report is Of, and logs the text that the client does not get under an id that it gets. Only faults of the server
// and its database are logged: refusals of clients would fill the log with what clients do wrong.
func Report(log *slog.Logger, c echo.Context, err error) *Problem {
	p := *Of(err)
	if p.Status == http.StatusInternalServerError || p.Code == Unavailable || p.Code == Full {
		p.ErrorID = rand.Text()
		log.Error("request failed", slog.String("error_id", p.ErrorID), slog.String("method", c.Request().Method),
			slog.String("path", c.Path()), slog.Any("error", err))
	}
	return &p
}

// ChannelOnly finds a refusal that only channels have. Its code is not in the table of Codes, which is HTTP's. A
// webhook turns them into codes that HTTP has.
func ChannelOnly(err error) (*fault.Error, bool) {
	var own *fault.Error
	if !errors.As(err, &own) {
		return nil, false
	}
	switch own.Code {
	case UnknownType, HelloTwice, MessageNotTaken, ForeignUser, Replaying:
		return own, true
	}
	return nil, false
}

// OnChannel is the code and the message that a channel sends for an error. A fault of the server is logged under the id in
// the message.
func OnChannel(log *slog.Logger, c echo.Context, err error) (code, message string) {
	if own, ok := ChannelOnly(err); ok {
		return own.Code, own.Message
	}
	p := Report(log, c, err)
	if p.ErrorID != "" {
		return p.Code, p.Detail + " (" + p.ErrorID + ")"
	}
	return p.Code, p.Detail
}
