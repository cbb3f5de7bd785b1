package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// told lists the messages that an agent was sent: roles, calls with their names, results with their calls, and texts.
func told(in aguiInput) string {
	var list []string
	for _, m := range in.Messages {
		one := m.Role
		for _, c := range m.ToolCalls {
			one += " " + c.ID
		}
		if m.ToolCallID != "" {
			one += "(" + m.ToolCallID + ")"
		}
		if m.Content != nil && m.Content != "" {
			one += fmt.Sprintf(" %v", m.Content)
		}
		list = append(list, one)
	}
	return strings.Join(list, "; ")
}

// ending is the answer of an agent that its call ends with.
func ending(call int) string {
	return fmt.Sprintf(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m%d","delta":"answer %d"}`, call, call) + aguiEnd
}

// shows is a call of a tool without a result.
func shows(id, name, args string) string {
	return fmt.Sprintf(`{"type":"TOOL_CALL_START","toolCallId":%q,"toolCallName":%q}
{"type":"TOOL_CALL_ARGS","toolCallId":%q,"delta":%q}
{"type":"TOOL_CALL_END","toolCallId":%q}
`, id, name, id, args, id)
}

// continued is a body of the thread T with the page's tools map and form, and a further message after the first prompt.
func continued(run, tools, messages string) string {
	return fmt.Sprintf(`{"threadId":"T","runId":%q,"protocolVersion":"1.0","state":{},"tools":[%s],"context":[],"forwardedProps":{},"messages":[{"id":"u-R1","role":"user","content":"hi"},%s]}`, run, tools, messages)
}

const pagesTools = `{"name":"map","description":"d","parameters":{"type":"object"}},{"name":"form","description":"d","parameters":{"type":"object"}}`

// TestMessageWithAResultIsOneCall: a body that answers calls of the page's tools and brings a new message, as middlewares send it, is
// one call of the agent with both, in the body's order; so it is at the agent's own endpoint. A repeat of it is no other.
func TestMessageWithAResultIsOneCall(t *testing.T) {
	for name, c := range map[string]struct{ tools, answer, want string }{
		"the only call": {pagesTools, `{"id":"t1","role":"tool","toolCallId":"$C1","content":"shown"},`, "user hi; assistant c1 c2; tool(c1) shown; tool(c2) $ON; user go on"},
		"both calls": {
			pagesTools, `{"id":"t2","role":"tool","toolCallId":"$C2","content":"filled"},{"id":"t1","role":"tool","toolCallId":"$C1","content":"shown"},`,
			"user hi; assistant c1 c2; tool(c2) filled; tool(c1) shown; user go on",
		},
		"calls of no declared tool": {"", `{"id":"t1","role":"tool","toolCallId":"$C1","content":"shown"},`, "user hi; assistant c1 c2; tool(c1) shown; tool(c2) $NO; user go on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				h, peer := withAGUIPeer(t, db.open, func(call int, _ aguiInput) string {
					if call > 1 {
						return aguiBegin + ending(call)
					}
					return aguiBegin + strings.ReplaceAll(shows("c1", "map", `{}`)+shows("c2", "form", `{}`), `"toolCallName"`, `"parentMessageId":"m1","toolCallName"`) + aguiEnd
				})
				post := func(body string) []frame { return h.open(h.request("POST", "/api/agui/chat", body)).rest() }
				first := post(strings.Replace(inputBody("T", "R1", "hi"), `"tools":[]`, `"tools":[`+c.tools+`]`, 1))
				var ids []string
				for _, f := range first {
					if f.typ() == "TOOL_CALL_START" {
						ids = append(ids, f.field("toolCallId"))
					}
				}
				body := continued("R2", c.tools, strings.NewReplacer("$C1", ids[0], "$C2", ids[1]).Replace(c.answer)+`{"id":"u2","role":"user","content":"go on"}`)
				second := post(body)
				if got := joined(second); !strings.Contains(got, "answer 2") || last(second).field("runId") != "R2" {
					t.Fatalf("the body leads to %s", got)
				}
				on := `{"message":"The user went on without an answer.","status":"user_went_on"}`
				want := strings.NewReplacer("$ON", on, "$NO", `{"status":"no_result"}`).Replace(c.want)
				if got := told(peer.call(2)); got != want {
					t.Errorf("the agent is sent %s\nwant %s", got, want)
				}
				post(body)
				if h.chat("T", "R3", "bye"); peer.times() != 3 {
					t.Errorf("the agent was called %d times", peer.times())
				}
				if got := told(peer.call(3)); got != want+"; assistant answer 2; user bye" {
					t.Errorf("with the next prompt the agent is sent %s", got)
				}
			})
		})
	}
}

// TestAnsweredTurnEndsWell: a Turn that a message goes on from, with all its calls answered, was not cancelled.
func TestAnsweredTurnEndsWell(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, _, say := withPageCall(t, plan{open: db.open})
		id := typed(say("T", "R1", "hi"), "TOOL_CALL_START").field("toolCallId")
		h.open(h.request("POST", "/api/agui/chat", continued("R2", "", `{"id":"t1","role":"tool","toolCallId":"`+id+`","content":"shown"},{"id":"u2","role":"user","content":"go on"}`))).rest()
		if got := h.do("GET", "/api/threads/T/runs", "").body; strings.Contains(strings.ToLower(got), "cancelled") {
			t.Errorf("the runs are %s", got)
		}
	})
}

// TestAnswersLeaveCallsOpen: while an agent gets answers, no result is made up for the calls of that turn: one of them is what was asked,
// whether the question names it or not, and the agent gives its result. With the next prompt a call has one result.
func TestAnswersLeaveCallsOpen(t *testing.T) {
	confirm := shows("c2", "confirm_changes", `{"function_call_id":"c1"}`)
	resume := func(*env, []frame) string {
		return command("T", "R2", `{"resume":"yes"}`)
	}
	tool := func(tools string) func(*env, []frame) string {
		return func(_ *env, asked []frame) string {
			var id string
			for _, f := range asked {
				if f.typ() == "TOOL_CALL_START" {
					id = f.field("toolCallId")
				}
			}
			return continued("R2", tools, `{"id":"t2","role":"tool","toolCallId":"`+id+`","content":"yes"}`)
		}
	}
	declared := `{"name":"confirm_changes","description":"d","parameters":{"type":"object"}}`
	for name, c := range map[string]struct {
		asks, tools string
		answer      func(*env, []frame) string
		results     string
	}{
		"an interrupt that names no call":       {custom("on_interrupt", `{"id":"x","message":"Send it?"}`, ""), "", resume, "tool(c1) sent"},
		"a call of the page's own about it":     {confirm, declared, tool(declared), "tool(c2) yes; tool(c1) sent"},
		"a call about it of no declared tool":   {confirm, "", tool(""), "tool(c2) yes; tool(c1) sent"},
		"an interrupt of an outcome, as a form": {`{"type":"RUN_FINISHED","threadId":"$THREAD","runId":"$RUN","outcome":{"type":"interrupt","interrupts":[{"id":"x","reason":"human","message":"Send it?"}]}}`, "", resume, "tool(c1) sent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				h, peer := withAGUIPeer(t, db.open, func(call int, _ aguiInput) string {
					switch call {
					case 1:
						return aguiBegin + shows("c1", "send", `{"to":"ada"}`) + c.asks + aguiEnd
					case 2:
						return aguiBegin + `{"type":"TOOL_CALL_RESULT","messageId":"r1","toolCallId":"c1","content":"sent"}` + "\n" + ending(2)
					}
					return aguiBegin + ending(call)
				})
				asked := h.open(h.request("POST", "/api/agui/chat", strings.Replace(inputBody("T", "R1", "hi"), `"tools":[]`, `"tools":[`+c.tools+`]`, 1))).rest()
				h.open(h.request("POST", "/api/agui/chat", c.answer(h, asked))).rest()
				if got := told(peer.call(2)); strings.Contains(got, "no_result") {
					t.Errorf("with the answer the agent is sent %s", got)
				}
				h.chat("T", "R3", "bye")
				if got := told(peer.call(3)); strings.Count(got, "tool(c1)") != 1 || !strings.Contains(got, "tool(c1) sent") {
					t.Errorf("with the next prompt the agent is sent %s", got)
				}
			})
		})
	}
}

// TestNewestResultOfACallCounts: an agent asks by a call that the page answers, and then gives the call its result (Agno): the log has
// both, and the agent is sent the newest with the next prompt.
func TestNewestResultOfACallCounts(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, peer := withAGUIPeer(t, db.open, func(call int, _ aguiInput) string {
			switch call {
			case 1:
				return aguiBegin + shows("c1", "send", `{"to":"ada"}`) + aguiEnd
			case 2:
				return aguiBegin + `{"type":"TOOL_CALL_RESULT","messageId":"c1","toolCallId":"c1","content":"sent"}` + "\n" + ending(2)
			}
			return aguiBegin + ending(call)
		})
		id := typed(h.chat("T", "R1", "hi"), "TOOL_CALL_START").field("toolCallId")
		second := h.open(h.request("POST", "/api/agui/chat", continued("R2", "", `{"id":"t1","role":"tool","toolCallId":"`+id+`","content":"accepted"}`))).rest()
		if got := typed(second, "TOOL_CALL_RESULT").field("toolCallId"); got != id {
			t.Errorf("the result is of the call %q, want %q", got, id)
		}
		h.chat("T", "R3", "bye")
		if got, want := told(peer.call(3)), "user hi; assistant c1; tool(c1) sent; assistant answer 2; user bye"; got != want {
			t.Errorf("the agent is sent %s\nwant %s", got, want)
		}
	})
}

// TestAnswerIsTheCallsResult: a tool that only asks has no other result than the person's answer (CopilotKit's interrupt tools). The
// agent is sent that with the next prompt, however it was given.
func TestAnswerIsTheCallsResult(t *testing.T) {
	const approve, reject = `{"approved":true}`, `{"approved":false}`
	plain := `{"id":"c1","reason":"tool_call","toolCallId":"c1","message":"Send it?"}`
	accepted := `{"id":"c1","reason":"tool_call","toolCallId":"c1","message":"Send it?","responseSchema":` + approvedSchema("accepted", "") + `}`
	form := `{"id":"c1","reason":"input_required","toolCallId":"c1","message":"To whom?","responseSchema":{"type":"object","properties":{"to":{"type":"string"}}}}`
	resume := func(payload string) func(*env, string) string {
		return func(_ *env, id string) string {
			return fmt.Sprintf(`{"threadId":"T","runId":"R2","protocolVersion":"1.0","messages":[],"resume":[{"interruptId":%q,"status":"resolved","payload":%s}]}`, id, payload)
		}
	}
	page := func(payload string) func(*env, string) string { // CopilotKit's page writes what was decided, and resumes
		return func(_ *env, id string) string {
			return continued("R2", "", fmt.Sprintf(`{"id":"d1","role":"tool","toolCallId":%q,"content":%q}`, id, payload))
		}
	}
	inbox := func(decision string) func(*env, string) string {
		return func(h *env, id string) string {
			if got := h.do("POST", "/api/approvals/"+id+"/decision", decision); got.status != 200 {
				h.t.Error(got.body)
			}
			return `{"threadId":"T","runId":"R2","protocolVersion":"1.0","messages":[]}`
		}
	}
	for name, c := range map[string]struct {
		interrupt string
		answer    func(*env, string) string
		want      string
	}{
		"approved by resume":        {plain, resume(approve), approve},
		"rejected by resume":        {plain, resume(reject), reject},
		"written by the page":       {plain, page(approve), approve},
		"approved in the inbox":     {plain, inbox(`{"decision":"approve"}`), approve},
		"in the words of a schema":  {accepted, resume(approve), `{"accepted":true}`},
		"a form that was filled in": {form, resume(`{"to":"ada"}`), `{"to":"ada"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				h, peer := withInterrupt(t, db, shows("c1", "send", `{"to":"ada"}`), c.interrupt)
				h.chat("T", "R1", "hi")
				h.open(h.request("POST", "/api/agui/chat", c.answer(h, h.inbox("PENDING")[0].ID))).rest()
				h.lastRunIs("finished")
				if got := told(peer.call(2)); strings.Contains(got, "tool(c1)") {
					t.Errorf("with the answer the agent is sent %s", got)
				}
				h.chat("T", "R3", "bye")
				if got, want := told(peer.call(3)), "user hi; assistant c1; tool(c1) "+c.want+"; assistant went on; user bye"; got != want {
					t.Errorf("the agent is sent %s\nwant %s", got, want)
				}
			})
		})
	}
}

// TestOnInterruptUnderTheAgentsID: clients of an agent that asks by CUSTOM on_interrupt have the id in its value, and no other: they
// resume by that (CrewAI).
func TestOnInterruptUnderTheAgentsID(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		h, peer := withAsker(t, db, custom("on_interrupt", `{"id":"flow-1","reason":"crewai:human_feedback","message":"Good?"}`, ""))
		h.chat("T", "R1", "hi")
		body := `{"threadId":"T","runId":"R2","protocolVersion":"1.0","messages":[],"resume":[{"interruptId":%q,"status":"resolved","payload":"yes"}]}`
		h.open(h.request("POST", "/api/agui/chat", fmt.Sprintf(body, "flow-2"))).rest()
		if peer.times() != 1 {
			t.Fatal("an id of no question answered one")
		}
		h.open(h.request("POST", "/api/agui/chat", fmt.Sprintf(strings.Replace(body, "R2", "R3", 1), "flow-1"))).rest()
		if two := peer.call(2); len(two.Resume) != 1 || two.Resume[0].InterruptID != "flow-1" || string(two.Resume[0].Payload) != `"yes"` {
			t.Errorf("the agent gets %+v", two.Resume)
		}
	})
}

// TestAnswerUnderTheRunThatAsked: CopilotKit resumes under the runId of the run that was interrupted. That answers, and its repeat changes
// nothing.
func TestAnswerUnderTheRunThatAsked(t *testing.T) {
	interrupt := `{"type":"RUN_FINISHED","threadId":"$THREAD","runId":"$RUN","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"confirmation","message":"Sure?"}]}}`
	for name, c := range map[string]struct {
		asks string
		body func(id string) string
	}{
		"by command.resume": {custom("on_interrupt", `{"question":"Sure?"}`, "") + aguiEnd, func(string) string {
			return command("T", "R1", `{"resume":{"approved":true},"interruptEvent":{"question":"Sure?"}}`)
		}},
		"by resume": {interrupt, func(id string) string {
			return `{"threadId":"T","runId":"R1","protocolVersion":"1.0","messages":[],"resume":[{"interruptId":"` + id + `","status":"resolved","payload":{"approved":true}}]}`
		}},
		"by a tool message": {interrupt, func(id string) string {
			return continued("R1", "", `{"id":"t1","role":"tool","toolCallId":"`+id+`","content":"{\"approved\":true}"}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				h, peer := withAGUIPeer(t, db.open, func(call int, _ aguiInput) string {
					if call > 1 {
						return aguiBegin + ending(call)
					}
					return aguiBegin + c.asks
				})
				h.chat("T", "R1", "hi")
				body := c.body(h.inbox("PENDING")[0].ID)
				for range 2 {
					h.open(h.request("POST", "/api/agui/chat", body)).rest()
				}
				h.lastRunIs("finished")
				if two := peer.call(2); peer.times() != 2 || len(two.Resume) != 1 || two.Resume[0].Status != "resolved" {
					t.Errorf("the agent is called %d times, then with %+v", peer.times(), two.Resume)
				}
			})
		})
	}
}

// TestCallWhoseParentIsNoAnswer: a call may name a result, or a thought, of its own run as its parent. The official clients then name the
// message with the call after the call (Pydantic AI), and so the agent is sent it.
func TestCallWhoseParentIsNoAnswer(t *testing.T) {
	thought := `{"type":"REASONING_START","messageId":"p"}
{"type":"REASONING_MESSAGE_START","messageId":"p","role":"reasoning"}
{"type":"REASONING_MESSAGE_CONTENT","messageId":"p","delta":"hm"}
{"type":"REASONING_MESSAGE_END","messageId":"p"}
{"type":"REASONING_END","messageId":"p"}
`
	for name, before := range map[string]string{
		"a result":  shows("c1", "look", `{}`) + `{"type":"TOOL_CALL_RESULT","messageId":"p","toolCallId":"c1","content":"seen"}` + "\n",
		"a thought": thought,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				h, peer := withAGUIPeer(t, db.open, func(call int, _ aguiInput) string {
					if call > 1 {
						return aguiBegin + ending(call)
					}
					return aguiBegin + before + strings.Replace(shows("c2", "look", `{}`), `"toolCallName"`, `"parentMessageId":"p","toolCallName"`, 1) +
						`{"type":"TOOL_CALL_RESULT","messageId":"q","toolCallId":"c2","content":"seen"}` + "\n" + ending(1)
				})
				h.chat("T", "R1", "hi")
				h.chat("T", "R2", "bye")
				var ids []string
				for _, m := range peer.call(2).Messages {
					for _, c := range m.ToolCalls {
						ids = append(ids, m.ID+" "+c.ID)
					}
				}
				if got, _ := json.Marshal(ids); !strings.Contains(string(got), `"c2 c2"`) {
					t.Errorf("the agent is sent the calls %s", got)
				}
			})
		})
	}
}

// TestGoesBackFromThePagesTool: a person may ask for another answer, or change the prompt, while a call of the page's tool is open. A
// middleware that makes the results itself (A2UI) leaves such calls open until the next message.
func TestGoesBackFromThePagesTool(t *testing.T) {
	for name, c := range map[string]struct{ messages, want string }{
		"regenerate":    {`{"id":"u-R1","role":"user","content":"hi"}`, "user hi"},
		"edit":          {`{"id":"u-R1","role":"user","content":"hi"},{"id":"u2","role":"user","content":"rather"}`, "user hi; user rather"},
		"edit in place": {`{"id":"u-R1","role":"user","content":"hello"}`, "user hello"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				h, peer, say := withPageCall(t, plan{open: db.open})
				say("T", "R1", "hi")
				body := fmt.Sprintf(`{"threadId":"T","runId":"R2","protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[%s]}`, c.messages)
				if got := joined(h.open(h.request("POST", "/api/agui/chat", body)).rest()); !strings.Contains(got, "answer 2") {
					t.Fatalf("going back leads to %s", got)
				}
				if got := told(peer.call(2)); got != c.want {
					t.Errorf("the agent is sent %s\nwant %s", got, c.want)
				}
				if got := h.do("GET", "/api/threads/T/messages", "").body; strings.Contains(got, "show_map") {
					t.Errorf("the history has the call that was left: %s", got)
				}
			})
		})
	}
}
