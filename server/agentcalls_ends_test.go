package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// askingHelper is a root that calls a helper, which asks; got has what the root read.
func askingHelper(t *testing.T) (c *callEnv, got chan called) {
	t.Helper()
	got = make(chan called, 1)
	return newCallEnv(t, map[string]agentScript{
		"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			answer := c.call(context.WithoutCancel(ctx), call, "helper", "do it") // it stays: the cascade alone ends it
			got <- answer
			says(say, "helper: "+answer.text())
		},
		"helper": func(_ *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, answers []approval.Delivery) {
			asks(ctx, say, call, answers)
		},
	}, plan{}), got
}

// TestAgentCallsAskRejected: a rejection gets to the agent that asked as one, and nothing stays open.
func TestAgentCallsAskRejected(t *testing.T) {
	t.Parallel()
	c, got := askingHelper(t)
	c.chat("t", "r", "go")
	if answer := c.decide(c.inboxed(), `{"decision":"reject"}`); answer.status != 200 {
		t.Fatal(answer.status, answer.body)
	}
	if again := c.decide(c.approvalIDs()[0], `{"decision":"approve","option_id":"yes"}`); again.status != 409 {
		t.Errorf("a second decision is answered by %d %s", again.status, again.body)
	}
	if answer := <-got; !strings.Contains(answer.text(), `"no"`) && !strings.Contains(answer.text(), `\"no\"`) || answer.kinds() != "RUNNING WAITING_APPROVAL RUNNING delta done" {
		t.Errorf("the caller reads %s: %s", answer.kinds(), answer.text())
	}
	c.settled("r", "scripted DONE [helper DONE]")
}

// TestAgentCallsAskCancelled: a cancel of the root while a called agent asks withdraws the question everywhere, and ends both.
func TestAgentCallsAskCancelled(t *testing.T) {
	t.Parallel()
	c, got := askingHelper(t)
	c.chat("t", "r", "go")
	id := c.inboxed()
	if answer := c.do("POST", "/api/runs/r/cancel", "{}"); answer.status != 202 && answer.status != 200 {
		t.Fatal(answer.status, answer.body)
	}
	c.settled("r", "scripted CANCELLED [helper CANCELLED]")
	if answer := <-got; !strings.HasSuffix(answer.kinds(), "error") {
		t.Errorf("the caller reads %s", answer.kinds())
	}
	if still := c.do("GET", "/api/approvals?status=PENDING", "").body; strings.Contains(still, `"approval_id"`) {
		t.Errorf("still open: %s", still)
	}
	if late := c.decide(id, `{"decision":"approve","option_id":"yes"}`); late.status != 409 {
		t.Errorf("a late decision is answered by %d %s", late.status, late.body)
	}
}

// approvalIDs are those of the caller's settled Questions.
func (c *callEnv) approvalIDs() (ids []string) {
	c.t.Helper()
	body := c.do("GET", "/api/approvals?status=REJECTED", "").body
	for _, part := range strings.Split(body, `"approval_id":"`)[1:] {
		id, _, _ := strings.Cut(part, `"`)
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		c.t.Fatalf("no settled question: %s", body)
	}
	return ids
}

// TestAgentCallsRejoined: a call that is repeated with its key, also after its end, is the same call: its agent works once, and
// Last-Event-ID skips what the caller has. The key with another body is refused.
func TestAgentCallsRejoined(t *testing.T) {
	t.Parallel()
	first, second, third, other, worked := make(chan called, 1), make(chan called, 1), make(chan called, 1), make(chan called, 1), make(chan struct{}, 4)
	c := newCallEnv(t, map[string]agentScript{
		"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			key := `,"idempotency_key":"k"`
			whole := c.call(ctx, call, "helper", "do it", key)
			first <- whole
			third <- c.callAfter(ctx, call, "helper", "do it", whole.frames[1].id, key)
			second <- c.call(ctx, call, "helper", "do it", key)
			other <- c.call(ctx, call, "helper", "do another", key)
			says(say, "done")
		},
		"helper": func(_ *callEnv, _ context.Context, say func(...bridge.Output), _ bridge.Call, _ []approval.Delivery) {
			worked <- struct{}{}
			says(say, "one")
			says(say, "two")
		},
	}, plan{})
	c.chat("t", "r", "go")
	a, b, rest, no := <-first, <-second, <-third, <-other
	if fmt.Sprint(a.frames[2:]) != fmt.Sprint(rest.frames) {
		t.Errorf("after %s:\n%v\n%v", a.frames[1].id, a.frames[2:], rest.frames)
	}
	if a.text() != "onetwo" || fmt.Sprint(a.frames) != fmt.Sprint(b.frames) {
		t.Errorf("the second response differs:\n%v\n%v", a.frames, b.frames)
	}
	if len(worked) != 1 {
		t.Errorf("the agent worked %d times", len(worked))
	}
	if no.status != 409 && no.status != 422 {
		t.Errorf("another body under the key is answered by %d %s", no.status, no.body)
	}
	if is := c.tree("r").String(); is != "scripted DONE [helper DONE]" {
		t.Errorf("the tree is %s", is)
	}
}

// TestAgentCallsDeleted: a thread that is deleted takes the Sessions of the agents that its agent called with it.
func TestAgentCallsDeleted(t *testing.T) {
	t.Parallel()
	children := make(chan string, 1)
	c := newCallEnv(t, map[string]agentScript{
		"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			says(say, c.call(ctx, call, "helper", "do it").text())
		},
		"helper": func(c *callEnv, _ context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			turn, err := c.store.Turn(context.Background(), store.System(), call.TurnID)
			if err == nil {
				children <- turn.SessionID
			}
			says(say, "done")
		},
	}, plan{})
	c.chat("t", "r", "go")
	child := <-children
	c.settled("r", "scripted DONE [helper DONE]")
	if got := c.do("DELETE", "/api/threads/t", ""); got.status/100 != 2 {
		t.Fatal(got.status, got.body)
	}
	var err error
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err = c.store.Session(t.Context(), scope(), child); errors.Is(err, store.ErrNotFound) {
			return
		}
	}
	t.Errorf("the child is still there: %v", err)
}
