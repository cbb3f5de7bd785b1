package server_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"aqueduct/bridge/httpagent"
	"aqueduct/internal/assistant"
	"aqueduct/internal/stricttest"
	"aqueduct/server/llmproxy"
)

// fitted is a Turn after which a provider would refuse the history as it is.
type fitted struct {
	name   string
	events []string // of the agent
	end    string   // how its run ends: "done" when empty, "error", "lost" or "stop"
	first  string   // the messages of the first prompt; "" is a greeting
	wants  []string // what the history has after it, in OpenAI's form
	not    []string // what it has not
}

const toolResult = `{"type":"TOOL_CALL_RESULT","messageId":"r1","toolCallId":"c1","content":"seen"}`

// callEvents are those of a call c1 with arguments, without an end where cut is set.
func callEvents(name, args string, cut bool) []string {
	quoted, _ := json.Marshal(args)
	events := []string{
		fmt.Sprintf(`{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":%q}`, name),
		fmt.Sprintf(`{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":%s}`, quoted),
		`{"type":"TOOL_CALL_END","toolCallId":"c1"}`,
	}
	if cut {
		return events[:2]
	}
	return events
}

func unfitHistories() []fitted {
	const noResult = `"{\"status\":\"no_result\"}"`
	call := func(args string, cut bool, more ...string) []string {
		return append(callEvents("look", args, cut), more...)
	}
	text := func(id, text string) []string {
		return []string{fmt.Sprintf(`{"type":"TEXT_MESSAGE_START","messageId":%q,"role":"assistant"}`, id),
			fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":%q,"delta":%q}`, id, text), fmt.Sprintf(`{"type":"TEXT_MESSAGE_END","messageId":%q}`, id)}
	}
	user := func(parts string) string {
		return `{"id":"u1","role":"user","content":[{"type":"text","text":"see"},` + parts + `]}`
	}
	return []fitted{
		{name: "arguments cut by Stop", events: call(`{"a":`, true), end: "stop", wants: []string{`"arguments":"{}"`, noResult}},
		{name: "arguments cut by an error", events: call(`{"a":`, true), end: "error", wants: []string{`"arguments":"{}"`, noResult}},
		{name: "arguments cut by a lost agent", events: call(`{"a":`, true), end: "lost", wants: []string{`"arguments":"{}"`, noResult}},
		{name: "no arguments", events: call(``, false, toolResult), wants: []string{`"arguments":"{}"`, `"seen"`}},
		{name: "a space as arguments", events: call(` `, false, toolResult), wants: []string{`"arguments":"{}"`}},
		{name: "null as arguments", events: call(`null`, false, toolResult), wants: []string{`"arguments":"{}"`}},
		{name: "a list as arguments", events: call(`[1,2]`, false, toolResult), wants: []string{`"arguments":"{\"arguments\":[1,2]}"`}},
		{name: "a text as arguments", events: call(`"x"`, false, toolResult), wants: []string{`"arguments":"{\"arguments\":\"x\"}"`}},
		{name: "arguments encoded twice", events: call(`"{\"a\":1}"`, false, toolResult), wants: []string{`"arguments":"{\"a\":1}"`}},
		{name: "broken arguments", events: call(`{a:1}`, false, toolResult), wants: []string{`"arguments":"{}"`}},
		{name: "good arguments", events: call(`{"a": 1.50}`, false, toolResult), wants: []string{`"arguments":"{\"a\": 1.50}"`}},
		{name: "a call without a result", events: append(call(`{}`, false), text("m", "well")...), wants: []string{noResult, `"well"`}},
		{name: "a result without a call", events: []string{`{"type":"TOOL_CALL_RESULT","messageId":"r1","toolCallId":"lost","content":"seen"}`}, not: []string{"seen"}},
		{name: "a text between a call and its result", events: append(append(call(`{}`, false), text("m", "wait")...), toolResult), wants: []string{`"wait"`, `"seen"`}, not: []string{"no_result"}},
		{name: "results out of order", events: append(call(`{}`, false), `{"type":"TOOL_CALL_START","toolCallId":"c2","toolCallName":"look"}`, `{"type":"TOOL_CALL_END","toolCallId":"c2"}`,
			`{"type":"TOOL_CALL_RESULT","messageId":"r2","toolCallId":"c2","content":"two"}`, toolResult), wants: []string{`"two"`, `"seen"`}, not: []string{"no_result"}},
		{name: "an empty answer", events: []string{`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`, `{"type":"TEXT_MESSAGE_END","messageId":"m"}`}, not: []string{`"assistant"`}},
		{name: "a blank answer", events: text("m", " \n"), not: []string{`"assistant"`}},
		{name: "a name with a dot", events: append(callEvents("a.look", `{}`, false), toolResult), wants: []string{`"a_look"`}},
		{name: "a Chinese name", events: append(callEvents("查询", `{}`, false), toolResult), wants: []string{`"__"`}},
		{name: "a long name", events: append(callEvents(strings.Repeat("n", 80), `{}`, false), toolResult), wants: []string{`"` + strings.Repeat("n", 64) + `"`}},
		{name: "empty parts", first: `{"id":"u0","role":"user","content":[]},` + user(`{"type":"text","text":""}`), wants: []string{`"see"`}, not: []string{`"text":""`, `"content":[]`}},
		{name: "an empty prompt before another", first: `{"id":"u0","role":"user","content":""},{"id":"u1","role":"user","content":"see"}`, wants: []string{"see"}, not: []string{`"content":""`}},
		{name: "a document", first: user(`{"type":"document","source":{"type":"data","value":"JVBERi0=","mimeType":"application/pdf"}}`), wants: []string{`"file.pdf"`, "data:application/pdf;base64,JVBERi0="}},
		{name: "a document with a name", first: user(`{"type":"document","source":{"type":"data","value":"JVBERi0=","mimeType":"application/pdf"},"metadata":{"filename":"b.pdf"}}`), wants: []string{`"b.pdf"`}},
		{name: "a sound", first: user(`{"type":"audio","source":{"type":"data","value":"SUQzAA==","mimeType":"audio/x-mp3; codecs=1"}}`), wants: []string{`"mp3"`}},
		{name: "a sound of another format", first: user(`{"type":"audio","source":{"type":"data","value":"T2dnUw==","mimeType":"audio/ogg"}}`), wants: []string{`"see"`}},
		{name: "a video alone", first: `{"id":"u1","role":"user","content":[{"type":"video","source":{"type":"url","value":"https://x.example/a.mp4"}}]}`},
		{name: "a picture without a type", first: user(`{"type":"image","source":{"type":"url","value":"data:;base64,iVBORw0KGgoAAAANSUhEUg=="}}`), wants: []string{"data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=="}},
	}
}

// TestHistoriesAreFit: whatever became of a Turn, the next prompt's history is one that the APIs of models take, by every
// road; and what is in it means the same.
func TestHistoriesAreFit(t *testing.T) {
	t.Parallel()
	for _, r := range append(roads(), road{name: "--model", protocol: httpagent.ProtocolInvoke, form: httpagent.MessagesOpenAI, model: true}) {
		for _, c := range unfitHistories() {
			t.Run(r.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				body := r.after(t, c)
				sent := body
				judges := map[string]func([]byte) error{"OpenAI": stricttest.OpenAI, "Anthropic": stricttest.Anthropic}
				switch {
				case r.model:
					judges["Gemini"], judges["Mistral"], judges["DeepSeek"] = stricttest.Gemini, stricttest.Mistral, stricttest.DeepSeek
				case r.form == httpagent.MessagesOpenAI:
					sent = onlyMessages(t, body)
				default:
					sent = adapted(t, body)
				}
				for name, judge := range judges {
					if err := judge(sent); err != nil {
						t.Errorf("%s refuses it: %v\n%s", name, err, sent)
					}
				}
				for _, text := range c.wants {
					if !strings.Contains(string(sent), text) {
						t.Errorf("%s is missing in %s", text, sent)
					}
				}
				for _, text := range c.not {
					if strings.Contains(string(sent), text) {
						t.Errorf("%s is in %s", text, sent)
					}
				}
			})
		}
	}
}

// after is what the agent of the road is sent with a prompt after the Turn.
func (r road) after(t *testing.T, c fitted) []byte {
	t.Helper()
	peer := &rawPeer{t: t, stream: func(int, []byte) string {
		switch {
		case r.model:
			return `data: {"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
		case r.protocol == httpagent.ProtocolAGUI:
			return aguiStream(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m2","delta":"ok"}`)
		}
		return invokeStream("delta", `{"text":"ok"}`)
	}}
	var p plan
	if r.model {
		web := httptest.NewServer(peer)
		t.Cleanup(web.Close)
		p.models = modelsAt(t, web.URL)
	}
	h := newEnvWith(t, saysN(1), p)
	writer := &rawPeer{t: t, hold: c.end == "stop", stream: func(int, []byte) string {
		stream := aguiStream(c.events...)
		switch open, _, _ := strings.Cut(stream, `data: {"type":"RUN_FINISHED"`); c.end {
		case "error":
			return open + `data: {"type":"RUN_ERROR","message":"broke"}` + "\n\n"
		case "lost", "stop":
			return open
		}
		return stream
	}}
	roads()[0].join(h, writer)
	if c.first == "" {
		c.first = `{"id":"u1","role":"user","content":"hello"}`
	}
	in := h.open(h.request("POST", "/api/agui/chat", `{"threadId":"T","runId":"R1","protocolVersion":"1.0","tools":[],"messages":[`+c.first+`]}`))
	if c.end == "stop" {
		if _, err := in.until(func(f frame) bool { return strings.Contains(f.data, "TOOL_CALL_ARGS") }); err != nil {
			t.Fatal(err)
		}
		if a := h.do("POST", "/api/runs/R1/cancel", `{}`); a.status != 202 && a.status != 200 {
			t.Fatalf("cancel: %d %s", a.status, a.body)
		}
	}
	in.rest()
	if r.model {
		r.join(h, assistant.New(assistant.Config{Model: "m", BaseURL: h.URL}))
	} else {
		r.join(h, peer)
	}
	if got := h.chat("T", "R2", "and now?"); !strings.Contains(types(got), "RUN_FINISHED") {
		t.Fatalf("the second run is %s: %s", types(got), got[len(got)-1].data)
	}
	return peer.body(1)
}

// modelsAt are the models of one server.
func modelsAt(t *testing.T, url string) llmproxy.Upstreams {
	t.Helper()
	models, err := llmproxy.Parse([]byte("upstreams: [{name: u, url: "+url+"/v1, models: ['*'], key_file: k}]"), func(string) (string, error) { return upstreamKey, nil })
	if err != nil {
		t.Fatal(err)
	}
	return models
}

// onlyMessages is the request that an agent makes of a body in OpenAI's form.
func onlyMessages(t *testing.T, body []byte) []byte {
	t.Helper()
	var in struct{ Messages json.RawMessage }
	if err := json.Unmarshal(body, &in); err != nil {
		t.Fatal(err)
	}
	return []byte(`{"messages":` + string(in.Messages) + `}`)
}

// adapted is a body of AG-UI's messages as adapters put it into OpenAI's form: each message by itself, nothing mended.
func adapted(t *testing.T, body []byte) []byte {
	t.Helper()
	var in struct {
		Messages []struct {
			Role, ToolCallID string
			Content          json.RawMessage
			ToolCalls        []map[string]any
		}
		Tools []struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		t.Fatal(err)
	}
	var list, tools []any
	for _, m := range in.Messages {
		if m.Role == "reasoning" {
			continue
		}
		one := map[string]any{"role": m.Role, "content": adaptedContent(t, m.Content)}
		if m.Role == "tool" {
			one["tool_call_id"] = m.ToolCallID
		}
		for _, call := range m.ToolCalls {
			delete(call, "metadata")
			delete(call, "encryptedValue")
		}
		if m.ToolCalls != nil {
			one["tool_calls"] = m.ToolCalls
		}
		list = append(list, one)
	}
	request := map[string]any{"messages": list}
	for _, tool := range in.Tools {
		tools = append(tools, map[string]any{"type": "function", "function": map[string]any{"name": tool.Name, "description": tool.Description, "parameters": tool.Parameters}})
	}
	if tools != nil {
		request["tools"] = tools
	}
	raw, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// adaptedContent is a content of AG-UI in OpenAI's form. Sounds and videos, which adapters of frameworks do not send, are
// left out.
func adaptedContent(t *testing.T, content json.RawMessage) any {
	t.Helper()
	var parts []struct {
		Type, Text string
		Source     struct{ Type, Value, MimeType string }
		Metadata   struct{ Filename string }
	}
	if len(content) == 0 || json.Unmarshal(content, &parts) != nil {
		var text *string
		if len(content) > 0 {
			if err := json.Unmarshal(content, &text); err != nil {
				t.Fatal(err)
			}
		}
		return text
	}
	list := []any{}
	for _, p := range parts {
		dataURL := "data:" + p.Source.MimeType + ";base64," + p.Source.Value
		switch p.Type {
		case "text":
			list = append(list, map[string]any{"type": "text", "text": p.Text})
		case "image":
			list = append(list, map[string]any{"type": "image_url", "image_url": map[string]any{"url": dataURL}})
		case "document":
			name := p.Metadata.Filename
			if name == "" {
				name = "file.pdf"
			}
			list = append(list, map[string]any{"type": "file", "file": map[string]any{"file_data": dataURL, "filename": name}})
		case "audio":
			list = append(list, map[string]any{"type": "input_audio", "input_audio": map[string]any{"data": p.Source.Value, "format": "mp3"}})
		case "video":
			list = append(list, map[string]any{"type": "text", "text": p.Source.Value})
		}
	}
	return list
}

// fitName is the form of a function's name.
var fitName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// TestToolNamesAreMappedBack: tools of a page whose names no model's API takes go to the agent under names that fit, each
// under another one, and its calls reach the page under its own names, whichever of the two the agent uses.
func TestToolNamesAreMappedBack(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 70)
	own := []string{"shop.search", "shop:search", "shop_search", "查询", long + "1", long + "2"}
	var declared []string
	for _, name := range own {
		declared = append(declared, fmt.Sprintf(`{"name":%q,"description":"d","parameters":{}}`, name))
	}
	for _, r := range roads() {
		for i, name := range own {
			for _, says := range []string{"the name that it was sent", "the page's name"} {
				t.Run(r.name+"/"+name+"/"+says, func(t *testing.T) {
					t.Parallel()
					h, peer := r.at(t, plan{}, func(n int, body []byte) string {
						var in struct{ Tools []struct{ Name string } }
						if err := json.Unmarshal(body, &in); err != nil || len(in.Tools) != len(own) {
							t.Errorf("%v: %s", err, body)
							return ""
						}
						call := in.Tools[i].Name
						if says == "the page's name" {
							call = name
						}
						switch {
						case n > 1 && r.protocol == httpagent.ProtocolAGUI:
							return aguiStream()
						case n > 1:
							return invokeStream()
						case r.protocol == httpagent.ProtocolAGUI:
							return aguiStream(callEvents(call, `{}`, false)...)
						}
						return fmt.Sprintf("event: call_client_tool\ndata: {\"id\":\"c1\",\"name\":%q,\"args\":{}}\n\nevent: done\ndata: {\"pending\":[\"c1\"]}\n\n", call)
					})
					body := strings.Replace(inputBody("T", "R1", "hi"), `"tools":[]`, `"tools":[`+strings.Join(declared, ",")+`]`, 1)
					first := h.open(h.request("POST", "/api/agui/chat", body)).rest()
					call := typed(first, "TOOL_CALL_START")
					if got := call.field("toolCallName"); got != name {
						t.Errorf("the page is called as %q: %s", got, types(first))
					}
					h.chatAnswer("T", "R2", call.field("toolCallId"), `{"ok":true}`)
					seen := make(map[string]bool)
					var in struct{ Tools []struct{ Name string } }
					if err := json.Unmarshal(peer.body(2), &in); err != nil {
						t.Fatal(err)
					}
					for _, tool := range in.Tools {
						if seen[tool.Name] || !fitName.MatchString(tool.Name) {
							t.Errorf("the agent is sent the tool %q", tool.Name)
						}
						seen[tool.Name] = true
					}
					sent := onlyMessages(t, peer.body(2))
					if r.form != httpagent.MessagesOpenAI {
						sent = adapted(t, peer.body(2))
					}
					if err := stricttest.OpenAI(sent); err != nil {
						t.Errorf("%v: %s", err, sent)
					}
					if !strings.Contains(string(sent), fmt.Sprintf(`"name":%q`, in.Tools[i].Name)) {
						t.Errorf("the call has another name than the tool %q: %s", in.Tools[i].Name, sent)
					}
				})
			}
		}
	}
}

// TestEmptyPromptIsRefused: a user's message with nothing in it begins no Turn, in whichever form it is empty.
func TestEmptyPromptIsRefused(t *testing.T) {
	t.Parallel()
	called := 0
	h, _ := roads()[0].at(t, plan{}, func(int, []byte) string { called++; return aguiStream() })
	for i, content := range []string{`""`, `" \n"`, `[]`, `[{"type":"text","text":""}]`} {
		for _, thread := range []string{fmt.Sprint("new", i), "T"} {
			if thread == "T" && i == 0 {
				h.chat("T", "R0", "hi")
			}
			body := fmt.Sprintf(`{"threadId":%q,"runId":"E%d%s","messages":[{"id":"e%d","role":"user","content":%s}]}`, thread, i, thread, i, content)
			if a := h.do("POST", "/api/agui/chat", body); a.status != 400 || !strings.Contains(a.body, `"nothing_to_do"`) {
				t.Errorf("%s in %s: %d %s", content, thread, a.status, a.body)
			}
		}
	}
	if called != 1 {
		t.Errorf("the agent was called %d times", called)
	}
	picture := `{"threadId":"T","runId":"P","messages":[{"id":"p","role":"user","content":[{"type":"image","source":{"type":"data","value":"iVBORw0KGgo=","mimeType":"image/png"}}]}]}`
	if a := h.do("POST", "/api/agui/chat", picture); a.status != 200 || called != 2 {
		t.Errorf("a picture alone: %d %s", a.status, a.body)
	}
}
