package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// queuesIn has a user put a prompt into the queue, for a thread.
func (h *sharing) queuesIn(who, request, session string) (out queuedTask, got answer) {
	h.t.Helper()
	got = h.by(who, "POST", "/v1/runs", fmt.Sprintf(`{"request_id":%q,"session_id":%q,"message":{"content":%q}}`, request, session, request))
	_ = json.Unmarshal([]byte(got.body), &out)
	return out, got
}

// becomes waits for the state of a task, and gives what its user reads of it.
func (h *sharing) becomes(t *testing.T, who, id, status string) (out struct {
	queuedTask
	Agent string `json:"agent_id"`
}) {
	t.Helper()
	eventually(t, func() error {
		got := h.by(who, "GET", "/v1/runs/"+id, "")
		if _ = json.Unmarshal([]byte(got.body), &out); out.Status != status {
			return fmt.Errorf("%s is %s and not %s", id, got.body, status)
		}
		return nil
	})
	return out
}

// TestQueueShared: a task for another user's thread is one for that thread's agent, is read by who added it, and is the same one
// when it is added again. One whose share was withdrawn while it waited begins nothing, and least of all a thread of its own.
func TestQueueShared(t *testing.T) {
	t.Parallel()
	h := newSharing(t)
	g := newGate()
	second := &scripted{script: func(ctx context.Context, say func(...bridge.Output), c bridge.Call, answers []approval.Delivery) {
		g.script(ctx, say, c, answers)
	}}
	h.agents.Add("second", second)
	body := `{"threadId":"ann-2","runId":"first","protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[{"id":"m1","role":"user","content":"first"}]}`
	done := make(chan answer, 1)
	go func() { done <- h.by("ann", "POST", "/api/agui/chat?agent=second", body) }()
	g.sees(t, 1)
	g.open <- struct{}{}
	if got := <-done; got.status != 200 {
		t.Fatal(got)
	}
	var thread struct{ SessionID string }
	if err := json.Unmarshal([]byte(h.by("ann", "GET", "/api/threads/ann-2", "").body), &thread); err != nil {
		t.Fatal(err)
	}
	h.thread, h.session = "ann-2", thread.SessionID
	read := h.share(`{"user":"bob","rights":["read"]}`)
	if _, got := h.queuesIn("bob", "early", h.session); got.status != 403 || !strings.Contains(got.body, "share_forbidden") {
		t.Errorf("with the right to read alone: %v", got)
	}
	h.by("ann", "DELETE", "/api/threads/ann-2/shares/"+read, "")

	share := h.share(`{"user":"bob","rights":["read","write"]}`)
	task, got := h.queuesIn("bob", "q1", h.session)
	if got.status != 202 {
		t.Fatal(got)
	}
	if came := g.sees(t, 2); came[1] != "q1" {
		t.Fatalf("the thread's agent was called by %q", came)
	}
	if is := h.becomes(t, "bob", task.RunID, "RUNNING"); is.Agent != "second" || is.SessionID != h.session {
		t.Errorf("it is %+v", is)
	}
	waits, got := h.queuesIn("bob", "q2", h.session) // behind it
	if got.status != 202 {
		t.Fatal(got)
	}
	g.open <- struct{}{}
	h.becomes(t, "bob", "q1", "DONE")
	g.sees(t, 3)
	last, _ := h.queuesIn("bob", "q3", h.session)
	if again, got := h.queuesIn("bob", "q1", h.session); again.RunID != task.RunID {
		t.Errorf("added again: %v", got)
	}
	if got := h.by("ann", "DELETE", "/api/threads/ann-2/shares/"+share, ""); got.status != 204 {
		t.Fatal(got)
	}
	close(g.open)
	if is := h.becomes(t, "bob", last.RunID, "FAILED"); is.Error != "share_forbidden" {
		t.Errorf("without its share: %+v", is)
	}
	if got := h.by("bob", "GET", "/v1/runs/"+waits.RunID, ""); got.status != 404 {
		t.Errorf("what began before: %v", got)
	}
	if got := h.by("bob", "GET", "/api/threads", ""); strings.Contains(got.body, "q3") || len(g.seen()) != 3 {
		t.Errorf("a thread of its own: %v, called by %q", got, g.seen())
	}
}
