// What a client gets when a handler returns an error or panics. It is the one place where an error becomes bytes of
// an HTTP answer; streams and sockets word their own (refusal.go, problem.OnChannel).

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"

	"github.com/labstack/echo/v4"

	"aqueduct/bridge/approval/audit"
	"aqueduct/server/limit"
	"aqueduct/server/problem"
)

// failures answers requests whose handler failed. It has no lock: log and audit are safe for all goroutines.
type failures struct {
	log   *slog.Logger
	audit *audit.Log
}

// handle implements echo.HTTPErrorHandler. Once bytes were sent the status cannot be changed any more; the failure is
// then only logged. A request whose client has left gets no answer and no log line, because every closed page would
// make one. The id in the log line of a fault is the errorId that the client gets, so a report of a user can be
// found.
func (f *failures) handle(err error, c echo.Context) {
	if c.Response().Committed {
		f.log.Error("failed after the answer began", slog.String("path", c.Path()), slog.Any("error", err))
		return
	}
	// Both are asked: a part may be cancelled for its own reasons while the client is there and waits for an answer.
	if errors.Is(err, context.Canceled) && c.Request().Context().Err() != nil {
		return // the client has left
	}
	p := problem.Report(f.log, c, err)
	f.auditRefusal(c, err, p)
	if !tellPage(c, p) {
		f.write(c, p)
	}
}

// A 401 names the scheme, as RFC 9110 demands. Errors are never cached: a proxy that kept a 503 would prolong the
// outage.
func (f *failures) write(c echo.Context, p *problem.Problem) {
	h := c.Response().Header()
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="aqueduct"`)
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", retryAfter)
	}
	if p.RetryAfter > 0 || p.Status == http.StatusTooManyRequests {
		h.Set("Retry-After", strconv.Itoa(limit.RetryAfter(p.RetryAfter)))
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

// recovered turns a panic into an internal error. http.ErrAbortHandler is how a stream is cut, and passes. It is the
// outermost middleware, so a panic in the guard is caught too. The stack goes to the log alone.
func recovered(fail echo.HTTPErrorHandler) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			defer func() {
				switch r := recover(); {
				case r == nil:
				case r == http.ErrAbortHandler: //nolint:errorlint // net/http panics with this very value
					panic(r)
				// The status was sent already, so the failure is logged by the error handler and the connection is
				// cut.
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

const (
	// It is RFC 9457's media type.
	problemType = "application/problem+json"
	// retryAfter is what a client is asked to wait, in seconds, when trying again is right.
	retryAfter = "2"
)
