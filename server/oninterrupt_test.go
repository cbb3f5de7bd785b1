package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"aqueduct/internal/jsonequal"
)

// quote is a text as a JSON string.
func quote(text string) string {
	quoted, _ := json.Marshal(text) // a string always encodes
	return string(quoted)
}

// custom is an event by which agents ask as they ship. more are further members.
func custom(name, value, more string) string {
	return fmt.Sprintf(`{"type":"CUSTOM","name":%q,"value":%s%s}`+"\n", name, value, more)
}

// withAsker is a server whose agent asks by script when it is called first, and else goes on.
func withAsker(t *testing.T, db database, script string) (*env, *aguiPeer) {
	return withAGUIPeer(t, db.open, func(call int, in aguiInput) string {
		if len(in.Resume) > 0 || call > 1 {
			return aguiBegin + `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m` + fmt.Sprint(call) + `","delta":"went on"}` + aguiEnd
		}
		return aguiBegin + script + aguiEnd
	})
}

// pendingApproval is a question in the inbox.
type pendingApproval struct {
	ID       string `json:"approval_id"`
	Kind     string `json:"kind"`
	Tool     string `json:"tool_name"`
	Title    string `json:"title"`
	MayEdit  bool   `json:"may_edit"`
	Status   string `json:"status"`
	Expires  string `json:"expires_at"`
	Args     json.RawMessage
	Schema   json.RawMessage `json:"response_schema"`
	Edited   json.RawMessage `json:"edited_args"`
	Reason   string          `json:"reason"`
	Decision json.RawMessage `json:"decision"`
}

// lastRunIs waits until the last run of the thread T ended so.
func (h *env) lastRunIs(status string) {
	h.t.Helper()
	eventually(h.t.(*testing.T), func() error {
		if got := h.do("GET", "/api/threads/T", "").body; !strings.Contains(strings.ToLower(got), `"status":"`+status+`"`) {
			return errors.New(got)
		}
		return nil
	})
}

func (h *env) inbox(status string) []pendingApproval {
	h.t.Helper()
	var listed struct{ Approvals []pendingApproval }
	body := h.do("GET", "/api/approvals?status="+status, "").body
	if err := json.Unmarshal([]byte(body), &listed); err != nil {
		h.t.Fatalf("%v: %s", err, body)
	}
	return listed.Approvals
}

// command is the body by which CopilotKit's useLangGraphInterrupt answers: with the history, under the run that asked.
func command(thread, run, command string) string {
	return fmt.Sprintf(`{"threadId":%q,"runId":%q,"state":{},"tools":[],"context":[],"forwardedProps":{"command":%s},"messages":[{"id":"u-R1","role":"user","content":"hi"}]}`, thread, run, command)
}

// TestOnInterruptIsAQuestion: an interrupt by CUSTOM on_interrupt, as the adapters ship, is in the inbox; the client
// gets the event as it was sent, and answers by command.resume; the agent gets the answer in both of its ways.
func TestOnInterruptIsAQuestion(t *testing.T) {
	const object = `{"question":"May I send it?","to":"ada@example.org"}`
	for name, c := range map[string]struct {
		event, value, answer, title, id string
	}{
		"LangGraph's text of JSON": {custom("on_interrupt", quote(object), `,"rawEvent":{"id":"lg1","value":`+object+`}`), quote(object), `"yes"`, "May I send it?", "lg1"},
		"an object":                {custom("on_interrupt", object, ""), object, `{"ok":true}`, "May I send it?", ""},
		"plain text":               {custom("on_interrupt", `"What is your name?"`, ""), `"What is your name?"`, `"Ada"`, "What is your name?", ""},
		"a list of one":            {custom("on_interrupt", `[{"id":"i7","value":{"question":"Q?"}}]`, ""), `[{"id":"i7","value":{"question":"Q?"}}]`, `42`, "Q?", "i7"},
		"Mastra without outcomes": {
			custom("on_interrupt", quote(`{"type":"mastra_suspend","toolCallId":"tc","toolName":"pay","suspendPayload":{"message":"Sure?"},"args":{"n":1},"resumeSchema":"{\"type\":\"object\",\"properties\":{\"pin\":{\"type\":\"string\"}}}","runId":"mr"}`), ""),
			"", `{"pin":"1"}`, "Sure?", "mr::tc",
		},
		"CopilotKit's SDK": {custom("on_copilotkit_interrupt", `{"__copilotkit_interrupt_value__":"Go?","__copilotkit_messages__":[]}`, ""), "", `"go"`, "Go?", ""},
		"a list that one interrupt asks with": {
			custom("on_interrupt", `[{"action_request":{"action":"rm","args":{}},"description":"Remove?"}]`, ""), "", `[{"type":"accept"}]`, "Remove?", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				h, peer := withAsker(t, db, c.event)
				first := h.open(h.request("POST", "/api/agui/chat", strings.Replace(inputBody("T", "R1", "hi"), `"protocolVersion":"1.0",`, "", 1))).rest()
				asked := h.inbox("PENDING")
				if len(asked) != 1 || asked[0].Kind != "input" || asked[0].Title != c.title || asked[0].Expires != "" {
					t.Fatalf("the inbox has %+v\n%v", asked, first)
				}
				told := typed(first, "CUSTOM")
				if c.value != "" && !strings.Contains(told.data, `"value":`+c.value) {
					t.Errorf("the client gets %s", told.data)
				}
				end := last(first).data
				if !strings.Contains(told.data, asked[0].ID) || strings.Contains(end, `"outcome"`) || !strings.Contains(end, asked[0].ID) {
					t.Errorf("the run ends with %s after %s", end, told.data)
				}
				var event struct{ Value json.RawMessage }
				_ = json.Unmarshal([]byte(told.data), &event)
				second := h.open(h.request("POST", "/api/agui/chat", command("T", "R1", `{"resume":`+c.answer+`,"interruptEvent":`+string(event.Value)+`}`))).rest()
				if !strings.Contains(types(second), "TEXT_MESSAGE_CONTENT") || last(second).typ() != "RUN_FINISHED" {
					t.Fatalf("the answer leads to %v", second)
				}
				two := peer.call(2)
				if len(two.Resume) != 1 || two.Resume[0].Status != "resolved" || !jsonequal.Texts(two.Resume[0].Payload, []byte(c.answer)) || c.id != "" && two.Resume[0].InterruptID != c.id {
					t.Errorf("the agent gets resume %+v", two.Resume)
				}
				var got struct{ Resume, InterruptEvent json.RawMessage }
				if err := json.Unmarshal(two.ForwardedProps.Command, &got); err != nil || !jsonequal.Texts(got.Resume, []byte(c.answer)) || !jsonequal.Texts(got.InterruptEvent, event.Value) {
					t.Errorf("the agent gets the command %s, %v", two.ForwardedProps.Command, err)
				}
				if left := h.inbox("PENDING"); len(left) != 0 {
					t.Errorf("still open: %+v", left)
				}
			})
		})
	}
}

// TestOnInterruptAnswers: the other ways in which such a question is answered reach the agent the same.
func TestOnInterruptAnswers(t *testing.T) {
	for name, answer := range map[string]func(h *env, id string) string{
		"resume": func(_ *env, id string) string {
			return fmt.Sprintf(`{"threadId":"T","runId":"R2","protocolVersion":"1.0","messages":[],"resume":[{"interruptId":%q,"status":"resolved","payload":"yes"}]}`, id)
		},
		"a tool message": func(_ *env, id string) string {
			return fmt.Sprintf(`{"threadId":"T","runId":"R2","messages":[{"id":"t1","role":"tool","toolCallId":%q,"content":"yes"}]}`, id)
		},
		"a TDesign card": func(_ *env, id string) string {
			return fmt.Sprintf(`{"threadId":"T","toolCallMessage":{"toolCallId":%q,"toolCallName":"request_input","result":"\"yes\""}}`, id)
		},
		"the inbox": func(h *env, id string) string {
			if got := h.do("POST", "/api/approvals/"+id+"/decision", `{"payload":"yes"}`); got.status != 200 {
				h.t.Error(got.body)
			}
			return `{"threadId":"T","runId":"R2","protocolVersion":"1.0","messages":[]}`
		},
		"a command without its event": func(*env, string) string { return command("T", "R2", `{"resume":"yes"}`) },
		"a command with our id": func(_ *env, id string) string {
			return command("T", "R2", `{"resume":"yes","interruptEvent":"`+id+`"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				h, peer := withAsker(t, db, custom("on_interrupt", `{"question":"Q?"}`, ""))
				h.chat("T", "R1", "hi")
				h.open(h.request("POST", "/api/agui/chat", answer(h, h.inbox("PENDING")[0].ID))).rest()
				eventually(t, func() error {
					if peer.times() < 2 {
						return errors.New("the agent is not called again")
					}
					return nil
				})
				two := peer.call(2)
				if len(two.Resume) != 1 || string(two.Resume[0].Payload) != `"yes"` || !strings.Contains(string(two.ForwardedProps.Command), `"resume":"yes"`) {
					t.Errorf("the agent gets %+v", two)
				}
			})
		})
	}
}

// TestOnInterruptSeveralOpen: a command that names none of several open questions answers none, and its client gets their ids.
func TestOnInterruptSeveralOpen(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, peer := withAsker(t, db, custom("on_interrupt", quote(`{"question":"A?"}`), `,"rawEvent":{"id":"a"}`)+custom("on_interrupt", quote(`{"question":"B?"}`), `,"rawEvent":{"id":"b"}`))
		h.chat("T", "R1", "hi")
		open := h.inbox("PENDING")
		if len(open) != 2 {
			t.Fatalf("the inbox has %+v", open)
		}
		for _, say := range []string{`{"resume":"x"}`, `{"resume":"x","interruptEvent":"{\"question\":\"C?\"}"}`} {
			joined := h.open(h.request("POST", "/api/agui/chat", command("T", "R2", say))).rest()
			note := ""
			for _, f := range joined {
				if f.field("name") == "question_unknown" {
					note = f.data
				}
			}
			if !strings.Contains(note, open[0].ID) || !strings.Contains(note, open[1].ID) || len(h.inbox("PENDING")) != 2 {
				t.Errorf("%s: %s", say, note)
			}
		}
		h.open(h.request("POST", "/api/agui/chat", command("T", "R3", `{"resume":"bee","interruptEvent":"{\"question\": \"B?\"}"}`))).rest()
		if left := h.inbox("PENDING"); len(left) != 1 || left[0].Title != "A?" {
			t.Fatalf("left open: %+v", left)
		}
		// One is left, and a second press on B's card is not A's answer.
		h.open(h.request("POST", "/api/agui/chat", command("T", "R4", `{"resume":"bee","interruptEvent":"{\"question\":\"B?\"}"}`))).rest()
		if left := h.inbox("PENDING"); len(left) != 1 {
			t.Fatalf("the second press answered the other question")
		}
		h.open(h.request("POST", "/api/agui/chat", command("T", "R5", `{"resume":"ay"}`))).rest()
		two := peer.call(2)
		if len(two.Resume) != 2 || !strings.Contains(string(two.ForwardedProps.Command), `"a":"ay"`) || !strings.Contains(string(two.ForwardedProps.Command), `"b":"bee"`) {
			t.Errorf("the agent gets %+v", two)
		}
	})
}

// TestOnInterruptAndOutcome: where the agent tells an interrupt in both ways, it is one question, and answered by resume.
func TestOnInterruptAndOutcome(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, peer := withAGUIPeer(t, db.open, func(call int, _ aguiInput) string {
			if call > 1 {
				return aguiBegin + `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m2","delta":"went on"}` + aguiEnd
			}
			return aguiBegin + custom("on_interrupt", `"Q?"`, `,"rawEvent":{"id":"i1"}`) +
				`{"type":"RUN_FINISHED","threadId":"$THREAD","runId":"$RUN","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"human","message":"Q?"}]}}`
		})
		first := h.chat("T", "R1", "hi")
		open := h.inbox("PENDING")
		if len(open) != 1 || !strings.Contains(last(first).data, `"outcome":{"type":"interrupt"`) || !strings.Contains(typed(first, "CUSTOM").data, open[0].ID) {
			t.Fatalf("%+v, %s", open, last(first).data)
		}
		h.open(h.request("POST", "/api/agui/chat", command("T", "R2", `{"resume":"yes","interruptEvent":"Q?"}`))).rest()
		if two := peer.call(2); len(two.Resume) != 1 || two.Resume[0].InterruptID != "i1" || string(two.Resume[0].Payload) != `"yes"` {
			t.Errorf("the agent gets %+v", two)
		}
	})
}

// TestOnInterruptStaleCard: the card of a question that was answered is no answer to a permission that is open now, which the client of
// a card may never have shown.
func TestOnInterruptStaleCard(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, peer := withAGUIPeer(t, db.open, func(call int, _ aguiInput) string {
			if call > 1 {
				return aguiBegin + interrupting(shownCall, `{"id":"i2","reason":"tool_call","toolCallId":"c1","message":"Remove all?"}`)
			}
			return aguiBegin + custom("on_interrupt", `{"question":"Look?"}`, "") + aguiEnd
		})
		h.chat("T", "R1", "hi")
		const press = `{"resume":{"approved":true},"interruptEvent":{"question":"Look?"}}`
		h.open(h.request("POST", "/api/agui/chat", command("T", "R2", press))).rest()
		again := joined(h.open(h.request("POST", "/api/agui/chat", command("T", "R3", press))).rest())
		if open := h.inbox("PENDING"); len(open) != 1 || open[0].Title != "Remove all?" || !strings.Contains(again, "question_unknown") || peer.times() != 2 {
			t.Errorf("the stale card answered: %+v\n%s", open, again)
		}
	})
}

// TestS43EventShowsAnother: the card of an event that has a permission's title somewhere beside what it shows is no card of that
// permission.
func TestS43EventShowsAnother(t *testing.T) {
	for _, event := range []string{
		`{"question":"Which colour?","note":"Remove all?"}`, `{"question":"Which colour?","message":"Remove all?"}`, `{"any":"Remove all?"}`,
	} {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				h, peer := withAGUIPeer(t, db.open, func(int, aguiInput) string {
					return aguiBegin + custom("on_interrupt", event, "") + interrupting(shownCall, `{"id":"i2","reason":"tool_call","toolCallId":"c1","message":"Remove all?"}`)
				})
				h.chat("T", "R1", "hi")
				again := joined(h.open(h.request("POST", "/api/agui/chat", command("T", "R2", `{"resume":{"approved":true},"interruptEvent":`+event+`}`))).rest())
				if open := h.inbox("PENDING"); len(open) != 1 || open[0].Title != "Remove all?" || !strings.Contains(again, "question_unknown") || peer.times() != 1 {
					t.Errorf("the card of another question answered: %+v\n%s", open, again)
				}
			})
		})
	}
}

// TestOnInterruptWithoutAnAnswer: what no person answered is never a person's answer: the agent, which takes no other, is not called,
// and its Turn ends as cancelled.
func TestOnInterruptWithoutAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		more string
		act  func(h *env, id string)
	}{
		"expired":   {`,"expiresAt":"` + time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano) + `"`, func(*env, string) {}},
		"declined":  {"", func(h *env, id string) { h.do("POST", "/api/approvals/"+id+"/decision", `{"decision":"cancel"}`) }},
		"cancelled": {"", func(h *env, _ string) { h.do("POST", "/api/runs/R1/cancel", "{}") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				h, peer := withAsker(t, db, custom("on_interrupt", `{"question":"Q?"`+c.more+`}`, ""))
				h.chat("T", "R1", "hi")
				for _, q := range h.inbox("") {
					c.act(h, q.ID)
				}
				h.lastRunIs("cancelled")
				if len(h.inbox("PENDING")) != 0 || peer.times() != 1 {
					t.Errorf("the agent was called %d times", peer.times())
				}
				if h.chat("T", "R9", "go on"); peer.times() != 2 || len(peer.call(2).ForwardedProps.Command) > 0 {
					t.Errorf("the next prompt: %+v", peer.call(2))
				}
			})
		})
	}
}

// TestOnInterruptJoined: a client that comes back is asked again, in the way in which it answers.
func TestOnInterruptJoined(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, peer := withAsker(t, db, custom("on_interrupt", quote(`{"question":"Q?"}`), ""))
		h.chat("T", "R1", "hi")
		id := h.inbox("PENDING")[0].ID
		for dialect, outcome := range map[string]bool{"agui-1.0": true, "agui-0.x": false} {
			joined := h.open(h.request("POST", "/api/agui/connect?dialect="+dialect, `{"threadId":"T","runId":"J","messages":[]}`)).rest()
			told, end := typed(joined, "CUSTOM").data, last(joined).data
			if !strings.Contains(told, `"value":`+quote(`{"question":"Q?"}`)) || !strings.Contains(told, id) || strings.Contains(end, `"outcome"`) != outcome || !strings.Contains(end, id) {
				t.Errorf("%s: %s\n%s", dialect, told, end)
			}
		}
		again := h.replica()
		again.open(again.request("POST", "/api/agui/chat", command("T", "R2", `{"resume":"yes"}`))).rest()
		if two := peer.call(2); len(two.Resume) != 1 || !strings.Contains(string(two.ForwardedProps.Command), `"resume":"yes"`) {
			t.Errorf("the agent gets %+v", two)
		}
	})
}
