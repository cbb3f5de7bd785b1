package stricttest

import (
	"strings"
	"testing"
)

// judged is one request, and a word of its refusal; "" where it is taken.
type judged struct{ name, body, refused string }

// TestOpenAI judges one request for each rule, and the requests that OpenAI takes.
func TestOpenAI(t *testing.T) {
	t.Parallel()
	const (
		user   = `{"role":"user","content":"Hi"}`
		call   = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]}`
		result = `{"role":"tool","tool_call_id":"c1","content":"seen"}`
	)
	file := func(parts string) string { return `{"messages":[{"role":"user","content":[` + parts + `]}]}` }
	for _, c := range []judged{
		{"a conversation", `{"messages":[` + user + `,` + call + `,` + result + `]}`, ""},
		{"no messages", `{"messages":[]}`, "minimum length 1"},
		{"a call without a result", `{"messages":[` + user + `,` + call + `,` + user + `]}`, "no tool message"},
		{"a call at the end", `{"messages":[` + call + `]}`, "no tool message"},
		{"a result without a call", `{"messages":[` + user + `,` + result + `]}`, "an earlier message"},
		{"a result twice", `{"messages":[` + call + `,` + result + `,` + result + `]}`, "an earlier message"},
		{"broken arguments", `{"messages":[` + strings.Replace(call, `"{}"`, `"{\"a\":"`, 1) + `,` + result + `]}`, "arguments"},
		{"null as arguments", `{"messages":[` + strings.Replace(call, `"{}"`, `"null"`, 1) + `,` + result + `]}`, "arguments"},
		{"a name with a dot", `{"messages":[` + strings.Replace(call, `look`, `a.look`, 1) + `,` + result + `]}`, "does not match"},
		{"an empty assistant", `{"messages":[{"role":"assistant","content":null}]}`, "non-empty"},
		{"no calls", `{"messages":[{"role":"assistant","content":"Hi","tool_calls":[]}]}`, "minimum length 1"},
		{"empty parts", `{"messages":[{"role":"user","content":[]}]}`, "non-empty"},
		{"an unknown member", `{"messages":[{"role":"user","content":"Hi","id":"1"}]}`, "Unrecognized"},
		{"a picture", file(`{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}`), ""},
		{"a picture doubly encoded", file(`{"type":"image_url","image_url":{"url":"data:;base64,data:image/png;base64,QUJD"}}`), "data URL"},
		{"a picture in base64url", file(`{"type":"image_url","image_url":{"url":"data:image/png;base64,-_8"}}`), "base64"},
		{"a picture of another kind", file(`{"type":"image_url","image_url":{"url":"data:image/bmp;base64,QUJD"}}`), "unsupported"},
		{"a file", file(`{"type":"file","file":{"file_data":"data:application/pdf;base64,QUJD","filename":"a.pdf"}}`), ""},
		{"a file without a name", file(`{"type":"file","file":{"file_data":"data:application/pdf;base64,QUJD"}}`), "filename"},
		{"audio of another format", file(`{"type":"input_audio","input_audio":{"data":"QUJD","format":"ogg"}}`), "wav and mp3"},
		{"a tool", `{"messages":[` + user + `],"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{}}}}]}`, ""},
		{"a schema of no type", `{"messages":[` + user + `],"tools":[{"type":"function","function":{"name":"look","parameters":{}}}]}`, "type"},
		{"an array of anything", `{"messages":[` + user + `],"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{"a":{"type":"array"}}}}}]}`, "items"},
		{"no tools", `{"messages":[` + user + `],"tools":[]}`, "expected 1"},
	} {
		c.judge(t, OpenAI)
	}
}

func (c judged) judge(t *testing.T, by func([]byte) error) {
	t.Run(c.name, func(t *testing.T) {
		switch err := by([]byte(c.body)); {
		case c.refused == "" && err != nil:
			t.Errorf("refused: %v", err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("got %v, want a refusal with %q", err, c.refused)
		}
	})
}
