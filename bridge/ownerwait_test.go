package bridge_test

import (
	"strings"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// ghost is a replica that lives and drives nothing, and owns a thread.
func (h *harness) ghost(thread string) (id string, session store.Session) {
	h.t.Helper()
	ctx, now := h.t.Context(), time.Now()
	id = newTestID()
	session = store.Session{
		ID: newTestID(), Tenant: h.who.Tenant, User: h.who.User, ExternalID: thread, AgentID: "scripted", Owner: id, CreatedAt: now, UpdatedAt: now,
	}
	err := h.store.Register(ctx, store.Replica{ID: id, Name: "ghost"})
	if err == nil {
		err = h.store.InTx(ctx, func(tx store.Tx) error { return tx.InsertSession(ctx, session) })
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return id, session
}

// TestOwnerThatDoesNotDrive: a prompt for a thread whose owner lives and does nothing ends in
// a typed error after the bound, with nothing run behind its client's back; when that owner
// is fenced, the Turn has failed with the same code, and the thread goes on.
func TestOwnerThatDoesNotDrive(t *testing.T) {
	t.Parallel()
	agent := &scripted{script: func(bridge.Call, []approval.Delivery) []bridge.Output {
		return append(textOutputs("m", "hello"), done())
	}}
	limits := soon()
	limits.OwnerWait = 300 * time.Millisecond
	h := newHarnessWith(t, agent, limits)
	ghost, session := h.ghost("t1")
	begun := time.Now()
	events := h.chat(ask("t1", "anybody?"))
	if types(events) != "RUN_STARTED RUN_ERROR" || !strings.Contains(events[1], `"owner_unavailable"`) {
		t.Fatalf("%v", events)
	}
	if took := time.Since(begun); took < limits.OwnerWait {
		t.Errorf("it gives up after %v", took)
	}
	if err := h.store.Fence(t.Context(), ghost); err != nil {
		t.Fatal(err)
	}
	feed, err := h.sessions.Feeds().Thread(t.Context(), store.As(h.who), session, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	var log []string
	for len(log) == 0 || !agui.IsTerminal([]byte(log[len(log)-1])) {
		items, err := feed.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range items {
			log = append(log, string(i.Event))
		}
	}
	if types(log) != "RUN_STARTED RUN_ERROR" || !strings.Contains(log[1], `"owner_unavailable"`) {
		t.Errorf("the log says %v", log)
	}
	if got := types(h.chat(ask("t1", "again"))); !strings.HasSuffix(got, "RUN_FINISHED") {
		t.Errorf("then %s", got)
	}
	if n := len(agent.heard()); n != 1 {
		t.Errorf("the agent was called %d times", n)
	}
}
