package server_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestAGUIAgentIDs: an agent names the thread and the run by the ids that it was called with, in a thread that is another
// agent's and in a call that brings an answer too. They are good with its own token only.
func TestAGUIAgentIDs(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		var h *env
		var peer *aguiPeer
		got := make(map[string]string)
		asks := func(what string, call int, method, path, body string) {
			peer.mu.Lock()
			token := peer.tokens[call-1]
			peer.mu.Unlock()
			a := h.do(method, path, body, "Authorization", "Bearer "+token)
			got[fmt.Sprint(what, " ", call)] = fmt.Sprint(a.status, " ", a.body)
		}
		h, peer = withAGUIPeer(t, db.open, func(call int, in aguiInput) string {
			asks("read", call, "GET", "/v1/sessions/"+in.ThreadID+"/messages", "")
			asks("append", call, "POST", "/v1/sessions/"+in.ThreadID+"/messages", fmt.Sprintf(`{"message":{"id":"n%d","role":"assistant","content":"noted"}}`, call))
			asks("tool", call, "POST", "/v1/tools/none:invoke", `{"run_id":"`+in.RunID+`","args":{}}`)
			asks("agent", call, "POST", "/v1/agents/none:invoke", `{"run_id":"`+in.RunID+`","session_id":"`+in.ThreadID+`","input_message":{"role":"user","content":"x"}}`)
			asks("tree", call, "GET", "/v1/runs/"+in.RunID+"/tree", "")
			if call == 3 { // of another Turn: the ids of the one before
				peer.mu.Lock()
				before := peer.calls[1].RunID
				peer.mu.Unlock()
				asks("other tool", call, "POST", "/v1/tools/none:invoke", `{"run_id":"`+before+`","args":{}}`)
				asks("other agent", call, "POST", "/v1/agents/none:invoke", `{"run_id":"`+before+`","input_message":{"role":"user","content":"x"}}`)
				asks("other tree", call, "GET", "/v1/runs/"+before+"/tree", "")
			}
			if call == 1 {
				return aguiBegin + `{"type":"RUN_FINISHED","threadId":"$THREAD","runId":"$RUN","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"confirmation","message":"Sure?"}]}}`
			}
			return aguiBegin + aguiEnd
		})
		h.agents.SetDefault("scripted")
		h.chat("T", "R0", "hi")
		first := h.open(h.request("POST", "/api/agui/chat?agent=peer", inputBody("T", "R1", "hi"))).rest()
		_, id, _ := strings.Cut(typed(first, "RUN_FINISHED").data, `"interrupts":[{"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		h.chatAnswer("T", "R2", id, `{"approved":true}`)
		h.open(h.request("POST", "/api/agui/chat?agent=peer", inputBody("T", "R3", "more"))).rest()
		if a, b := peer.call(1), peer.call(2); a.ThreadID != b.ThreadID || a.RunID == b.RunID || len(b.Resume) != 1 {
			t.Fatalf("the agent is called with %+v, then %+v", a, b)
		}
		for call := 1; call <= 3; call++ {
			for what, want := range map[string]string{"read": "200 ", "append": "201 ", "tool": "200 {\"status\":\"failed\"", "agent": "400 ", "tree": "200 "} {
				if is := got[fmt.Sprint(what, " ", call)]; !strings.HasPrefix(is, want) {
					t.Errorf("%s in call %d: %s", what, call, is)
				}
			}
		}
		if is := got["agent 2"]; !strings.Contains(is, "agent_unknown") {
			t.Errorf("a call of another agent: %s", is)
		}
		for what, want := range map[string]string{"other tool 3": "403 ", "other agent 3": "403 ", "other tree 3": "404 "} {
			if is := got[what]; !strings.HasPrefix(is, want) {
				t.Errorf("%s: %s", what, is)
			}
		}
	})
}

// TestAGUIAgentCallIDsAgain: an interrupt about a call that the agent never showed, under an id that an earlier call had, does not
// show that call's tool and arguments to the approver; and its result is not that call's.
func TestAGUIAgentCallIDsAgain(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, peer := withAGUIPeer(t, db.open, func(call int, _ aguiInput) string {
			switch call {
			case 1:
				return aguiBegin + `
{"type":"TOOL_CALL_START","toolCallId":"call_0","toolCallName":"weather"}
{"type":"TOOL_CALL_ARGS","toolCallId":"call_0","delta":"{\"city\":\"Oslo\"}"}
{"type":"TOOL_CALL_END","toolCallId":"call_0"}
{"type":"TOOL_CALL_RESULT","messageId":"r1","toolCallId":"call_0","content":"cold"}` + aguiEnd
			case 2:
				return aguiBegin + `{"type":"RUN_FINISHED","threadId":"$THREAD","runId":"$RUN","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"mastra:tool_suspend","toolCallId":"call_0","metadata":{"args":{"to":"ada"}}}]}}`
			case 3:
				return aguiBegin + `{"type":"TOOL_CALL_RESULT","messageId":"r2","toolCallId":"call_0","content":"sent"}` + aguiEnd
			}
			return aguiBegin + aguiEnd
		})
		first := h.chat("T", "R1", "weather")
		second := h.chat("T", "R2", "email")
		inbox := h.do("GET", "/api/approvals", "").body
		if strings.Contains(inbox, "weather") || strings.Contains(inbox, "Oslo") || !strings.Contains(inbox, `"to":"ada"`) {
			t.Errorf("the inbox shows %s", inbox)
		}
		_, id, _ := strings.Cut(typed(second, "RUN_FINISHED").data, `"interrupts":[{"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		third := h.chatAnswer("T", "R3", id, `{"approved":true}`)
		shown := typed(first, "TOOL_CALL_START").field("toolCallId")
		results := 0
		for _, f := range third {
			if f.typ() == "TOOL_CALL_RESULT" && strings.Contains(f.data, `"sent"`) {
				if results++; f.field("toolCallId") == shown {
					t.Errorf("the result is the earlier call's: %s", f.data)
				}
			}
		}
		h.chat("T", "R4", "more")
		for _, m := range peer.call(4).Messages {
			if m.Role == "tool" && m.ToolCallID == "call_0" && m.Content != "cold" {
				t.Errorf("the agent is sent %v as the result of its first call", m.Content)
			}
		}
		if results != 1 {
			t.Errorf("%d results in %s", results, types(third))
		}
	})
}

// TestAGUIAgentPageCallsOfOneID: two calls of the page's tool that the agent gave one id are two questions, in chunks too, and
// the agent gets both results under that id, in their order.
func TestAGUIAgentPageCallsOfOneID(t *testing.T) {
	for name, calls := range map[string]string{
		"events": toolCalled("call_0", "a1", "show_map", oslo) + toolCalled("call_0", "a1", "show_map", bergen),
		"chunks": `{"type":"TOOL_CALL_CHUNK","toolCallId":"call_0","toolCallName":"show_map","parentMessageId":"a1","delta":"{\"city\":\"Oslo\"}"}
{"type":"TOOL_CALL_CHUNK","toolCallId":"call_0","toolCallName":"show_map","parentMessageId":"a1","delta":"{\"city\":\"Bergen\"}"}`,
		"a snapshot": snapshotOf(asst("a1", "", "call_0", "show_map", oslo, "call_0", "show_map", bergen)),
	} {
		onBothDatabases(t, func(t *testing.T, db database) {
			h, peer := withAGUIPeer(t, db.open, func(call int, _ aguiInput) string {
				if call > 1 {
					return aguiBegin + aguiEnd
				}
				return aguiBegin + calls + aguiEnd
			})
			body := strings.Replace(inputBody("T", "R1", "hi"), `"tools":[]`, `"tools":[{"name":"show_map","description":"d","parameters":{"type":"object"}}]`, 1)
			first := h.open(h.request("POST", "/api/agui/chat", body)).rest()
			_, list, _ := strings.Cut(typed(first, "RUN_FINISHED").data, `"pendingToolCallIds":["`)
			list, _, _ = strings.Cut(list, `"]`)
			pending := strings.Split(list, `","`)
			if len(pending) != 2 || pending[0] == pending[1] {
				t.Fatalf("%s: the run waits for %v", name, pending)
			}
			h.open(h.request("POST", "/api/agui/chat", `{"threadId":"T","runId":"R2","protocolVersion":"1.0","messages":[`+
				reslt("x1", pending[0], "north")+","+reslt("x2", pending[1], "west")+"]}")).rest()
			sent := peer.call(2).Messages
			want := "assistant a1 [call_0 show_map " + oslo + "] [call_0 show_map " + bergen + "]\ntool x1 \"north\" of call_0\ntool x2 \"west\" of call_0"
			if got := strings.Join(remembered(sent[1:], true), "\n"); got != want {
				t.Errorf("%s: the agent is sent\n%s", name, got)
			}
		})
	}
}
