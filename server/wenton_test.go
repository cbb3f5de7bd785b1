package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
)

// pageCall is a script whose run ends with a call of the page's tool.
const pageCall = `{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"show_map"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"lat\":52}"}
{"type":"TOOL_CALL_END","toolCallId":"c1"}`

// withPageCall is a server whose agent calls the page's tool first, and then answers with the texts of what it was sent.
func withPageCall(t *testing.T, p plan) (*env, *aguiPeer, func(thread, run, text string) []frame) {
	h, peer := withAGUIPeerIn(t, p, func(call int, _ aguiInput) string {
		if call > 1 {
			return aguiBegin + `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m` + fmt.Sprint(call) + `","delta":"answer ` + fmt.Sprint(call) + `"}` + aguiEnd
		}
		return aguiBegin + pageCall + aguiEnd
	})
	return h, peer, func(thread, run, text string) []frame {
		body := strings.Replace(inputBody(thread, run, text), `"tools":[]`, `"tools":[{"name":"show_map","description":"d","parameters":{"type":"object"}}]`, 1)
		return h.open(h.request("POST", "/api/agui/chat", body)).rest()
	}
}

// TestMessageGoesOnWithoutThePagesTool: a page's tool without an answer does not lock the thread. The next message settles the call
// and is the next prompt; the agent is sent the call with a result, and then the message. A result that comes later changes nothing.
func TestMessageGoesOnWithoutThePagesTool(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, peer, say := withPageCall(t, plan{open: db.open})
		first := say("T", "R1", "hi")
		id := typed(first, "TOOL_CALL_START").field("toolCallId")
		second := say("T", "R2", "never mind")
		if got := joined(second); !strings.Contains(got, "answer 2") || last(second).field("runId") != "R2" {
			t.Fatalf("the message leads to %s", got)
		}
		var got []string
		for _, m := range peer.call(2).Messages {
			got = append(got, fmt.Sprintf("%s %d %s %v", m.Role, len(m.ToolCalls), m.ToolCallID, m.Content))
		}
		want := []string{"user 0  hi", "assistant 1  ", `tool 0 c1 {"message":"The user went on without an answer.","status":"user_went_on"}`, "user 0  never mind"}
		if strings.ReplaceAll(strings.Join(got, "|"), "<nil>", "") != strings.Join(want, "|") || len(peer.call(2).Resume) != 0 {
			t.Errorf("the agent is sent %s\nwant %s", strings.Join(got, "|"), strings.Join(want, "|"))
		}
		late := h.chatAnswer("T", "R3", id, `{"shown":true}`)
		if peer.times() != 2 || !strings.Contains(joined(late), "question_settled") {
			t.Errorf("a late result leads to %v", late)
		}
		if history := h.do("GET", "/api/threads/T/messages", "").body; strings.Index(history, "user_went_on") > strings.Index(history, "never mind") {
			t.Errorf("the history has %s", history)
		}
	})
}

// TestLateAnswersCount: tools of a page and inputs do not expire by themselves, however short the server's span is; permissions do.
func TestLateAnswersCount(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, peer, say := withPageCall(t, plan{open: db.open, bridge: bridge.Limits{ApprovalTTL: 50 * time.Millisecond}})
		id := typed(say("T", "R1", "hi"), "TOOL_CALL_START").field("toolCallId")
		// A permission that another server asked later has expired.
		other, _ := withAGUIPeerIn(t, plan{bridge: bridge.Limits{ApprovalTTL: 50 * time.Millisecond}}, func(int, aguiInput) string {
			return aguiBegin + interrupting("", `{"id":"i1","reason":"confirmation","message":"Sure?"}`)
		})
		other.chat("P", "P1", "hi")
		eventually(t, func() error {
			if n := len(other.inbox("EXPIRED")); n == 0 {
				return fmt.Errorf("%d have expired", n)
			}
			return nil
		})
		if got := joined(h.chatAnswer("T", "R2", id, `{"shown":true}`)); !strings.Contains(got, "answer 2") {
			t.Errorf("the late result leads to %s", got)
		}
		if m := peer.call(2).Messages; m[len(m)-1].Content != `{"shown":true}` {
			t.Errorf("the agent is sent %+v", m)
		}
	})
}

// TestInputNeverLocksItsThread: a message that meets an input is refused with the way out, and that works: Stop settles the input as
// cancelled, and the message is taken when it is sent again.
func TestInputNeverLocksItsThread(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, peer := withInterrupt(t, db, "", `{"id":"i1","reason":"human","message":"Your name?"}`)
		h.chat("T", "R1", "hi")
		refused := h.chat("T", "R2", "wait")
		var note struct {
			Value struct {
				IDs             []string
				Message, Cancel string
			}
		}
		for _, f := range refused {
			if f.field("name") == "message_not_taken" {
				_ = json.Unmarshal([]byte(f.data), &note)
			}
		}
		if !strings.HasSuffix(note.Value.Cancel, "/cancel") || !strings.Contains(note.Value.Message, note.Value.Cancel) || len(note.Value.IDs) != 1 {
			t.Fatalf("the refusal is %+v", note)
		}
		if got := h.do("POST", note.Value.Cancel, "{}"); got.status != 200 && got.status != 202 {
			t.Fatal(got.body)
		}
		h.lastRunIs("cancelled")
		if q := h.inbox(""); len(q) != 1 || q[0].Status != "CANCELLED" {
			t.Errorf("the input is %+v", q)
		}
		if got := joined(h.chat("T", "R3", "again")); !strings.Contains(got, "went on") || len(peer.call(2).Resume) != 0 {
			t.Errorf("the message leads to %s", got)
		}
	})
}

// TestMessageAnswersATextInput: on a TDesign page that has no component for the card, the next message is the answer to a question
// that takes any text, and the page gets a sentence about it; a permission, a form, and a page with the component still ask.
func TestMessageAnswersATextInput(t *testing.T) {
	for name, c := range map[string]struct {
		interrupt, body string
		taken           bool
	}{
		"any text":       {`{"id":"i1","reason":"human","message":"Your name?"}`, `{"threadId":"T","prompt":"42"}`, true},
		"a text schema":  {`{"id":"i1","reason":"human","message":"Your name?","responseSchema":{"type":"string"}}`, `{"threadId":"T","prompt":"42"}`, true},
		"choices":        {`{"id":"i1","reason":"human","message":"Your name?","responseSchema":{"type":"string","enum":["a"]}}`, `{"threadId":"T","prompt":"42"}`, false},
		"a form":         {`{"id":"i1","reason":"human","message":"Your name?","responseSchema":{"type":"object","properties":{"n":{}}}}`, `{"threadId":"T","prompt":"42"}`, false},
		"a permission":   {`{"id":"i1","reason":"confirmation","message":"Sure?"}`, `{"threadId":"T","prompt":"42"}`, false},
		"with component": {`{"id":"i1","reason":"human","message":"Your name?"}`, `{"threadId":"T","runId":"R2","messages":[{"id":"u2","role":"user","content":"42"}],"tools":[{"name":"request_input","description":"d"}]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				h, peer := withInterrupt(t, db, "", c.interrupt)
				h.open(h.request("POST", "/api/agui/chat", `{"threadId":"T","prompt":"hi"}`)).rest()
				said := joined(h.open(h.request("POST", "/api/agui/chat?dialect=tdesign", c.body)).rest())
				if taken := len(h.inbox("PENDING")) == 0; taken != c.taken {
					t.Fatalf("taken: %t\n%s", taken, said)
				}
				if !c.taken {
					if !strings.Contains(said, "answer the question first") || !strings.Contains(said, "/cancel") {
						t.Errorf("the page gets %s", said)
					}
					return
				}
				if !strings.Contains(said, "Your message is the answer to “Your name?”") || !strings.Contains(said, "went on") || strings.Index(said, "Your message is") > strings.Index(said, "went on") {
					t.Errorf("the page gets %s", said)
				}
				if two := peer.call(2); len(two.Resume) != 1 || string(two.Resume[0].Payload) != `"42"` || two.Messages[len(two.Messages)-1].Content == "42" {
					t.Errorf("the agent gets %+v", two)
				}
			})
		})
	}
}
