package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/tools"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// TestVerdicts checks the state that each verdict leads to, and what was executed by then.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		tool     string
		online   bool
		endpoint func(*http.Request) (*http.Response, error)
		status   store.ToolCallStatus
		code     string
		executed int
		result   string
	}{
		{name: "allowed", tool: "look", status: store.ToolSucceeded, executed: 1, result: `{"ok":true}`},
		{name: "a text is a JSON string", tool: "look", endpoint: answer(http.StatusOK, "text/plain", "a\xffb"), status: store.ToolSucceeded, executed: 1, result: "\"a\uFFFDb\""},
		{name: "no body is null", tool: "look", endpoint: answer(http.StatusNoContent, "", ""), status: store.ToolSucceeded, executed: 1, result: "null"},
		{name: "asked", tool: "cut", status: store.ToolWaitingApproval},
		{name: "blocked", tool: "burn", status: store.ToolBlocked, code: tools.CodeBlocked},
		{name: "client away", tool: "show", status: store.ToolFailed, code: tools.CodeClientOffline},
		{name: "client there", tool: "show", online: true, status: store.ToolWaitingClient},
		{name: "declared by the client", tool: "paint", online: true, status: store.ToolWaitingClient},
		{name: "HTTP 500", tool: "look", endpoint: answer(http.StatusInternalServerError, "", "no"), status: store.ToolFailed, code: tools.CodeStatus, executed: 1},
		{name: "too large", tool: "look", endpoint: answer(http.StatusOK, "text/plain", strings.Repeat("x", 100)), status: store.ToolFailed, code: tools.CodeResultTooLarge, executed: 1},
		{name: "unreachable", tool: "look", endpoint: func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") }, status: store.ToolFailed, code: tools.CodeUnreachable, executed: 1},
		{name: "too slow", tool: "slow", endpoint: func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, status: store.ToolTimeout, code: tools.CodeTimeout, executed: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newToolEnv(t, tools.Limits{ResultBytes: 64})
			e.online = c.online
			if c.endpoint != nil {
				e.endpoint = c.endpoint
			}
			call, err := e.call(c.tool)
			e.must(err)
			e.has(call, c.status, c.code)
			if n := e.executions(); n != c.executed || c.result != "" && string(call.Result) != c.result {
				t.Errorf("executed %d times, result %s", n, call.Result)
			}
			kept, err := e.store.ToolCall(t.Context(), store.System(), call.ID)
			e.must(err)
			e.has(kept, c.status, c.code)
			waits := c.status == store.ToolWaitingApproval || c.status == store.ToolWaitingClient
			if armed := len(e.armed) == 1; armed != waits {
				t.Errorf("a deadline is armed: %v", armed)
			}
		})
	}
}

// TestRefusals checks the codes of calls that are not taken, and that none of them is executed or leaves a row.
func TestRefusals(t *testing.T) {
	t.Parallel()
	e := newToolEnv(t, tools.Limits{QuestionsPerTurn: 1})
	args := func(raw string) func(*tools.Request) { return func(r *tools.Request) { r.Args = json.RawMessage(raw) } }
	for _, c := range []struct {
		tool   string
		change func(*tools.Request)
		code   string
	}{
		{"none", args(`{}`), tools.CodeUnknownTool},
		{approval.PermissionTool, args(`{}`), tools.CodeUnknownTool},
		{"look", args(`{"path":1}`), tools.CodeInvalidArgs},
		{"look", args(`{`), tools.CodeInvalidArgs},
		{"look", args(`{"path":"` + strings.Repeat("x", 257<<10) + `"}`), tools.CodeInvalidArgs},
	} {
		_, err := e.call(c.tool, c.change)
		e.refused(err, c.code)
	}
	first, err := e.call("cut")
	e.must(err)
	if _, err := e.call("cut"); !errors.Is(err, tools.ErrTooManyQuestions) {
		t.Errorf("a second waiting call gives %v", err)
	}
	calls, err := e.store.ToolCallsOfTurn(t.Context(), store.System(), e.turn.ID)
	e.must(err)
	if len(calls) != 1 || calls[0].ID != first.ID || e.executions() != 0 {
		t.Errorf("%d calls are kept and %d were executed", len(calls), e.executions())
	}
	records, err := e.store.RecordsOfTurn(t.Context(), store.System(), e.turn.ID, store.Page{})
	e.must(err)
	refused := 0
	for _, r := range records {
		if r.Type == trace.ToolCallCreated && bytes.Contains(r.Payload, []byte(`"refused":true`)) {
			refused++
		}
	}
	if refused != 5 {
		t.Errorf("%d refusals are on record", refused)
	}
}

// TestIdempotencyKey checks that a repeated call is the same call, and that a key or id cannot be used for another one.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	e := newToolEnv(t, tools.Limits{})
	keyed := func(key, id, args string) func(*tools.Request) {
		return func(r *tools.Request) { r.Key, r.CallID, r.Args = key, id, json.RawMessage(args) }
	}
	first, err := e.call("look", keyed("k", "", `{"path":"a"}`))
	e.must(err)
	for _, again := range []func(*tools.Request){keyed("k", "", `{"path":"a"}`), keyed("k", "other", `{"path":"a"}`), keyed("", "k", `{"path":"a"}`)} {
		call, err := e.call("look", again)
		e.must(err)
		if call.ID != first.ID || !bytes.Equal(call.Result, first.Result) {
			t.Errorf("a repeated call is %s with %s", call.ID, call.Result)
		}
	}
	_, err = e.call("look", keyed("k", "", `{"path":"b"}`))
	e.refused(err, tools.CodeKeyConflict)
	_, err = e.call("slow", keyed("k", "", `{"path":"a"}`))
	e.refused(err, tools.CodeKeyConflict)
	if n := e.executions(); n != 1 {
		t.Errorf("executed %d times", n)
	}
}

// TestBusy checks that a call for which no slot is left fails, whichever way it comes, and that its slot is free again.
func TestBusy(t *testing.T) {
	t.Parallel()
	e := newToolEnv(t, tools.Limits{Running: 1})
	came, release := make(chan struct{}), make(chan struct{})
	e.endpoint = func(r *http.Request) (*http.Response, error) {
		came <- struct{}{}
		<-release
		return answer(http.StatusOK, "application/json", "1")(r)
	}
	over := make(chan error, 1)
	go func() {
		_, err := e.call("look")
		over <- err
	}()
	<-came
	_, err := e.call("look")
	e.refused(err, tools.CodeBusy)
	given, err := e.call("look", func(r *tools.Request) { r.Key, r.CallID = "k", "two names" })
	e.refused(err, tools.CodeBusy)
	kept, err := e.store.ToolCall(t.Context(), store.System(), given.ID)
	e.must(err)
	e.has(kept, store.ToolFailed, tools.CodeBusy)
	close(release)
	e.must(<-over)
	go func() { <-came }()
	call, err := e.call("look")
	e.must(err)
	e.has(call, store.ToolSucceeded, "")
}

// TestTimeout: a call may ask for an hour at most, and the operator may give every call more.
func TestTimeout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ limit, asked, want time.Duration }{
		{0, 0, time.Minute}, {0, 2 * time.Hour, time.Hour}, {24 * time.Hour, 0, 24 * time.Hour}, {24 * time.Hour, 2 * time.Hour, 2 * time.Hour}, {24 * time.Hour, 48 * time.Hour, 24 * time.Hour},
	} {
		call, err := newToolEnv(t, tools.Limits{Timeout: c.limit}).call("look", func(r *tools.Request) { r.Timeout = c.asked })
		if err != nil || call.Timeout != c.want {
			t.Errorf("%+v: %s %v", c, call.Timeout, err)
		}
	}
}

// TestRunOver checks that no call is taken for a Turn that has ended.
func TestRunOver(t *testing.T) {
	t.Parallel()
	e := newToolEnv(t, tools.Limits{})
	e.endTurn(store.TurnCancelled)
	for _, tool := range []string{"look", "cut"} {
		_, err := e.call(tool)
		e.refused(err, tools.CodeRunOver)
	}
	if n := e.executions(); n != 0 {
		t.Errorf("executed %d times", n)
	}
}

// TestFailureEndsRun checks that the failure of a vital tool asks the Session's owner to end the Turn, in the same commit.
func TestFailureEndsRun(t *testing.T) {
	t.Parallel()
	e := newToolEnv(t, tools.Limits{})
	e.endpoint = answer(http.StatusBadGateway, "", "")
	call, err := e.call("vital")
	e.must(err)
	e.has(call, store.ToolFailed, tools.CodeStatus)
	agenda, err := e.store.PendingCommands(t.Context(), store.System(), e.session.ID)
	e.must(err)
	if len(agenda) != 1 || agenda[0].Kind != store.CommandFail || !strings.Contains(string(agenda[0].Payload), `"tool_failed"`) {
		t.Errorf("the commands are %+v", agenda)
	}
}

// TestCancelledRequest checks that a caller that leaves does not stop a call that is executed.
func TestCancelledRequest(t *testing.T) {
	t.Parallel()
	e := newToolEnv(t, tools.Limits{})
	came, release := make(chan struct{}), make(chan struct{})
	e.endpoint = func(r *http.Request) (*http.Response, error) {
		close(came)
		<-release
		return answer(http.StatusOK, "application/json", "1")(r)
	}
	ctx, leave := context.WithCancel(t.Context())
	type answered struct {
		call store.ToolCall
		err  error
	}
	over := make(chan answered, 1)
	go func() {
		call, err := e.Invoke(ctx, tools.Request{Caller: tools.Caller{TurnID: e.turn.ID, Session: e.session}, Name: "look", Key: "k"})
		over <- answered{call, err}
	}()
	<-came
	leave()
	got := <-over
	if !errors.Is(got.err, context.Canceled) {
		t.Fatalf("the caller got %v", got.err)
	}
	close(release)
	e.has(e.ended(got.call.ID), store.ToolSucceeded, "")
}
