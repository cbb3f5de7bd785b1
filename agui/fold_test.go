package agui_test

import (
	"encoding/json"
	"strings"
	"testing"

	"aqueduct/agui"
)

func foldOf(t testing.TB, history string, lines ...string) *agui.Fold {
	t.Helper()
	var list []agui.Message
	if history != "" {
		if err := json.Unmarshal([]byte(history), &list); err != nil {
			t.Fatal(err)
		}
	}
	f := agui.NewFold(list)
	for _, l := range lines {
		if err := f.ApplyJSON([]byte(l)); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
	}
	return f
}

func messagesJSON(list []agui.Message) string {
	var b strings.Builder
	for i := range list {
		if i > 0 {
			b.WriteString("\n")
		}
		b.Write(list[i].AppendJSON(nil))
	}
	return b.String()
}

func TestFold(t *testing.T) {
	t.Parallel()
	const tool = `"type":"function","function":{"name":"f","arguments":`
	for name, c := range map[string]struct {
		history string
		stream  []string
		want    string
	}{
		"text": {"", []string{`{"type":"TEXT_MESSAGE_START","messageId":"m","name":"n","subagentRunId":"s"}`, textDelta("m", "Hel"), textDelta("m", "lo"), textEnd("m")},
			`{"id":"m","role":"assistant","content":"Hello","name":"n","subagentRunId":"s"}`},
		"reopened": {"", []string{textStart("m"), textDelta("m", "a"), textEnd("m"), textStart("n"), textDelta("n", "-"), textStart("m"), textDelta("m", "b")},
			"{\"id\":\"m\",\"role\":\"assistant\",\"content\":\"ab\"}\n{\"id\":\"n\",\"role\":\"assistant\",\"content\":\"-\"}"},
		"text of a user": {"", []string{`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"user"}`}, `{"id":"m","role":"user","content":""}`},
		"call without parent": {"", []string{callStart("c"), callArgs("c", `{\"a\":`), callArgs("c", `1}`), callEnd("c")},
			`{"id":"c","role":"assistant","toolCalls":[{"id":"c",` + tool + `"{\"a\":1}"}}]}`},
		"call under its message": {"", []string{textStart("m"), textDelta("m", "x"), `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m"}`},
			`{"id":"m","role":"assistant","content":"x","toolCalls":[{"id":"c",` + tool + `""}}]}`},
		"call under a message to come": {"", []string{`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m"}`, textStart("m"), textDelta("m", "x")},
			`{"id":"m","role":"assistant","content":"x","toolCalls":[{"id":"c",` + tool + `""}}]}`},
		"call under a user's message": {`[{"id":"u","role":"user","content":"hi"}]`, []string{`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"u"}`},
			`{"id":"u","role":"user","content":"hi"}` + "\n" + `{"id":"c","role":"assistant","toolCalls":[{"id":"c",` + tool + `""}}]}`},
		"call started twice": {"", []string{callStart("c"), callArgs("c", "1"), callEnd("c"), `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"g"}`, callArgs("c", "2")},
			`{"id":"c","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"g","arguments":"12"}}]}`},
		"results stand behind their call": {"", []string{callStart("c"), callStart("d"), textStart("m"), textDelta("m", "x"), callResult("c"), callResult("d"), callResult("z")},
			`{"id":"c","role":"assistant","toolCalls":[{"id":"c",` + tool + `""}}]}` + "\n" +
				`{"id":"res-c","role":"tool","content":"{}","toolCallId":"c"}` + "\n" +
				`{"id":"d","role":"assistant","toolCalls":[{"id":"d",` + tool + `""}}]}` + "\n" +
				`{"id":"res-d","role":"tool","content":"{}","toolCallId":"d"}` + "\n" +
				`{"id":"m","role":"assistant","content":"x"}` + "\n" +
				`{"id":"res-z","role":"tool","content":"{}","toolCallId":"z"}`},
		"a result told twice": {"", []string{callStart("c"), callResult("c"), `{"type":"TOOL_CALL_RESULT","messageId":"res-c","toolCallId":"c","content":"2"}`},
			`{"id":"c","role":"assistant","toolCalls":[{"id":"c",` + tool + `""}}]}` + "\n" + `{"id":"res-c","role":"tool","content":"2","toolCallId":"c"}`},
		"reasoning": {"", []string{thought("START", "s"), thought("MESSAGE_START", "x"), thought("MESSAGE_CONTENT", "x"), thought("MESSAGE_END", "x"), thought("END", "s")},
			`{"id":"x","role":"reasoning","content":"hm"}`},
		"encrypted values": {"", []string{thought("MESSAGE_START", "x"), callStart("c"), `{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"x","encryptedValue":"E"}`, `{"type":"REASONING_ENCRYPTED_VALUE","subtype":"tool-call","entityId":"c","encryptedValue":"F"}`},
			`{"id":"x","role":"reasoning","content":"","encryptedValue":"E"}` + "\n" + `{"id":"c","role":"assistant","toolCalls":[{"id":"c",` + tool + `""},"encryptedValue":"F"}]}`},
		"metadata merges": {"", []string{`{"type":"TEXT_MESSAGE_START","messageId":"m","metadata":{"a":{"x":1},"b":1}}`, `{"type":"TEXT_MESSAGE_END","messageId":"m","metadata":{"a":2,"c":9007199254740993}}`, `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m","metadata":{"k":1}}`},
			`{"id":"m","role":"assistant","content":"","toolCalls":[{"id":"c",` + tool + `""},"metadata":{"k":1}}],"metadata":{"a":2,"b":1,"c":9007199254740993}}`},
		"activity": {"", []string{`{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"p","content":{"n":[1],"x":1e2},"metadata":{"k":1}}`, `{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"q","patch":[{"op":"add","path":"/n/-","value":2}]}`},
			`{"id":"a","role":"activity","activityType":"q","content":{"n":[1,2],"x":1e2},"metadata":{"k":1}}`},
		"activity kept": {"", []string{`{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"p","content":{"n":1}}`, `{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"p","content":{"n":2},"replace":false}`},
			`{"id":"a","role":"activity","activityType":"p","content":{"n":1}}`},
		"activity replaced": {"", []string{`{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"p","content":{"n":1},"metadata":{"k":1}}`, `{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"q","content":{"n":2}}`},
			`{"id":"a","role":"activity","activityType":"q","content":{"n":2},"metadata":{"k":1}}`},
		"a patch that fails": {"", []string{`{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"p","content":{"n":1}}`, `{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"p","patch":[{"op":"replace","path":"/n","value":2},{"op":"remove","path":"/z"}]}`},
			`{"id":"a","role":"activity","activityType":"p","content":{"n":1}}`},
		"text into an activity": {"", []string{`{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"p","content":{}}`, textStart("a"), textDelta("a", "x")},
			`{"id":"a","role":"activity","activityType":"p","content":{}}`},
		"snapshot merges": {`[{"id":"u","role":"user","content":"old"},{"id":"gone","role":"assistant","content":""},{"id":"r","role":"reasoning","content":"hm"},{"id":"a","role":"activity","activityType":"p","content":{}}]`,
			[]string{`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"new","role":"assistant","content":"n"},{"id":"u","role":"user","content":"u"}]}`, textStart("new"), textDelta("new", "!")},
			`{"id":"u","role":"user","content":"u"}` + "\n" + `{"id":"r","role":"reasoning","content":"hm"}` + "\n" + `{"id":"a","role":"activity","activityType":"p","content":{}}` + "\n" + `{"id":"new","role":"assistant","content":"n!"}`},
		"snapshot that tells reasoning": {`[{"id":"r","role":"reasoning","content":"hm"}]`, []string{`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"r2","role":"reasoning","content":"hm"}]}`},
			`{"id":"r2","role":"reasoning","content":"hm"}`},
		"input of the run": {`[{"id":"u","role":"user","content":"mine"}]`, []string{`{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"messages":[{"id":"u","role":"user","content":"theirs"},{"id":"v","role":"user","content":"v"}]}}`},
			`{"id":"u","role":"user","content":"mine"}` + "\n" + `{"id":"v","role":"user","content":"v"}`},
		"what is not there": {"", []string{textDelta("m", "x"), textEnd("m"), callArgs("c", "x"), callEnd("c"), `{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"p","patch":[]}`, `{"type":"CUSTOM","name":"n"}`}, ""},
		"rejoin": {"", []string{`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","content":"Hel","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":"}}]}]}`, textStart("m"), textDelta("m", "lo"), `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`, callArgs("c", "1}")},
			`{"id":"m","role":"assistant","content":"Hello","toolCalls":[{"id":"c",` + tool + `"{\"a\":1}"}}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := messagesJSON(foldOf(t, c.history, c.stream...).Messages()); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestFoldNew(t *testing.T) {
	t.Parallel()
	f := foldOf(t, `[{"id":"u","role":"user","content":"hi"},{"id":"a","role":"assistant","content":"x"},{"id":"b","role":"assistant","content":"y"}]`,
		textStart("a"), textDelta("a", "!"), textEnd("a"), textStart("n"), textDelta("n", "new"))
	want := `{"id":"a","role":"assistant","content":"x!"}` + "\n" + `{"id":"n","role":"assistant","content":"new"}`
	if got := messagesJSON(f.New()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n := len(f.Messages()); n != 4 {
		t.Errorf("%d messages", n)
	}
}

func TestFoldLeavesHistoryAlone(t *testing.T) {
	t.Parallel()
	history := []agui.Message{{ID: "a", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "c", Function: agui.FunctionCall{Name: "f"}}}}}
	f := agui.NewFold(history)
	f.Apply(&agui.ToolCallArgs{ToolCallID: "c", Delta: "{}"})
	before := f.Messages()
	f.Apply(&agui.ToolCallArgs{ToolCallID: "c", Delta: "more"})
	if history[0].ToolCalls[0].Function.Arguments != "" || before[0].ToolCalls[0].Function.Arguments != "{}" {
		t.Error("a message given away has changed")
	}
	if err := f.ApplyJSON([]byte(`{"type":"NOPE"}`)); err == nil {
		t.Error("an unknown type is told")
	}
}

func BenchmarkFoldLongText(b *testing.B) {
	f := agui.NewFold(nil)
	f.Apply(&agui.TextMessageStart{MessageID: "m"})
	ev := &agui.TextMessageContent{MessageID: "m", Delta: "some words "}
	b.ReportAllocs()
	for b.Loop() {
		f.Apply(ev)
	}
}
