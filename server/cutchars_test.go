package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"aqueduct/agui"
)

// TestCutCharactersAreJoined: a character of which an agent sends the halves in two deltas is whole in the chat and in the
// history, whichever way the agent sends it.
func TestCutCharactersAreJoined(t *testing.T) {
	t.Parallel()
	const first, second = `a\ud83d`, `\ude00b`
	whole := "a😀b"
	args := func(text string) string { // the halves within a string of the arguments
		return strings.NewReplacer("FIRST", `{\"x\":\"`+first, "SECOND", second+`\"}`).Replace(text)
	}
	plain := func(text string) string { return strings.NewReplacer("FIRST", first, "SECOND", second).Replace(text) }
	agui := func(convert func(string) string, events ...string) string { return convert(aguiStream(events...)) }
	for _, c := range []struct {
		name  string
		road  road
		sends string
	}{
		{"AG-UI text", roads()[0], agui(plain, `{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"FIRST"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"SECOND"}`, `{"type":"TEXT_MESSAGE_END","messageId":"m"}`)},
		{"AG-UI text in chunks", roads()[0], agui(plain, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"FIRST"}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"SECOND"}`)},
		{"AG-UI text in chunks without an id", roads()[0], agui(plain, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"FIRST"}`, `{"type":"TEXT_MESSAGE_CHUNK","delta":"SECOND"}`)},
		{"AG-UI thoughts", roads()[0], agui(plain, `{"type":"REASONING_START","messageId":"m"}`, `{"type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning"}`,
			`{"type":"REASONING_MESSAGE_CONTENT","messageId":"m","delta":"FIRST"}`, `{"type":"REASONING_MESSAGE_CONTENT","messageId":"m","delta":"SECOND"}`,
			`{"type":"REASONING_MESSAGE_END","messageId":"m"}`, `{"type":"REASONING_END","messageId":"m"}`)},
		{"AG-UI thoughts of 0.x", roads()[0], agui(plain, `{"type":"THINKING_START"}`, `{"type":"THINKING_TEXT_MESSAGE_START"}`,
			`{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"FIRST"}`, `{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"SECOND"}`, `{"type":"THINKING_TEXT_MESSAGE_END"}`, `{"type":"THINKING_END"}`)},
		{"AG-UI thoughts in chunks", roads()[0], agui(plain, `{"type":"REASONING_MESSAGE_CHUNK","messageId":"m","delta":"FIRST"}`, `{"type":"REASONING_MESSAGE_CHUNK","delta":"SECOND"}`)},
		{"AG-UI arguments", roads()[0], agui(args, `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`, `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"FIRST"}`,
			`{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"SECOND"}`, `{"type":"TOOL_CALL_END","toolCallId":"c"}`, `{"type":"TOOL_CALL_RESULT","messageId":"r","toolCallId":"c","content":"1"}`)},
		{"AG-UI arguments in chunks", roads()[0], agui(args, `{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"f","delta":"FIRST"}`,
			`{"type":"TOOL_CALL_CHUNK","delta":"SECOND"}`, `{"type":"TOOL_CALL_RESULT","messageId":"r","toolCallId":"c","content":"1"}`)},
		{"AG-UI text with a call between", roads()[0], agui(plain, `{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"FIRST"}`, `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m"}`,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"SECOND"}`, `{"type":"TOOL_CALL_END","toolCallId":"c"}`, `{"type":"TEXT_MESSAGE_END","messageId":"m"}`,
			`{"type":"TOOL_CALL_RESULT","messageId":"r","toolCallId":"c","content":"1"}`)},
		{"AG-UI text with another message between", roads()[0], agui(plain, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"FIRST"}`,
			`{"type":"TEXT_MESSAGE_CHUNK","messageId":"n","delta":"other"}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"SECOND"}`)},
		{"AG-UI thoughts with text between", roads()[0], agui(plain, `{"type":"REASONING_MESSAGE_CHUNK","messageId":"m","delta":"FIRST"}`,
			`{"type":"TEXT_MESSAGE_CHUNK","messageId":"n","delta":"other"}`, `{"type":"REASONING_MESSAGE_CHUNK","messageId":"m","delta":"SECOND"}`)},
		{"HTTP text", roads()[1], plain(invokeStream("delta", `{"text":"FIRST"}`, "delta", `{"text":"SECOND"}`))},
		{"HTTP thoughts", roads()[1], plain(invokeStream("thought", `{"text":"FIRST"}`, "thought", `{"text":"SECOND"}`))},
		{"HTTP arguments", roads()[1], args(invokeStream("tool_call_start", `{"id":"c","name":"f"}`, "tool_call_args", `{"id":"c","delta":"FIRST"}`,
			"tool_call_args", `{"id":"c","delta":"SECOND"}`, "tool_call_end", `{"id":"c"}`, "tool_result", `{"id":"c","content":"1"}`))},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, _ := c.road.at(t, plan{}, func(int, []byte) string { return c.sends })
			live := ""
			for _, f := range h.chat("T", "R", "hi") {
				live += strings.TrimPrefix(f.field("delta"), "other")
			}
			if !strings.Contains(live, whole) {
				t.Errorf("the chat has %q", live)
			}
			if got := h.do("GET", "/api/threads/T/messages", "").body; !strings.Contains(got, whole) {
				t.Errorf("the history has %s", got)
			}
		})
	}
}

// TestNoLineEndsInData: U+0085, U+2028 and U+2029 end a line for requests.iter_lines and str.splitlines, though not for
// SSE. In the data lines of a live run, of a join and of each dialect they are escapes, and mean the same.
func TestNoLineEndsInData(t *testing.T) {
	t.Parallel()
	const ends = "\u0085\u2028\u2029"
	h, _ := roads()[0].at(t, plan{}, func(int, []byte) string {
		return aguiStream(`{"type":"STATE_SNAPSHOT","snapshot":{"a`+ends+`":"x`+ends+`"}}`, `{"type":"STATE_DELTA","delta":[{"op":"add","path":"/b","value":"`+ends+`"}]}`,
			`{"type":"CUSTOM","name":"n","value":{"v":"`+ends+`"}}`, `{"type":"RAW","event":{"v":"`+ends+`"}}`, `{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"p","content":{"v":"`+ends+`"}}`,
			`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`, `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{\"v\":\"`+ends+`\"}"}`, `{"type":"TOOL_CALL_END","toolCallId":"c"}`,
			`{"type":"TOOL_CALL_RESULT","messageId":"r","toolCallId":"c","content":"`+ends+`"}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"`+ends+`"}`)
	})
	body := inputBody("T", "R", "said"+ends)
	seen := 0
	for _, c := range []struct{ name, method, path, body string }{
		{"live", "POST", "/api/agui/chat", body},
		{"join", "POST", "/api/agui/connect", `{"threadId":"T","runId":"J","messages":[]}`},
		{"join of 0.x", "POST", "/api/agui/connect?dialect=agui-0.x", `{"threadId":"T","runId":"J0","messages":[]}`},
		{"TDesign", "POST", "/api/agui/chat?dialect=tdesign", `{"threadId":"T","runId":"R2","messages":[{"id":"u2","role":"user","content":"again"}]}`},
		{"the trace", "GET", "/api/sessions/T/trace", ""},
	} {
		got := h.do(c.method, c.path, c.body, "Accept", "text/event-stream")
		for line := range strings.Lines(got.body) {
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok {
				continue
			}
			seen += strings.Count(data, `\u0085\u2028\u2029`)
			if strings.ContainsAny(data, ends) || !json.Valid([]byte(data)) {
				t.Errorf("%s: %q", c.name, data)
			}
		}
	}
	if seen < 20 { // of the texts above, live and in a join
		t.Errorf("the texts were seen %d times", seen)
	}
	messages, _ := h.snapshotOf("T")
	if i := len(messages) - 1; i < 0 || !hasText(messages, ends) {
		t.Errorf("the join has %+v", messages)
	}
}

// hasText reports whether an assistant's message is the text.
func hasText(messages []agui.Message, text string) bool {
	for _, m := range messages {
		if m.Role == agui.RoleAssistant && m.Content.String() == text {
			return true
		}
	}
	return false
}
