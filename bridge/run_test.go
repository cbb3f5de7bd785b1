package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/redact"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// brief writes events in one line each: the type, the id, the text. Ids that the code under test made are numbered in the
// order of their first use, as #1 and #2.
func brief(events ...agui.Event) string {
	var out strings.Builder
	made := make(map[string]string)
	for i, ev := range events {
		var f struct {
			Type       string `json:"type"`
			MessageID  string `json:"messageId"`
			ToolCallID string `json:"toolCallId"`
			Delta      any    `json:"delta"`
			Name       string `json:"name"`
		}
		if err := json.Unmarshal(ev.AppendJSON(nil), &f); err != nil {
			panic(err)
		}
		id := f.ToolCallID
		if id == "" {
			id = f.MessageID
		}
		if len(id) == len(newID()) {
			if made[id] == "" {
				made[id] = "#" + string(rune('1'+len(made)))
			}
			id = made[id]
		}
		if i > 0 {
			out.WriteByte('\n')
		}
		out.WriteString(f.Type)
		for _, part := range []string{id, f.Name} {
			if part != "" {
				out.WriteString(" " + part)
			}
		}
		if text, ok := f.Delta.(string); ok {
			out.WriteString(" '" + text + "'")
		}
	}
	return out.String()
}

// lines decodes what waits in a Run for the log.
func lines(t *testing.T, r *run) (events []agui.Event) {
	t.Helper()
	if len(r.events) == 0 {
		return nil
	}
	for line := range bytes.SplitSeq(r.events, []byte("\n")) {
		ev, err := agui.Decode(line)
		if err != nil {
			t.Fatalf("the log would hold %q: %v", line, err)
		}
		events = append(events, ev)
	}
	if len(events) != r.n {
		t.Errorf("%d events wait, and are counted as %d", len(events), r.n)
	}
	return events
}

func state(t *testing.T, raw string) *agui.StateDoc {
	t.Helper()
	doc, err := agui.NewStateDoc(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// openRun is a Run that has begun; its RUN_STARTED was handed over.
func openRun(t *testing.T) *run {
	t.Helper()
	r, err := newRun(store.Run{ID: "row", ExternalID: "R", SessionID: "S", CreatedAt: time.Now()}, 1, state(t, "{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.threadID, r.eventBytes, r.calls = "T", 1<<20, &shownCalls{turnID: "turn"}
	if _, err := r.start(nil); err != nil {
		t.Fatal(err)
	}
	r.clearBatch()
	return r
}

func emit(t *testing.T, r *run, events ...agui.Event) {
	t.Helper()
	if err := r.emitAll(events); err != nil {
		t.Fatal(err)
	}
}

func textStart(id string) agui.Event {
	return &agui.TextMessageStart{MessageID: id, Role: agui.RoleAssistant}
}
func textDelta(id, s string) agui.Event { return &agui.TextMessageContent{MessageID: id, Delta: s} }
func textEnd(id string) agui.Event      { return &agui.TextMessageEnd{MessageID: id} }

// If this fails, a client cannot match the answer to its POST, or the row of the Run never becomes RUNNING.
func TestRunBeginsWithRunStarted(t *testing.T) {
	t.Parallel()
	r, err := newRun(store.Run{ID: "row", ExternalID: "R", ParentRunID: "before", Profile: []byte(`{"dialect":"tdesign"}`)}, 7, state(t, "{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.threadID, r.eventBytes = "T", 1<<20
	move, err := r.start(nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"type":"RUN_STARTED","threadId":"T","runId":"R","protocolVersion":"1.0","parentRunId":"before"}`
	if got := string(r.events); got != want {
		t.Errorf("the Run begins with\n%s, want\n%s", got, want)
	}
	m := move.(store.RunMove)
	if m.ID != "row" || m.From != store.RunReserved || m.To != store.RunRunning || m.FirstSeq != 7 || m.StartedAt.IsZero() {
		t.Errorf("the row is moved by %+v", m)
	}
	if r.profile.Dialect != DialectTDesign || r.state.first {
		t.Errorf("dialect %q, first of its thread: %v", r.profile.Dialect, r.state.first)
	}
	if _, err := newRun(store.Run{Profile: []byte(`{`)}, 1, nil); err == nil {
		t.Error("a Run was made with a profile that cannot be read")
	}
}

// If this fails, a thread shows a cancelled or waiting answer as failed, or a failed one as done.
func TestRunEndsAs(t *testing.T) {
	t.Parallel()
	outcome := func(kind string, pending ...string) *agui.Outcome {
		return &agui.Outcome{Type: kind, PendingToolCallIDs: pending}
	}
	for name, c := range map[string]struct {
		end    ending
		status store.RunStatus
		code   string
		event  string
	}{
		"plain":     {ending{}, store.RunFinished, "", `{"type":"RUN_FINISHED","threadId":"T","runId":"R"}`},
		"success":   {ending{outcome: outcome(agui.OutcomeSuccess)}, store.RunFinished, "", `{"type":"RUN_FINISHED","threadId":"T","runId":"R","outcome":{"type":"success"}}`},
		"result":    {ending{result: json.RawMessage(`{"a":1}`)}, store.RunFinished, "", `{"type":"RUN_FINISHED","threadId":"T","runId":"R","result":{"a":1}}`},
		"pending":   {ending{outcome: outcome(agui.OutcomeSuccess, "c")}, store.RunInterrupted, "", `{"type":"RUN_FINISHED","threadId":"T","runId":"R","outcome":{"type":"success","pendingToolCallIds":["c"]}}`},
		"cancelled": {ending{outcome: outcome(agui.OutcomeCancelled)}, store.RunCancelled, "", `{"type":"RUN_FINISHED","threadId":"T","runId":"R","outcome":{"type":"cancelled"}}`},
		"failed":    {ending{failure: fault.New("agent_gone", "It left.")}, store.RunFailed, "agent_gone", `{"type":"RUN_ERROR","message":"It left.","code":"agent_gone"}`},
		"failure beats outcome": {
			ending{failure: fault.New("agent_gone", "It left."), outcome: outcome(agui.OutcomeCancelled)},
			store.RunFailed, "agent_gone", `{"type":"RUN_ERROR","message":"It left.","code":"agent_gone"}`,
		},
	} {
		r := openRun(t)
		emit(t, r, r.terminal(c.end))
		if got := string(r.events); got != c.event {
			t.Errorf("%s: the Run ends with\n%s, want\n%s", name, got, c.event)
		}
		if s, code := c.end.runStatus(), c.end.code(); s != c.status || code != c.code {
			t.Errorf("%s: the row gets %s %q, want %s %q", name, s, code, c.status, c.code)
		}
	}
	if s := (ending{outcome: outcome(agui.OutcomeInterrupt)}).runStatus(); s != store.RunInterrupted {
		t.Errorf("a Run that ends with interrupts is %s", s)
	}
}

// If this fails, a finished Turn keeps its run token or its upstream, or its row has no reason for a failure.
func TestEndingMovesTheTurn(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	e := ending{turn: store.TurnFailed, failure: fault.New("agent_gone", "It left.")}
	m := e.turnMove(&store.Turn{ID: "turn", Status: store.TurnRunning}, []agui.TokenUsage{{Model: "m"}}, now)
	if m.ID != "turn" || len(m.From) != 1 || m.From[0] != store.TurnRunning || m.To != store.TurnFailed || m.EndedAt != now {
		t.Errorf("the Turn is moved by %+v", m)
	}
	if m.TokenHash == nil || len(m.TokenHash) != 0 || m.Upstream != store.UpstreamNone {
		t.Errorf("the token %q and the upstream %q stay", m.TokenHash, m.Upstream)
	}
	if m.ErrorCode != "agent_gone" || m.ErrorMessage != "It left." || !json.Valid(m.Usage) {
		t.Errorf("the row gets %q, %q, usage %q", m.ErrorCode, m.ErrorMessage, m.Usage)
	}
}

// If this fails, a client reads an event that its library rejects, and its whole stream ends.
func TestRunRefusesABrokenOrder(t *testing.T) {
	t.Parallel()
	for name, ev := range map[string]agui.Event{
		"a delta of no message": textDelta("m", "x"),
		"arguments of no call":  &agui.ToolCallArgs{ToolCallID: "c", Delta: "{}"},
		"a second RUN_STARTED":  &agui.RunStarted{ThreadID: "T", RunID: "R2"},
		"an end of no message":  textEnd("m"),
	} {
		r := openRun(t)
		err := r.emit(ev)
		var f *fault.Error
		if !errors.As(err, &f) || f.Code != CodeUpstreamProtocol || f.Cause == nil {
			t.Errorf("%s: %v", name, err)
		}
		if r.n != 0 || len(r.events) != 0 {
			t.Errorf("%s: written is %s", name, r.events)
		}
		emit(t, r, textStart("m"), textDelta("m", "on")) // the Run is still usable
	}
}

// If this fails, text of a large event is lost, doubled or cut within a character, or a row of the log is too large to read.
func TestAnEventTooLargeIsWrittenInPieces(t *testing.T) {
	t.Parallel()
	const limit = 8 << 10
	long := strings.Repeat("aé漢🙂", 2000)
	for name, c := range map[string]struct {
		begin, large agui.Event
		join         func(agui.Event) string
	}{
		"text": {textStart("m"), textDelta("m", long), func(ev agui.Event) string { return ev.(*agui.TextMessageContent).Delta }},
		"arguments": {
			&agui.ToolCallStart{ToolCallID: "c", ToolCallName: "f"}, &agui.ToolCallArgs{ToolCallID: "c", Delta: long},
			func(ev agui.Event) string { return ev.(*agui.ToolCallArgs).Delta },
		},
	} {
		r := openRun(t)
		r.eventBytes = limit
		emit(t, r, c.begin)
		r.clearBatch()
		emit(t, r, c.large)
		var whole strings.Builder
		pieces := lines(t, r)
		for _, ev := range pieces {
			if n := len(ev.AppendJSON(nil)); n > limit {
				t.Errorf("%s: a piece has %d bytes", name, n)
			}
			whole.WriteString(c.join(ev))
		}
		if whole.String() != long || len(pieces) < 2 {
			t.Errorf("%s: %d pieces have %d bytes of %d", name, len(pieces), whole.Len(), len(long))
		}
	}
}

// If this fails, a state change that is larger than an event is lost, and pages show an old state.
func TestAStateDeltaTooLargeIsWrittenAsTheState(t *testing.T) {
	t.Parallel()
	r := openRun(t)
	emit(t, r, &agui.StateSnapshot{Snapshot: json.RawMessage(`{"a":1}`)})
	r.clearBatch()
	r.eventBytes = 8 << 10
	noop := strings.Repeat(`{"op":"test","path":"/a","value":1},`, 1000)
	emit(t, r, &agui.StateDelta{Delta: json.RawMessage(`[` + noop + `{"op":"replace","path":"/a","value":2}]`)})
	if got, want := string(r.events), `{"type":"STATE_SNAPSHOT","snapshot":{"a":2}}`; got != want {
		t.Errorf("written is %.200s, want %s", got, want)
	}
}

// If this fails, what is too large for the log is lost, is kept where nothing names it, or is kept twice.
func TestWhatIsTooLargeIsInTheContextStore(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 9<<10)
	call := &agui.ToolCallStart{ToolCallID: "c", ToolCallName: "f"}
	end := &agui.ToolCallEnd{ToolCallID: "c"}
	for name, c := range map[string]struct {
		before []agui.Event
		large  agui.Event
		kept   bool
	}{
		"a custom event": {nil, &agui.Custom{Name: "n", Value: json.RawMessage(`"` + long + `"`)}, true},
		"a result":       {[]agui.Event{call, end}, &agui.ToolCallResult{MessageID: "m", ToolCallID: "c", Content: agui.Text(long)}, true},
		"the Run's own":  {nil, &agui.RunFinished{ThreadID: "T", RunID: "R", Result: json.RawMessage(`"` + long + `"`)}, true},
		"an error":       {nil, &agui.RunError{Message: long}, false},
		"a text":         {[]agui.Event{textStart("m")}, textDelta("m", long), false},
		"beyond all":     {nil, &agui.Custom{Name: "n", Value: json.RawMessage(`"` + strings.Repeat("x", 16<<20) + `"`)}, false},
	} {
		r := openRun(t)
		var kept []store.ContextEntry
		r.spilled = func(e store.ContextEntry) { kept = append(kept, e) }
		r.session, r.eventBytes = store.Session{ID: "S", Tenant: "acme", User: "ann"}, 8<<10
		emit(t, r, c.before...)
		r.clearBatch()
		before := r.bytes
		emit(t, r, c.large)
		if (len(kept) == 1) != c.kept || len(kept) > 1 {
			t.Errorf("%s: %d entries", name, len(kept))
			continue
		}
		if !c.kept {
			if bytes.Contains(r.events, []byte("context_key")) {
				t.Errorf("%s: %.200s", name, r.events)
			}
			continue
		}
		e := kept[0]
		if string(e.Data) != string(c.large.AppendJSON(nil)) || e.SessionID != "S" || e.User != "ann" || e.OwnerType != store.ContextOfSession || r.bytes-before != len(e.Data) {
			t.Errorf("%s: %+v", name, e.Key)
		}
		if len(r.events) > r.eventBytes || !bytes.Contains(r.events, []byte(e.Key)) {
			t.Errorf("%s: the log gets %.300s", name, r.events)
		}
	}
}

// If this fails, a secret reaches the log, every reader of it, or the transcript that the next prompt is sent with.
func TestRunMasksWhatItWrites(t *testing.T) {
	t.Parallel()
	const secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	r := openRun(t)
	r.filter = redact.Forms()
	emit(t, r, textStart("m"), textDelta("m", "it is "+secret+"."), textEnd("m"), textStart("plain"), textDelta("plain", "nothing"))
	if bytes.Contains(r.events, []byte(secret)) || !bytes.Contains(r.events, []byte(redact.Mask)) {
		t.Errorf("the log gets %s", r.events)
	}
	if events := lines(t, r); len(events) != 5 {
		t.Errorf("the log gets %s", brief(events...))
	}
	moves := r.transcript(time.Now())
	if len(moves) != 2 {
		t.Fatalf("the transcript gets %d messages", len(moves))
	}
	first := string(moves[0].(store.UpsertMessage).Message.Data)
	if strings.Contains(first, secret) || !strings.Contains(first, redact.Mask) {
		t.Errorf("the transcript gets %s", first)
	}
	if second := string(moves[1].(store.UpsertMessage).Message.Data); !strings.Contains(second, "nothing") {
		t.Errorf("the transcript gets %s", second)
	}
}

// If this fails, a reload doubles the user's messages, or the answer's message belongs to no Run.
func TestTranscriptHasTheAnswerOnly(t *testing.T) {
	t.Parallel()
	r, err := newRun(store.Run{ID: "row", ExternalID: "R", SessionID: "S"}, 1, state(t, "{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.threadID, r.eventBytes, r.calls = "T", 1<<20, &shownCalls{}
	input := &agui.RunAgentInput{ThreadID: "T", RunID: "R", Messages: []agui.Message{{ID: "u", Role: agui.RoleUser, Content: agui.Text("hi")}}}
	if _, err := r.start(input); err != nil {
		t.Fatal(err)
	}
	emit(t, r, textStart("m"), textDelta("m", "hel"), textDelta("m", "lo"), textEnd("m"))
	now := time.Unix(5, 0)
	moves := r.transcript(now)
	if len(moves) != 1 {
		t.Fatalf("the transcript gets %d rows", len(moves))
	}
	m := moves[0].(store.UpsertMessage).Message
	if m.ExternalID != "m" || m.Role != agui.RoleAssistant || m.RunID != "row" || m.SessionID != "S" || !m.Output || m.CreatedAt != now {
		t.Errorf("the row is %+v", m)
	}
	if !strings.Contains(string(m.Data), `"hello"`) {
		t.Errorf("the message is %s", m.Data)
	}
}

// If this fails, the measured time to the first token counts another event, or counts a Run twice.
func TestTheFirstTokenIsMeasuredOnce(t *testing.T) {
	t.Parallel()
	r := openRun(t)
	measured := 0
	r.firstToken = func(time.Duration) { measured++ }
	emit(t, r, textStart("m"))
	if measured != 0 {
		t.Error("the beginning of a message counts as a token")
	}
	emit(t, r, textDelta("m", "a"), textDelta("m", "b"), textEnd("m"), textStart("n"), textDelta("n", "c"))
	if measured != 1 {
		t.Errorf("measured %d times", measured)
	}
}

// If this fails, a tool call is shown under the wrong message, or a text that is closed already is closed again.
func TestRunKnowsItsOpenText(t *testing.T) {
	t.Parallel()
	r := openRun(t)
	for _, step := range []struct {
		ev              agui.Event
		open, assistant string
	}{
		{textStart("m"), "m", "m"},
		{textDelta("m", "x"), "m", "m"},
		{textStart("n"), "n", "n"},
		{textEnd("m"), "n", "n"},
		{textEnd("n"), "", "n"},
	} {
		emit(t, r, step.ev)
		open := ""
		if r.text != nil {
			open = r.text.MessageID
		}
		if open != step.open || r.assistant != step.assistant {
			t.Errorf("after %s: open %q, newest %q; want %q, %q", brief(step.ev), open, r.assistant, step.open, step.assistant)
		}
	}
}

// If this fails, a restarted server writes the beginning of an answer twice, or refuses what the agent goes on with.
func TestReplayedEventsAreNotWrittenAgain(t *testing.T) {
	t.Parallel()
	r, err := newRun(store.Run{ID: "row", ExternalID: "R"}, 1, state(t, "{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.threadID, r.eventBytes, r.calls = "T", 1<<20, &shownCalls{}
	for _, ev := range []agui.Event{
		&agui.RunStarted{ThreadID: "T", RunID: "R"},
		&agui.StateSnapshot{Snapshot: json.RawMessage(`{"a":1}`)},
		&agui.ToolCallStart{ToolCallID: "c", ToolCallName: "f"},
		textStart("m"), textDelta("m", "hel"),
	} {
		if err := r.replayed(ev); err != nil {
			t.Fatal(err)
		}
	}
	if r.n != 0 || len(r.events) != 0 {
		t.Errorf("written is %s", r.events)
	}
	if !r.calls.has(store.ToolCall{ID: "c"}) || r.assistant != "m" {
		t.Errorf("the call is known: %v, the newest message is %q", r.calls.has(store.ToolCall{ID: "c"}), r.assistant)
	}
	emit(t, r, textDelta("m", "lo"), &agui.StateDelta{Delta: json.RawMessage(`[{"op":"replace","path":"/a","value":2}]`)})
	if got := brief(lines(t, r)...); got != "TEXT_MESSAGE_CONTENT m 'lo'\nSTATE_DELTA" {
		t.Errorf("the Run goes on with\n%s", got)
	}
	if err := r.replayed(textDelta("other", "x")); err == nil {
		t.Error("an event that cannot stand in the log was replayed")
	}
}

// If this fails, the bound on the size of an answer does not hold, or events reach the log twice.
func TestHandedEventsAreCountedAndForgotten(t *testing.T) {
	t.Parallel()
	r := openRun(t)
	before := r.bytes
	emit(t, r, textStart("m"), textDelta("m", "x"))
	n := len(r.events)
	r.clearBatch()
	if r.bytes != before+n || r.n != 0 || len(r.events) != 0 {
		t.Errorf("%d bytes counted of %d; %d events and %d bytes wait", r.bytes-before, n, r.n, len(r.events))
	}
	emit(t, r, textDelta("m", "y"))
	if got := brief(lines(t, r)...); got != "TEXT_MESSAGE_CONTENT m 'y'" {
		t.Errorf("the next hand-over has %q", got)
	}
}

// If this fails, a page cannot show the question, or shows another result than the one that was given.
func TestAQuestionIsShownAsAToolCall(t *testing.T) {
	t.Parallel()
	r := openRun(t)
	emit(t, r, textStart("m"), textEnd("m"))
	r.clearBatch()
	q := clientTool("c")
	q.Call.Args = []byte(`{"a":1}`)
	if err := r.ask(q); err != nil {
		t.Fatal(err)
	}
	q.Call.Status, q.Call.Result = store.ToolSucceeded, []byte(`"blue"`)
	if err := r.result(q); err != nil {
		t.Fatal(err)
	}
	events := lines(t, r)
	if got := brief(events...); got != "TOOL_CALL_START c\nTOOL_CALL_ARGS c '{\"a\":1}'\nTOOL_CALL_END c\nTOOL_CALL_RESULT c" {
		t.Fatalf("shown is\n%s", got)
	}
	if start := events[0].(*agui.ToolCallStart); start.ParentMessageID != "m" || start.ToolCallName != "pick" {
		t.Errorf("the call begins with %+v", start)
	}
	if result := events[3].(*agui.ToolCallResult); result.Content.String() != "blue" || result.Role != agui.RoleTool || result.MessageID == "" {
		t.Errorf("the result is %+v", result)
	}
	if !r.calls.resulted("c") {
		t.Error("the result would be shown again")
	}
}

// clientTool is an open call of a tool that a page declared.
func clientTool(id string) approval.Question {
	return approval.Question{Call: store.ToolCall{ID: id, Name: "pick", Kind: store.KindClient, Status: store.ToolWaitingClient, UpstreamID: "up-" + id}}
}

// permission is an open permission that an Agent asked for.
func permission(id string) approval.Question {
	return approval.Question{
		Call:     store.ToolCall{ID: id, Name: "cut", Kind: store.KindQuestion, Status: store.ToolWaitingApproval, UpstreamID: "up-" + id},
		Approval: store.Approval{ID: id, Kind: store.ApprovalPermission, Status: store.ApprovalPending, Tool: "cut", Title: "Cut wood?"},
	}
}

// serverTool is a call that is executed here without a question.
func serverTool(id string, status store.ToolCallStatus) approval.Question {
	return approval.Question{Call: store.ToolCall{ID: id, Name: "search", Kind: store.KindServer, Status: status, ArgsSHA256: "00", UpstreamID: "up-" + id}}
}
