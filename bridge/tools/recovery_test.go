package tools_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/redact"
	"aqueduct/bridge/tools"
	"aqueduct/store"
)

func choose(option string) approval.Answer {
	return approval.Answer{Payload: json.RawMessage(`{"optionId":"` + option + `"}`)}
}

// TestDecisions checks what each decision about a waiting call leads to.
func TestDecisions(t *testing.T) {
	t.Parallel()
	unregister := func(e *toolEnv) { e.must(e.Load(e.t.Context(), nil, nil)) }
	for _, c := range []struct {
		name     string
		answer   approval.Answer
		before   func(*toolEnv) // between the call and the decision
		status   store.ToolCallStatus
		code     string
		executed string // the arguments; "" for not executed
	}{
		{name: "approved", answer: choose(approval.AllowOnce), status: store.ToolSucceeded, executed: `{"n":1}`},
		{name: "rejected", answer: choose(approval.RejectOnce), status: store.ToolFailed, code: tools.CodeRejected},
		{name: "edited", answer: approval.Answer{Payload: json.RawMessage(`{"approved":true,"editedArgs":{"n":2}}`)}, status: store.ToolSucceeded, executed: `{"n":2}`},
		{name: "unregistered meanwhile", answer: choose(approval.AllowOnce), before: unregister, status: store.ToolFailed, code: tools.CodeUnknownTool},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newToolEnv(t, tools.Limits{})
			bodies := make(chan string, 2)
			e.endpoint = func(r *http.Request) (*http.Response, error) {
				raw, _ := io.ReadAll(r.Body)
				bodies <- string(raw)
				return answer(http.StatusOK, "application/json", "1")(r)
			}
			call, err := e.call("cut", func(r *tools.Request) { r.Args = json.RawMessage(`{"n":1}`) })
			e.must(err)
			if c.before != nil {
				c.before(e)
			}
			e.decide(call.ID, c.answer)
			e.has(e.ended(call.ID), c.status, c.code)
			switch {
			case c.executed == "" && len(bodies) > 0:
				t.Errorf("executed with %s", <-bodies)
			case c.executed != "":
				if body := <-bodies; !strings.Contains(body, `"args":`+c.executed) || !strings.Contains(body, `"approval_id":"`+call.ID) || len(bodies) > 0 {
					t.Errorf("executed with %s, and %d times more", body, len(bodies))
				}
			}
		})
	}
}

// TestRevoke checks that an approved call can be revoked before it begins, and not after. The Session belongs to another
// replica here, so that nothing begins it.
func TestRevoke(t *testing.T) {
	t.Parallel()
	e := newToolEnv(t, tools.Limits{})
	now := time.Now()
	for _, c := range []struct {
		kind   store.ToolCallKind
		status store.ToolCallStatus
		want   bool
	}{{store.KindServer, store.ToolDispatched, true}, {store.KindServer, store.ToolSucceeded, false}, {store.KindClient, store.ToolDispatched, false}} {
		call := store.ToolCall{
			ID: newID(), SessionID: newID(), TurnID: newID(), Name: "look", Kind: c.kind, Status: c.status, Args: []byte("{}"), CreatedAt: now,
		}
		e.must(e.store.InTx(t.Context(), func(tx store.Tx) error {
			if err := tx.InsertToolCall(t.Context(), call); err != nil {
				return err
			}
			won, err := e.Revoke(t.Context(), tx, call, now)
			if won != c.want {
				t.Errorf("%s %s: revoked is %v", c.kind, c.status, won)
			}
			return err
		}))
	}
}

// TestOutcomes checks a call whose runner died: it becomes UNKNOWN, a person is asked, and each answer puts it where it
// says. An expired Question fails it.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, answer string
		status       store.ToolCallStatus
		code, result string
		executed     int
	}{
		{"it was carried out", `{"outcome":"succeeded","result":7}`, store.ToolSucceeded, "", "7", 0},
		{"it was not", `{"outcome":"failed","message":"No."}`, store.ToolFailed, tools.CodeUnknownOutcome, "", 0},
		{"again", `{"outcome":"run_again"}`, store.ToolSucceeded, "", `{"ok":true}`, 1},
		{"no answer", "", store.ToolFailed, tools.CodeUnknownOutcome, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newToolEnv(t, tools.Limits{})
			gone := uuid.NewString() // a replica that is fenced
			e.must(e.store.Register(t.Context(), store.Replica{ID: gone, Name: "gone"}))
			e.must(e.store.Fence(t.Context(), gone))
			call := store.ToolCall{
				ID: newID(), SessionID: e.session.ID, TurnID: e.turn.ID, Name: "look", Kind: store.KindServer, Status: store.ToolRunning, Replica: gone,
				Args: []byte("{}"), ArgsSHA256: redact.Hasher{}.Sum([]byte("{}")), Timeout: time.Minute, CreatedAt: time.Now(), RunningAt: time.Now(),
			}
			e.must(e.store.InTx(t.Context(), func(tx store.Tx) error { return tx.InsertToolCall(t.Context(), call) }))
			e.Look()
			asked := <-e.armed // the Question's deadline is armed after its commit
			kept, err := e.store.ToolCall(t.Context(), store.System(), call.ID)
			e.must(err)
			e.has(kept, store.ToolUnknown, "")
			a := approval.Answer{Payload: json.RawMessage(c.answer)}
			if c.answer == "" {
				a = approval.Answer{Cancelled: true}
			}
			e.decide(asked, a)
			ended := e.ended(call.ID)
			e.has(ended, c.status, c.code)
			if string(ended.Result) != c.result || e.executions() != c.executed {
				t.Errorf("result %s, executed %d times", ended.Result, e.executions())
			}
		})
	}
}

// TestClientCall checks an approved client tool: it becomes a call of its own that the client answers, and the end of that
// is the end of the approved one.
func TestClientCall(t *testing.T) {
	t.Parallel()
	e := newToolEnv(t, tools.Limits{})
	e.online = true
	e.must(e.Load(t.Context(), append(definitions(), tools.Definition{
		Name: "ask", Kind: tools.WireClient, Policy: json.RawMessage(`{"risk":"high","verdict":"require_approval"}`),
	}), func(string) error { return nil }))
	call, err := e.call("ask")
	e.must(err)
	if armed := <-e.armed; armed != call.ID {
		t.Fatalf("the deadline of %s is armed", armed)
	}
	e.decide(call.ID, choose(approval.AllowOnce))
	clients := <-e.armed
	if clients == call.ID {
		t.Fatal("the client's call has the id of the approved one")
	}
	e.decide(clients, approval.Answer{Payload: json.RawMessage(`"done"`)})
	e.has(e.ended(call.ID), store.ToolSucceeded, "")
	if e.executions() != 0 {
		t.Error("a client's tool was executed here")
	}
}

// TestAbandoned checks that a call which waits although its Turn is over is cancelled.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	e := newToolEnv(t, tools.Limits{})
	call, err := e.call("cut")
	e.must(err)
	e.endTurn(store.TurnFailed)
	e.Look()
	if ended := e.ended(call.ID); !ended.Status.Terminal() || ended.ErrorCode != approval.CodeAskerGone {
		t.Errorf("it is %s %s", ended.Status, ended.ErrorCode)
	}
	if err := e.Unregister(t.Context(), store.Principal{Tenant: "local", User: "ada"}, "cut"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a tool of the file is removed over the API: %v", err)
	}
}

// TestDatabaseAwayAtTheStart checks calls at whose start the database goes away: no call stays RUNNING that nobody executes.
func TestDatabaseAwayAtTheStart(t *testing.T) {
	t.Parallel()
	t.Run("after the claim of an approved call", func(t *testing.T) {
		t.Parallel()
		e := newToolEnv(t, tools.Limits{})
		call, err := e.call("cut")
		e.must(err)
		e.store.(*awayStore).reads.Store(3)
		e.decide(call.ID, choose(approval.AllowOnce))
		e.has(e.ended(call.ID), store.ToolSucceeded, "")
		if n := e.executions(); n != 1 {
			t.Errorf("executed %d times", n)
		}
	})
	t.Run("with the answer to its commit", func(t *testing.T) {
		t.Parallel()
		e := newToolEnv(t, tools.Limits{})
		e.store.(*awayStore).eaten.Store(true)
		call, err := e.call("look", func(r *tools.Request) { r.CallID, r.Key = "own", "k" })
		if !errors.Is(err, store.ErrUnknownOutcome) {
			t.Fatal(err)
		}
		asked := <-e.armed // a person is asked about it
		e.decide(asked, approval.Answer{Payload: json.RawMessage(`{"outcome":"run_again"}`)})
		e.has(e.ended(call.ID), store.ToolSucceeded, "")
		if n := e.executions(); n != 1 {
			t.Errorf("executed %d times", n)
		}
	})
}
