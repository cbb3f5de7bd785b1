package problem

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"aqueduct/agui"
	"aqueduct/internal/fault"
	"aqueduct/server/auth"
	"aqueduct/server/limit"
	"aqueduct/store"
)

// If this fails, a client gets a code that no document explains, or cannot tell two refusals apart by their codes.
func TestEveryCodeHasAStatusAndASentence(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, c := range Codes() {
		if seen[c.Name] {
			t.Errorf("%s stands twice in the table", c.Name)
		}
		seen[c.Name] = true
		if c.Status != 0 && (c.Status < 400 || http.StatusText(c.Status) == "") {
			t.Errorf("%s has the status %d", c.Name, c.Status)
		}
		if strings.Trim(c.Name, "abcdefghijklmnopqrstuvwxyz_") != "" || c.Name == "" {
			t.Errorf("%q is no code", c.Name)
		}
		if !strings.HasSuffix(c.Meaning, ".") || c.Meaning[0] < 'A' || c.Meaning[0] > 'Z' {
			t.Errorf("%s means %q, which is no sentence", c.Name, c.Meaning)
		}
		p := Refuse(c.Name, "")
		if c.Status == 0 { // it ends streams; as an HTTP answer it would be a mistake of the server's
			if p.Status != http.StatusInternalServerError {
				t.Errorf("%s is answered with %d", c.Name, p.Status)
			}
			continue
		}
		if p.Status != c.Status || p.Code != c.Name || p.Detail != c.Meaning || p.Title != http.StatusText(c.Status) || p.Type != "about:blank" {
			t.Errorf("%s is answered with %+v", c.Name, p)
		}
	}
}

// If this fails, a client gets the status of a fault of the server for a mistake of its own, and tries again for ever.
func TestOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		status int
		code   string
		detail string // "" for the code's own
	}{
		"a problem":                {Refuse(Role, "x"), 403, Role, "x"},
		"a fault":                  {fault.New("agent_unknown", "There is no bob."), 400, "agent_unknown", "There is no bob."},
		"a fault without a text":   {fault.New(limit.ShuttingDown, ""), 503, limit.ShuttingDown, ""},
		"a fault with a cause":     {&fault.Error{Code: "agent_unknown", Message: "m", Cause: store.ErrNotFound}, 400, "agent_unknown", "m"},
		"too often":                {&limit.TooOften{After: time.Second}, 429, limit.TooManyRequests, ""},
		"a member of the body":     {&agui.InputError{Path: "/runId", Reason: "must be a string"}, 400, InvalidBody, "At /runId: must be a string."},
		"the body":                 {&agui.InputError{Reason: "not JSON"}, 400, InvalidBody, "The body is not JSON."},
		"a large body":             {&http.MaxBytesError{Limit: 7}, 413, TooLarge, "The body may have 7 bytes."},
		"much that is new":         {&agui.TooLargeError{Limit: 7, Unit: "bytes"}, 413, TooLarge, "What is new in the body may be 7 bytes; messages that the thread has do not count."},
		"a slow body":              {os.ErrDeadlineExceeded, 408, TooSlow, ""},
		"not found":                {store.ErrNotFound, 404, NotFound, ""},
		"no database":              {store.ErrUnavailable, 503, Unavailable, ""},
		"an unknown outcome":       {store.ErrUnknownOutcome, 503, Unavailable, ""},
		"a replica that is fenced": {store.ErrFenced, 503, Unavailable, ""},
		"a query that took long":   {context.DeadlineExceeded, 503, Unavailable, ""},
		"the OpenID provider":      {auth.ErrIssuer, 503, Issuer, ""},
		"no credential":            {auth.ErrNoCredential, 401, Unauthorized, ""},
		"a bad credential":         {auth.ErrBadCredential, 401, Unauthorized, ""},
		"no such route":            {echo.ErrNotFound, 404, NotFound, ""},
		"no such method":           {echo.ErrMethodNotAllowed, 405, Method, ""},
		"something of echo":        {echo.ErrTeapot, 500, Internal, ""},
	} {
		for _, err := range []error{c.err, fmt.Errorf("in a handler: %w", c.err)} {
			p := Of(err)
			detail := c.detail
			if known, _ := codeOf(c.code); detail == "" {
				detail = known.Meaning
			}
			if p.Status != c.status || p.Code != c.code || p.Detail != detail {
				t.Errorf("%s: %d %s %q, want %d %s %q", name, p.Status, p.Code, p.Detail, c.status, c.code, detail)
			}
		}
	}
	if p := Of(&limit.TooOften{After: 3 * time.Second}); p.RetryAfter != 3*time.Second {
		t.Errorf("the client may try again after %v", p.RetryAfter)
	}
}

const inside = "dsn=postgres://u:p@db at /srv/x.go:12"

// If this fails, a browser gets texts from inside of the server, with passwords or paths.
func TestUnknownErrorsKeepTheirText(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"an error":                     errors.New(inside),
		"a code that is not listed":    fault.New("a_new_code", inside),
		"a code that ends streams":     fault.New("agent_gone", inside),
		"a wrapped error of the store": fmt.Errorf(inside+": %w", store.ErrUnavailable),
		"a cause":                      &fault.Error{Code: "agent_unknown", Message: "m", Cause: errors.New(inside)},
	} {
		raw, _ := json.Marshal(Of(err))
		if strings.Contains(string(raw), "postgres") {
			t.Errorf("%s: the client gets %s", name, raw)
		}
	}
	if p := Of(errors.New(inside)); p.Status != 500 || p.Code != Internal || p.Detail != "A fault of the server; its log has the error id." {
		t.Errorf("an unknown error is %+v", p)
	}
	if p := Refuse("a_new_code", inside); p.Status != 500 || p.Code != Internal || strings.Contains(p.Detail, "postgres") {
		t.Errorf("a code that is not listed is %+v", p)
	}
}

// If this fails, a long text of an agent's fills the page, or is cut within a character.
func TestTruncate(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "short", strings.Repeat("漢", 500)} {
		if got := Truncate(text); got != text {
			t.Errorf("%d bytes are cut to %d", len(text), len(got))
		}
	}
	if got, want := Truncate(strings.Repeat("漢", 501)), strings.Repeat("漢", 500)+"…"; got != want {
		t.Errorf("501 characters are cut to %d bytes, want %d", len(got), len(want))
	}
	if p := Of(fault.New("agent_unknown", strings.Repeat("x", 5000))); len(p.Detail) > 510 {
		t.Errorf("a fault's message has %d bytes", len(p.Detail))
	}
}

func request() echo.Context {
	return echo.New().NewContext(httptest.NewRequest(http.MethodGet, "/api/x", nil), httptest.NewRecorder())
}

// If this fails, the operator cannot find the failure whose error id a user reports, or the log fills with users' mistakes.
func TestReportLogsFaultsOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		logged bool
	}{
		"a fault of the server": {errors.New(inside), true},
		"no database":           {fmt.Errorf("dial: %w", store.ErrUnavailable), true},
		"a mistake":             {store.ErrNotFound, false},
		"going away":            {fault.New(limit.ShuttingDown, ""), false},
	} {
		var log bytes.Buffer
		p := Report(slog.New(slog.NewTextHandler(&log, nil)), request(), c.err)
		if (log.Len() > 0) != c.logged || (p.ErrorID != "") != c.logged {
			t.Errorf("%s: the log has %q, the client the id %q", name, log.String(), p.ErrorID)
		}
		if c.logged && (!strings.Contains(log.String(), p.ErrorID) || !strings.Contains(log.String(), c.err.Error())) {
			t.Errorf("%s: the log has %q, without the id %q or the error", name, log.String(), p.ErrorID)
		}
	}
	shared := Refuse(Internal, "")
	Report(slog.New(slog.DiscardHandler), request(), shared)
	if shared.ErrorID != "" {
		t.Error("the id of one request is written into an error that others use")
	}
}

// If this fails, a channel's program gets internal_error for a message that it can mend.
func TestOnChannel(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	to := slog.New(slog.NewTextHandler(&log, nil))
	for _, code := range []string{UnknownType, HelloTwice, MessageNotTaken, ForeignUser, Replaying} {
		if got, message := OnChannel(to, request(), fmt.Errorf("in: %w", fault.New(code, "m"))); got != code || message != "m" {
			t.Errorf("%s is sent as %s %q", code, got, message)
		}
		if _, listed := codeOf(code); listed {
			t.Errorf("%s is a code of HTTP as well", code)
		}
	}
	if code, message := OnChannel(to, request(), store.ErrNotFound); code != NotFound || message == "" || log.Len() > 0 {
		t.Errorf("a mistake is sent as %s %q; the log has %s", code, message, log.String())
	}
	code, message := OnChannel(to, request(), errors.New(inside))
	if code != Internal || strings.Contains(message, "postgres") || !strings.Contains(log.String(), "postgres") {
		t.Errorf("a fault of the server is sent as %s %q; the log has %s", code, message, log.String())
	}
	_, id, _ := strings.Cut(message, "(")
	if id = strings.TrimSuffix(id, ")"); id == "" || !strings.Contains(log.String(), id) {
		t.Errorf("the message %q has no id of the log", message)
	}
	if _, ok := ChannelOnly(fault.New(NotFound, "")); ok {
		t.Error("a code of HTTP counts as one of channels alone")
	}
}
