package tdesign_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"aqueduct/agui"
	"aqueduct/agui/tdesign"
)

const (
	started  = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`
	finished = `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`
)

// shown runs a log through the dialect and returns the events TDesign gets.
func shown(t testing.TB, state string, log ...string) []string {
	t.Helper()
	d := tdesign.New(json.RawMessage(state), nil, numbered)
	var out []byte
	for i, event := range log {
		out = d.AppendFrames(out, int64(i+1), []byte(event))
	}
	return data(t, out)
}

// data takes frames apart and judges their form: an id on an event's last frame
// only, ids that never go back, one line of JSON with a type in each.
func data(t testing.TB, frames []byte) []string {
	t.Helper()
	var list []string
	var last int64
	if len(frames) == 0 {
		return nil
	}
	body, ok := bytes.CutSuffix(frames, []byte("\n\n"))
	if !ok {
		t.Fatalf("the last frame is not closed: %q", frames)
	}
	for _, frame := range strings.Split(string(body), "\n\n") {
		if id, rest, found := strings.Cut(frame, "\n"); found {
			n, err := strconv.ParseInt(strings.TrimPrefix(id, "id: "), 10, 64)
			if err != nil || n < last {
				t.Fatalf("id %q after %d", id, last)
			}
			last, frame = n, rest
		}
		event, ok := strings.CutPrefix(frame, "data: ")
		var typed struct{ Type string }
		if !ok || json.Unmarshal([]byte(event), &typed) != nil || typed.Type == "" {
			t.Fatalf("not a frame: %q", frame)
		}
		list = append(list, event)
	}
	return list
}

func same(t testing.TB, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func text(kind, id, delta string) string {
	s := `{"type":"TEXT_MESSAGE_` + kind + `","messageId":"` + id + `"`
	switch kind {
	case "START":
		s += `,"role":"assistant"`
	case "CONTENT":
		s += `,"delta":"` + delta + `"`
	}
	return s + "}"
}

func thought(kind, delta string) string {
	s := `{"type":"REASONING_` + kind + `","messageId":"x"`
	if delta != "" {
		s += `,"delta":` + strconv.Quote(delta)
	}
	return s + "}"
}

func thinking(deltas ...string) []string {
	list := []string{`{"type":"THINKING_START"}`, `{"type":"THINKING_TEXT_MESSAGE_START"}`}
	for _, d := range deltas {
		list = append(list, `{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":`+strconv.Quote(d)+`}`)
	}
	return append(list, `{"type":"THINKING_TEXT_MESSAGE_END"}`, `{"type":"THINKING_END"}`)
}

func join(lists ...[]string) []string {
	var all []string
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func TestReasoningBecomesThinking(t *testing.T) {
	t.Parallel()
	got := shown(t, "", started, thought("START", ""), thought("MESSAGE_START", ""), thought("MESSAGE_CONTENT", "Let me"), thought("MESSAGE_CONTENT", " 20"), thought("MESSAGE_END", ""), thought("END", ""),
		`{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"x","encryptedValue":"E"}`, finished)
	same(t, got, join([]string{started}, thinking("Let me", " 20"), []string{finished})...)
}

// TestThinkingHeldUntilNotJSON: of two deltas that are JSON, TDesign keeps one.
func TestThinkingHeldUntilNotJSON(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want []string }{
		"numbers":         {[]string{"20", "26", " ok"}, []string{"2026 ok"}},
		"a list":          {[]string{"1", ". first", " 2"}, []string{"1. first", " 2"}},
		"words":           {[]string{"The", " 20"}, []string{"The", " 20"}},
		"begins as true":  {[]string{"t", "r", "u", "e", "ly"}, []string{"truely"}},
		"an object":       {[]string{`{"a":`, `1}`, `{"b":2}`}, []string{`{"a":1}{"b":2}`}},
		"all of it JSON":  {[]string{`{"a":`, `1}`}, []string{`{"a":1}`}},
		"a quoted letter": {[]string{`"`, `abc`, `"`, ` he said`}, []string{`"abc" he said`}},
		"spaces":          {[]string{" ", " ", "7"}, []string{"  7"}},
		"two numbers":     {[]string{"20", " ", "26"}, []string{"20 26"}},
		"nothing":         {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := []string{started, thought("MESSAGE_START", "")}
			for _, d := range c.in {
				log = append(log, thought("MESSAGE_CONTENT", d))
			}
			got := shown(t, "", append(log, thought("MESSAGE_END", ""), finished)...)
			same(t, got, join([]string{started}, thinking(c.want...), []string{finished})...)
		})
	}
}

func TestLongJSONThoughtIsNotHeldForever(t *testing.T) {
	t.Parallel()
	delta := `["` + strings.Repeat("x", 5000)
	got := shown(t, "", started, thought("MESSAGE_START", ""), thought("MESSAGE_CONTENT", delta))
	if len(got) != 4 {
		t.Errorf("%d events", len(got))
	}
}

// TestThinkingClosedBeforeToolAndText: inside an open thinking block a card is
// invisible and a text never ends.
func TestThinkingClosedBeforeToolAndText(t *testing.T) {
	t.Parallel()
	call := `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`
	for name, next := range map[string]string{"tool": call, "text": text("START", "m", "")} {
		got := shown(t, "", started, thought("START", ""), thought("MESSAGE_START", ""), thought("MESSAGE_CONTENT", "7"), next)
		same(t, got, join([]string{started}, thinking("7"), []string{next})...)
		if t.Failed() {
			t.Log(name)
		}
	}
	got := shown(t, "", started, text("START", "m", ""), thought("MESSAGE_START", ""), thought("MESSAGE_CONTENT", "hm"), text("CONTENT", "m", "x"), finished)
	same(t, got, join([]string{started, text("START", "m", ""), text("END", "m", "")}, thinking("hm"),
		[]string{text("START", "m", ""), text("CONTENT", "m", "x"), text("END", "m", ""), finished})...)
}

// TestInterleavedTextTakesTurns: TDesign appends to the last block whatever id
// a delta has.
func TestInterleavedTextTakesTurns(t *testing.T) {
	t.Parallel()
	got := shown(t, "", started, text("START", "a", ""), text("CONTENT", "a", "1"), text("START", "b", ""), text("CONTENT", "b", "2"), text("CONTENT", "a", "3"), text("END", "b", ""), text("END", "a", ""), finished)
	same(t, got, started, text("START", "a", ""), text("CONTENT", "a", "1"), text("END", "a", ""),
		text("START", "b", ""), text("CONTENT", "b", "2"), text("END", "b", ""),
		text("START", "a", ""), text("CONTENT", "a", "3"), text("END", "a", ""), finished)
}

func TestTextAfterAToolIsANewBlock(t *testing.T) {
	t.Parallel()
	call := `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`
	got := shown(t, "", started, text("START", "a", ""), text("CONTENT", "a", "1"), call, text("CONTENT", "a", "2"), text("END", "a", ""))
	same(t, got, started, text("START", "a", ""), text("CONTENT", "a", "1"), text("END", "a", ""), call,
		text("START", "a", ""), text("CONTENT", "a", "2"), text("END", "a", ""))
}

func TestTextOfOthersIsNotTheAssistants(t *testing.T) {
	t.Parallel()
	got := shown(t, "", started, `{"type":"TEXT_MESSAGE_START","messageId":"u","role":"user"}`, text("CONTENT", "u", "x"), text("END", "u", ""), finished)
	same(t, got, started, finished)
}

func TestTextDeltaPassesUndecoded(t *testing.T) {
	d := tdesign.New(nil, nil, numbered)
	buf := d.AppendFrames(make([]byte, 0, 512), 1, []byte(text("START", "m", "")))
	event := []byte(text("CONTENT", "m", "words"))
	if n := testing.AllocsPerRun(100, func() { buf = d.AppendFrames(buf[:0], 2, event) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func result(content, name string) string {
	s := `{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":` + content + `,"role":"tool"`
	if name != "" {
		s += `,"toolCallName":"` + name + `"`
	}
	return s + "}"
}

// TestResultIsNamedJSONAndOnce: the next engine drops a result without a name,
// this one fails on one that is not JSON and merges a second into the first.
func TestResultIsNamedJSONAndOnce(t *testing.T) {
	t.Parallel()
	call := `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`
	for in, want := range map[string]string{
		`"{\"a\": 1}"`:                     `"{\"a\": 1}"`,
		`"plain \"words\""`:                `"\"plain \\\"words\\\"\""`,
		`""`:                               `"\"\""`,
		`[{"type":"text","text":"7"}]`:     `"7"`,
		`[{"type":"text","text":"seven"}]`: `"\"seven\""`,
	} {
		same(t, shown(t, "", started, call, result(in, "")+"", result(`"2"`, ""), finished), started, call, result(want, "f"), finished)
	}
	same(t, shown(t, "", started, result(`"1"`, "")), started, result(`"1"`, ""))
	bare := strings.Replace(result(`"1"`, ""), `,"role":"tool"`, "", 1)
	same(t, shown(t, "", started, bare), started, result(`"1"`, ""))
}

func TestCallsAreToldOnce(t *testing.T) {
	t.Parallel()
	call := `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`
	end := `{"type":"TOOL_CALL_END","toolCallId":"c"}`
	args := func(d string) string {
		return `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":` + strconv.Quote(d) + `}`
	}
	same(t, shown(t, "", started, end, call, args(`{"a":`), args(`1}`), end, call, end), started, call, args(`{"a":`), args(`1}`), end)
	// An agent that is called again may say it all once more: TDesign would put it behind the first.
	for _, whole := range []string{`{"a":"}\\\"{"}`, `2026`} {
		same(t, shown(t, "", started, call, args(whole), end, call, args(whole), end), started, call, args(whole), end)
	}
	// What was ended early for others' sake goes on.
	same(t, shown(t, "", started, call, args(`{"a":`), end, call, args(`1}`), end, call, args(`{`), end),
		started, call, args(`{"a":`), end, args(`1}`), end)
	question := `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"request_permission"}`
	same(t, shown(t, "", started, question, end, question, args(`{}`), end), started, question, end, args(`{}`), end)
	// Pieces that are JSON by themselves would replace each other.
	same(t, shown(t, "", started, call, args(`20`), args(`26`), end), started, call, args(`2026`), end)
}

// TestOptionIDsNameTheirQuestion: pages answer for the wrong card when two of
// one name are open; the option carries the id of the one that was meant.
func TestOptionIDsNameTheirQuestion(t *testing.T) {
	t.Parallel()
	start := `{"type":"TOOL_CALL_START","toolCallId":"q:1","toolCallName":"request_permission"}`
	end := `{"type":"TOOL_CALL_END","toolCallId":"q:1"}`
	args := func(d string) string {
		return `{"type":"TOOL_CALL_ARGS","toolCallId":"q:1","delta":` + strconv.Quote(d) + `}`
	}
	in := `{"title":"<rm>","args":{"id":"x","n":9007199254740993},"options":[{"id":"allow","kind":"allow_once"},{"optionId":"no","name":"No","id":"no"},7]}`
	want := `{"title":"<rm>","args":{"id":"x","n":9007199254740993},"options":[{"id":"q:1:0","kind":"allow_once"},{"optionId":"q:1:1","name":"No","id":"q:1:1"},7]}`
	same(t, shown(t, "", started, start, args(in[:20]), args(in[20:]), end), started, start, args(want), end)
	for _, odd := range []string{`{"options":{}}`, `[]`, `not json`, `{"options":[]}`} {
		same(t, shown(t, "", started, start, args(odd), end), started, start, args(odd), end)
	}
	other := strings.Replace(start, "request_permission", "agent.request_permission", 1)
	same(t, shown(t, "", started, other, args(in), end), started, other, args(in), end)
}

// numbered names options by their place.
func numbered(cardID string, n int) string { return cardID + ":" + strconv.Itoa(n) }

// TestErrorKeepsHalfAnAnswer: RUN_ERROR overwrites the bubble's first block and
// makes every later answer of the page look failed.
func TestErrorKeepsHalfAnAnswer(t *testing.T) {
	t.Parallel()
	fail := `{"type":"RUN_ERROR","message":"It \"broke\"","code":"agent_failed"}`
	same(t, shown(t, "", started, fail), started, fail)
	same(t, shown(t, "", fail), fail)
	same(t, shown(t, "", started, text("START", "m", ""), text("CONTENT", "m", "half"), fail),
		started, text("START", "m", ""), text("CONTENT", "m", "half"), text("END", "m", ""),
		text("START", "r:error", ""), text("CONTENT", "r:error", `It \"broke\"`), text("END", "r:error", ""),
		`{"type":"RUN_FINISHED","threadId":"t","runId":"r","result":{"error":{"message":"It \"broke\"","code":"agent_failed"}}}`)
	got := shown(t, "", started, thought("MESSAGE_START", ""), thought("MESSAGE_CONTENT", "hm"), fail)
	if len(got) != 10 || got[5] != `{"type":"THINKING_END"}` {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

// TestNothingElseInsideThoughts: TDesign draws whatever comes inside an open thinking block in that block. What the agent thinks
// further is a block of its own.
func TestNothingElseInsideThoughts(t *testing.T) {
	t.Parallel()
	for _, other := range []string{
		`{"type":"CUSTOM","name":"activity_not_applied","value":{"messageId":"a"}}`, `{"type":"STEP_STARTED","stepName":"s"}`, `{"type":"RAW","event":{}}`,
	} {
		got := shown(t, "", started, thought("MESSAGE_START", ""), thought("MESSAGE_CONTENT", "first"), other, thought("MESSAGE_CONTENT", "then"), thought("END", ""), finished)
		same(t, got, join([]string{started}, thinking("first"), []string{other}, thinking("then"), []string{finished})...)
	}
}

// TestWaitingStatusIsNeverSent: it makes the page of the travel example crash.
func TestWaitingStatusIsNeverSent(t *testing.T) {
	t.Parallel()
	got := shown(t, "", started, `{"type":"RUN_FINISHED","threadId":"t","runId":"r","result":{"status":"waiting_for_user_input"},"outcome":{"type":"success"}}`)
	same(t, got, started, `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success"}}`)
	interrupt := `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"x"}]}}`
	same(t, shown(t, "", started, interrupt), started, interrupt)
}

func TestWhatTDesignHasNoUseForIsDropped(t *testing.T) {
	t.Parallel()
	custom := `{"type":"CUSTOM","name":"suggestion","value":[]}`
	got := shown(t, "", `{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"messages":[]}}`,
		`{"type":"MESSAGES_SNAPSHOT","messages":[]}`, `{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"n"}`,
		`{"type":"SUBAGENT_FINISHED","subagentRunId":"s"}`, `{"type":"SUBAGENT_ERROR","subagentRunId":"s","message":""}`,
		`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"x"}`, custom, finished)
	same(t, got, started, custom, finished)
}

func TestRunStartedForgetsCallsAndActivities(t *testing.T) {
	t.Parallel()
	call := `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`
	snapshot := `{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"p","content":{"n":1}}`
	same(t, shown(t, "", started, call, snapshot, finished, started, call, snapshot, finished),
		started, call, snapshot, finished, started, call, snapshot, finished)
}

// FuzzTDesign: whatever a log holds, frames are well formed and ids never go
// back.
func FuzzTDesign(f *testing.F) {
	f.Add(`{"a":{"n":1}}`, started+"\n"+thought("START", "")+"\n"+thought("MESSAGE_CONTENT", "20")+"\n"+text("CONTENT", "m", "x")+"\n"+finished)
	f.Add(``, `{"type":"STATE_SNAPSHOT","snapshot":{"a":{"l":[1]}}}`+"\n"+`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a/l/0","value":1},{"op":"remove","path":"/a/l/1"}]}`)
	f.Add(`[1]`, `{"type":"STATE_DELTA","delta":[{"op":"replace","path":"","value":{"b":1}}]}`+"\n"+`{"type":"STATE_SNAPSHOT","snapshot":7}`)
	f.Add(``, `{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"p","content":{"n":1}}`+"\n"+`{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"p","patch":[{"op":"test","path":"/n","value":1}]}`+"\n"+`{"type":"RUN_ERROR","message":"m"}`)
	f.Add(``, `{"type":"TOOL_CALL_START","toolCallId":"q","toolCallName":"request_permission"}`+"\n"+`{"type":"TOOL_CALL_ARGS","toolCallId":"q","delta":"{\"options\":[{\"id\":1}]}"}`+"\n"+`{"type":"TOOL_CALL_END","toolCallId":"q"}`)
	f.Fuzz(func(t *testing.T, state, log string) {
		d := tdesign.New(json.RawMessage(state), nil, numbered)
		var out []byte
		for i, line := range strings.Split(log, "\n") {
			ev, err := agui.Decode([]byte(line))
			if err != nil {
				continue
			}
			out = d.AppendFrames(out, int64(i+1), ev.AppendJSON(nil))
		}
		data(t, out)
	})
}

func BenchmarkTextDelta(b *testing.B) {
	d := tdesign.New(nil, nil, numbered)
	buf := d.AppendFrames(nil, 1, []byte(text("START", "m", "")))
	event := []byte(text("CONTENT", "m", "A dozen words or so, as a model sends them in one go."))
	b.ReportAllocs()
	for b.Loop() {
		buf = d.AppendFrames(buf[:0], 2, event)
	}
}
