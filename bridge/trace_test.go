package bridge_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge/trace"
	"aqueduct/bridge/trace/reader"
	"aqueduct/store"
)

// TestTraceOfOldTurn: of a Turn from before the trace was kept, its rows tell: one call after the other, each from its
// beginning to its end, though all is of one millisecond.
func TestTraceOfOldTurn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
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
					Type: trace.PolicyDecision, TS: now, Payload: []byte(`{"tool_call_id":"` + id + `"}`)}))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	turn, err := h.store.Turn(t.Context(), store.System(), "t")
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for from, at := reader.OfTurn(h.store, store.System(), turn), (reader.Cursor{}); ; {
		page, err := from.Read(t.Context(), at, 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			types, at = append(types, e.Type), e.At
		}
	}
	const call = " tool_call_created policy_decision tool_dispatched tool_result"
	if got := strings.Join(types, " "); got != "run_started"+call+call+" run_done" {
		t.Error(got)
	}
}
