package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/audit"
	"aqueduct/server/auth"
	"aqueduct/server/brake"
	"aqueduct/store"
)

const (
	problemType = "application/problem+json"
	// retryAfter is what a client is asked to wait, in seconds, when trying again is right.
	retryAfter = "2"
)

// problem is an answer that says what went wrong (RFC 9457). It is an error, so that
// handlers return it; nothing in it comes from inside.
type problem struct {
	Type    string `json:"type"`
	Title   string `json:"title"`
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Detail  string `json:"detail,omitempty"`
	ErrorID string `json:"errorId,omitempty"`
	// The decision that stands, of already_decided.
	Approval *approvalJSON `json:"approval,omitempty"`
	ToolCall *toolCallJSON `json:"tool_call,omitempty"`

	// wait is what Retry-After says; zero is the default of the status.
	wait time.Duration
}

// Error implements error.
func (p *problem) Error() string { return p.Code + ": " + p.Detail }

// refuse makes a problem of a code in the table; detail "" is the code's own meaning.
func refuse(code, detail string) *problem {
	c, ok := codeOf(code)
	if !ok || c.Status == 0 {
		c, _ = codeOf(bridge.CodeInternal)
		detail = ""
	}
	if detail == "" {
		detail = c.Meaning
	}
	return &problem{Type: "about:blank", Title: http.StatusText(c.Status), Status: c.Status, Code: c.Name, Detail: detail}
}

// refuseFor is refuse for a limit on how often something may be done: the client may try again
// after wait.
func refuseFor(code string, wait time.Duration) *problem {
	p := refuse(code, "")
	p.wait = wait
	return p
}

// problemOf says what an error is to a client. What is not known is internal_error, and
// its text stays here.
func problemOf(err error) *problem {
	var (
		p       *problem
		refusal *bridge.Refusal
		control *bridge.ControlError
		input   *agui.InputError
		large   *http.MaxBytesError
		fresh   *agui.TooLargeError
		web     *echo.HTTPError
	)
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &refusal):
		return refuse(refusal.Code, refusal.Message)
	case errors.As(err, &control):
		return refuse(control.Code, brief(control.Message))
	case errors.As(err, &input):
		return refuse(codeInvalidBody, inputDetail(input))
	case errors.As(err, &large):
		return refuse(codeTooLarge, fmt.Sprintf("The body may have %d bytes.", large.Limit))
	case errors.As(err, &fresh):
		return refuse(codeTooLarge, fmt.Sprintf("What is new in the body may be %d %s; messages that the thread has do not count.", fresh.Limit, fresh.Unit))
	case errors.Is(err, errBusyBodies):
		return refuse(codeBusyBodies, "")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(codeTooSlow, "")
	case errors.Is(err, store.ErrNotFound):
		return refuse(codeNotFound, "")
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrUnknownOutcome), errors.Is(err, store.ErrFenced),
		errors.Is(err, context.DeadlineExceeded):
		return refuse(codeUnavailable, "")
	case errors.Is(err, auth.ErrIssuer):
		return refuse(codeIssuer, "")
	case errors.Is(err, auth.ErrNoCredential), errors.Is(err, auth.ErrBadCredential), errors.Is(err, bridge.ErrRunToken):
		return refuse(codeUnauthorized, "") // the same words for both: nothing to learn by trying
	case errors.Is(err, bridge.ErrForeignRun):
		return refuse(codeForeignRun, "")
	case errors.As(err, &web):
		return routing(web)
	}
	return refuse(bridge.CodeInternal, "")
}

// brief bounds words of an agent's or a proxy's.
func brief(text string) string {
	const most = 500
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// routing words what the router itself refuses.
func routing(web *echo.HTTPError) *problem {
	switch web.Code {
	case http.StatusNotFound:
		return refuse(codeNotFound, "")
	case http.StatusMethodNotAllowed:
		return refuse(codeMethod, "")
	}
	return refuse(bridge.CodeInternal, "")
}

func inputDetail(e *agui.InputError) string {
	if e.Path == "" {
		return "The body is " + e.Reason + "."
	}
	return "At " + e.Path + ": " + e.Reason + "."
}

// failures answers requests whose handler failed.
type failures struct {
	log   *slog.Logger
	audit *audit.Log
}

// handle implements echo.HTTPErrorHandler.
func (f *failures) handle(err error, c echo.Context) {
	if c.Response().Committed {
		f.log.Error("failed after the answer began", slog.String("path", c.Path()), slog.Any("error", err))
		return
	}
	if errors.Is(err, context.Canceled) && c.Request().Context().Err() != nil {
		return // nobody is there to hear it
	}
	p := report(f.log, c, err)
	f.auditRefusal(c, err, p)
	f.write(c, p)
}

// report is problemOf, and keeps what the client is not told under the id that it is.
func report(log *slog.Logger, c echo.Context, err error) *problem {
	p := *problemOf(err)
	if p.Status == http.StatusInternalServerError || p.Code == codeUnavailable {
		p.ErrorID = rand.Text()
		log.Error("request failed", slog.String("error_id", p.ErrorID), slog.String("method", c.Request().Method),
			slog.String("path", c.Path()), slog.Any("error", err))
	}
	return &p
}

func (f *failures) write(c echo.Context, p *problem) {
	h := c.Response().Header()
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="aqueduct"`)
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", retryAfter)
	}
	if p.wait > 0 || p.Status == http.StatusTooManyRequests {
		h.Set("Retry-After", strconv.Itoa(brake.RetryAfter(p.wait)))
	}
	h.Set("Cache-Control", "no-store")
	body, err := json.Marshal(p)
	if err == nil {
		err = c.Blob(p.Status, problemType, body)
	}
	if err != nil {
		f.log.Debug("problem not sent", slog.Any("error", err))
	}
}

// recovered turns a panic into an internal error. http.ErrAbortHandler is how a stream is
// cut, and passes.
func recovered(fail echo.HTTPErrorHandler) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			defer func() {
				switch r := recover(); {
				case r == nil:
				case r == http.ErrAbortHandler:
					panic(r)
				case c.Response().Committed:
					fail(fmt.Errorf("panic: %v\n%s", r, debug.Stack()), c)
					panic(http.ErrAbortHandler) // half an answer must not look whole
				default:
					err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
				}
			}()
			return next(c)
		}
	}
}
