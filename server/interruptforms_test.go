package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"aqueduct/internal/jsonequal"
)

// interrupting is a script whose run ends with one interrupt, behind the events in shows.
func interrupting(shows, interrupt string) string {
	return shows + `{"type":"RUN_FINISHED","threadId":"$THREAD","runId":"$RUN","outcome":{"type":"interrupt","interrupts":[` + interrupt + `]}}`
}

// withInterrupt is withAsker for an interrupt of an outcome.
func withInterrupt(t *testing.T, db database, shows, interrupt string) (*env, *aguiPeer) {
	return withAGUIPeer(t, db.open, func(call int, _ aguiInput) string {
		if call > 1 {
			return aguiBegin + `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m` + fmt.Sprint(call) + `","delta":"went on"}` + aguiEnd
		}
		return aguiBegin + interrupting(shows, interrupt)
	})
}

// shownCall shows a call of the agent's tool rm.
const shownCall = `{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"rm"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"path\":\"a\"}"}
{"type":"TOOL_CALL_END","toolCallId":"c1"}
`

// approvedSchema is a schema with a yes or a no, and more members.
func approvedSchema(name, more string) string {
	return `{"type":"object","properties":{"` + name + `":{"type":"boolean"}` + more + `},"required":["` + name + `"]}`
}

// TestInterruptForms: the interrupts of frameworks as they ship. Yes or no only where the agent states that, else a free answer; the card
// has the name and the arguments of the tool; the answer reaches the agent in its own words.
func TestInterruptForms(t *testing.T) {
	for name, c := range map[string]struct {
		shows, interrupt        string
		kind, tool, title, args string
		answer, payload         string
	}{
		"LangGraph interrupt({question})": {
			"", `{"id":"i1","reason":"langgraph:interrupt","metadata":{"langgraph":{"raw":{"question":"What is your name?"}}}}`,
			"input", "request_input", "What is your name?", `{"langgraph":{"raw":{"question":"What is your name?"}}}`, `"Ada"`, `"Ada"`,
		},
		"LangGraph interrupt(text)":       {"", `{"id":"i1","reason":"langgraph:interrupt","message":"Which one?"}`, "input", "request_input", "Which one?", `{}`, `{"n":[1,2]}`, `{"n":[1,2]}`},
		"a text that looks like a number": {"", `{"id":"i1","reason":"human","message":"Which one?"}`, "input", "request_input", "Which one?", `{}`, `"42"`, `"42"`},
		"LangGraph with a call":           {shownCall, `{"id":"i1","reason":"tool_call","toolCallId":"c1","message":"Remove?"}`, "permission", "rm", "Remove?", `{"path":"a"}`, `{"approved":true}`, `{"approved":true}`},
		"a confirmation":                  {"", `{"id":"i1","reason":"confirmation","message":"Sure?"}`, "permission", "confirmation", "Sure?", `{}`, `{"approved":false}`, `{"approved":false}`},
		"CrewAI's outcome":                {"", `{"id":"i1","reason":"human_feedback","message":"Your feedback?"}`, "input", "request_input", "Your feedback?", `{}`, `"good"`, `"good"`},
		"Agno's user input":               {"", `{"id":"i1","reason":"input_required","message":"To whom?","responseSchema":{"type":"object","properties":{"to":{"type":"string"}}}}`, "input", "request_input", "To whom?", `{}`, `{"to":"ada"}`, `{"to":"ada"}`},
		"Agent Framework, accepted":       {"", `{"id":"i1","reason":"confirm","message":"Apply?","responseSchema":` + approvedSchema("accepted", `,"steps":{"type":"array"}`) + `}`, "permission", "confirm", "Apply?", `{}`, `{"accepted":true}`, `{"accepted":true}`},
		"a boolean":                       {"", `{"id":"i1","reason":"ask","message":"Go?","responseSchema":{"type":"boolean"}}`, "permission", "ask", "Go?", `{}`, `true`, `true`},
		"a form with a yes in it": {
			"", `{"id":"i1","reason":"ask","message":"Pay?","responseSchema":{"type":"object","properties":{"approved":{"type":"boolean"},"amount":{"type":"number"}},"required":["approved","amount"]}}`,
			"input", "request_input", "Pay?", `{}`, `{"approved":true,"amount":5}`, `{"approved":true,"amount":5}`,
		},
		"a schema by reference": {
			"", `{"id":"i1","reason":"ask","message":"Go?","responseSchema":{"$ref":"#/$defs/Answer","$defs":{"Answer":` + approvedSchema("approved", "") + `}}}`,
			"permission", "ask", "Go?", `{}`, `{"approved":true}`, `{"approved":true}`,
		},
		"Mastra's suspended tool": {
			"", `{"id":"r::tc","reason":"mastra:tool_suspend","toolCallId":"tc","responseSchema":` + approvedSchema("approved", "") + `,"metadata":{"mastra":{"type":"mastra_suspend","toolName":"send_email","suspendPayload":{"message":"Send it?"},"args":{"to":"ada"}}}}`,
			"permission", "send_email", "Send it?", `{"to":"ada"}`, `{"approved":true}`, `{"approved":true}`,
		},
		"Mastra's tool that wants an input": {
			"", `{"id":"r::tc","reason":"mastra:tool_suspend","toolCallId":"tc","responseSchema":{"type":"object","properties":{"pin":{"type":"string"}}},"metadata":{"mastra":{"toolName":"pay","suspendPayload":{"message":"The pin?"},"args":{"n":1}}}}`,
			"input", "pay", "The pin?", `{"mastra":{"toolName":"pay","suspendPayload":{"message":"The pin?"},"args":{"n":1}}}`, `{"pin":"1"}`, `{"pin":"1"}`,
		},
		"Strands' hook before a call": {
			shownCall, `{"id":"v1:before_tool_call:c1:00000000","reason":"confirmation","message":"{\"summary\":\"delete\"}","metadata":{"strandsName":"confirm"}}`,
			"permission", "rm", `{"summary":"delete"}`, `{"path":"a"}`, `{"approved":true}`, `{"approved":true}`,
		},
		"Strands' hook with words": {shownCall, `{"id":"x","reason":"Why?","message":"Why?","metadata":{"strandsName":"why"}}`, "input", "rm", "Why?", `{"strandsName":"why"}`, `"so"`, `"so"`},
		"AgentScope's permission": {
			"", `{"id":"i1","reason":"tool_call","toolCallId":"gone","message":"Need approval","metadata":{"toolName":"write","toolInput":{"path":"b"}}}`,
			"permission", "write", "Need approval", `{"path":"b"}`, `{"approved":true}`, `{"approved":true}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, db database) {
				h, peer := withInterrupt(t, db, c.shows, c.interrupt)
				first := h.chat("T", "R1", "hi")
				open := h.inbox("PENDING")
				if len(open) != 1 {
					t.Fatalf("the inbox has %+v\n%v", open, first)
				}
				if q := open[0]; q.Kind != c.kind || q.Tool != c.tool || q.Title != c.title || !jsonequal.Texts(q.Args, []byte(c.args)) || (q.Expires == "") != (c.kind == "input") {
					t.Errorf("the inbox has %s %s %q %s, expires %s", q.Kind, q.Tool, q.Title, q.Args, q.Expires)
				}
				h.open(h.request("POST", "/api/agui/chat", fmt.Sprintf(`{"threadId":"T","runId":"R2","protocolVersion":"1.0","messages":[],"resume":[{"interruptId":%q,"status":"resolved","payload":%s}]}`, open[0].ID, c.answer))).rest()
				if two := peer.call(2); len(two.Resume) != 1 || !jsonequal.Texts(two.Resume[0].Payload, []byte(c.payload)) || two.Resume[0].Status != "resolved" {
					t.Errorf("the agent gets %+v", two.Resume)
				}
			})
		})
	}
}

// TestInterruptNamesHoldForPolicy: a rule and a grant by the tool's own name decide what an interrupt asks.
func TestInterruptNamesHoldForPolicy(t *testing.T) {
	mastra := `{"id":"r::tc","reason":"mastra:tool_suspend","toolCallId":"tc","responseSchema":` + approvedSchema("approved", "") + `,"metadata":{"mastra":{"toolName":"send_email","args":{"to":"ada"}}}}`
	strands := `{"id":"v1:before_tool_call:c1:0","reason":"confirmation","metadata":{"strandsName":"confirm"}}`
	for name, c := range map[string]struct{ shows, interrupt, rule string }{
		"Mastra":  {"", mastra, "tool: send_email"},
		"Strands": {shownCall, strands, "tool: rm"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, peer := withAGUIPeerIn(t, plan{rules: "rules:\n  - {name: r, " + c.rule + ", verdict: allow}\n"}, func(call int, _ aguiInput) string {
				if call > 1 {
					return aguiBegin + `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m2","delta":"went on"}` + aguiEnd
				}
				return aguiBegin + interrupting(c.shows, c.interrupt)
			})
			h.chat("T", "R1", "hi")
			eventually(t, func() error {
				if body := h.do("GET", "/api/threads/T/messages", "").body; !strings.Contains(body, "went on") {
					return fmt.Errorf("%s", body)
				}
				return nil
			})
			if two := peer.call(2); len(two.Resume) != 1 || string(two.Resume[0].Payload) != `{"approved":true}` || len(h.inbox("PENDING")) != 0 {
				t.Errorf("the agent gets %+v", two.Resume)
			}
		})
	}
}

// TestInterruptEdits: arguments that the agent's schema lets a person change are offered, shown, hashed, and reach the agent under the
// names of its schema, with the reason; a rule may forbid that, or block what they become.
func TestInterruptEdits(t *testing.T) {
	const offered = `,"editedArgs":{"type":"object","properties":{"to":{"type":"string"}}},"reason":{"type":"string"}`
	const snake = `,"edited_args":{"anyOf":[{"type":"object"},{"type":"null"}]},"message":{"type":"string"}`
	alternatives := `{"oneOf":[` + approvedSchema("approved", `,"editedArgs":{"type":"object"}`) + `,` +
		`{"type":"object","properties":{"approved":{"const":false},"reason":{"type":"string"}},"required":["approved","reason"]}]}`
	for name, c := range map[string]struct {
		schema, rules   string
		answer, payload string // "" where it is refused
		code            string
	}{
		"edited":              {approvedSchema("approved", offered), "", `{"approved":true,"editedArgs":{"to":"bob"},"reason":"wrong name"}`, `{"approved":true,"editedArgs":{"to":"bob"},"reason":"wrong name"}`, ""},
		"not edited":          {approvedSchema("approved", offered), "", `{"approved":true}`, `{"approved":true}`, ""},
		"rejected":            {approvedSchema("approved", offered), "", `{"approved":false,"reason":"no"}`, `{"approved":false,"reason":"no"}`, ""},
		"other spellings":     {approvedSchema("accepted", snake), "", `{"accepted":true,"edited_args":{"to":"bob"},"message":"m"}`, `{"accepted":true,"edited_args":{"to":"bob"},"message":"m"}`, ""},
		"our spelling":        {approvedSchema("accepted", snake), "", `{"approved":true,"editedArgs":{"to":"bob"}}`, `{"accepted":true,"edited_args":{"to":"bob"}}`, ""},
		"alternatives":        {alternatives, "", `{"approved":false,"reason":"no"}`, `{"approved":false,"reason":"no"}`, ""},
		"another alternative": {alternatives, "", `{"approved":true,"editedArgs":{"to":"bob"}}`, `{"approved":true,"editedArgs":{"to":"bob"}}`, ""},
		"not as the schema":   {approvedSchema("approved", offered), "", `{"approved":true,"editedArgs":{"to":7}}`, "", "invalid_answer"},
		"not offered":         {approvedSchema("approved", ""), "", `{"approved":true,"editedArgs":{"to":"bob"}}`, "", "edit_not_allowed"},
		"forbidden by a rule": {approvedSchema("approved", offered), "rules:\n  - {name: r, tool: mail, verdict: ask, may_edit: false}\n", `{"approved":true,"editedArgs":{"to":"bob"}}`, "", "edit_not_allowed"},
		"blocked as edited":   {approvedSchema("approved", offered), "rules:\n  - {name: b, tool: mail, when: 'args.to == \"bob\"', verdict: block}\n  - {name: r, tool: mail, verdict: ask}\n", `{"approved":true,"editedArgs":{"to":"bob"}}`, "", "policy_blocks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			interrupt := `{"id":"i1","reason":"tool_approval","message":"Send?","metadata":{"toolName":"mail","args":{"to":"ada"}},"responseSchema":` + c.schema + `}`
			h, peer := withAGUIPeerIn(t, plan{rules: c.rules}, func(call int, _ aguiInput) string {
				if call > 1 {
					return aguiBegin + `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m2","delta":"went on"}` + aguiEnd
				}
				return aguiBegin + interrupting("", interrupt)
			})
			first := h.chat("T", "R1", "hi")
			open := h.inbox("PENDING")
			if len(open) != 1 || open[0].Tool != "mail" || open[0].MayEdit != (strings.Contains(c.schema, "ditedArgs") || strings.Contains(c.schema, "edited_args")) && !strings.Contains(c.rules, "may_edit: false") {
				t.Fatalf("the inbox has %+v", open)
			}
			if !jsonequal.Texts(open[0].Schema, []byte(c.schema)) || !strings.Contains(last(first).data, `"responseSchema":`) || !strings.Contains(joined(first), `response_schema`) {
				t.Errorf("the schema is not shown: %s\n%v", open[0].Schema, first)
			}
			said := h.open(h.request("POST", "/api/agui/chat", fmt.Sprintf(`{"threadId":"T","runId":"R2","protocolVersion":"1.0","messages":[],"resume":[{"interruptId":%q,"status":"resolved","payload":%s}]}`, open[0].ID, c.answer))).rest()
			if c.payload == "" {
				if !strings.Contains(joined(said), `"code":"`+c.code+`"`) || len(h.inbox("PENDING")) != 1 {
					t.Errorf("the answer is refused by %s", joined(said))
				}
				return
			}
			if two := peer.call(2); len(two.Resume) != 1 || !jsonequal.Texts(two.Resume[0].Payload, []byte(c.payload)) {
				t.Errorf("the agent gets %+v", two.Resume)
			}
			var q pendingApproval
			if err := json.Unmarshal([]byte(h.do("GET", "/api/approvals/"+open[0].ID, "").body), &q); err != nil {
				t.Fatal(err)
			}
			if edited := strings.Contains(c.payload, "bob"); edited != (len(q.Edited) > 0) || edited && (!strings.Contains(joined(said), `bob`) || !strings.Contains(h.do("GET", "/api/audit", "").body, "edited_sha256")) {
				t.Errorf("on record: %+v\n%s", q, joined(said))
			}
		})
	}
}

// TestInterruptsKeepTheirOrder: a page that is loaded reads what is open in the order in which the agent asked, and one that shows one
// question at a time shows the first.
func TestInterruptsKeepTheirOrder(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		var interrupts, want []string
		for i := range 8 {
			want = append(want, fmt.Sprintf("Question %d?", i))
			interrupts = append(interrupts, fmt.Sprintf(`{"id":"i%d","reason":"human","message":%q}`, i, want[i]))
		}
		h, _ := withInterrupt(t, db, "", strings.Join(interrupts, ","))
		h.chat("T", "R1", "hi")
		var end struct {
			Outcome struct{ Interrupts []struct{ Message string } }
		}
		joins := h.open(h.request("POST", "/api/agui/connect", `{"threadId":"T","protocolVersion":"1.0"}`)).rest()
		if err := json.Unmarshal([]byte(last(joins).data), &end); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range end.Outcome.Interrupts {
			got = append(got, i.Message)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("a join ends with %q", got)
		}
		page := h.open(h.request("POST", "/api/agui/connect?dialect=tdesign", `{"threadId":"T"}`)).rest()
		if shown := joined(page); !strings.Contains(shown, want[0]) || strings.Contains(shown, want[1]) {
			t.Errorf("a page of TDesign shows %s", shown)
		}
	})
}
