package agui_test

import (
	"errors"
	"testing"

	"aqueduct/agui"
)

func decodeAll(t testing.TB, lines ...string) []agui.Event {
	t.Helper()
	var list []agui.Event
	for _, l := range lines {
		ev, err := agui.Decode([]byte(l))
		if err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		list = append(list, ev)
	}
	return list
}

func ids(id, owner string) string {
	s := `,"messageId":"` + id + `"`
	if owner != "" {
		s += `,"subagentRunId":"` + owner + `"`
	}
	return s + "}"
}

func callIDs(id, owner string) string {
	s := `,"toolCallId":"` + id + `"`
	if owner != "" {
		s += `,"subagentRunId":"` + owner + `"`
	}
	return s
}

const (
	runStart  = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`
	runFinish = `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`
	runFail   = `{"type":"RUN_ERROR","message":"m"}`
)

func textStart(id string, owner ...string) string {
	return `{"type":"TEXT_MESSAGE_START"` + ids(id, first(owner))
}
func textEnd(id string, owner ...string) string {
	return `{"type":"TEXT_MESSAGE_END"` + ids(id, first(owner))
}
func textDelta(id, d string, owner ...string) string {
	return `{"type":"TEXT_MESSAGE_CONTENT","delta":"` + d + `"` + ids(id, first(owner))
}
func callStart(id string, owner ...string) string {
	return `{"type":"TOOL_CALL_START"` + callIDs(id, first(owner)) + `,"toolCallName":"f"}`
}
func callArgs(id, d string, owner ...string) string {
	return `{"type":"TOOL_CALL_ARGS"` + callIDs(id, first(owner)) + `,"delta":"` + d + `"}`
}
func callEnd(id string, owner ...string) string {
	return `{"type":"TOOL_CALL_END"` + callIDs(id, first(owner)) + `}`
}
func callResult(id string) string {
	return `{"type":"TOOL_CALL_RESULT","messageId":"res-` + id + `"` + callIDs(id, "") + `,"content":"{}"}`
}
func thought(kind, id string, owner ...string) string {
	return `{"type":"REASONING_` + kind + `","delta":"hm"` + ids(id, first(owner))
}
func step(kind, name string, owner ...string) string {
	s := `{"type":"STEP_` + kind + `","stepName":"` + name + `"`
	if first(owner) != "" {
		s += `,"subagentRunId":"` + owner[0] + `"`
	}
	return s + "}"
}
func agent(kind, id, more string) string {
	return `{"type":"SUBAGENT_` + kind + `","name":"n","message":"m","subagentRunId":"` + id + `"` + more + `}`
}
func textChunk(more string) string { return `{"type":"TEXT_MESSAGE_CHUNK"` + more + `}` }
func toolChunk(more string) string { return `{"type":"TOOL_CALL_CHUNK"` + more + `}` }

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

func runningGrammar(t testing.TB) *agui.Grammar {
	t.Helper()
	g := new(agui.Grammar)
	for _, ev := range decodeAll(t, runStart) {
		if err := g.Check(ev); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// TestRules: the last event of each stream breaks the named rule, and nothing
// before it does. Numbers are those of the client's sequence rules.
func TestRules(t *testing.T) {
	t.Parallel()
	custom := `{"type":"CUSTOM","name":"n","value":1}`
	for name, c := range map[string]struct {
		rule   agui.Rule
		stream []string
	}{
		"1 first event":                     {agui.RuleFirstEvent, []string{textStart("m")}},
		"1 finish first":                    {agui.RuleFirstEvent, []string{runFinish}},
		"2 started while open":              {agui.RuleRunOpen, []string{runStart, runStart}},
		"3 after finished":                  {agui.RuleRunFinished, []string{runStart, runFinish, custom}},
		"3 finished twice":                  {agui.RuleRunFinished, []string{runStart, runFinish, runFinish}},
		"4 after error":                     {agui.RuleRunFailed, []string{runStart, runFail, custom}},
		"4 error twice":                     {agui.RuleRunFailed, []string{runFail, runFail}},
		"4 error after finish, then more":   {agui.RuleRunFailed, []string{runStart, runFinish, runFail, runFinish}},
		"5 text open":                       {agui.RuleAlreadyOpen, []string{runStart, textStart("m"), textStart("m")}},
		"5 content not open":                {agui.RuleNotOpen, []string{runStart, textDelta("m", "d")}},
		"5 end not open":                    {agui.RuleNotOpen, []string{runStart, textStart("m"), textEnd("m"), textEnd("m")}},
		"6 call open":                       {agui.RuleAlreadyOpen, []string{runStart, callStart("c"), callStart("c")}},
		"6 args not open":                   {agui.RuleNotOpen, []string{runStart, callArgs("c", "d")}},
		"6 call end not open":               {agui.RuleNotOpen, []string{runStart, callEnd("c")}},
		"7 step twice":                      {agui.RuleAlreadyOpen, []string{runStart, step("STARTED", "s"), step("STARTED", "s")}},
		"7 step never started":              {agui.RuleNotOpen, []string{runStart, step("FINISHED", "s")}},
		"7 step of another owner":           {agui.RuleStepOwner, []string{runStart, step("STARTED", "s", "a"), step("FINISHED", "s")}},
		"8 span twice":                      {agui.RuleAlreadyOpen, []string{runStart, thought("START", "x"), thought("START", "x")}},
		"8 span end":                        {agui.RuleNotOpen, []string{runStart, thought("END", "x")}},
		"8 thought twice":                   {agui.RuleAlreadyOpen, []string{runStart, thought("MESSAGE_START", "x"), thought("MESSAGE_START", "x")}},
		"8 thought content":                 {agui.RuleNotOpen, []string{runStart, thought("START", "x"), thought("MESSAGE_CONTENT", "x")}},
		"8 thought end":                     {agui.RuleNotOpen, []string{runStart, thought("MESSAGE_END", "x")}},
		"9 text left open":                  {agui.RuleStillOpen, []string{runStart, textStart("m"), runFinish}},
		"9 call left open":                  {agui.RuleStillOpen, []string{runStart, callStart("c"), runFinish}},
		"9 step left open":                  {agui.RuleStillOpen, []string{runStart, step("STARTED", "s"), runFinish}},
		"9 span left open":                  {agui.RuleStillOpen, []string{runStart, thought("START", "x"), runFinish}},
		"9 thought left open":               {agui.RuleStillOpen, []string{runStart, thought("MESSAGE_START", "x"), runFinish}},
		"9 subagent left active":            {agui.RuleStillOpen, []string{runStart, agent("STARTED", "a", ""), runFinish}},
		"10 text chunk without id":          {agui.RuleChunkUnnamed, []string{runStart, textChunk(`,"delta":"d"`)}},
		"10 tool chunk without id":          {agui.RuleChunkUnnamed, []string{runStart, toolChunk(`,"toolCallName":"f"`)}},
		"10 tool chunk without name":        {agui.RuleChunkUnnamed, []string{runStart, toolChunk(`,"toolCallId":"c"`)}},
		"10 role changed":                   {agui.RuleChunkChanged, []string{runStart, textChunk(`,"messageId":"m"`), textChunk(`,"messageId":"m","role":"user"`)}},
		"10 tool name changed":              {agui.RuleChunkChanged, []string{runStart, toolChunk(`,"toolCallId":"c","toolCallName":"f"`), toolChunk(`,"toolCallName":"g"`)}},
		"10 parent changed":                 {agui.RuleChunkChanged, []string{runStart, toolChunk(`,"toolCallId":"c","toolCallName":"f"`), toolChunk(`,"parentMessageId":"m"`)}},
		"10 explicit end of a chunk":        {agui.RuleChunkEnded, []string{runStart, textChunk(`,"messageId":"m"`), textEnd("m")}},
		"10 ended by CUSTOM":                {agui.RuleChunkUnnamed, []string{runStart, textChunk(`,"messageId":"m"`), custom, textChunk(`,"delta":"d"`)}},
		"10 ended by STEP":                  {agui.RuleChunkUnnamed, []string{runStart, textChunk(`,"messageId":"m"`), step("STARTED", "s"), textChunk(`,"delta":"d"`)}},
		"10 ended by STATE":                 {agui.RuleChunkUnnamed, []string{runStart, textChunk(`,"messageId":"m"`), `{"type":"STATE_SNAPSHOT","snapshot":{}}`, textChunk(`,"delta":"d"`)}},
		"10 whose chunk":                    {agui.RuleChunkWhose, []string{runStart, textChunk(`,"messageId":"m","subagentRunId":"a"`), textChunk(`,"messageId":"n","subagentRunId":"b"`), textChunk(`,"delta":"d"`)}},
		"11 content tagged differently":     {agui.RuleOwner, []string{runStart, textStart("m", "a"), textDelta("m", "d", "b")}},
		"11 tagged after untagged":          {agui.RuleOwner, []string{runStart, textStart("m"), textDelta("m", "d", "a")}},
		"11 reopened by another":            {agui.RuleOwner, []string{runStart, textStart("m", "a"), textEnd("m"), textStart("m", "b")}},
		"11 call unlike its parent":         {agui.RuleOwner, []string{runStart, textStart("m"), `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m","subagentRunId":"a"}`}},
		"11 chunk tagged differently":       {agui.RuleOwner, []string{runStart, textChunk(`,"messageId":"m","subagentRunId":"a"`), textChunk(`,"messageId":"m","subagentRunId":"b"`)}},
		"11 activity tagged differently":    {agui.RuleOwner, []string{runStart, `{"type":"ACTIVITY_SNAPSHOT","messageId":"x","activityType":"p","content":{}}`, `{"type":"ACTIVITY_DELTA","messageId":"x","activityType":"p","patch":[],"subagentRunId":"a"}`}},
		"11 encrypted tagged differently":   {agui.RuleOwner, []string{runStart, callStart("c", "a"), callEnd("c"), `{"type":"REASONING_ENCRYPTED_VALUE","subtype":"tool-call","entityId":"c","encryptedValue":"E","subagentRunId":"b"}`}},
		"11 owner from a snapshot":          {agui.RuleOwner, []string{runStart, `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","subagentRunId":"a"}]}`, textStart("m", "b")}},
		"11 subagent twice":                 {agui.RuleSubagentUsed, []string{runStart, agent("STARTED", "a", ""), agent("STARTED", "a", "")}},
		"11 subagent id reused":             {agui.RuleSubagentUsed, []string{runStart, agent("STARTED", "a", ""), agent("FINISHED", "a", ""), agent("STARTED", "a", "")}},
		"11 unknown parent":                 {agui.RuleParent, []string{runStart, agent("STARTED", "a", `,"parentSubagentRunId":"z"`)}},
		"11 finish of an inactive subagent": {agui.RuleSubagentGone, []string{runStart, agent("FINISHED", "a", "")}},
		"11 error of an inactive subagent":  {agui.RuleSubagentGone, []string{runStart, agent("STARTED", "a", ""), agent("ERROR", "a", ""), agent("ERROR", "a", "")}},

		"next: finish of another run":    {agui.RuleRunID, []string{runStart, `{"type":"RUN_FINISHED","threadId":"t","runId":"other"}`}},
		"next: finish of another thread": {agui.RuleRunID, []string{runStart, `{"type":"RUN_FINISHED","threadId":"other","runId":"r"}`}},
		"next: run on another thread":    {agui.RuleThreadID, []string{runStart, runFinish, `{"type":"RUN_STARTED","threadId":"other","runId":"r2"}`}},
		"next: interrupt ids":            {agui.RuleInterruptID, []string{runStart, `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"x"},{"id":"i","reason":"x"}]}}`}},
		"outcome: no interrupts":         {agui.RuleOutcome, []string{runStart, `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt"}}`}},
		"outcome: cancelled with result": {agui.RuleOutcome, []string{runStart, `{"type":"RUN_FINISHED","threadId":"t","runId":"r","result":1,"outcome":{"type":"cancelled"}}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := new(agui.Grammar)
			list := decodeAll(t, c.stream...)
			last := len(list) - 1
			for i, ev := range list[:last] {
				if err := g.Check(ev); err != nil {
					t.Fatalf("event %d: %v", i, err)
				}
			}
			for range 2 { // a broken rule changes nothing
				var bad *agui.GrammarError
				if err := g.Check(list[last]); !errors.As(err, &bad) || bad.Rule != c.rule {
					t.Fatalf("%v, want rule %s", err, c.rule)
				}
			}
		})
	}
}

// TestAllowed are streams both official clients take.
func TestAllowed(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string][]string{
		"empty delta":                {runStart, textStart("m"), textDelta("m", ""), textEnd("m"), runFinish},
		"interleaved":                {runStart, textStart("m"), callStart("c"), textStart("n"), callArgs("c", "{}"), textEnd("m"), textEnd("n"), callEnd("c"), runFinish},
		"reopened":                   {runStart, textStart("m"), textEnd("m"), textStart("m"), textEnd("m"), callStart("c"), callEnd("c"), callStart("c"), callEnd("c"), runFinish},
		"result without a call":      {runStart, callResult("c"), runFinish},
		"result before the end":      {runStart, callStart("c"), callResult("c"), callEnd("c"), runFinish},
		"several runs":               {runStart, runFinish, `{"type":"RUN_STARTED","threadId":"t","runId":"r2"}`, runFail, runStart, runFinish},
		"error first":                {runFail, runStart, runFinish},
		"error after finish":         {runStart, runFinish, runFail},
		"error with all open":        {runStart, textStart("m"), callStart("c"), runFail},
		"span and message share":     {runStart, thought("START", "x"), thought("MESSAGE_START", "x"), thought("MESSAGE_END", "x"), thought("END", "x"), runFinish},
		"thought without a span":     {runStart, thought("MESSAGE_START", "x"), thought("MESSAGE_END", "x"), runFinish},
		"unannounced subagent":       {runStart, textStart("m", "a"), textEnd("m", "a"), runFinish},
		"untagged continuation":      {runStart, textStart("m", "a"), textDelta("m", "d"), textEnd("m"), runFinish},
		"one step name, two owners":  {runStart, step("STARTED", "s"), step("STARTED", "s", "a"), step("FINISHED", "s", "a"), step("FINISHED", "s"), runFinish},
		"chunks through RAW":         {runStart, textChunk(`,"messageId":"m"`), `{"type":"RAW","event":1}`, `{"type":"ACTIVITY_SNAPSHOT","messageId":"x","activityType":"p","content":{}}`, textChunk(`,"delta":"d"`), runFinish},
		"chunks of two lanes":        {runStart, textChunk(`,"messageId":"m","subagentRunId":"a"`), toolChunk(`,"toolCallId":"c","toolCallName":"f"`), textChunk(`,"delta":"d"`), toolChunk(`,"delta":"d"`), runFinish},
		"nested subagents":           {runStart, agent("STARTED", "a", ""), agent("STARTED", "b", `,"parentSubagentRunId":"a"`), agent("FINISHED", "b", ""), agent("ERROR", "a", ""), runFinish},
		"same ids in the next run":   {runStart, textStart("m", "a"), textEnd("m"), runFinish, runStart, textStart("m", "b"), textEnd("m"), runFinish},
		"interrupt":                  {runStart, `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"x"},{"id":"j","reason":"x"}]}}`},
		"a message's call inherits":  {runStart, textStart("m", "a"), `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m"}`, callArgs("c", "{}", "a"), callEnd("c"), textEnd("m"), runFinish},
		"input with known messages":  {`{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"threadId":"t","runId":"r","messages":[{"id":"m","role":"assistant","content":""}]}}`, textStart("m"), textEnd("m"), runFinish},
		"cancelled":                  {runStart, `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"cancelled"}}`},
		"success with pending calls": {runStart, callStart("c"), callEnd("c"), `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success","pendingToolCallIds":["c"]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := new(agui.Grammar)
			for i, ev := range decodeAll(t, stream...) {
				if err := g.Check(ev); err != nil {
					t.Fatalf("event %d: %v", i, err)
				}
			}
		})
	}
}

func TestRunning(t *testing.T) {
	t.Parallel()
	g := new(agui.Grammar)
	for i, ev := range decodeAll(t, runStart, runFinish, runStart, runFail) {
		if err := g.Check(ev); err != nil || g.Running() != (i%2 == 0) {
			t.Errorf("event %d: running %v, %v", i, g.Running(), err)
		}
	}
}

func TestTooManyOpen(t *testing.T) {
	t.Parallel()
	g := runningGrammar(t)
	var err error
	n := 0
	for ; err == nil && n < 5000; n++ {
		err = g.Check(&agui.ToolCallStart{ToolCallID: string(rune('a' + n)), ToolCallName: "f"})
	}
	var bad *agui.GrammarError
	if !errors.As(err, &bad) || bad.Rule != agui.RuleTooMany {
		t.Errorf("after %d: %v", n, err)
	}
}
