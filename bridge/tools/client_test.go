package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"aqueduct/bridge/approval"
	"aqueduct/bridge/redact"
	"aqueduct/bridge/tools"
	"aqueduct/policy"
	"aqueduct/store"
	"aqueduct/store/sqlite"
	"aqueduct/store/storetest"
)

// TestClientDeadlineAfterCommit: the deadline of the call that a client is given for an approved one is armed when that is
// kept, once, and for the call that is in the rows: a transaction may run twice.
func TestClientDeadlineAfterCommit(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Open(t.Context(), storetest.SQLite(t), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	armed := make(chan string, 8)
	service := tools.New(tools.Config{
		Store: st, Replica: "r", Policy: policy.Default, Ring: func(string) {}, Listeners: func(string) int { return 1 },
		Client: http.DefaultClient, Logger: slog.New(slog.DiscardHandler),
	})
	service.Use(&approval.Settler{}, func(id string, _ time.Duration) { armed <- id }, nil)
	now := time.Now()
	turn := store.Turn{ID: "01890000-0000-7000-8000-000000000002", SessionID: "01890000-0000-7000-8000-000000000001", AgentID: "a", Status: store.TurnQueued, CreatedAt: now}
	sum := redact.Hasher{}.Sum([]byte(`{}`))
	asked := store.ToolCall{
		ID: "01890000-0000-7000-8000-000000000003", SessionID: turn.SessionID, TurnID: turn.ID, Name: "move", Kind: store.KindClient,
		Status: store.ToolDispatched, Args: json.RawMessage(`{}`), ArgsSHA256: sum, Timeout: time.Minute, CreatedAt: now,
	}
	q := approval.Question{Call: asked, Approval: store.Approval{
		ID: asked.ID, SessionID: turn.SessionID, TurnID: turn.ID, Kind: store.ApprovalPermission, Status: store.ApprovalApproved, Tool: asked.Name,
		Args: asked.Args, ArgsSHA256: sum, Options: []byte("[]"), AskedUser: "u", CreatedAt: now, ExpiresAt: now.Add(time.Minute),
	}}
	err = st.InTx(t.Context(), func(tx store.Tx) error {
		return errors.Join(tx.InsertSession(t.Context(), store.Session{ID: turn.SessionID, Tenant: "t", User: "u", ExternalID: "T", AgentID: "a", CreatedAt: now, UpdatedAt: now}),
			tx.InsertTurn(t.Context(), turn), tx.InsertToolCall(t.Context(), asked), tx.InsertApproval(t.Context(), q.Approval))
	})
	if err != nil {
		t.Fatal(err)
	}
	again := errors.New("run it again")
	for _, want := range []error{again, nil} {
		err := st.InTx(t.Context(), func(tx store.Tx) error {
			return errors.Join(service.Settled(t.Context(), tx, store.Session{Tenant: "t"}, q, store.Principal{}, time.Now()), want)
		})
		if !errors.Is(err, want) {
			t.Fatal(err)
		}
	}
	if len(armed) > 0 {
		t.Fatalf("%s is armed before anything is known to be kept", <-armed)
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- service.Run(ctx) }()
	service.Decided(q)
	id := <-armed
	stop()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	call, err := st.ToolCall(t.Context(), store.System(), id)
	if err != nil || call.Status != store.ToolWaitingClient || len(armed) > 0 {
		t.Errorf("%s is armed: %+v %v, and %d more", id, call, err, len(armed))
	}
}
