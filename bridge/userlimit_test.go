package bridge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// asksN asks n questions and ends in an error.
func asksN(n int) func(bridge.Call, []approval.Delivery) []bridge.Output {
	return func(bridge.Call, []approval.Delivery) []bridge.Output {
		out := make([]bridge.Output, 0, n+1)
		for i := range n {
			out = append(out, bridge.Output{Question: &approval.Request{
				UpstreamID: fmt.Sprintf("q%d", i), Kind: approval.AskPermission, Title: "May I?", ToolName: "cut", Args: []byte(`{"wood":"oak"}`),
			}})
		}
		return append(out, bridge.Output{End: &bridge.End{Failure: fault.New("agent_error", "enough")}})
	}
}

// as fills in who asks.
func (h *harness) as(req bridge.ChatRequest) bridge.ChatRequest {
	req.Principal, req.Dialect, req.BodyHash = h.who, bridge.DialectV1, []byte(req.ThreadID+req.Messages[0].ID)
	return req
}

// TestS33OpenQuestions: a Turn that asks too much at once ends with a code; what it asked before is
// on record and cancelled, and the user may be asked again.
func TestS33OpenQuestions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ perTurn, perUser int }{"of a turn": {3, 100}, "of a user": {100, 3}} {
		limits := never()
		limits.QuestionsPerTurn, limits.QuestionsPerUser = c.perTurn, c.perUser
		h := newHarnessWith(t, &scripted{script: asksN(3)}, limits)
		if last := h.chat(ask("T", "go")); !strings.Contains(last[len(last)-1], "agent_error") {
			t.Errorf("%s: as many as may be: %s", name, last[len(last)-1])
		}
		h.agent.script = asksN(4)
		events := h.chat(ask("T", "more"))
		if last := events[len(events)-1]; !strings.Contains(last, bridge.CodeTooManyQuestions) {
			t.Errorf("%s: one too many: %s", name, last)
		}
		rows, err := h.store.Approvals(t.Context(), store.System(), store.ApprovalFilter{Status: store.ApprovalCancelled}, store.Page{})
		if err != nil || len(rows) != 6 {
			t.Errorf("%s: %d cancelled questions, %v; want 6", name, len(rows), err)
		}
		h.stop()
	}
}

// TestS33TurnsOfAUser: beyond the Turns that a user may have under way a prompt is refused, and
// others' are not.
func TestS33TurnsOfAUser(t *testing.T) {
	t.Parallel()
	limits := soon()
	limits.TurnsPerUser = 2
	h := newHarnessWith(t, &scripted{script: helloScript, block: make(chan struct{})}, limits)
	for i := range 2 {
		if _, err := h.sessions.Chat(t.Context(), h.as(ask(fmt.Sprint("T", i), "go"))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.sessions.Chat(t.Context(), h.as(ask("T9", "go"))); err == nil || !strings.HasPrefix(err.Error(), bridge.RefusedTooManyTurns) {
		t.Errorf("a third turn: %v", err)
	}
	other := h.as(ask("T", "go"))
	other.Principal = store.Principal{Tenant: "local", User: "other"}
	if _, err := h.sessions.Chat(t.Context(), other); err != nil {
		t.Errorf("another user's turn: %v", err)
	}
	close(h.agent.block)
	for deadline := time.Now().Add(20 * time.Second); ; { // they end, and are counted again
		if _, err := h.sessions.Chat(t.Context(), h.as(ask("T9", "go"))); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestS33ThreadBytes: a thread that holds as much as it may ends its Run with a code, also after a
// restart, and all that was said before is there.
func TestS33ThreadBytes(t *testing.T) {
	t.Parallel()
	limits := soon()
	limits.ThreadBytes = 4000
	script := func(bridge.Call, []approval.Delivery) []bridge.Output {
		return append(textOutputs("m-"+newTestID(), strings.Repeat("x", 1500), "last words"), done())
	}
	h := newHarnessWith(t, &scripted{script: script}, limits)
	if last := h.chat(ask("T", "one")); !strings.Contains(last[len(last)-1], "RUN_FINISHED") {
		t.Fatalf("below the limit: %s", last[len(last)-1])
	}
	h.restart()
	h.chat(ask("T", "two"))
	events := h.chat(ask("T", "three"))
	if last := events[len(events)-1]; !strings.Contains(last, bridge.CodeThreadTooLarge) {
		t.Errorf("beyond the limit: %s", last)
	}
	if said := strings.Join(events, "\n"); !strings.Contains(said, "TEXT_MESSAGE_START") {
		t.Errorf("what was said before is lost: %s", said)
	}
	if last := h.chat(ask("other", "one")); !strings.Contains(last[len(last)-1], "RUN_FINISHED") {
		t.Errorf("another thread: %s", last[len(last)-1])
	}
}

// TestS33TenantBytes: a tenant whose threads hold as much as they may gets no new Turn, by whichever user and
// also after a restart, until a thread is deleted; other tenants go on.
func TestS33TenantBytes(t *testing.T) {
	t.Parallel()
	limits := soon()
	limits.TenantBytes = 4000
	script := func(bridge.Call, []approval.Delivery) []bridge.Output {
		return append(textOutputs("m-"+newTestID(), strings.Repeat("x", 2500), "last words"), done())
	}
	h := newHarnessWith(t, &scripted{script: script}, limits)
	for _, thread := range []string{"one", "two"} {
		if last := h.chat(ask(thread, "go")); !strings.Contains(last[len(last)-1], "RUN_FINISHED") {
			t.Fatalf("below the limit: %s", last[len(last)-1])
		}
	}
	kept, err := h.store.TenantBytes(t.Context(), store.System(), h.who.Tenant)
	if err != nil {
		t.Fatal(err)
	}
	var want int64
	all, err := h.store.Sessions(t.Context(), store.System(), store.Page{})
	for _, s := range all {
		n, err := h.store.EventBytes(t.Context(), store.System(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		want += n
	}
	if err != nil || kept > want || kept < want*99/100 || kept < 5000 { // rows of several writes hold a byte between them
		t.Errorf("counted %d bytes of %d, %v", kept, want, err)
	}
	refused := func(what string, req bridge.ChatRequest) {
		t.Helper()
		if _, err := h.sessions.Chat(t.Context(), req); err == nil || !strings.HasPrefix(err.Error(), bridge.RefusedTenantFull) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("the user", h.as(ask("three", "go")))
	h.restart()
	colleague := h.as(ask("three", "go"))
	colleague.Principal.User = "colleague"
	refused("a colleague, after a restart", colleague)
	foreign := h.as(ask("three", "go"))
	foreign.Principal.Tenant = "other"
	if _, err := h.sessions.Chat(t.Context(), foreign); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	err = h.store.InTx(t.Context(), func(tx store.Tx) error { return tx.DeleteSession(t.Context(), all[0].ID, time.Now()) })
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; { // the refusal's sum is used for a second
		if _, err := h.sessions.Chat(t.Context(), h.as(ask("three", "go"))); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("after a deletion: %v", err)
		}
	}
}
