package httpagent

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/bridge"
)

// TestMessagesInOpenAIsForm: what an agent gets that asked for it can be sent on to a chat completion as it is: roles,
// tool_calls with arguments as text, a result for each by tool_call_id, pictures as image_url, and nothing else.
func TestMessagesInOpenAIsForm(t *testing.T) {
	t.Parallel()
	var messages []agui.Message
	err := json.Unmarshal([]byte(`[
		{"id":"s","role":"system","content":"Be brief."},
		{"id":"u1","role":"user","name":"Ada L.","content":[{"type":"text","text":"What is it?"},
			{"type":"image","source":{"type":"data","value":"QUJD","mimeType":"image/png"}},
			{"type":"image","source":{"type":"data","value":"%not=base64%","mimeType":"image/png"}},
			{"type":"document","source":{"type":"data","value":"QUJDR","mimeType":"application/pdf"}},
			{"type":"image","source":{"type":"url","value":"https://x.example/a.png"}},
			{"type":"audio","source":{"type":"data","value":"QUJD","mimeType":"audio/mpeg"}},
			{"type":"document","source":{"type":"data","value":"QUJD","mimeType":"application/pdf"}},
			{"type":"video","source":{"type":"url","value":"https://x.example/a.mp4"}}]},
		{"id":"r","role":"reasoning","content":"Hm."},
		{"id":"a1","role":"assistant","name":"dev","content":"I look.","toolCalls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"at\":1}"}},
			{"id":"c2","type":"function","function":{"name":"ask","arguments":"{}"}}]},
		{"id":"t1","role":"tool","toolCallId":"c1","content":"{\"seen\":true}"},
		{"id":"t0","role":"tool","toolCallId":"lost","content":"of a call that is not there"},
		{"id":"x","role":"activity","activityType":"p","content":{}},
		{"id":"a2","role":"assistant","content":""},
		{"id":"u2","role":"user","content":"Go on."}]`), &messages)
	if err != nil {
		t.Fatal(err)
	}
	var body struct {
		Input    json.RawMessage `json:"input_message"`
		Messages json.RawMessage
		Tools    []any
	}
	agent := serve(t, Limits{}, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(raw, &body); err != nil {
			t.Errorf("%v: %s", err, raw)
		}
		stream(w, "event: done\ndata: {}\n\n")
	})
	agent.cfg.Messages = MessagesOpenAI
	turn, err := agent.Start(t.Context(), bridge.Call{TurnID: uuid.NewString(), Messages: messages, Tools: []agui.Tool{{Name: "look"}}})
	if err != nil {
		t.Fatal(err)
	}
	turn.Release()
	want := `[{"role":"system","content":"Be brief."},` +
		`{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}},` +
		`{"type":"image_url","image_url":{"url":"https://x.example/a.png"}},{"type":"input_audio","input_audio":{"data":"QUJD","format":"mp3"}},` +
		`{"type":"file","file":{"filename":"file.pdf","file_data":"data:application/pdf;base64,QUJD"}}],"name":"Ada_L_"},` +
		`{"role":"assistant","content":"I look.","name":"dev","tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"at\":1}"}},` +
		`{"id":"c2","type":"function","function":{"name":"ask","arguments":"{}"}}]},` +
		`{"role":"tool","content":"{\"seen\":true}","tool_call_id":"c1"},{"role":"tool","content":"{\"status\":\"no_result\"}","tool_call_id":"c2"},` +
		`{"role":"user","content":"Go on."}]`
	if string(body.Messages) != want || string(body.Input) != `{"role":"user","content":"Go on."}` || len(body.Tools) != 1 {
		t.Errorf("\n%s\n%s\n%s", body.Messages, want, body.Input)
	}
}

// TestStreamedArguments: a call whose arguments come as the model writes them, under the id that its result and a call of
// :invoke by that name have.
func TestStreamedArguments(t *testing.T) {
	t.Parallel()
	turnID := uuid.NewString()
	tr := newTranslator(turnID, newID)
	var got []string
	for _, f := range []frame{
		{event: "delta", data: []byte(`{"text":"look: "}`)},
		{event: "tool_call_start", data: []byte(`{"id":"c1","name":"look"}`)},
		{event: "tool_call_args", data: []byte(`{"id":"c1","delta":"{\"a"}`)},
		{event: "tool_call_args", data: []byte(`{"id":"c1","delta":"t\":1}"}`)},
		{event: "tool_call_end", data: []byte(`{"id":"c1"}`)},
		{event: "tool_result", data: []byte(`{"id":"c1","content":"seen"}`)},
	} {
		outputs, err := tr.translate(nil, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range outputs {
			switch e := o.Event.(type) {
			case *agui.ToolCallStart:
				got = append(got, "start "+e.ToolCallID+" "+e.ToolCallName)
			case *agui.ToolCallArgs:
				got = append(got, "args "+e.ToolCallID+" "+e.Delta)
			case *agui.ToolCallEnd:
				got = append(got, "end "+e.ToolCallID)
			case *agui.ToolCallResult:
				got = append(got, "result "+e.ToolCallID)
			}
		}
	}
	id := bridge.ToolCallID(turnID, "c1")
	want := strings.ReplaceAll(`start ID look, args ID {"a, args ID t":1}, end ID, result ID`, "ID", id)
	if strings.Join(got, ", ") != want {
		t.Errorf("%q\n%s", got, want)
	}
	for _, bad := range []frame{
		{event: "tool_call_start", data: []byte(`{"id":"c2"}`)}, {event: "tool_call_args", data: []byte(`{"id":"c1"}`)},
		{event: "tool_call_end", data: []byte(`{}`)}, {event: "tool_call_args", data: []byte(`{"id":"c1","delta":1}`)},
	} {
		if _, err := tr.translate(nil, bad); err == nil {
			t.Errorf("%s %s is taken", bad.event, bad.data)
		}
	}
}
