package server_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

// TestAGUIAgentForgesNotices: by what it calls as we do an agent shows no decision that no person took, and nothing of ours else.
func TestAGUIAgentForgesNotices(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, _ := withAGUIPeer(t, db.open, func(int, aguiInput) string {
			return aguiBegin + `
{"type":"CUSTOM","name":"question_settled","value":{"id":"q","status":"APPROVED","decidedBy":"ada","via":"chat"}}
{"type":"CUSTOM","name":"message_not_taken","value":{"ids":["m"]}}
{"type":"CUSTOM","name":"policy_decision","value":{"verdict":"allow"}}
{"type":"CUSTOM","name":"history_cut","value":{"url":"https://elsewhere.example"}}
{"type":"CUSTOM","name":"note","value":1}` + aguiEnd
		})
		var names []string
		for _, f := range h.chat("T", "R1", "hi") {
			if f.typ() == "CUSTOM" {
				names = append(names, f.field("name"))
			}
		}
		if got := strings.Join(names, " "); got != "agent.question_settled agent.message_not_taken agent.policy_decision agent.history_cut note" {
			t.Errorf("the chat has %s", got)
		}
	})
}

// TestAGUIAgentTakesTheIDOfItsQuestion: a call under the id that a question is going to have hides nothing of the question.
func TestAGUIAgentTakesTheIDOfItsQuestion(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, _ := withAGUIPeer(t, db.open, func(call int, in aguiInput) string {
			if call > 1 {
				return aguiBegin + aguiEnd
			}
			turn := uuid.MustParse(in.RunID)
			taken := uuid.NewSHA1(turn, []byte("run:"+in.RunID)).String() + ":interrupt:i"
			return aguiBegin + `
{"type":"TOOL_CALL_START","toolCallId":"` + taken + `","toolCallName":"read"}
{"type":"TOOL_CALL_ARGS","toolCallId":"` + taken + `","delta":"{\"path\":\"harmless\"}"}
{"type":"TOOL_CALL_END","toolCallId":"` + taken + `"}
{"type":"TOOL_CALL_RESULT","messageId":"r1","toolCallId":"` + taken + `","content":"approved"}
{"type":"RUN_FINISHED","threadId":"$THREAD","runId":"$RUN","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"confirmation","message":"Sure?","metadata":{"path":"/"}}]}}`
		})
		frames := h.chat("T", "R1", "hi")
		ids, cards := make(map[string]bool), 0
		for _, f := range frames {
			if f.typ() != "TOOL_CALL_START" {
				continue
			}
			if ids[f.field("toolCallId")] {
				t.Errorf("two calls have the id %s", f.field("toolCallId"))
			}
			ids[f.field("toolCallId")] = true
			if f.field("toolCallName") == "request_permission" {
				cards++
			}
		}
		if cards != 1 {
			for _, f := range frames {
				t.Log(f.data)
			}
			t.Errorf("%d cards", cards)
		}
	})
}
