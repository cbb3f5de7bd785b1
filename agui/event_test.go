package agui_test

import (
	"testing"

	"aqueduct/agui"
)

// wire holds every event type twice: with all members and with the required
// ones alone.
func wire() map[agui.Type][2]string {
	const sub = `,"subagentRunId":"s1"`
	const tail = `,"timestamp":1700000000000,"rawEvent":{"n":9007199254740993},"metadata":{"k":null}}`
	const message = `{"id":"m1","role":"assistant","content":"hi","toolCalls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"},"encryptedValue":"E","metadata":{"a":1}}],"name":"n","encryptedValue":"E","subagentRunId":"s1","metadata":{"b":2}}`
	const usage = `,"usage":[{"provider":"p","model":"m","inputTokens":0,"outputTokens":2,"totalTokens":2,"reasoningTokens":1,"cachedInputTokens":0,"cacheWriteInputTokens":3}]`
	ev := func(t agui.Type, full, required string) [2]string {
		head := `{"type":"` + string(t) + `"`
		return [2]string{head + full, head + required + "}"}
	}
	id := `,"messageId":"m1"`
	call := `,"toolCallId":"c1"`
	all := map[agui.Type][2]string{
		agui.TypeRunStarted: ev(agui.TypeRunStarted,
			`,"threadId":"t","runId":"r","protocolVersion":"1.0","parentRunId":"p","input":{"threadId":"t","runId":"r","parentRunId":"p","protocolVersion":"1.0","state":{"a":1},"messages":[`+message+`],"tools":[{"name":"f","description":"d","parameters":{"type":"object"},"metadata":{"x":1}}],"context":[{"description":"d","value":"v"}],"forwardedProps":{"z":[]},"resume":[{"interruptId":"i","status":"resolved","payload":{"ok":true},"metadata":{"y":1}}]}`+tail,
			`,"threadId":"t","runId":"r"`),
		agui.TypeRunFinished: ev(agui.TypeRunFinished,
			`,"threadId":"t","runId":"r","result":[1],"outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"tool_call","message":"m","toolCallId":"c1","responseSchema":{"type":"object"},"expiresAt":"2026-01-01T00:00:00Z","metadata":{"q":1},"subagentRunId":"s1"}]}`+usage+tail,
			`,"threadId":"t","runId":"r"`),
		agui.TypeRunError:           ev(agui.TypeRunError, `,"message":"m","code":"c"`+usage+tail, `,"message":"m"`),
		agui.TypeStepStarted:        ev(agui.TypeStepStarted, `,"stepName":"n"`+sub+tail, `,"stepName":"n"`),
		agui.TypeStepFinished:       ev(agui.TypeStepFinished, `,"stepName":"n"`+sub+tail, `,"stepName":"n"`),
		agui.TypeTextMessageStart:   ev(agui.TypeTextMessageStart, id+`,"role":"user","name":"n"`+sub+tail, id),
		agui.TypeTextMessageContent: ev(agui.TypeTextMessageContent, id+`,"delta":"d"`+sub+tail, id+`,"delta":""`),
		agui.TypeTextMessageEnd:     ev(agui.TypeTextMessageEnd, id+sub+tail, id),
		agui.TypeTextMessageChunk:   ev(agui.TypeTextMessageChunk, id+`,"role":"system","name":"n","delta":"d"`+sub+tail, ``),
		agui.TypeToolCallStart:      ev(agui.TypeToolCallStart, call+`,"toolCallName":"f","parentMessageId":"m1"`+sub+tail, call+`,"toolCallName":"f"`),
		agui.TypeToolCallArgs:       ev(agui.TypeToolCallArgs, call+`,"delta":"{"`+sub+tail, call+`,"delta":""`),
		agui.TypeToolCallEnd:        ev(agui.TypeToolCallEnd, call+sub+tail, call),
		agui.TypeToolCallChunk:      ev(agui.TypeToolCallChunk, call+`,"toolCallName":"f","parentMessageId":"m1","delta":"{}"`+sub+tail, ``),
		agui.TypeToolCallResult: ev(agui.TypeToolCallResult,
			id+call+`,"content":[{"type":"text","text":"x","id":"p1","metadata":{"a":1}},{"type":"image","source":{"type":"data","value":"AA==","mimeType":"image/png"}},{"type":"hologram","depth":3}],"role":"tool"`+sub+tail,
			id+call+`,"content":""`),
		agui.TypeStateSnapshot:    ev(agui.TypeStateSnapshot, `,"snapshot":{"n":9007199254740993}`+sub+tail, `,"snapshot":null`),
		agui.TypeStateDelta:       ev(agui.TypeStateDelta, `,"delta":[{"op":"add","path":"/a","value":1}]`+sub+tail, `,"delta":[]`),
		agui.TypeMessagesSnapshot: ev(agui.TypeMessagesSnapshot, `,"messages":[`+message+`,{"id":"u","role":"user","content":[{"type":"document","source":{"type":"file","value":"h","provider":"p","mimeType":"a/b"}}]},{"id":"t","role":"tool","content":"r","toolCallId":"c1","error":"e"},{"id":"s","role":"system","content":""},{"id":"d","role":"developer","content":"d"},{"id":"r","role":"reasoning","content":"hm","encryptedValue":"E"},{"id":"a","role":"activity","activityType":"plan","content":{"n":1}},{"id":"b","role":"assistant"},{"id":"c","role":"assistant","content":""}]`+tail, `,"messages":[]`),
		agui.TypeActivitySnapshot: ev(agui.TypeActivitySnapshot, id+`,"activityType":"plan","content":{"a":1},"replace":false`+sub+tail, id+`,"activityType":"plan","content":{}`),
		agui.TypeActivityDelta:    ev(agui.TypeActivityDelta, id+`,"activityType":"plan","patch":[{"op":"remove","path":"/a"}]`+sub+tail, id+`,"activityType":"plan","patch":[]`),

		agui.TypeReasoningStart:          ev(agui.TypeReasoningStart, id+sub+tail, id),
		agui.TypeReasoningEnd:            ev(agui.TypeReasoningEnd, id+sub+tail, id),
		agui.TypeReasoningMessageStart:   ev(agui.TypeReasoningMessageStart, id+`,"role":"reasoning"`+sub+tail, id+`,"role":"reasoning"`),
		agui.TypeReasoningMessageContent: ev(agui.TypeReasoningMessageContent, id+`,"delta":"d"`+sub+tail, id+`,"delta":""`),
		agui.TypeReasoningMessageEnd:     ev(agui.TypeReasoningMessageEnd, id+sub+tail, id),
		agui.TypeReasoningMessageChunk:   ev(agui.TypeReasoningMessageChunk, id+`,"delta":"d"`+sub+tail, ``),
		agui.TypeReasoningEncryptedValue: ev(agui.TypeReasoningEncryptedValue, `,"subtype":"tool-call","entityId":"c1","encryptedValue":"E"`+sub+tail, `,"subtype":"message","entityId":"m1","encryptedValue":""`),
		agui.TypeRaw:                     ev(agui.TypeRaw, `,"event":{"a":[1,null]},"source":"s"`+sub+tail, `,"event":null`),
		agui.TypeCustom:                  ev(agui.TypeCustom, `,"name":"n","value":1.50`+sub+tail, `,"name":"n","value":null`),
		agui.TypeSubagentStarted:         ev(agui.TypeSubagentStarted, sub+`,"name":"n","description":"d","parentSubagentRunId":"s0","parentToolCallId":"c1","parentMessageId":"m1"`+tail, sub+`,"name":"n"`),
		agui.TypeSubagentFinished:        ev(agui.TypeSubagentFinished, sub+`,"result":1,"outcome":{"type":"suspended","interruptIds":["i"]}`+tail, sub),
		agui.TypeSubagentError:           ev(agui.TypeSubagentError, sub+`,"message":"m","code":"c"`+tail, sub+`,"message":""`),
	}
	return all
}

func TestEveryTypeRoundTrips(t *testing.T) {
	t.Parallel()
	all := wire()
	if len(agui.Types()) != 31 || len(all) != 31 {
		t.Fatalf("%d types, %d of them here; AG-UI 1.0 has 31", len(agui.Types()), len(all))
	}
	for _, typ := range agui.Types() {
		for i, name := range []string{"full", "required"} {
			t.Run(string(typ)+"/"+name, func(t *testing.T) {
				t.Parallel()
				want := all[typ][i]
				ev, err := agui.Decode([]byte(want))
				if err != nil {
					t.Fatalf("Decode(%s): %v", want, err)
				}
				if ev.EventType() != typ {
					t.Errorf("type %s", ev.EventType())
				}
				got := string(ev.AppendJSON(nil))
				if got != want {
					t.Errorf("encoded\n%s\nwant\n%s", got, want)
				}
				if agui.TypeOf([]byte(got)) != typ {
					t.Errorf("TypeOf = %q", agui.TypeOf([]byte(got)))
				}
				terminal := typ == agui.TypeRunFinished || typ == agui.TypeRunError
				if agui.IsTerminal([]byte(got)) != terminal {
					t.Errorf("IsTerminal = %v", !terminal)
				}
			})
		}
	}
}

func TestTypeOfForeignBytes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]agui.Type{
		``:                          "",
		`{"type":"`:                 "",
		`{"type":"NEW_THING","a"`:   "NEW_THING",
		`{"a":1,"type":"CUSTOM"}`:   "",
		`[{"type":"RUN_FINISHED"}]`: "",
	} {
		if got := agui.TypeOf([]byte(in)); got != want {
			t.Errorf("TypeOf(%s) = %q, want %q", in, got, want)
		}
		if agui.IsTerminal([]byte(in)) {
			t.Errorf("IsTerminal(%s)", in)
		}
	}
	if agui.IsTerminal([]byte(`{"type":"RUN_FINISHED_LATER"}`)) {
		t.Error("a longer name is another type")
	}
}
