package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// echoes sends the prompt under an id of its own, and waits for the gate where the prompt is "slow".
func echoes(gate <-chan struct{}) script {
	return func(ctx context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
		id, asked := "m-"+call.TurnID, call.Input().Content.String()
		say(event(&agui.TextMessageStart{MessageID: id, Role: agui.RoleAssistant}), event(&agui.TextMessageContent{MessageID: id, Delta: "re " + asked}))
		if asked == "slow" {
			select {
			case <-gate:
			case <-ctx.Done():
			}
		}
		say(event(&agui.TextMessageEnd{MessageID: id}))
	}
}

// given is what the agent's newest call was given.
func (h *env) given() string {
	var texts []string
	for _, m := range h.agent.last().Messages {
		texts = append(texts, m.Content.String())
	}
	return strings.Join(texts, " | ")
}

// messages is a thread's history in words.
func (h *env) messages(path string) string {
	h.t.Helper()
	got := h.do("GET", path, "")
	var rows []struct{ Content string }
	if err := json.Unmarshal([]byte(got.body), &rows); err != nil || got.status != http.StatusOK {
		h.t.Fatalf("%s: HTTP %d %s", path, got.status, got.body)
	}
	var texts []string
	for _, m := range rows {
		texts = append(texts, m.Content)
	}
	return strings.Join(texts, " | ")
}

func (h *env) is(got, want string) {
	h.t.Helper()
	if got != want {
		h.t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// TestStopAndAskAtOnce: the connection is closed, as every client's Stop does, and the next message is sent without
// waiting for anything.
func TestStopAndAskAtOnce(t *testing.T) {
	t.Parallel()
	h := newEnv(t, echoes(nil))
	for i := range 40 {
		thread := fmt.Sprint("T", i)
		r := h.open(h.prompt(thread, thread+"R1", "slow"))
		if _, err := r.until(func(f frame) bool { return f.typ() == "TEXT_MESSAGE_CONTENT" }); err != nil {
			t.Fatal(err)
		}
		go r.close()
		rest := h.open(h.prompt(thread, thread+"R2", "two")).rest()
		h.is(text(rest), "re two")
		h.is(fields(t, h.do("GET", "/api/runs/"+thread+"R1", ""))["status"].(string), "CANCELLED")
		h.is(h.messages("/api/threads/"+thread+"/messages"), "slow | re slow | two | re two")
	}
}

// TestBusyQuery: while the thread answers, a message is refused, or waits where it asks for that.
func TestBusyQuery(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	h := newEnvWith(t, echoes(gate), plan{bridge: bridge.Limits{BusyWait: time.Millisecond}})
	r := h.open(h.prompt("T", "R1", "slow"))
	if _, err := r.until(func(f frame) bool { return f.typ() == "TEXT_MESSAGE_CONTENT" }); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"": http.StatusConflict, "?on_busy=refuse": http.StatusConflict, "?on_busy=maybe": http.StatusBadRequest} {
		if got := h.do("POST", "/api/agui/chat"+path, inputBody("T", "no", "two")); got.status != want {
			t.Errorf("%s: HTTP %d %s", path, got.status, got.body)
		}
	}
	next := h.open(h.request("POST", "/api/agui/chat?on_busy=queue", inputBody("T", "R2", "two")))
	close(gate)
	h.is(text(r.rest()), "")
	h.is(text(next.rest()), "re two")
	h.is(h.given(), "slow | re slow | two")
}

// TestBranchRoutes: an edit, and what the routes say of both branches.
func TestBranchRoutes(t *testing.T) {
	t.Parallel()
	h := newEnv(t, echoes(nil))
	h.open(h.prompt("T", "R1", "one")).rest()
	h.open(h.prompt("T", "R2", "two")).rest()
	edited := strings.Replace(inputBody("T", "R3", "other"), `"messages":[`, `"messages":[{"id":"u-R1","role":"user","content":"one"},{"id":"m-`+
		h.agent.prompts()[0].TurnID+`","role":"assistant","content":"re one"},`, 1)
	rest := h.open(h.request("POST", "/api/agui/chat", edited)).rest()
	h.is(h.given(), "one | re one | other")
	h.is(typed(rest, "RUN_STARTED").field("parentRunId"), "R1")
	h.is(fields(t, h.do("GET", "/api/runs/R3", ""))["parentRunId"].(string), "R1")
	h.is(h.messages("/api/threads/T/messages"), "one | re one | other | re other")
	h.is(h.messages("/api/threads/T/messages?run=R2"), "one | re one | two | re two")
	h.is(h.messages("/api/threads/T/messages?limit=1&run=R2"), "re two")
	h.is(h.messages("/api/threads/T/messages?run=R3"), "one | re one | other | re other")
	for run, want := range map[string]int{"nothing": http.StatusNotFound, "a%0Ab": http.StatusBadRequest} {
		if got := h.do("GET", "/api/threads/T/messages?run="+run, ""); got.status != want {
			t.Errorf("run=%s: HTTP %d %s", run, got.status, got.body)
		}
	}
	h.open(h.prompt("other", "R9", "hi")).rest()
	if got := h.do("GET", "/api/threads/T/messages?run=R9", ""); got.status != http.StatusNotFound {
		t.Errorf("a Run of another thread: HTTP %d %s", got.status, got.body)
	}
}

// TestTDesignRegenerates: the page sends what it sent, with nothing to distinguish it from a new prompt.
func TestTDesignRegenerates(t *testing.T) {
	t.Parallel()
	h := newEnv(t, echoes(nil))
	b := &browser{h: h}
	first := b.post(`{"uid":"agent_uid","prompt":"one"}`)
	b.post(`{"uid":"agent_uid","prompt":"ok","messageID":"msg_1"}`)
	h.is(text(b.post(`{"uid":"agent_uid","prompt":"ok","messageID":"msg_2"}`)), "re ok")
	h.is(h.given(), "one | re one | ok")
	h.is(h.messages("/api/threads/"+thread(first)+"/messages"), "one | re one | ok | re ok")
	b.post(`{"uid":"agent_uid","prompt":"ok","regenerate":false}`)
	h.is(h.given(), "one | re one | ok | re ok | ok")
	b.post(`{"threadId":"T2","runId":"r1","state":{},"messages":[{"id":"msg_3","role":"user","content":"ok"}],"tools":[],"context":[],"forwardedProps":{}}`)
	b.post(`{"threadId":"T2","runId":"r2","state":{},"messages":[{"id":"msg_4","role":"user","content":"ok"}],"tools":[],"context":[],"forwardedProps":{}}`)
	h.is(h.given(), "ok")
}

// TestAnotherPictureIsAnotherMessage: the same words beside another picture are no repeat, whether the picture is kept in
// the message or beside it.
func TestAnotherPictureIsAnotherMessage(t *testing.T) {
	t.Parallel()
	h := newEnv(t, echoes(nil))
	for _, size := range []int{1 << 10, 100 << 10} {
		thread := fmt.Sprint("T", size)
		say := func(run, query, message string) {
			body := fmt.Sprintf(`{"threadId":%q,"runId":%q,"messages":[%s]}`, thread, thread+run, message)
			h.open(h.request("POST", "/api/agui/chat"+query, body)).rest()
		}
		say("R1", "?dialect=tdesign", pictureMessage("u1", picture(1, size)))
		say("R2", "?dialect=tdesign", pictureMessage("u2", picture(2, size)))
		h.is(h.given(), "see | re see | see")
		say("R3", "", pictureMessage("u3", picture(3, size)))
		first := h.agent.last().TurnID
		say("R4", "", pictureMessage("u3", picture(4, size)))
		call := h.agent.last()
		data, ok := call.Messages[len(call.Messages)-1].Content.Parts[1].Data()
		if call.TurnID == first || !ok || !bytes.Equal(data, picture(4, size)) {
			t.Errorf("%d: an edit that changes a picture is answered with the old one", size)
		}
		h.is(h.given(), "see | re see | see | re see | see")
	}
}
