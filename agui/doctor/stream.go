// This file judges the events of a run by what they do at a client: their order by agui's grammar, their effect by
// the state and the messages that an official client would have.

package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"aqueduct/agui"
)

// stream follows the events of one run as a client does, and notes what it meets.
type stream struct {
	x       *examination
	run     *Run
	grammar agui.Grammar
	fold    *agui.Fold
	state   json.RawMessage
	tools   toolCalls
	taken   map[string]bool // ids of the input's messages
	// started is the newest RUN_STARTED, and where it stood: a stream may replay earlier runs of its thread in front of the
	// one that was asked for.
	started *agui.RunStarted
	startAt string

	events    int
	terminals int
	open      bool // no run has ended yet, or RUN_STARTED came behind the last end
}

// newStream begins at what the client has: the input's messages and state. A state that was not sent is an empty
// object, as official clients begin with.
func newStream(x *examination, r *Run) *stream {
	s := &stream{x: x, run: r, fold: agui.NewFold(r.Messages), state: r.State, taken: make(map[string]bool), open: true}
	for i := range r.Messages {
		s.taken[r.Messages[i].ID] = true
	}
	if len(s.state) == 0 {
		s.state = json.RawMessage("{}")
	}
	s.tools.calls = make(map[string]*toolCall)
	return s
}

// frame takes the data of one frame.
func (s *stream) frame(f frame) {
	if !json.Valid(f.data) || f.data[0] != '{' {
		what := "data is no JSON object"
		if isDone(f.data) {
			what = "data is the end marker of another protocol"
		}
		s.x.findf("data_not_json", "line %d: %s: %s", f.line, what, quoted(f.data))
		return
	}
	s.events++
	s.x.saw(anEvent)
	where := fmt.Sprintf("event %d", s.events)
	ev, err := agui.Decode(f.data)
	var unknown *agui.UnknownTypeError
	switch {
	case errors.As(err, &unknown):
		s.x.report.Events[unknown.Type]++
		s.x.findf("unknown_event", "%s: type %s", where, quoted([]byte(unknown.Type)))
		return
	case err != nil:
		s.x.findf("malformed_event", "%s: %s: %s", where, strings.TrimPrefix(err.Error(), "agui: "), quoted(f.data))
		return
	}
	s.members(where, f.data)
	s.take(where, ev)
}

// members looks at the names in an event that was understood: a tolerant reader leaves out what it does not know, so the
// event itself does not have them any more.
func (s *stream) members(where string, raw []byte) {
	var named struct{ Type agui.Type }
	if json.Unmarshal(raw, &named) != nil {
		return
	}
	s.x.report.Events[string(named.Type)]++
	if strings.HasPrefix(string(named.Type), "THINKING_") {
		s.x.findf("retired_event", "%s: %s", where, named.Type)
		return
	}
	_ = agui.EachMember(raw, func(key, val []byte) error {
		known, nullable := agui.MemberOf(named.Type, string(key))
		switch {
		case !known:
			s.x.findf("unknown_member", "%s: %s has %s", where, named.Type, quoted(key))
		case string(val) == "null" && !nullable:
			s.x.findf("null_member", "%s: %s has %s: null", where, named.Type, key)
		}
		return nil
	})
}

// take applies one event. An event that may not come is not applied: what follows from it would be found again under
// other names.
func (s *stream) take(where string, ev agui.Event) {
	s.occasion(ev)
	terminal := ev.EventType() == agui.TypeRunFinished || ev.EventType() == agui.TypeRunError
	if ev.EventType() == agui.TypeRunError && s.terminals > 0 && !s.open {
		// Between two runs of one stream a RUN_ERROR is legal; behind the end of the only one it is a second end.
		s.x.findf(string(agui.RuleRunFinished), "%s: RUN_ERROR behind the run's end", where)
	}
	err := s.grammar.Check(ev)
	if code, broken := ruleOf(err); broken != nil {
		s.x.findf(code, "%s: %s of %s", where, broken.Type, quoted([]byte(broken.ID)))
	}
	if terminal {
		s.terminals++
		s.open = false
	} else if ev.EventType() == agui.TypeRunStarted && err == nil {
		s.open = true
	}
	if err != nil {
		return
	}
	s.contents(where, ev)
	s.fold.Apply(ev)
}

// occasion notes which rules an event is an occasion for.
func (s *stream) occasion(ev agui.Event) {
	name := string(ev.EventType())
	for prefix, n := range map[string]need{
		"TEXT_": aText, "REASONING_": aText, "TOOL_CALL_": aText, "STEP_": aStep, "SUBAGENT_": aSubagent, "STATE_DELTA": aPatch,
		"ACTIVITY_DELTA": anActivity, "MESSAGES_SNAPSHOT": aSnapshot, "RUN_FINISHED": anOutcome,
	} {
		if strings.HasPrefix(name, prefix) {
			s.x.saw(n)
		}
	}
	switch {
	case strings.HasPrefix(name, "TOOL_CALL_"):
		s.x.saw(aTool)
	case name == "RUN_STARTED" && s.terminals > 0:
		s.x.saw(aSecondRun)
	}
	if strings.HasSuffix(name, "_CHUNK") {
		s.x.saw(aChunk)
	}
}

// contents looks at the members of an event.
func (s *stream) contents(where string, ev agui.Event) {
	switch e := ev.(type) {
	case *agui.RunStarted:
		s.started, s.startAt = e, where
	case *agui.TextMessageStart:
		s.message(where, e.MessageID)
	case *agui.ReasoningMessageStart:
		s.message(where, e.MessageID)
	case *agui.TextMessageContent:
		s.delta(where, ev, e.Delta)
	case *agui.ReasoningMessageContent:
		s.delta(where, ev, e.Delta)
	case *agui.ToolCallArgs:
		s.delta(where, ev, e.Delta)
		s.tools.grow(e.ToolCallID, e.Delta)
	case *agui.ToolCallStart:
		s.tools.begin(e.ToolCallID, e.ToolCallName)
	case *agui.ToolCallEnd:
		s.tools.end(s.x, where, e.ToolCallID)
	case *agui.ToolCallResult:
		s.tools.answer(e.ToolCallID)
	case *agui.StateSnapshot:
		s.state = e.Snapshot
	case *agui.StateDelta:
		s.patch(where, e)
	case *agui.ActivityDelta:
		if err := s.fold.CheckActivity(ev); err != nil {
			s.x.findf("activity_fails", "%s: %s", where, strings.TrimPrefix(err.Error(), "agui: "))
		}
	case *agui.MessagesSnapshot:
		s.snapshot(where, e.Messages)
	case *agui.RunFinished:
		s.finished(e)
	}
}

// message looks at the id of a message that begins.
func (s *stream) message(where, id string) {
	if s.taken[id] {
		s.x.findf("message_id_taken", "%s: %s", where, quoted([]byte(id)))
	}
}

// delta looks at a piece of text.
func (s *stream) delta(where string, ev agui.Event, delta string) {
	if delta == "" {
		s.x.findf("empty_delta", "%s: %s", where, ev.EventType())
	}
}

// patch applies a patch to the state that a client has. One that fails leaves the state as it was.
func (s *stream) patch(where string, e *agui.StateDelta) {
	next, err := agui.ApplyPatch(s.state, e.Delta)
	if err != nil {
		s.x.findf("patch_fails", "%s: %s: %s", where, strings.TrimPrefix(err.Error(), "agui: "), quoted(e.Delta))
		return
	}
	s.state = next
}

// snapshot looks for messages that clients have and a snapshot leaves out. Clients keep thoughts and activities.
func (s *stream) snapshot(where string, messages []agui.Message) {
	has := make(map[string]bool)
	for i := range messages {
		has[messages[i].ID] = true
		if messages[i].Role == agui.RoleTool {
			s.tools.answer(messages[i].ToolCallID)
		}
	}
	for _, m := range s.fold.Messages() {
		if !has[m.ID] && m.Role != agui.RoleReasoning && m.Role != agui.RoleActivity {
			s.x.findf("snapshot_loses_messages", "%s: the %s's message %s is not in it", where, m.Role, quoted([]byte(m.ID)))
		}
	}
}

// finished looks at calls without a result. A run that waits for answers leaves some open, and names them. The
// recorder declares no tools of a client, so each of the others is a call that the agent had to answer itself.
func (s *stream) finished(e *agui.RunFinished) {
	if e.Outcome != nil && (e.Outcome.Type != agui.OutcomeSuccess || len(e.Outcome.PendingToolCallIDs) > 0) {
		return
	}
	for _, call := range s.tools.open() {
		s.x.findf("tool_unanswered", "call %s of %s", quoted([]byte(call.id)), quoted([]byte(call.name)))
	}
}

// end looks at whose run it was, and notes what no rule demands.
func (s *stream) end() {
	switch e := s.started; {
	case e == nil:
	case e.ThreadID != s.run.ThreadID:
		s.x.findf("request_ids", "%s: threadId %s, and the input has %s", s.startAt, quoted([]byte(e.ThreadID)), s.run.ThreadID)
	case e.RunID != s.run.RunID:
		s.x.findf("request_ids", "%s: runId %s, and the input has %s", s.startAt, quoted([]byte(e.RunID)), s.run.RunID)
	}
	if s.started != nil && s.started.ProtocolVersion == "" {
		s.x.notef("RUN_STARTED has no protocolVersion: clients take the server for one from before AG-UI 1.0")
	}
	if s.events > 0 && !s.x.seen[anID] {
		s.x.notef("events have no id: lines: a client of your own cannot come back to where it was (AG-UI itself has no resumption)")
	}
}

// toolCalls are the calls of a run, in the order in which they began: a report is the same each time.
type toolCalls struct {
	calls map[string]*toolCall
	order []*toolCall
}

// toolCall is one call.
type toolCall struct {
	id, name string
	args     strings.Builder
	answered bool
}

// begin notes a call; one that is opened again goes on.
func (t *toolCalls) begin(id, name string) {
	if t.calls[id] == nil {
		t.calls[id] = &toolCall{id: id, name: name}
		t.order = append(t.order, t.calls[id])
	}
}

func (t *toolCalls) grow(id, delta string) {
	if c := t.calls[id]; c != nil {
		c.args.WriteString(delta)
	}
}

// end looks at the arguments. None at all stand for a call without any.
func (t *toolCalls) end(x *examination, where, id string) {
	if c := t.calls[id]; c != nil && c.args.Len() > 0 && !json.Valid([]byte(c.args.String())) {
		x.findf("tool_arguments", "%s: %s", where, quoted([]byte(c.args.String())))
	}
}

func (t *toolCalls) answer(id string) {
	if c := t.calls[id]; c != nil {
		c.answered = true
	}
}

// open are the calls without a result.
func (t *toolCalls) open() (open []*toolCall) {
	for _, c := range t.order {
		if !c.answered {
			open = append(open, c)
		}
	}
	return open
}
