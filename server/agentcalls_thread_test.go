package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// childOf is the Session of the one agent that was called below a Turn.
func (c *callEnv) childOf(root string) store.Session {
	c.t.Helper()
	children, err := c.store.ChildTurns(c.t.Context(), store.System(), root)
	if err != nil || len(children) != 1 {
		c.t.Fatal(len(children), err)
	}
	child, err := c.store.Session(c.t.Context(), store.System(), children[0].SessionID)
	if err != nil {
		c.t.Fatal(err)
	}
	return child
}

// summed is a server whose root has called an agent that writes one thing, appends a summary within its own thread, and writes
// another. got is what the caller read.
func summed(t *testing.T, db database) (c *callEnv, got called) {
	t.Helper()
	read := make(chan called, 1)
	c = newCallEnv(t, map[string]agentScript{
		"scripted": func(c *callEnv, ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			answer := c.call(ctx, call, "helper", "work", `,"messages":[{"role":"user","content":"before"}]`)
			read <- answer
			says(say, "it said "+answer.text())
		},
		"helper": func(c *callEnv, _ context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			say(event(&agui.TextMessageStart{MessageID: "m", Role: agui.RoleAssistant}), event(&agui.TextMessageContent{MessageID: "m", Delta: "one,"}))
			if made := c.appends(call.SessionID, `{"id":"sum","role":"assistant","content":"SUMMARY"}`, bearerOf(call.RunToken)...); made.status != http.StatusCreated {
				c.t.Error(made)
			}
			say(event(&agui.TextMessageContent{MessageID: "m", Delta: "two"}), event(&agui.TextMessageEnd{MessageID: "m"}))
		},
	}, plan{open: db.open})
	c.chat("t", "r", "go")
	return c, <-read
}

// TestAgentCallsAppended: what a called agent appends in its own thread is in its log and transcript, and no part of the
// answer that its caller reads.
func TestAgentCallsAppended(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		c, got := summed(t, db)
		if got.text() != "one,two" || got.kinds() != "RUNNING delta done" {
			t.Errorf("the caller reads %q (%s)", got.text(), got.kinds())
		}
		child := c.childOf(c.agent.last().TurnID)
		if has := written(c.transcript(child.ID, "").Messages); has != "user:before user:work assistant:one, assistant:SUMMARY assistant:two" {
			t.Errorf("its transcript is %q", has)
		}
		if log := c.do("GET", "/v1/sessions/"+child.ID+"/events", "").body; !strings.Contains(log, "SUMMARY") {
			t.Errorf("its log has no summary: %s", log)
		}
	})
}

// TestAgentCallsThreadTakesNothing: the thread of a call takes nothing of a user that would begin a Turn or stand in its
// transcript, whatever form it has, and is read like any other.
func TestAgentCallsThreadTakesNothing(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, db database) {
		c, _ := summed(t, db)
		root := c.agent.last().TurnID
		child := c.childOf(root)
		before := c.transcript(child.ID, "")
		asked := before.Messages[1]
		chat := func(messages string) func() answer {
			body := fmt.Sprintf(`{"threadId":%q,"runId":%q,"protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[%s]}`, child.ExternalID, uuid.NewString(), messages)
			return func() answer { return c.do("POST", "/api/agui/chat", body) }
		}
		first := fmt.Sprintf(`{"id":%q,"role":"user","content":"before"}`, before.Messages[0].ID)
		for name, post := range map[string]func() answer{
			"a message":    chat(`{"id":"new","role":"user","content":"more"}`),
			"a regenerate": chat(first + fmt.Sprintf(`,{"id":%q,"role":"user","content":"work"}`, asked.ID)),
			"an edit":      chat(first + fmt.Sprintf(`,{"id":%q,"role":"user","content":"work harder"}`, asked.ID)),
			"a branch":     chat(first + `,{"id":"new","role":"user","content":"other work"}`),
			"a TDesign page's repeat": func() answer {
				return c.do("POST", "/api/agui/chat", fmt.Sprintf(`{"threadId":%q,"prompt":"work"}`, child.ExternalID), "Cache-Control", "no-cache")
			},
			"an append": func() answer { return c.appends(child.ExternalID, `{"role":"user","content":"more"}`) },
			"a task": func() answer {
				return c.do("POST", "/v1/runs", fmt.Sprintf(`{"session_id":%q,"message":{"content":"more"}}`, child.ExternalID))
			},
		} {
			got := post() // a page of TDesign gets its refusals in a stream
			if got.status != http.StatusConflict && !strings.Contains(got.body, `"type":"RUN_ERROR"`) || !strings.Contains(got.body, `"child_thread"`) {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
		}
		if is := c.tree("r").String(); is != "scripted DONE [helper DONE]" {
			t.Errorf("the tree is %s", is)
		}
		if after := written(c.transcript(child.ID, "").Messages); after != written(before.Messages) {
			t.Errorf("the transcript is %q", after)
		}
		if joined := c.joined(child.ExternalID); joined != written(before.Messages) {
			t.Errorf("a join has %q", joined)
		}
	})
}

// TestAgentCallsForeignParts: an agent hands on the pictures of the thread in which it works, and none of the user's other threads,
// which it cannot read itself.
func TestAgentCallsForeignParts(t *testing.T) {
	t.Parallel()
	data := picture(1, 80<<10)
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	got := make(chan string, 1)
	c := newCallEnv(t, map[string]agentScript{
		"scripted": func(c *callEnv, ctx context.Context, _ func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			if call.ThreadID == "elsewhere" {
				return
			}
			for _, thread := range []string{"elsewhere", "own"} {
				part := fmt.Sprintf(`,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","value":"/api/threads/%s/parts/%s"}}]}]`, thread, sum)
				if answer := c.call(ctx, call, "helper", "look", part); answer.status != 200 {
					c.t.Error(thread, answer.status, answer.body)
				}
			}
		},
		"helper": func(_ *callEnv, _ context.Context, _ func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
			got <- call.Messages[0].Content.Parts[0].Source.Type
		},
	}, plan{})
	send := func(thread, run string) <-chan []frame {
		done := make(chan []frame, 1)
		part := fmt.Sprintf(`{"type":"image","source":{"type":"data","value":%q,"mimeType":"image/png"}}`, base64.StdEncoding.EncodeToString(data))
		answer := c.open(c.request("POST", "/api/agui/chat", withPart(thread, run, part)))
		go func() { done <- answer.rest() }()
		return done
	}
	<-send("elsewhere", "r1")
	over := send("own", "r2")
	for _, want := range []string{agui.SourceURL, agui.SourceData} {
		if is := <-got; is != want {
			t.Errorf("the called agent gets a picture as %s, not %s", is, want)
		}
	}
	<-over
}
