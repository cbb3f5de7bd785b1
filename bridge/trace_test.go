package bridge_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/store"
)

// TestTraceOfOneMillisecond: one call after the other, each from its beginning to its end.
func TestTraceOfOneMillisecond(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	now := time.Now()
	ids := []string{"01890000-0000-7000-8000-000000000001", "01890000-0000-7000-8000-000000000002"}
	err := h.store.InTx(t.Context(), func(tx store.Tx) error {
		err := errors.Join(
			tx.InsertSession(t.Context(), store.Session{ID: "s", Tenant: "local", User: "local", ExternalID: "T", AgentID: "a", CreatedAt: now, UpdatedAt: now}),
			tx.InsertTurn(t.Context(), store.Turn{ID: "t", SessionID: "s", AgentID: "a", Status: store.TurnDone, CreatedAt: now, StartedAt: now, EndedAt: now}),
		)
		for _, id := range ids {
			err = errors.Join(err,
				tx.InsertToolCall(t.Context(), store.ToolCall{ID: id, SessionID: "s", TurnID: "t", Name: "cut", Kind: store.KindServer,
					Status: store.ToolSucceeded, ArgsSHA256: "x", CreatedAt: now, RunningAt: now, EndedAt: now}),
				tx.InsertRecord(t.Context(), store.Record{ID: "r" + id, SessionID: "s", TurnID: "t", Source: store.SourcePlatform,
					Type: store.RecordDecision, TS: now, Payload: []byte(`{"tool_call_id":"` + id + `"}`)}))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	trace, err := bridge.Trace(t.Context(), h.store, store.System(), "t")
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, r := range trace {
		types = append(types, r.Type)
	}
	const call = " tool_call_created policy_decision tool_dispatched tool_result"
	if got := strings.Join(types, " "); got != "run_started"+call+call+" run_done" {
		t.Error(got)
	}
}
