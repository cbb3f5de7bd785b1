package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestInstructionsOfAnyBody: messages of the system and the developer reach an agent that speaks AG-UI with the Turn of the body
// that has them: of a prompt in a thread that exists, in their places, and of an answer. So do a call of the page's own and
// the forwardedProps of an answer, but for an answer in them.
func TestInstructionsOfAnyBody(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, peer := withAGUIPeer(t, db.open, func(call int, in aguiInput) string {
			text := aguiBegin + fmt.Sprintf(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m%d","role":"assistant","delta":"answer %d"}`, call, call)
			if len(in.Resume) == 0 && lastUser(in.Messages) == "ask" {
				return text + "\n" + `{"type":"RUN_FINISHED","threadId":"$THREAD","runId":"$RUN","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"tool_call","message":"May I?"}]}}`
			}
			return text + aguiEnd
		})
		c := conversation{env: h}
		h.chat("T", "R1", "hi")
		seen := c.seen("T")
		body := act("T", "R2", nil, `{"first":1}`, `{}`)
		list := fmt.Sprintf(`[{"id":"s1","role":"system","content":"one"},%s,{"id":"d1","role":"developer","content":"two"},%s,{"id":"s2","role":"system","content":"three"},{"id":"u2","role":"user","content":"ask"},{"id":"s3","role":"system","content":"four"}]`, seen[0], seen[1])
		first := h.do("POST", "/api/agui/chat", strings.Replace(body, `"messages":[]`, `"messages":`+list, 1))
		want := "system one client\nuser hi\ndeveloper two client\nassistant answer 1\nsystem three client\nuser ask\nsystem four client"
		if got := roles(peer.call(2).Messages); got != want {
			t.Errorf("the agent is sent\n%s", got)
		}
		id := typed(stream(t, first.body), "RUN_FINISHED").data
		_, id, _ = strings.Cut(id, `"interrupts":[{"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		// An answer that gives nothing else keeps what the Turn has; one that gives something gives that.
		seen = c.seen("T")
		answer := fmt.Sprintf(`{"threadId":"T","runId":"R3","protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{"second":2,"command":{"resume":"no"}},"messages":[%s,
{"id":"p1","role":"assistant","content":"","toolCalls":[{"id":"pc","type":"function","function":{"name":"log_a2ui_event","arguments":"{}"}}]},{"id":"p2","role":"tool","toolCallId":"pc","content":"pressed"},
{"id":"s5","role":"system","content":"five"}],"resume":[{"interruptId":%q,"status":"resolved","payload":{"approved":true}}]}`, seen[0], id)
		got := h.do("POST", "/api/agui/chat", answer)
		if strings.Contains(got.body, "question_unknown") {
			t.Errorf("the client is warned: %s", got.body)
		}
		sent := roles(peer.call(3).Messages)
		if strings.Contains(sent, "system one") || !strings.Contains(sent, "system five client") || !strings.Contains(sent, "tool pressed pc client") {
			t.Errorf("the agent is answered with\n%s", sent)
		}
		if props := peer.bodies[2]; !strings.Contains(props, `"second":2`) || strings.Contains(props, `"resume":"no"`) {
			t.Errorf("the agent is answered with %s", props)
		}
		if kept := roles(transcriptOf(t, h, "T")); strings.Contains(kept, "system") || strings.Contains(kept, "pressed") {
			t.Errorf("the thread is\n%s", kept)
		}
	})
}

// TestAnAnswerKeepsTheTurnsInstructions: an answer that has none of its own leaves the agent those of the prompt.
func TestAnAnswerKeepsTheTurnsInstructions(t *testing.T) {
	h, peer := withAGUIPeer(t, nil, func(_ int, in aguiInput) string {
		if len(in.Resume) == 0 {
			return aguiBegin + `{"type":"RUN_FINISHED","threadId":"$THREAD","runId":"$RUN","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"tool_call","message":"May I?"}]}}`
		}
		return aguiBegin + aguiEnd
	})
	body := strings.Replace(inputBody("T", "R1", "ask"), `"messages":[`, `"messages":[{"id":"s1","role":"system","content":"one"},`, 1)
	h.do("POST", "/api/agui/chat", strings.Replace(body, `"forwardedProps":{}`, `"forwardedProps":{"first":1}`, 1))
	open := h.do("GET", "/api/approvals?status=PENDING", "").body
	_, id, _ := strings.Cut(open, `"approval_id":"`)
	id, _, _ = strings.Cut(id, `"`)
	if got := h.do("POST", "/api/approvals/"+id+"/decision", `{"approved":true}`); got.status != 200 {
		t.Fatal(got)
	}
	h.idle("T")
	if sent := peer.call(2); roles(sent.Messages) != "system one client\nuser ask" || !strings.Contains(peer.bodies[1], `"first":1`) {
		t.Errorf("the agent is answered with %s", peer.bodies[1])
	}
}

// TestActInANewThread: in a page with a greeting of its own a button begins a thread, with the greeting.
func TestActInANewThread(t *testing.T) {
	h, peer := withAGUIPeer(t, nil, func(int, aguiInput) string { return aguiBegin + aguiEnd })
	greeting := []json.RawMessage{json.RawMessage(`{"id":"greet","role":"assistant","content":"Ahoy!"}`)}
	first := h.do("POST", "/api/agui/chat", act("G", "R0", greeting, `{"go":1}`, `{}`))
	if first.status != 200 || len(peer.calls) != 1 {
		t.Fatalf("%d %s", first.status, first.body)
	}
	if sent := roles(peer.call(1).Messages); sent != "assistant Ahoy! client" {
		t.Errorf("the agent is sent\n%s", sent)
	}
	if title := h.do("GET", "/api/threads/G", "").body; !strings.Contains(title, `"title":"Ahoy!"`) {
		t.Errorf("the thread is %s", title)
	}
}

// TestOnlyWritersAct: where a thread is shared to be read, a body that would begin a Turn joins; where it is shared to write,
// it begins one.
func TestOnlyWritersAct(t *testing.T) {
	for rights, want := range map[string]int{`"read"`: 0, `"read","write"`: 1} {
		h := newSharing(t)
		h.share(`{"user":"bob","rights":[` + rights + `]}`)
		if got := h.by("ann", "POST", "/api/approvals/"+h.openAsk+"/decision", `{"approved":true}`); got.status != 200 {
			t.Fatal(got)
		}
		h.idle(h.thread)
		var all []json.RawMessage
		if err := json.Unmarshal([]byte(h.by("bob", "GET", "/api/threads/"+h.session+"/messages?format=agui", "").body), &all); err != nil {
			t.Fatal(err)
		}
		before := len(h.agent.prompts())
		got := h.by("bob", "POST", "/api/agui/chat", act(h.session, "B1", all, `{"go":1}`, `{"mine":1}`))
		if begun := len(h.agent.prompts()) - before; got.status != 200 || begun != want {
			t.Errorf("%s: the agent was called %d times: %d %s", rights, begun, got.status, got.body)
		}
	}
}

// TestActBehindAThought: an agent may answer with a thought and nothing else. A button pressed then, by a client that has the thought,
// begins a Turn. One that says nothing, or ends before the newest answer, is a join.
func TestActBehindAThought(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, peer := withAGUIPeer(t, db.open, func(call int, _ aguiInput) string {
			if call == 1 {
				return aguiBegin + thought("r1", "hm") + aguiEnd
			}
			return aguiBegin + wrote("m2", "pressed") + aguiEnd
		})
		id := typed(h.chat("T", "R1", "hi"), "REASONING_MESSAGE_START").field("messageId")
		seen := []json.RawMessage{json.RawMessage(`{"id":"u-R1","role":"user","content":"hi"}`), json.RawMessage(fmt.Sprintf(`{"id":%q,"role":"reasoning","content":"hm"}`, id))}
		if got := h.do("POST", "/api/agui/chat", act("T", "A1", seen, `{}`, `{}`)); peer.times() != 1 {
			t.Errorf("a body that says nothing calls the agent: %s", got.body)
		}
		if got := h.do("POST", "/api/agui/chat", act("T", "A2", seen, `{"action":1}`, `{}`)); peer.times() != 2 || !strings.Contains(got.body, "pressed") {
			t.Errorf("the button called the agent %d times: %s", peer.times()-1, got.body)
		}
		if got := h.do("POST", "/api/agui/chat", act("T", "A3", seen, `{"action":1}`, `{}`)); peer.times() != 2 {
			t.Errorf("the button of a page that has not seen the answer calls the agent: %s", got.body)
		}
	})
}
