package agui_test

import (
	"errors"
	"strings"
	"testing"

	"aqueduct/agui"
)

// admit runs events through a producer's Grammar and a verifier behind it.
func admit(t testing.TB, g, judge *agui.Grammar, events ...agui.Event) []string {
	t.Helper()
	var out []string
	for _, ev := range events {
		list, err := g.Admit(nil, ev)
		if err != nil {
			t.Fatalf("%s: %v", ev.AppendJSON(nil), err)
		}
		for _, l := range list {
			if err := judge.Check(l); err != nil {
				t.Fatalf("%s became illegal: %v", ev.AppendJSON(nil), err)
			}
			out = append(out, string(l.AppendJSON(nil)))
		}
	}
	return out
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	textChunkOf := func(id, d string) string { return textChunk(`,"messageId":"` + id + `","delta":"` + d + `"`) }
	for name, c := range map[string]struct{ in, want []string }{
		"chunks become start, content, end": {
			[]string{runStart, textChunkOf("m", "a"), textChunk(`,"delta":"b"`), toolChunk(`,"toolCallId":"c","toolCallName":"f","delta":"{"`), toolChunk(`,"delta":"}"`), runFinish},
			[]string{"RUN_STARTED", "TEXT_MESSAGE_START m", "TEXT_MESSAGE_CONTENT m a", "TEXT_MESSAGE_CONTENT m b", "TEXT_MESSAGE_END m", "TOOL_CALL_START c", "TOOL_CALL_ARGS c {", "TOOL_CALL_ARGS c }", "TOOL_CALL_END c", "RUN_FINISHED"},
		},
		"an explicit end of a chunk is taken": {
			[]string{runStart, textChunkOf("m", "a"), textEnd("m"), runFinish},
			[]string{"RUN_STARTED", "TEXT_MESSAGE_START m", "TEXT_MESSAGE_CONTENT m a", "TEXT_MESSAGE_END m", "RUN_FINISHED"},
		},
		"a chunk goes on behind a start": {
			[]string{runStart, textStart("m"), textChunkOf("m", "a"), textEnd("m"), runFinish},
			[]string{"RUN_STARTED", "TEXT_MESSAGE_START m", "TEXT_MESSAGE_CONTENT m a", "TEXT_MESSAGE_END m", "RUN_FINISHED"},
		},
		"a tool chunk interrupted remembers its name": {
			[]string{runStart, toolChunk(`,"toolCallId":"c","toolCallName":"f","delta":"{"`), `{"type":"CUSTOM","name":"n","value":1}`, toolChunk(`,"toolCallId":"c","delta":"}"`), runFinish},
			[]string{"RUN_STARTED", "TOOL_CALL_START c", "TOOL_CALL_ARGS c {", "TOOL_CALL_END c", "CUSTOM", "TOOL_CALL_START c", "TOOL_CALL_ARGS c }", "TOOL_CALL_END c", "RUN_FINISHED"},
		},
		"reasoning chunks": {
			[]string{runStart, `{"type":"REASONING_MESSAGE_CHUNK","messageId":"x","delta":"hm"}`, textChunkOf("m", "a"), runFinish},
			[]string{"RUN_STARTED", "REASONING_MESSAGE_START x", "REASONING_MESSAGE_CONTENT x hm", "REASONING_MESSAGE_END x", "TEXT_MESSAGE_START m", "TEXT_MESSAGE_CONTENT m a", "TEXT_MESSAGE_END m", "RUN_FINISHED"},
		},
		"a second step of a name ends the first": {
			[]string{runStart, step("STARTED", "s"), step("STARTED", "s"), step("FINISHED", "s"), step("FINISHED", "s"), runFinish},
			[]string{"RUN_STARTED", "STEP_STARTED s", "STEP_FINISHED s", "STEP_STARTED s", "STEP_FINISHED s", "RUN_FINISHED"},
		},
		"a second step of another agent's is another": {
			[]string{runStart, agent("STARTED", "a", ""), step("STARTED", "s"), step("STARTED", "s", "a"), step("FINISHED", "s"), step("FINISHED", "s", "a"), agent("FINISHED", "a", ""), runFinish},
			[]string{"RUN_STARTED", "SUBAGENT_STARTED a", "STEP_STARTED s", "STEP_STARTED s", "STEP_FINISHED s", "STEP_FINISHED s", "SUBAGENT_FINISHED a", "RUN_FINISHED"},
		},
		"empty deltas go": {
			[]string{runStart, textStart("m"), textDelta("m", ""), textEnd("m"), callStart("c"), callArgs("c", ""), callEnd("c"), runFinish},
			[]string{"RUN_STARTED", "TEXT_MESSAGE_START m", "TEXT_MESSAGE_END m", "TOOL_CALL_START c", "TOOL_CALL_END c", "RUN_FINISHED"},
		},
		"an empty delta with metadata stays": {
			[]string{runStart, textStart("m"), `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"","metadata":{"a":1}}`, runFinish},
			[]string{"RUN_STARTED", "TEXT_MESSAGE_START m", "TEXT_MESSAGE_CONTENT m", "TEXT_MESSAGE_END m", "RUN_FINISHED"},
		},
		"one text at a time, reopened when it goes on": {
			[]string{runStart, textStart("m"), textDelta("m", "1"), textStart("n"), textDelta("n", "2"), textDelta("m", "3"), textEnd("n"), textEnd("m"), runFinish},
			[]string{"RUN_STARTED", "TEXT_MESSAGE_START m", "TEXT_MESSAGE_CONTENT m 1", "TEXT_MESSAGE_END m", "TEXT_MESSAGE_START n", "TEXT_MESSAGE_CONTENT n 2", "TEXT_MESSAGE_END n", "TEXT_MESSAGE_START m", "TEXT_MESSAGE_CONTENT m 3", "TEXT_MESSAGE_END m", "RUN_FINISHED"},
		},
		"subagents have lanes of their own": {
			[]string{runStart, textStart("m"), textStart("n", "a"), textDelta("m", "1"), textDelta("n", "2"), runFinish},
			[]string{"RUN_STARTED", "TEXT_MESSAGE_START m", "TEXT_MESSAGE_START n", "TEXT_MESSAGE_CONTENT m 1", "TEXT_MESSAGE_CONTENT n 2", "TEXT_MESSAGE_END n", "TEXT_MESSAGE_END m", "RUN_FINISHED"},
		},
		"thinking closes before text": {
			[]string{runStart, thought("START", "s"), thought("MESSAGE_START", "x"), thought("MESSAGE_CONTENT", "x"), textStart("m"), textDelta("m", "1"), textEnd("m"), thought("MESSAGE_END", "x"), thought("END", "s"), runFinish},
			[]string{"RUN_STARTED", "REASONING_START s", "REASONING_MESSAGE_START x", "REASONING_MESSAGE_CONTENT x hm", "REASONING_MESSAGE_END x", "REASONING_END s", "TEXT_MESSAGE_START m", "TEXT_MESSAGE_CONTENT m 1", "TEXT_MESSAGE_END m", "RUN_FINISHED"},
		},
		"thinking goes on in its span": {
			[]string{runStart, thought("START", "s"), thought("MESSAGE_START", "x"), callStart("c"), callEnd("c"), thought("MESSAGE_CONTENT", "x"), runFinish},
			[]string{"RUN_STARTED", "REASONING_START s", "REASONING_MESSAGE_START x", "REASONING_MESSAGE_END x", "REASONING_END s", "TOOL_CALL_START c", "TOOL_CALL_END c", "REASONING_START s", "REASONING_MESSAGE_START x", "REASONING_MESSAGE_CONTENT x hm", "REASONING_MESSAGE_END x", "REASONING_END s", "RUN_FINISHED"},
		},
		"a span ends with its thoughts": {
			[]string{runStart, thought("START", "s"), thought("MESSAGE_START", "x"), thought("END", "s"), thought("MESSAGE_END", "x"), runFinish},
			[]string{"RUN_STARTED", "REASONING_START s", "REASONING_MESSAGE_START x", "REASONING_MESSAGE_END x", "REASONING_END s", "RUN_FINISHED"},
		},
		"a text closes before a tool call": {
			[]string{runStart, textStart("m"), textDelta("m", "1"), callStart("c"), callArgs("c", "{}"), textDelta("m", "2"), runFinish},
			[]string{"RUN_STARTED", "TEXT_MESSAGE_START m", "TEXT_MESSAGE_CONTENT m 1", "TEXT_MESSAGE_END m", "TOOL_CALL_START c", "TOOL_CALL_ARGS c {}", "TEXT_MESSAGE_START m", "TEXT_MESSAGE_CONTENT m 2", "TEXT_MESSAGE_END m", "TOOL_CALL_END c", "RUN_FINISHED"},
		},
		"a result ends its call": {
			[]string{runStart, callStart("c"), callArgs("c", "{}"), callResult("c"), callEnd("c"), runFinish},
			[]string{"RUN_STARTED", "TOOL_CALL_START c", "TOOL_CALL_ARGS c {}", "TOOL_CALL_END c", "TOOL_CALL_RESULT c", "RUN_FINISHED"},
		},
		"an error closes everything too": {
			[]string{runStart, step("STARTED", "s"), textStart("m"), callStart("c"), runFail},
			[]string{"RUN_STARTED", "STEP_STARTED s", "TEXT_MESSAGE_START m", "TEXT_MESSAGE_END m", "TOOL_CALL_START c", "TOOL_CALL_END c", "STEP_FINISHED s", "RUN_ERROR"},
		},
		"a subagent ends with what it has open": {
			[]string{runStart, agent("STARTED", "a", ""), textStart("m", "a"), step("STARTED", "s", "a"), agent("FINISHED", "a", ""), step("FINISHED", "s", "a"), runFinish},
			[]string{"RUN_STARTED", "SUBAGENT_STARTED a", "TEXT_MESSAGE_START m", "STEP_STARTED s", "STEP_FINISHED s", "TEXT_MESSAGE_END m", "SUBAGENT_FINISHED a", "RUN_FINISHED"},
		},
		"legacy thinking gets ids of its run": {
			[]string{runStart, `{"type":"THINKING_START"}`, `{"type":"THINKING_TEXT_MESSAGE_START"}`, `{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"hm"}`, `{"type":"THINKING_TEXT_MESSAGE_END"}`, `{"type":"THINKING_END"}`, runFinish},
			[]string{"RUN_STARTED", "REASONING_START r:thinking:1", "REASONING_MESSAGE_START r:thinking:2", "REASONING_MESSAGE_CONTENT r:thinking:2 hm", "REASONING_MESSAGE_END r:thinking:2", "REASONING_END r:thinking:1", "RUN_FINISHED"},
		},
		"ids forgotten at the end": {
			[]string{runStart, `{"type":"RUN_FINISHED"}`},
			[]string{"RUN_STARTED", "RUN_FINISHED"},
		},
		"what is open goes on in the next run": {
			[]string{runStart, step("STARTED", "s"), textStart("m"), textDelta("m", "1"), runFinish, `{"type":"RUN_STARTED","threadId":"t","runId":"r2"}`, textDelta("m", "2"), step("FINISHED", "s"), textEnd("m"), `{"type":"RUN_FINISHED","threadId":"t","runId":"r2"}`},
			[]string{"RUN_STARTED", "STEP_STARTED s", "TEXT_MESSAGE_START m", "TEXT_MESSAGE_CONTENT m 1", "TEXT_MESSAGE_END m", "STEP_FINISHED s", "RUN_FINISHED", "RUN_STARTED", "TEXT_MESSAGE_START m", "TEXT_MESSAGE_CONTENT m 2", "TEXT_MESSAGE_END m", "RUN_FINISHED"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := admit(t, new(agui.Grammar), new(agui.Grammar), decodeAll(t, c.in...)...)
			for i := range got {
				got[i] = brief(t, got[i])
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// brief describes an event by its type, what it is about, and its delta.
func brief(t testing.TB, line string) string {
	t.Helper()
	ev, err := agui.Decode([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	var about, delta string
	switch e := ev.(type) {
	case *agui.TextMessageStart:
		about = e.MessageID
	case *agui.TextMessageContent:
		about, delta = e.MessageID, e.Delta
	case *agui.TextMessageEnd:
		about = e.MessageID
	case *agui.ReasoningStart:
		about = e.MessageID
	case *agui.ReasoningEnd:
		about = e.MessageID
	case *agui.ReasoningMessageStart:
		about = e.MessageID
	case *agui.ReasoningMessageContent:
		about, delta = e.MessageID, e.Delta
	case *agui.ReasoningMessageEnd:
		about = e.MessageID
	case *agui.ToolCallStart:
		about = e.ToolCallID
	case *agui.ToolCallArgs:
		about, delta = e.ToolCallID, e.Delta
	case *agui.ToolCallEnd:
		about = e.ToolCallID
	case *agui.ToolCallResult:
		about = e.ToolCallID
	case *agui.StepStarted:
		about = e.StepName
	case *agui.StepFinished:
		about = e.StepName
	case *agui.SubagentStarted:
		about = e.SubagentRunID
	case *agui.SubagentFinished:
		about = e.SubagentRunID
	}
	return strings.TrimSpace(strings.TrimSpace(string(ev.EventType())+" "+about) + " " + delta)
}

func TestAdmitRefusesWhatCannotBeMadeLegal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule   agui.Rule
		stream []string
	}{
		"content never opened":   {agui.RuleNotOpen, []string{runStart, textDelta("m", "d")}},
		"empty and never opened": {agui.RuleNotOpen, []string{runStart, textDelta("m", "")}},
		"opened twice":           {agui.RuleAlreadyOpen, []string{runStart, textStart("m"), textStart("m")}},
		"ended for good":         {agui.RuleNotOpen, []string{runStart, textStart("m"), textEnd("m"), textDelta("m", "d")}},
		"after the end":          {agui.RuleRunFinished, []string{runStart, runFinish, textStart("m")}},
		"an error after the end": {agui.RuleRunFinished, []string{runStart, runFinish, runFail}},
		"after an error":         {agui.RuleRunFailed, []string{runStart, runFail, runFinish}},
		"a run in a run":         {agui.RuleRunOpen, []string{runStart, textStart("m"), runStart}},
		"another run's end":      {agui.RuleRunID, []string{runStart, textStart("m"), agent("STARTED", "a", ""), `{"type":"RUN_FINISHED","threadId":"t","runId":"x"}`}},
		"a chunk without a name": {agui.RuleChunkUnnamed, []string{runStart, textStart("m"), toolChunk(`,"toolCallId":"c"`)}},
		"a chunk of another":     {agui.RuleOwner, []string{runStart, textStart("m"), textChunk(`,"messageId":"m","subagentRunId":"a"`)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := new(agui.Grammar)
			list := decodeAll(t, c.stream...)
			admit(t, g, new(agui.Grammar), list[:len(list)-1]...)
			for range 2 {
				out, err := g.Admit(nil, list[len(list)-1])
				var bad *agui.GrammarError
				if !errors.As(err, &bad) || bad.Rule != c.rule || len(out) != 0 {
					t.Fatalf("%v %v, want rule %s", out, err, c.rule)
				}
			}
		})
	}
}

func TestCloseAllEndsSubagents(t *testing.T) {
	t.Parallel()
	open := []string{runStart, agent("STARTED", "a", ""), textStart("m", "a")}
	for outcome, want := range map[string]string{
		``:                     `{"type":"SUBAGENT_FINISHED","subagentRunId":"a"}`,
		`{"type":"success"}`:   `{"type":"SUBAGENT_FINISHED","subagentRunId":"a"}`,
		`{"type":"cancelled"}`: `{"type":"SUBAGENT_ERROR","subagentRunId":"a","message":"The run ended before this subagent did.","code":"run_ended"}`,
		`{"type":"interrupt","interrupts":[{"id":"i","reason":"x","subagentRunId":"a"},{"id":"j","reason":"x"}]}`: `{"type":"SUBAGENT_FINISHED","subagentRunId":"a","outcome":{"type":"suspended","interruptIds":["i"]}}`,
	} {
		finish := runFinish
		if outcome != "" {
			finish = `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":` + outcome + `}`
		}
		got := admit(t, new(agui.Grammar), new(agui.Grammar), decodeAll(t, append(open[:3:3], finish)...)...)
		if got[4] != want {
			t.Errorf("%s: got %s", outcome, got[4])
		}
	}
	g := new(agui.Grammar)
	admit(t, g, new(agui.Grammar), decodeAll(t, open...)...)
	if n := len(g.CloseAll(nil)); n != 2 {
		t.Errorf("%d events close two things", n)
	}
	if n := len(g.CloseAll(nil)); n != 0 {
		t.Errorf("%d events close nothing", n)
	}
}

func TestAdmitPlainDeltaDoesNotAllocate(t *testing.T) {
	g := runningGrammar(t)
	dst, err := g.Admit(make([]agui.Event, 0, 4), &agui.TextMessageStart{MessageID: "m"})
	if err != nil {
		t.Fatal(err)
	}
	ev := &agui.TextMessageContent{MessageID: "m", Delta: "words"}
	if n := testing.AllocsPerRun(100, func() { dst, _ = g.Admit(dst[:0], ev) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// opcode makes an event of two bytes, out of few enough names that they meet.
func opcode(op, arg byte) agui.Event {
	id := string([]byte{'m', '0' + arg&3})
	sub := agui.Sub{}
	if arg&4 != 0 {
		sub.SubagentRunID = string([]byte{'a', '0' + arg>>3&1})
	}
	delta := "d"
	if arg&16 != 0 {
		delta = ""
	}
	all := [...]agui.Event{
		&agui.RunStarted{ThreadID: "t", RunID: id}, &agui.RunFinished{}, &agui.RunError{Message: "m"},
		&agui.TextMessageStart{Sub: sub, MessageID: id}, &agui.TextMessageContent{Sub: sub, MessageID: id, Delta: delta},
		&agui.TextMessageEnd{Sub: sub, MessageID: id}, &agui.TextMessageChunk{Sub: sub, MessageID: id, Delta: delta},
		&agui.TextMessageChunk{Sub: sub, Delta: delta},
		&agui.ToolCallStart{Sub: sub, ToolCallID: id, ToolCallName: "f", ParentMessageID: []string{"", id}[arg>>5&1]},
		&agui.ToolCallArgs{Sub: sub, ToolCallID: id, Delta: delta}, &agui.ToolCallEnd{Sub: sub, ToolCallID: id},
		&agui.ToolCallChunk{Sub: sub, ToolCallID: id, ToolCallName: []string{"", "f"}[arg>>5&1], Delta: delta},
		&agui.ToolCallChunk{Sub: sub, Delta: delta}, &agui.ToolCallResult{Sub: sub, MessageID: "r" + id, ToolCallID: id},
		&agui.ReasoningStart{Sub: sub, MessageID: id}, &agui.ReasoningEnd{Sub: sub, MessageID: id},
		&agui.ReasoningMessageStart{Sub: sub, MessageID: id}, &agui.ReasoningMessageContent{Sub: sub, MessageID: id, Delta: delta},
		&agui.ReasoningMessageEnd{Sub: sub, MessageID: id}, &agui.ReasoningMessageChunk{Sub: sub, MessageID: id, Delta: delta},
		&agui.ReasoningMessageChunk{Sub: sub, Delta: delta}, &agui.ReasoningStart{Sub: sub}, &agui.ReasoningMessageStart{Sub: sub},
		&agui.ReasoningMessageContent{Sub: sub, Delta: delta}, &agui.ReasoningMessageEnd{Sub: sub}, &agui.ReasoningEnd{Sub: sub},
		&agui.StepStarted{Sub: sub, StepName: id}, &agui.StepFinished{Sub: sub, StepName: id},
		&agui.SubagentStarted{Sub: agui.Sub{SubagentRunID: "a" + id[1:]}, Name: "n"},
		&agui.SubagentFinished{Sub: agui.Sub{SubagentRunID: "a" + id[1:]}}, &agui.SubagentError{Sub: agui.Sub{SubagentRunID: "a" + id[1:]}},
		&agui.Custom{Sub: sub, Name: "n"}, &agui.Raw{Sub: sub}, &agui.StateSnapshot{Sub: sub},
		&agui.ActivitySnapshot{Sub: sub, MessageID: id, ActivityType: "p"}, &agui.ActivityDelta{Sub: sub, MessageID: id, ActivityType: "p"},
		&agui.ReasoningEncryptedValue{Sub: sub, Subtype: "message", EntityID: id},
		&agui.MessagesSnapshot{Messages: []agui.Message{{ID: id, Role: agui.RoleAssistant}}},
		&agui.RunFinished{Outcome: &agui.Outcome{Type: agui.OutcomeInterrupt, Interrupts: []agui.Interrupt{{ID: "i"}}}},
		&agui.RunFinished{Outcome: &agui.Outcome{Type: "odd"}},
	}
	return all[int(op)%len(all)]
}

// FuzzGrammar: whatever an agent sends, what Admit lets through is legal, also
// when a part of it is refused, and can be brought to an end.
func FuzzGrammar(f *testing.F) {
	f.Add([]byte{0, 0, 3, 0, 4, 0, 3, 1, 4, 0, 5, 0, 1, 0})
	f.Add([]byte{0, 0, 21, 0, 22, 0, 23, 0, 8, 2, 23, 0, 25, 0, 38, 0, 0, 1, 23, 0})
	f.Add([]byte{0, 0, 28, 0, 3, 4, 26, 4, 11, 36, 12, 4, 31, 0, 29, 0, 1, 0})
	f.Add([]byte{0, 0, 6, 4, 6, 12, 7, 0, 7, 4, 37, 0, 3, 8, 5, 0, 2, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		g, judge := new(agui.Grammar), new(agui.Grammar)
		check := func(list []agui.Event, why agui.Event) {
			for _, ev := range list {
				if err := judge.Check(ev); err != nil {
					t.Fatalf("%s became %s: %v", why.AppendJSON(nil), ev.AppendJSON(nil), err)
				}
			}
		}
		var open bool
		for i := 0; i+1 < len(in); i += 2 {
			ev := opcode(in[i], in[i+1])
			list, err := g.Admit(nil, ev)
			if err != nil && len(list) > 0 {
				t.Fatal("something appended beside an error")
			}
			check(list, ev)
			for _, l := range list {
				switch l.EventType() {
				case agui.TypeRunStarted:
					open = true
				case agui.TypeRunFinished, agui.TypeRunError:
					open = false
				}
			}
		}
		if !open {
			return
		}
		end := &agui.RunFinished{}
		check(g.CloseAll(nil), end)
		list, err := g.Admit(nil, end)
		if err != nil || len(list) != 1 {
			t.Fatalf("%d events, %v", len(list), err)
		}
		check(list, end)
	})
}
