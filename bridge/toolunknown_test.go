package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/tools"
	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// TestToolUnknownOutcome: the replica that ran a tool is gone, and the agent, which another
// replica drives, still waits. A person is asked; each of the three answers reaches the agent;
// what the dead replica says later counts for nothing.
func TestToolUnknownOutcome(t *testing.T) {
	for said, want := range map[string]struct {
		status store.ToolCallStatus
		result string
		code   string
		runs   int32
	}{
		`{"outcome":"succeeded","result":{"seen":1}}`: {store.ToolSucceeded, `{"seen":1}`, "", 1},
		`{"outcome":"failed","message":"No."}`:        {store.ToolFailed, "", "outcome_unknown", 1},
		`{"outcome":"run_again"}`:                     {store.ToolSucceeded, `{"cut":true}`, "", 2},
	} {
		t.Run(said, func(t *testing.T) {
			dsn := storetest.Postgres(t)
			open := func() (store.Store, error) { return postgres.Open(t.Context(), dsn, postgres.Options{}) }
			e := newToolEnv(t, open, open)
			alive, dead := e.replicas[0], e.replicas[1]
			hold := make(chan struct{})
			e.hold.Store(&hold)
			heard, dying := make(chan store.ToolCall, 1), make(chan error, 1)
			running := make(chan string, 1)
			alive.agent.uses = func(ctx context.Context, call bridge.Call) {
				turn, err := alive.sessions.AgentRequests().Turn(ctx, call.RunToken)
				if err != nil {
					t.Error(err)
					return
				}
				go func() {
					_, err := dead.sessions.AgentRequests().Invoke(context.Background(), call.RunToken, bridge.ToolRequest{RunID: turn.ID, Name: "fell", Args: []byte(`{"tree":1}`)})
					dying <- err
				}()
				id := <-e.came
				running <- id
				for {
					c, err := alive.sessions.AgentRequests().Wait(ctx, call.RunToken, id, time.Minute)
					if err != nil {
						t.Error(err)
						return
					}
					if c.Status.Terminal() {
						heard <- c
						return
					}
				}
			}
			req := ask("T", "go")
			req.Principal, req.Dialect, req.BodyHash = store.LocalPrincipal(), bridge.DialectV1, []byte("x")
			if _, err := alive.sessions.Chat(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			id := <-running
			e.hold.Store(nil)
			if err := alive.store.Fence(t.Context(), dead.id); err != nil {
				t.Fatal(err)
			}
			q := e.pending(store.ApprovalInput)
			var args struct {
				Tool string
				Args json.RawMessage
			}
			if err := json.Unmarshal(q.Args, &args); err != nil || args.Tool != "fell" || string(args.Args) != `{"tree":1}` {
				t.Errorf("it is asked about %s", q.Args)
			}
			if call, err := alive.store.ToolCall(t.Context(), store.System(), id); err != nil || call.Status != store.ToolUnknown || e.runs(id) != 1 {
				t.Fatalf("%s, ran %d times, %v", call.Status, e.runs(id), err)
			}
			close(hold) // the dead replica has its answer, and may not say so
			if err := <-dying; err != nil {
				t.Logf("the dead replica's caller hears %v", err)
			}
			if call, err := alive.store.ToolCall(t.Context(), store.System(), id); err != nil || call.Status != store.ToolUnknown {
				t.Fatalf("a dead replica made it %s %v", call.Status, err)
			}
			if _, err := alive.sessions.Approvals().Decide(t.Context(), store.LocalPrincipal(), q.ID, approval.Answer{Payload: []byte(said)}, approval.ViaREST); err != nil {
				t.Fatal(err)
			}
			select {
			case c := <-heard:
				if c.Status != want.status || string(c.Result) != want.result || c.ErrorCode != want.code || e.runs(id) != want.runs {
					t.Errorf("the agent hears %s %s %s, and it ran %d times", c.Status, c.Result, c.ErrorCode, e.runs(id))
				}
			case <-time.After(20 * time.Second):
				t.Fatal("the agent still waits")
			}
			if asked, err := alive.store.ToolCall(t.Context(), store.System(), q.ID); err != nil || asked.Status != store.ToolSucceeded || asked.EndedAt.IsZero() {
				t.Errorf("the answered question is %s, ended at %v, %v", asked.Status, asked.EndedAt, err)
			}
		})
	}
}

// pending is the one open Question of a kind, as soon as there is one.
func (e *toolEnv) pending(kind store.ApprovalKind) store.Approval {
	e.t.Helper()
	for range 1000 {
		rows, err := e.replicas[0].store.Approvals(e.t.Context(), store.System(), store.ApprovalFilter{Status: store.ApprovalPending, Kind: kind}, store.Page{})
		if err != nil {
			e.t.Fatal(err)
		}
		if len(rows) == 1 {
			return rows[0]
		}
		time.Sleep(10 * time.Millisecond)
	}
	e.t.Fatal("nobody is asked")
	return store.Approval{}
}

// TestToolCancelledBeforeItBegan: approved, and then its Turn was cancelled: it never runs
// (F17).
func TestToolCancelledBeforeItBegan(t *testing.T) {
	path := storetest.SQLite(t)
	e := newToolEnv(t, func() (store.Store, error) { return sqlite.Open(t.Context(), path, sqlite.Options{}) })
	r, now := e.replicas[0], time.Now()
	session, turn, call := uuid.NewString(), uuid.NewString(), uuid.NewString()
	err := r.store.InTx(t.Context(), func(tx store.Tx) error {
		return errors.Join(
			tx.InsertSession(t.Context(), store.Session{ID: session, Tenant: "local", User: "local", ExternalID: "T", AgentID: "worker", CreatedAt: now, UpdatedAt: now}),
			tx.InsertTurn(t.Context(), store.Turn{ID: turn, SessionID: session, AgentID: "worker", Status: store.TurnCancelled, CreatedAt: now}),
			tx.InsertToolCall(t.Context(), store.ToolCall{ID: call, SessionID: session, TurnID: turn, Name: "cut", Kind: store.KindServer,
				Status: store.ToolDispatched, Args: []byte(`{}`), ArgsSHA256: "x", Timeout: time.Minute, CreatedAt: now}),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	r.tools.Decided(approval.Question{})
	got, err := r.tools.Wait(t.Context(), store.System(), call, 20*time.Second)
	if err != nil || got.Status != store.ToolFailed || got.ErrorCode != "cancelled" || e.runs(call) != 0 {
		t.Errorf("%s %s, ran %d times, %v", got.Status, got.ErrorCode, e.runs(call), err)
	}
}

// TestToolCancelledAtTheClient: cancelled while the user's client is at an approved call:
// neither the approved call nor the client's stays open.
func TestToolCancelledAtTheClient(t *testing.T) {
	path := storetest.SQLite(t)
	e := newToolEnv(t, func() (store.Store, error) { return sqlite.Open(t.Context(), path, sqlite.Options{}) })
	r := e.replicas[0]
	r.agent.uses = func(ctx context.Context, call bridge.Call) {
		turn, err := r.sessions.AgentRequests().Turn(ctx, call.RunToken)
		if err == nil {
			_, err = r.sessions.AgentRequests().Invoke(ctx, call.RunToken, bridge.ToolRequest{RunID: turn.ID, Name: "plant"})
		}
		if err != nil {
			t.Error(err)
		}
		<-ctx.Done()
	}
	err := r.tools.Load(t.Context(), []tools.Definition{
		{Name: "plant", Kind: tools.WireClient, Policy: json.RawMessage(`{"risk":"high","verdict":"require_approval"}`)},
	}, func(string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	req := ask("T", "go")
	req.Principal, req.Dialect, req.BodyHash = store.LocalPrincipal(), bridge.DialectV1, []byte("x")
	reply, err := r.sessions.Chat(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	there, err := r.sessions.Feeds().Thread(t.Context(), store.As(req.Principal), reply.Session, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	a := e.pending(store.ApprovalPermission)
	if _, err := r.sessions.Approvals().Decide(t.Context(), req.Principal, a.ID, allowIt, approval.ViaREST); err != nil {
		t.Fatal(err)
	}
	if open, err := r.store.OpenToolCalls(t.Context(), store.System(), reply.Session.ID); err != nil || len(open) != 1 || open[0].Status != store.ToolWaitingClient {
		t.Fatalf("%+v %v", open, err)
	}
	if _, err := r.sessions.Cancels().Cancel(t.Context(), req.Principal, a.TurnID); err != nil {
		t.Fatal(err)
	}
	if err := e.over(t.Context(), question{session: reply.Session.ID, run: a.TurnID, id: a.ID}); err != nil {
		t.Error(err)
	}
}
