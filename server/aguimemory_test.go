package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// memoryCase is a run of an agent that has a memory of its own and compares by id, as LangGraph, Strands and Mastra do.
type memoryCase struct {
	stream string
	memory string // the messages that the agent has of the run
	shows  bool   // official clients have to be given the messages again
	people string // the messages as people read them, where those are others
}

// snapshotOf is a MESSAGES_SNAPSHOT with what the agent has of a run.
func snapshotOf(memory string) string {
	return `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"u-R1","role":"user","content":"hi"},` + memory + `]}`
}

// wrote are the events of a text, toolCalled those of a call, answered that of a result.
func wrote(id, text string) string {
	return fmt.Sprintf(`{"type":"TEXT_MESSAGE_START","messageId":%[1]q,"role":"assistant"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":%[1]q,"delta":%[2]q}
{"type":"TEXT_MESSAGE_END","messageId":%[1]q}
`, id, text)
}

func toolCalled(id, parent, name, args string) string {
	if parent != "" {
		parent = fmt.Sprintf(`,"parentMessageId":%q`, parent)
	}
	return fmt.Sprintf(`{"type":"TOOL_CALL_START","toolCallId":%[1]q,"toolCallName":%[2]q%[3]s}
{"type":"TOOL_CALL_ARGS","toolCallId":%[1]q,"delta":%[4]q}
{"type":"TOOL_CALL_END","toolCallId":%[1]q}
`, id, name, parent, args)
}

func answered(id, call, content string) string {
	return fmt.Sprintf(`{"type":"TOOL_CALL_RESULT","messageId":%q,"toolCallId":%q,"content":%q}`+"\n", id, call, content)
}

func thought(id, text string) string {
	return fmt.Sprintf(`{"type":"REASONING_MESSAGE_START","messageId":%[1]q,"role":"reasoning"}
{"type":"REASONING_MESSAGE_CONTENT","messageId":%[1]q,"delta":%[2]q}
{"type":"REASONING_MESSAGE_END","messageId":%[1]q}
`, id, text)
}

// asst, reslt and thght are messages of a memory; calls alternate id, name, arguments.
func asst(id, text string, calls ...string) string {
	list := make([]string, 0, len(calls)/3)
	for i := 0; i+2 < len(calls); i += 3 {
		list = append(list, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}`, calls[i], calls[i+1], calls[i+2]))
	}
	return fmt.Sprintf(`{"id":%q,"role":"assistant","content":%q,"toolCalls":[%s]}`, id, text, strings.Join(list, ","))
}

func reslt(id, call, content string) string {
	return fmt.Sprintf(`{"id":%q,"role":"tool","toolCallId":%q,"content":%q}`, id, call, content)
}

func thght(id, text string) string {
	return fmt.Sprintf(`{"id":%q,"role":"reasoning","content":%q}`, id, text)
}

func memory(messages ...string) string { return strings.Join(messages, ",") }

const oslo, bergen = `{"city":"Oslo"}`, `{"city":"Bergen"}`

// memoryCases are the ways in which agents stream a run whose memory is another. A case whose stream has no snapshot has the
// same ids in both.
func memoryCases() map[string]memoryCase {
	withSnapshot := func(stream string, shows bool, list ...string) memoryCase {
		return memoryCase{stream: stream + snapshotOf(memory(list...)), memory: memory(list...), shows: shows}
	}
	two := memory(asst("a1", "", "c1", "weather", oslo, "c2", "weather", bergen), reslt("t1", "c1", "7"), reslt("t2", "c2", "8"), asst("a2", "It is 7."))
	cases := map[string]memoryCase{
		"a message of calls alone": {
			stream: toolCalled("c1", "a1", "weather", oslo) + answered("t1", "c1", "7") + wrote("a2", "It is 7."),
			memory: memory(asst("a1", "", "c1", "weather", oslo), reslt("t1", "c1", "7"), asst("a2", "It is 7.")),
		},
		"a message whose text comes after its call": {
			stream: toolCalled("c1", "a1", "weather", oslo) + wrote("a1", "Look:") + answered("t1", "c1", "7"),
			memory: memory(asst("a1", "Look:", "c1", "weather", oslo), reslt("t1", "c1", "7")),
		},
		"a call without a message": {
			stream: toolCalled("c1", "", "weather", oslo) + answered("t1", "c1", "7"),
			memory: memory(asst("c1", "", "c1", "weather", oslo), reslt("t1", "c1", "7")),
		},
		"a call under the user's message": {
			stream: toolCalled("c1", "u-R1", "weather", oslo) + answered("t1", "c1", "7"),
			memory: memory(asst("c1", "", "c1", "weather", oslo), reslt("t1", "c1", "7")),
		},
		"a thought and its answer under one id": {
			stream: thought("m1", "hm") + wrote("m1", "yes"),
			memory: memory(thght("m1", "hm"), asst("m1", "yes")),
		},
		"results of two calls under one id": {
			stream: toolCalled("c1", "a1", "weather", oslo) + toolCalled("c2", "a1", "weather", bergen) + answered("t", "c1", "7") + answered("t", "c2", "8"),
			memory: memory(asst("a1", "", "c1", "weather", oslo, "c2", "weather", bergen), reslt("t", "c1", "7"), reslt("t", "c2", "8")),
		},
		"one call id twice": {
			stream: toolCalled("call_0", "a1", "weather", oslo) + toolCalled("call_0", "a1", "weather", bergen) + answered("t1", "call_0", "7") + answered("t2", "call_0", "8"),
			memory: memory(asst("a1", "", "call_0", "weather", oslo, "call_0", "weather", bergen), reslt("t1", "call_0", "7"), reslt("t2", "call_0", "8")),
		},
		"one call id twice, one after the other": {
			stream: toolCalled("call_0", "a1", "weather", oslo) + answered("t1", "call_0", "7") + toolCalled("call_0", "a2", "time", bergen) + answered("t2", "call_0", "8") + wrote("a3", "done"),
			memory: memory(asst("a1", "", "call_0", "weather", oslo), reslt("t1", "call_0", "7"), asst("a2", "", "call_0", "time", bergen), reslt("t2", "call_0", "8"), asst("a3", "done")),
		},
		"one call id twice in chunks": {
			stream: `{"type":"TOOL_CALL_CHUNK","toolCallId":"call_0","toolCallName":"weather","parentMessageId":"a1","delta":"{\"city\":"}
{"type":"TOOL_CALL_CHUNK","toolCallId":"call_0","toolCallName":"weather","delta":"\"Oslo\"}"}
{"type":"TOOL_CALL_CHUNK","toolCallId":"call_0","toolCallName":"weather","parentMessageId":"a1","delta":"{\"city\":\"Bergen\"}"}
{"type":"TOOL_CALL_CHUNK","toolCallId":"call_0","toolCallName":"time","parentMessageId":"a1"}
{"type":"TOOL_CALL_CHUNK","delta":"{}"}
` + answered("t1", "call_0", "7") + answered("t2", "call_0", "8") + answered("t3", "call_0", "noon"),
			memory: memory(asst("a1", "", "call_0", "weather", oslo, "call_0", "weather", bergen, "call_0", "time", "{}"), reslt("t1", "call_0", "7"), reslt("t2", "call_0", "8"), reslt("t3", "call_0", "noon")),
		},
		"a snapshot that leaves an inner step's text out": {
			stream: wrote("inner", "Let me plan.") + wrote("a1", "Done.") + snapshotOf(asst("a1", "Done.")),
			memory: asst("a1", "Done."), people: memory(asst("inner", "Let me plan."), asst("a1", "Done.")),
		},
	}
	fused := toolCalled("c1", "a1", "weather", oslo+bergen)
	for name, c := range map[string]memoryCase{
		"two calls streamed as one":        withSnapshot(fused, true, two),
		"two calls as one, with results":   withSnapshot(fused+answered("x1", "c1", "7")+answered("x2", "c2", "8")+wrote("a2", "It is 7."), true, two),
		"a call that was not streamed":     withSnapshot(toolCalled("c1", "a1", "weather", oslo)+answered("x1", "c1", "7")+wrote("a2", "It is 7."), false, two),
		"nothing was streamed":             withSnapshot("", false, two),
		"results under other ids":          withSnapshot(toolCalled("c1", "a1", "weather", oslo)+toolCalled("c2", "a1", "weather", bergen)+answered("x1", "c1", "7")+answered("x2", "c2", "8")+wrote("a2", "It is 7."), false, two),
		"results in another order":         withSnapshot(toolCalled("c1", "a1", "weather", oslo)+toolCalled("c2", "a1", "weather", bergen)+answered("t2", "c2", "8")+answered("t1", "c1", "7")+wrote("a2", "It is 7."), false, two),
		"calls in another order":           withSnapshot(toolCalled("c2", "a1", "weather", bergen)+toolCalled("c1", "a1", "weather", oslo)+answered("t1", "c1", "7")+answered("t2", "c2", "8")+wrote("a2", "It is 7."), true, two),
		"calls without a message":          withSnapshot(toolCalled("c1", "", "weather", oslo)+answered("x1", "c1", "7")+toolCalled("c2", "", "weather", bergen)+answered("x2", "c2", "8")+wrote("a2", "It is 7."), true, two),
		"calls under their results' ids":   withSnapshot(toolCalled("c1", "t1", "weather", oslo)+answered("x1", "c1", "7")+toolCalled("c2", "t2", "weather", bergen)+answered("x2", "c2", "8")+wrote("a2", "It is 7."), true, two),
		"other arguments and another name": withSnapshot(toolCalled("c1", "a1", "wether", `{"city":"Os`)+toolCalled("c2", "a1", "weather", `{ "city" : "Bergen" }`)+answered("t1", "c1", "7")+answered("t2", "c2", "8")+wrote("a2", "It is 7."), true, two),
		"other results":                    withSnapshot(toolCalled("c1", "a1", "weather", oslo)+toolCalled("c2", "a1", "weather", bergen)+answered("t1", "c1", "6")+answered("t2", "c2", "9")+wrote("a2", "It is 7."), true, two),
		"another text under another id":    withSnapshot(toolCalled("c1", "a1", "weather", oslo)+toolCalled("c2", "a1", "weather", bergen)+answered("t1", "c1", "7")+answered("t2", "c2", "8")+wrote("a2", "It is 9."), true, two),
		"all under other ids": withSnapshot(thought("r", "hm")+toolCalled("c1", "y", "weather", oslo)+answered("x", "c1", "7")+wrote("z", "It is 7."), false,
			thght("rs_1", "hm"), asst("a1", "", "c1", "weather", oslo), reslt("t1", "c1", "7"), asst("a2", "It is 7.")),
		"two texts in another order": withSnapshot(wrote("a2", "second")+wrote("a1", "first"), false, asst("a1", "first"), asst("a2", "second")),
		"a text and its calls as two messages of one id": withSnapshot(wrote("a1", "Look:")+toolCalled("c1", "a1", "weather", oslo)+answered("t1", "c1", "7"), true,
			asst("a1", "Look:"), asst("a1", "", "c1", "weather", oslo), reslt("t1", "c1", "7")),
		"the same, not streamed": withSnapshot("", false, asst("a1", "Look:"), asst("a1", "", "c1", "weather", oslo), reslt("t1", "c1", "7")),
		"two results of one id, not streamed": withSnapshot("", false,
			asst("a1", "", "c1", "weather", oslo, "c2", "weather", bergen), reslt("t", "c1", "7"), reslt("t", "c2", "8")),
		"two thoughts of one id": withSnapshot(thought("r", "hm"), false, thght("r", "hm"), thght("r", "so"), asst("a1", "yes")),
		"one call id twice, not streamed": withSnapshot("", false,
			asst("a1", "", "call_0", "weather", oslo, "call_0", "weather", bergen), reslt("t1", "call_0", "7"), reslt("t2", "call_0", "8")),
		"one call id twice, one of them streamed": withSnapshot(toolCalled("call_0", "a1", "weather", oslo)+answered("x", "call_0", "7"), false,
			asst("a1", "", "call_0", "weather", oslo), reslt("t1", "call_0", "7"), asst("a2", "", "call_0", "weather", bergen), reslt("t2", "call_0", "8")),
	} {
		cases[name] = c
	}
	// Of a text that was rewritten under another id the streamed one is left: it is not the agent's, and people have read it.
	c := cases["another text under another id"]
	c.shows = true
	cases["another text under another id"] = c
	return cases
}

// remembered are messages as a memory compares them.
func remembered(list []aguiMessage, ids bool) []string {
	var out []string
	for _, m := range list {
		line := m.Role
		if ids {
			line += " " + m.ID
		}
		if text, _ := m.Content.(string); text != "" {
			line += fmt.Sprintf(" %q", text)
		}
		for _, c := range m.ToolCalls {
			if line += " ["; ids {
				line += c.ID + " "
			}
			line += c.Function.Name + " " + strings.ReplaceAll(c.Function.Arguments, " ", "") + "]"
		}
		if ids && m.ToolCallID != "" {
			line += " of " + m.ToolCallID
		}
		out = append(out, line)
	}
	return out
}

// messagesOf are the messages of an event or a page.
func messagesOf(t *testing.T, data string) []aguiMessage {
	t.Helper()
	var got struct{ Messages []aguiMessage }
	if err := json.Unmarshal([]byte(data), &got); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return got.Messages
}

// TestAGUIAgentMemory: with its next prompt an agent is sent what its own memory has of the run before, under the same ids, in
// the same order; and every client reads the run as a snapshot put it right: live, joined, in the history, in every dialect.
func TestAGUIAgentMemory(t *testing.T) {
	cases := memoryCases()
	onBothDatabases(t, func(t *testing.T, db database) {
		h, peer := withAGUIPeer(t, db.open, func(_ int, in aguiInput) string {
			if len(in.Messages) > 1 {
				return aguiBegin + aguiEnd
			}
			name, _ := in.Messages[0].Content.(string)
			return aguiBegin + strings.Replace(cases[name].stream, `"content":"hi"`, fmt.Sprintf(`"content":%q`, name), 1) + aguiEnd
		})
		call := 0
		for name, c := range cases {
			for _, protocol := range []string{`"protocolVersion":"1.0",`, ""} {
				thread := fmt.Sprint("T", call)
				prompt := func(run, text string) []frame {
					return h.open(h.request("POST", "/api/agui/chat", strings.Replace(inputBody(thread, run, text), `"protocolVersion":"1.0",`, protocol, 1))).rest()
				}
				live := prompt("R1", name)
				if end := live[len(live)-1]; end.typ() != "RUN_FINISHED" {
					t.Errorf("%s: the run ends with %s", name, end.data)
					call++
					continue
				}
				prompt("R2", "and?")
				call += 2
				own := messagesOf(t, `{"messages":[`+c.memory+`]}`)
				sent := peer.call(call).Messages
				want := strings.Join(remembered(own, true), "\n")
				if got := strings.Join(remembered(sent[1:len(sent)-1], true), "\n"); got != want {
					t.Errorf("%s: the agent is sent\n%s\nand has\n%s", name, got, want)
				}
				if c.people != "" {
					own = messagesOf(t, `{"messages":[`+c.people+`]}`)
				}
				want = strings.Join(remembered(own, false), "\n")
				reads := map[string][]aguiMessage{
					"joined":  transcriptOf(t, h, thread),
					"history": messagesOf(t, `{"messages":`+h.do("GET", "/api/threads/"+thread+"/messages?format=agui", "").body+"}"),
				}
				if c.shows {
					whole := typed(live, "MESSAGES_SNAPSHOT")
					if whole.id != "" {
						t.Errorf("%s: the snapshot is kept, with id %s", name, whole.id)
					}
					reads["live"] = append(messagesOf(t, whole.data), aguiMessage{})
				} else if strings.Contains(types(live), "MESSAGES_SNAPSHOT") {
					t.Errorf("%s: a client is given all messages for nothing", name)
				}
				for who, list := range reads {
					if got := strings.Join(remembered(list[1:len(list)-1], false), "\n"); got != want {
						t.Errorf("%s, %s (%s): reads\n%s\nnot\n%s", name, who, protocol, got, want)
					}
				}
			}
		}
	})
}
