package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge"
	"aqueduct/bridge/notify"
)

// spelling is one way of answering a Question: what is sent, for its id.
type spelling struct {
	name string
	send func(h *env, id string) answer
	// edits changes the arguments to those of ash.
	edits bool
}

// chatPost posts an answer in the chat, as AG-UI clients do, or as pages of TDesign do.
func chatPost(body string, header ...string) func(h *env, id string) answer {
	return func(h *env, id string) answer {
		return h.do("POST", "/api/agui/chat", strings.NewReplacer("$ID", id).Replace(body), header...)
	}
}

func resumeWith(payload string) func(h *env, id string) answer {
	return chatPost(`{"threadId":"T","runId":"R2","protocolVersion":"1.0","messages":[],` +
		`"resume":[{"interruptId":"$ID","status":"resolved","payload":` + payload + `}]}`)
}

func toolMessage(content string) func(h *env, id string) answer {
	quoted, _ := json.Marshal(content)
	return chatPost(`{"threadId":"T","runId":"R2","messages":[` +
		`{"id":"a1","role":"assistant","toolCalls":[{"id":"$ID","type":"function","function":{"name":"request_permission","arguments":"{}"}}]},` +
		`{"id":"t1","role":"tool","toolCallId":"$ID","content":` + string(quoted) + `}]}`)
}

func cardAnswer(result string) func(h *env, id string) answer {
	quoted, _ := json.Marshal(result)
	return chatPost(`{"threadId":"T","toolCallMessage":{"toolCallId":"$ID","toolCallName":"request_permission","result":`+string(quoted)+`}}`,
		"Cache-Control", "no-cache")
}

func rest(body string) func(h *env, id string) answer {
	return func(h *env, id string) answer { return h.decide(id, body) }
}

func inBatch(body string) func(h *env, id string) answer {
	return func(h *env, id string) answer {
		return h.do("POST", "/api/approvals/decisions", `{"decisions":[`+with(body, "approval_id", id)+`]}`)
	}
}

// with adds a member to an object.
func with(object, name, value string) string {
	var members map[string]any
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		panic(err) // of a test's own writing
	}
	members[name] = value
	raw, _ := json.Marshal(members)
	return string(raw)
}

// onChannel answers on /ws/ingress, as soon as the Question arrives there.
func onChannel(h *env, id string) answer {
	ch := h.channel("")
	if q := last(ch.until("approval_required")); q.ApprovalID != id {
		h.t.Errorf("the channel hears of %s", q.raw)
	}
	ch.approve(id)
	return answer{status: 200}
}

// onPermissions answers on a permission socket of the Session, which shows what is open.
func onPermissions(path string) func(h *env, id string) answer {
	return func(h *env, id string) answer {
		page := h.permissions(path + "/T")
		if m := page.next("agent_tool_permission_request"); m.Data.ExecutionID != id {
			h.t.Errorf("the socket shows %s", m.raw)
		}
		page.respond(id, `"approved":true`)
		return answer{status: 200}
	}
}

// byWebhook answers with a signed message of a channel.
func byWebhook(decision string) func(h *env, id string) answer {
	return func(h *env, id string) answer {
		body := with(with(decision, "approval_id", id), "type", "approval_decision")
		body = with(with(body, "user_id", "local"), "request_id", uuid.NewString())
		got := h.do("POST", "/v1/ingress", body, "X-Aqueduct-Channel", "im", notify.HeaderSignature, notify.Sign(hookSecret, []byte(body), time.Now()))
		if got.status == 202 {
			got.status = 200
		}
		return got
	}
}

// byLink answers with a click on the page of a link.
func byLink(h *env, _ string) answer {
	path := h.link()
	_, nonce := h.visit(path)
	return h.click(path, nonce, "allow_once")
}

// approvals are the spellings of a yes.
var approvals = []spelling{
	{"tool message with optionId", toolMessage(`{"optionId":"allow_once"}`), false},
	{"tool message with approved", toolMessage(`{"approved":true}`), false},
	{"tool message, bare option", toolMessage(`allow_once`), false},
	{"tool message, ACP outcome", toolMessage(`{"outcome":{"outcome":"selected","optionId":"allow_once"}}`), false},
	{"resume with approved", resumeWith(`{"approved":true}`), false},
	{"resume with editedArgs", resumeWith(`{"approved":true,"editedArgs":{"wood":"ash"}}`), true},
	{"resume with optionId", resumeWith(`{"optionId":"allow_once"}`), false},
	{"resume, bare option", resumeWith(`"allow_once"`), false},
	{"resume, ACP outcome", resumeWith(`{"outcome":{"outcome":"selected","optionId":"allow_once"}}`), false},
	{"toolCallMessage with optionId", cardAnswer(`{"optionId":"allow_once"}`), false},
	{"toolCallMessage with its option of ours", func(h *env, id string) answer {
		return cardAnswer(`{"optionId":"`+pageOption(id, 0)+`"}`)(h, id)
	}, false},
	{"toolCallMessage with choice", cardAnswer(`{"choice":"allow_once"}`), false},
	{"toolCallMessage, bare option", cardAnswer(`allow_once`), false},
	{"toolCallMessage, ACP outcome", cardAnswer(`{"outcome":{"outcome":"selected","optionId":"allow_once"}}`), false},
	{"REST", rest(`{"decision":"approve"}`), false},
	{"REST with edited_args", rest(`{"decision":"approve","edited_args":{"wood":"ash"}}`), true},
	{"REST with editedArgs", rest(`{"approved":true,"editedArgs":{"wood":"ash"}}`), true},
	{"REST with option_id", rest(`{"option_id":"allow_once"}`), false},
	{"batch", inBatch(`{"decision":"approve"}`), false},
	{"ingress socket", onChannel, false},
	{"permission socket", onPermissions("/ws/permissions"), false},
	{"agent backend socket", onPermissions("/agent_backend/ws"), false},
	{"webhook", byWebhook(`{"decision":"approve"}`), false},
	{"link", byLink, false},
}

// asked are the surfaces a prompt that leads to a Question is sent on.
var asked = map[string]func(h *env){
	"AG-UI": func(h *env) { h.chat("T", "R", "go") },
	"TDesign": func(h *env) {
		h.open(h.request("POST", "/api/agui/chat", `{"threadId":"T","prompt":"go"}`, "Cache-Control", "no-cache")).rest()
	},
	"ingress": func(h *env) {
		ch := h.channel("")
		ch.invoke("r1", "T", "go")
		ch.until("approval_required")
	},
}

// TestToolSpellings: wherever a tool call's Question is asked, each spelling of each surface
// settles it; the agent, which waits all the time, gets the
// result, and the chat goes on, watched or not.
func TestToolSpellings(t *testing.T) {
	t.Parallel()
	for surface, ask := range asked {
		for i, s := range approvals {
			watched := i%2 == 0
			t.Run(fmt.Sprint(surface, "/", s.name), func(t *testing.T) {
				t.Parallel()
				w := newToolEnv(t, highRisk, waiting)
				ask(w.env)
				id := w.question()
				var tail *reader
				if watched {
					tail = w.open(w.request("GET", "/api/threads/T/events?after=1", "", "Accept", "text/event-stream"))
					defer tail.close()
				}
				if got := s.send(w.env, id); got.status != 200 || strings.Contains(got.body, `"question_open"`) {
					t.Fatal(got.status, got.body)
				}
				want := `succeeded {"cut":{"wood":"oak"}}`
				if s.edits {
					want = `succeeded {"cut":{"wood":"ash"}}`
				}
				select {
				case said := <-w.said:
					if said != want {
						t.Errorf("the agent heard %s", said)
					}
				case <-time.After(socketPatience):
					t.Fatal("the agent still waits")
				}
				w.idle("T")
				if n := w.ran.Load(); n != 1 {
					t.Errorf("it ran %d times", n)
				}
				if all := joined(w.open(w.request("POST", "/api/agui/connect", `{"threadId":"T","protocolVersion":"1.0"}`)).rest()); !strings.Contains(all, "succeeded") {
					t.Errorf("the chat did not go on: %s", all)
				}
				if tail != nil {
					if _, err := tail.until(func(f frame) bool { return strings.Contains(f.field("delta"), "succeeded") }); err != nil {
						t.Errorf("who watched saw nothing: %v", err)
					}
				}
				again := w.decide(id, `{"decision":"reject"}`)
				if again.status != 409 || !strings.Contains(again.body, "APPROVED") {
					t.Errorf("who comes too late hears %d %s", again.status, again.body)
				}
			})
		}
	}
}

// waiting is an agent that has its tool run and waits for it.
func waiting(w *toolEnv, c bridge.Call) string {
	return brief(w.settled(c, w.invoke(c, "cut", `{"wood":"oak"}`)))
}
