// This file translates a session's log into the channel's messages. A message's seq is computed from
// the position of its event, so two connections, or one connection after a restart, number the same
// message alike; a client can resume anywhere by its last seq.

package channel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/tools"
	"aqueduct/internal/retry"
	"aqueduct/internal/strictjson"
	"aqueduct/server/wsconn"
	"aqueduct/store"
)

// logReader turns a Session's log into messages of the channel. What it gives depends on the log
// alone, from the first event of a Run on, so that a message has its seq for good: for every
// connection, on every replica. One goroutine uses it: that of a subscription, a replay or the
// relay. It must be started at the first event of a Run, because its fields describe the current
// Run.
type logReader struct {
	store   store.Store
	in      store.Scope
	session store.Session
	// answersOnly leaves out what was appended to the thread: it is no part of what its agent answers.
	answersOnly bool

	turnID    string
	requestID string // the runId of the Turn's first Run, which is the invoke's request_id
	begun     int64  // the position of the Run's first event
	answers   map[string]bool
	// A question is sent under the position at which its call began.
	calls   map[string]int64 // of this Run: where each began
	agent   []byte           // the agent's own state that was sent last
	stated  bool             // the Run has had a state event
	resumed *Message         // that the Turn goes on, until all that was settled is known

	// It is empty unless resumed is set.
	behind []Message // what is sent after resumed

	out []Message
}

// seqsPerEvent is how far apart the seqs of two events are. No event makes more than ten messages, and the distance
// must never change: clients keep seqs across updates of the server.
const seqsPerEvent = 10

// seqOf is a message's place: the nth of an event.
func seqOf(event int64, nth int64) int64 { return event*seqsPerEvent + nth }

// lastOfRun is which message of a Run's last event is the last.
const lastOfRun = 1

// read reads events that follow each other and gives their messages, which are valid until the next
// call. The message of a continued Turn is sent at the end of a read at the latest: the event that
// would complete it may not come for a long time.
func (r *logReader) read(ctx context.Context, items []bridge.Item) ([]Message, error) {
	r.out = r.out[:0]
	for _, item := range items {
		err := retry.While(ctx, isAway, func() error { return r.event(ctx, item) })
		if err != nil {
			return nil, err
		}
	}
	r.flushResumed()
	return r.out, nil
}

// event reads one. It may run again after the store was away, so it reads first and then adds. Every
// store read comes before the first message is added: retry.While calls event again after a failed
// read, and the messages of the first try would then be sent twice.
func (r *logReader) event(ctx context.Context, item bridge.Item) error {
	ev, err := agui.Decode(item.Event)
	if err != nil {
		return nil // nothing this wire has words for
	}
	switch e := ev.(type) {
	case *agui.RunStarted:
		return r.started(ctx, item, e)
	case *agui.ToolCallStart:
		r.calls[e.ToolCallID] = item.Seq
		return nil
	case *agui.ToolCallArgs, *agui.ToolCallEnd:
		return nil
	case *agui.ToolCallResult:
		return r.result(ctx, item, e)
	case *agui.Custom:
		if e.Name == "question_settled" {
			r.settled(e)
			return nil
		}
	case *agui.TextMessageStart:
		r.answers[e.MessageID] = (e.Role == agui.RoleAssistant || e.Role == "") && !(r.answersOnly && bridge.IsAppended(e.Metadata))
		return nil
	}
	r.flushResumed()
	switch e := ev.(type) {
	case *agui.TextMessageContent:
		if r.answers[e.MessageID] {
			r.add(item, 0, Message{Type: typeDelta, Text: e.Delta})
		}
	case *agui.StepStarted:
		r.agentStep(item, "step_started", e.StepName)
	case *agui.StepFinished:
		r.agentStep(item, "step_finished", e.StepName)
	case *agui.StateDelta:
		r.stated = true
		r.patched(item, e.Delta)
	case *agui.StateSnapshot:
		r.snapshot(item, e.Snapshot)
	case *agui.RunFinished:
		return r.finished(ctx, item, e)
	case *agui.RunError:
		r.add(item, 0, Message{Type: typeState, State: string(store.TurnFailed)})
		r.add(item, lastOfRun, Message{Type: typeError, Code: e.Code, Message: e.Message})
	}
	return nil
}

// add gives a message of an event of the Turn. The time is that of the commit, which is the same on every replica.
func (r *logReader) add(item bridge.Item, nth int64, m Message) {
	m.TS, m.Seq = millis(item.TS), seqOf(item.Seq, nth)
	r.out = append(r.out, r.ofTurn(m))
}

// ofTurn marks a message as one of the Turn.
func (r *logReader) ofTurn(m Message) Message {
	m.RequestID, m.SessionID, m.RunID = r.requestID, r.session.ExternalID, r.turnID
	return m
}

// started begins a Run: the first of a Turn, or one in which a Turn goes on.
// The state RUNNING of a continued Turn is held back (resumed), because the events that follow name
// the questions that were settled, and the client gets both in one message. flushResumed sends it at
// the first event of another kind.
func (r *logReader) started(ctx context.Context, item bridge.Item, e *agui.RunStarted) error {
	run, err := r.store.RunByExternalID(ctx, r.in, r.session.ID, e.RunID)
	if err != nil {
		return err
	}
	r.turnID, r.requestID, r.begun = run.TurnID, run.ExternalID, item.Seq
	r.answers, r.calls, r.agent, r.stated, r.resumed = make(map[string]bool), make(map[string]int64), nil, false, nil
	r.behind = nil
	if run.ID == run.TurnID {
		turn, err := r.store.Turn(ctx, r.in, run.TurnID)
		if err != nil {
			return err
		}
		r.add(item, 0, Message{Type: typeRunStarted, AgentID: turn.AgentID})
		r.add(item, 1, Message{Type: typeState, State: stateRunning})
		return nil
	}
	first, err := r.store.Run(ctx, r.in, run.TurnID)
	if err != nil {
		return err
	}
	r.requestID = first.ExternalID
	m := r.ofTurn(Message{Type: typeState, State: stateRunning, TS: millis(item.TS), Seq: seqOf(item.Seq, 0)})
	r.resumed = &m
	return nil
}

// result notes how a question was settled, when that is why the Turn goes on, and adds an error when no client was there to
// run a client's tool. Other results of calls in this Run are the agent's own.
// A result has no mark of what it answers, so the cases are distinguished by the Question: a tool's
// own result belongs to a call that was never asked about, or one whose approval has been noted
// already.
func (r *logReader) result(ctx context.Context, item bridge.Item, e *agui.ToolCallResult) error {
	q, err := approval.Load(ctx, r.store, r.in, e.ToolCallID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if q.Call.ErrorCode == tools.CodeClientOffline {
		r.addBehind(item, Message{
			Type: typeError, Code: tools.CodeClientOffline, Message: "No client was there to run this tool.",
			ToolCallID: q.Call.ID, ToolName: q.Call.Name,
		})
	}
	if r.resumed == nil || r.calls[e.ToolCallID] != 0 {
		return nil
	}
	if err == nil && q.NeverAsked() || r.resumed.Detail.has(e.ToolCallID) {
		return nil // the tool's own result, which settles nothing
	}
	var got struct {
		Status   string `json:"status"`
		OptionID string `json:"optionId"`
	}
	_ = json.Unmarshal([]byte(e.Content.String()), &got) // what is no object has no status
	if !slices.Contains([]string{"approved", "rejected", "expired", "cancelled"}, got.Status) {
		got.Status, got.OptionID = "answered", ""
	}
	r.resumed.settle(settledQuestion{ID: e.ToolCallID, Status: got.Status, OptionID: got.OptionID})
	return nil
}

// settled notes that a call was approved which is about to run. A call that was approved runs before
// its result comes, so result cannot be the place where the approval is noted.
func (r *logReader) settled(e *agui.Custom) {
	if r.resumed == nil {
		return
	}
	var got struct {
		ID       string `json:"id"`
		Status   string `json:"status"`
		OptionID string `json:"optionId"`
	}
	if json.Unmarshal(e.Value, &got) == nil {
		r.resumed.settle(settledQuestion{ID: got.ID, Status: strings.ToLower(got.Status), OptionID: got.OptionID})
	}
}

// addBehind gives a message behind the one that the Turn goes on, which has the lower seq and may still wait.
// Seqs must not fall on one connection: a client takes a lower seq for a repetition.
func (r *logReader) addBehind(item bridge.Item, m Message) {
	if r.resumed == nil {
		r.add(item, 0, m)
		return
	}
	m.TS, m.Seq = millis(item.TS), seqOf(item.Seq, 0)
	r.behind = append(r.behind, r.ofTurn(m))
}

// flushResumed adds the message that the Turn goes on, once.
func (r *logReader) flushResumed() {
	if r.resumed != nil {
		r.out = append(append(r.out, *r.resumed), r.behind...)
		r.resumed, r.behind = nil, nil
	}
}

// finished ends a Run: to wait, or for good. The last message of a Run is either a state of waiting
// or done; a client that has it, under lastOfRun, has all of the Run, and before relies on that.
func (r *logReader) finished(ctx context.Context, item bridge.Item, e *agui.RunFinished) error {
	var waits []string
	if e.Outcome != nil {
		waits = slices.Clone(e.Outcome.PendingToolCallIDs)
		for _, i := range e.Outcome.Interrupts {
			waits = append(waits, i.ID)
		}
	}
	state := string(store.TurnDone)
	switch {
	case len(waits) > 0:
		return r.waits(ctx, item, waits)
	case e.Outcome == nil: // the Turn had ended before this Run began, and its end was sent
		turn, err := r.store.Turn(ctx, r.in, r.turnID)
		if err == nil {
			r.add(item, lastOfRun, Message{Type: typeState, State: WireState(turn.Status)})
		}
		return err
	case e.Outcome.Type == agui.OutcomeCancelled:
		state = string(store.TurnCancelled)
	}
	r.add(item, 0, Message{Type: typeState, State: state})
	r.add(item, lastOfRun, Message{Type: typeDone, Usage: usageOf(e)})
	return nil
}

// waits adds the questions of this Run, each under the seq of its own events, and then the state
// with everything that the Turn waits for. A question is sent under the seq of its own tool call's
// event, which is earlier than the Run's end: a client that resumes between the two gets it again.
func (r *logReader) waits(ctx context.Context, item bridge.Item, ids []string) error {
	questions := make([]approval.Question, 0, len(ids))
	for _, id := range ids {
		q, err := approval.Load(ctx, r.store, r.in, id)
		if err != nil {
			return err
		}
		questions = append(questions, q)
	}
	for _, q := range questions {
		if at, here := r.calls[q.Call.ID]; here {
			r.add(bridge.Item{Seq: at, TS: item.TS}, 0, question(q))
		}
	}
	r.add(item, lastOfRun, waiting(questions))
	return nil
}

// patched looks for the agent's own state in a change. HTTP agents' state frames come as an "add" of
// /agent. The last operation on /agent counts: a patch may set it more than once.
func (r *logReader) patched(item bridge.Item, patch []byte) {
	var ops []struct {
		Op    string          `json:"op"`
		Path  string          `json:"path"`
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal(patch, &ops) != nil {
		return
	}
	for _, op := range slices.Backward(ops) {
		if op.Path == "/agent" && (op.Op == "add" || op.Op == "replace") {
			r.agentChanged(item, op.Value)
			return
		}
	}
}

// snapshot looks for it in the whole state. The first one of a Run is the state that the Run found, which is no news,
// unless it is the thread's first Run.
// Every Run begins with a snapshot for clients that join; to report its agent state each time would
// repeat old news.
func (r *logReader) snapshot(item bridge.Item, whole []byte) {
	found := !r.stated && r.begun > 1
	r.stated = true
	var state struct {
		Agent json.RawMessage `json:"agent"`
	}
	if json.Unmarshal(whole, &state) != nil || !strictjson.IsSet(state.Agent) {
		return
	}
	if bytes.Equal(state.Agent, r.agent) {
		return
	}
	if found {
		r.agent = slices.Clone(state.Agent)
		return
	}
	r.agentChanged(item, state.Agent)
}

// agentChanged sends the agent's own state if it has the form that the channel knows: an object with
// a state.
func (r *logReader) agentChanged(item bridge.Item, value []byte) {
	var got struct {
		State  string          `json:"state"`
		Detail json.RawMessage `json:"detail"`
	}
	r.agent = slices.Clone(value)
	if json.Unmarshal(value, &got) == nil && got.State != "" {
		r.agentState(item, got.State, got.Detail)
	}
}

// agentStep sends a step as a state of the agent.
func (r *logReader) agentStep(item bridge.Item, state, name string) {
	detail, err := wsconn.Marshal(map[string]string{"name": name})
	if err == nil {
		r.agentState(item, state, detail)
	}
}

// agentState sends a state in the agent's own words; source keeps it apart from the Turn's state.
func (r *logReader) agentState(item bridge.Item, state string, own json.RawMessage) {
	m := Message{Type: typeState, State: state, Source: "agent"}
	if strictjson.IsSet(own) {
		m.Detail = &detail{raw: own}
	}
	r.add(item, 0, m)
}

// isAway reports whether a read can be repeated: the database was not reached, and nothing was lost.
func isAway(err error) bool { return errors.Is(err, store.ErrUnavailable) }
