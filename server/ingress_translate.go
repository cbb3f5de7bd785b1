package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/inbox"
	"aqueduct/bridge/tools"
	"aqueduct/store"
)

// ingressReader turns a Session's log into messages of the channel. What it gives depends on
// the log alone, from the first event of a Run on, so that a message has its seq for good:
// for every connection, on every replica.
type ingressReader struct {
	store   store.Store
	in      store.Scope
	session store.Session

	turnID    string
	requestID string // the runId of the Turn's first Run, which is the invoke's request_id
	begun     int64  // the position of the Run's first event
	answers   map[string]bool
	calls     map[string]int64 // of this Run: where each began
	agent     []byte           // the agent's own state, told last
	stated    bool             // the Run has had a state event
	resumed   *ingressMessage  // that the Turn goes on, until all that was settled is known

	behind []ingressMessage // what is told behind resumed

	out []ingressMessage
}

// seqsPerEvent is how far apart the seqs of two events are.
const seqsPerEvent = 10

// seqOf is a message's place: the nth of an event.
func seqOf(event int64, nth int64) int64 { return event*seqsPerEvent + nth }

// lastOfRun is which message of a Run's last event is the last.
const lastOfRun = 1

// take reads events that follow each other and gives their messages, which are valid until
// the next call.
func (r *ingressReader) take(ctx context.Context, items []bridge.Item) ([]ingressMessage, error) {
	r.out = r.out[:0]
	for _, item := range items {
		err := untilThere(ctx, func() error { return r.event(ctx, item) })
		if err != nil {
			return nil, err
		}
	}
	r.goesOn()
	return r.out, nil
}

// event reads one. It may run again after the store was away, so it reads first and then adds.
func (r *ingressReader) event(ctx context.Context, item bridge.Item) error {
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
		r.answers[e.MessageID] = e.Role == agui.RoleAssistant || e.Role == ""
		return nil
	}
	r.goesOn()
	switch e := ev.(type) {
	case *agui.TextMessageContent:
		if r.answers[e.MessageID] {
			r.add(item, 0, ingressMessage{Type: ingressDelta, Text: e.Delta})
		}
	case *agui.StepStarted:
		r.step(item, "step_started", e.StepName)
	case *agui.StepFinished:
		r.step(item, "step_finished", e.StepName)
	case *agui.StateDelta:
		r.stated = true
		r.patched(item, e.Delta)
	case *agui.StateSnapshot:
		r.snapshot(item, e.Snapshot)
	case *agui.RunFinished:
		return r.finished(ctx, item, e)
	case *agui.RunError:
		r.add(item, 0, ingressMessage{Type: ingressState, State: string(store.TurnFailed)})
		r.add(item, lastOfRun, ingressMessage{Type: ingressError, Code: e.Code, Message: e.Message})
	}
	return nil
}

// add gives a message of an event of the Turn.
func (r *ingressReader) add(item bridge.Item, nth int64, m ingressMessage) {
	m.TS, m.Seq = millis(item.TS), seqOf(item.Seq, nth)
	r.out = append(r.out, r.of(m))
}

// of marks a message as one of the Turn.
func (r *ingressReader) of(m ingressMessage) ingressMessage {
	m.RequestID, m.SessionID, m.RunID = r.requestID, r.session.ExternalID, r.turnID
	return m
}

// started begins a Run: the first of a Turn, or one in which a Turn goes on.
func (r *ingressReader) started(ctx context.Context, item bridge.Item, e *agui.RunStarted) error {
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
		r.add(item, 0, ingressMessage{Type: ingressRunStarted, AgentID: turn.AgentID})
		r.add(item, 1, ingressMessage{Type: ingressState, State: ingressRunning})
		return nil
	}
	first, err := r.store.Run(ctx, r.in, run.TurnID)
	if err != nil {
		return err
	}
	r.requestID = first.ExternalID
	m := r.of(ingressMessage{Type: ingressState, State: ingressRunning, TS: millis(item.TS), Seq: seqOf(item.Seq, 0)})
	r.resumed = &m
	return nil
}

// result notes how a question was settled, when that is why the Turn goes on, and says when nobody was there to run a
// client's tool. Other results of what was called in this Run are the agent's own business.
func (r *ingressReader) result(ctx context.Context, item bridge.Item, e *agui.ToolCallResult) error {
	q, err := inbox.Load(ctx, r.store, r.in, e.ToolCallID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if q.Call.ErrorCode == tools.CodeClientOffline {
		r.later(item, ingressMessage{
			Type: ingressError, Code: tools.CodeClientOffline, Message: "No client was there to run this tool.",
			ToolCallID: q.Call.ID, ToolName: q.Call.Name,
		})
	}
	if r.resumed == nil || r.calls[e.ToolCallID] != 0 {
		return nil
	}
	if err == nil && q.NeverAsked() || r.resumed.Detail.has(e.ToolCallID) {
		return nil // the tool's own result, which settles nothing
	}
	var said struct {
		Status   string `json:"status"`
		OptionID string `json:"optionId"`
	}
	_ = json.Unmarshal([]byte(e.Content.String()), &said) // what is no object has no status
	if !slices.Contains([]string{"approved", "rejected", "expired", "cancelled"}, said.Status) {
		said.Status, said.OptionID = "answered", ""
	}
	r.resumed.settle(ingressSettled{ID: e.ToolCallID, Status: said.Status, OptionID: said.OptionID})
	return nil
}

// settled notes that a call was approved which is about to run.
func (r *ingressReader) settled(e *agui.Custom) {
	if r.resumed == nil {
		return
	}
	var said struct {
		ID       string `json:"id"`
		Status   string `json:"status"`
		OptionID string `json:"optionId"`
	}
	if json.Unmarshal(e.Value, &said) == nil {
		r.resumed.settle(ingressSettled{ID: said.ID, Status: strings.ToLower(said.Status), OptionID: said.OptionID})
	}
}

// later gives a message behind the one that the Turn goes on, which has the lower seq and may still wait.
func (r *ingressReader) later(item bridge.Item, m ingressMessage) {
	if r.resumed == nil {
		r.add(item, 0, m)
		return
	}
	m.TS, m.Seq = millis(item.TS), seqOf(item.Seq, 0)
	r.behind = append(r.behind, r.of(m))
}

// goesOn tells that the Turn goes on, once.
func (r *ingressReader) goesOn() {
	if r.resumed != nil {
		r.out = append(append(r.out, *r.resumed), r.behind...)
		r.resumed, r.behind = nil, nil
	}
}

// finished ends a Run: to wait, or for good.
func (r *ingressReader) finished(ctx context.Context, item bridge.Item, e *agui.RunFinished) error {
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
	case e.Outcome == nil: // the Turn had ended before this Run began, and so the channel has been told
		turn, err := r.store.Turn(ctx, r.in, r.turnID)
		if err == nil {
			r.add(item, lastOfRun, ingressMessage{Type: ingressState, State: wireState(turn.Status)})
		}
		return err
	case e.Outcome.Type == agui.OutcomeCancelled:
		state = string(store.TurnCancelled)
	}
	r.add(item, 0, ingressMessage{Type: ingressState, State: state})
	r.add(item, lastOfRun, ingressMessage{Type: ingressDone, Usage: ingressUsageOf(e.Usage)})
	return nil
}

// waits asks what is asked in this Run, each question under the seq of its own events, and
// tells what the Turn waits for in all.
func (r *ingressReader) waits(ctx context.Context, item bridge.Item, ids []string) error {
	questions := make([]inbox.Question, 0, len(ids))
	for _, id := range ids {
		q, err := inbox.Load(ctx, r.store, r.in, id)
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

// waiting tells that a Turn waits, and for what.
func waiting(questions []inbox.Question) ingressMessage {
	d, state := &ingressDetail{}, ingressWaitingTool
	for _, q := range questions {
		if q.ClientTool() {
			d.ToolCallIDs = append(d.ToolCallIDs, q.Call.ID)
		} else {
			d.ApprovalIDs = append(d.ApprovalIDs, q.Call.ID)
		}
	}
	if len(d.ToolCallIDs) > 0 {
		d.ToolCallID = d.ToolCallIDs[0]
	}
	if len(d.ApprovalIDs) > 0 {
		d.ApprovalID, d.ToolCallID, state = d.ApprovalIDs[0], "", ingressWaitingApproval
	}
	return ingressMessage{Type: ingressState, State: state, Detail: d}
}

// question is a Question in the words of the channel.
func question(q inbox.Question) ingressMessage {
	m := ingressMessage{
		Type: ingressToolRequest, ToolCallID: q.Call.ID, ToolName: q.Call.Name, Args: q.Call.Args,
		DeadlineTS: millis(q.Call.ExpiresAt),
	}
	if q.ClientTool() {
		return m
	}
	a := q.Approval
	m.Type, m.ApprovalID, m.Args = ingressApproval, q.Call.ID, nil
	m.ToolName = firstOf(a.Tool, q.Call.Name)
	m.Kind, m.Risk, m.Options, m.ResponseSchema = string(a.Kind), a.Risk, a.Options, a.ResponseSchema
	m.ArgsSummary, m.Shown, m.ArgsSHA256 = summary(a.Title, a.Args), inbox.ShownOf(a), a.ArgsSHA256
	return m
}

// wireState is a Turn's state in the words of this wire.
func wireState(s store.TurnStatus) string {
	switch s {
	case store.TurnPausedApproval:
		return ingressWaitingApproval
	case store.TurnPausedTool:
		return ingressWaitingTool
	case store.TurnQueued, store.TurnRunning, store.TurnDone, store.TurnFailed, store.TurnCancelled:
	}
	return string(s)
}

// patched looks for the agent's own state in a change. HTTP agents' state frames come as
// an "add" of /agent.
func (r *ingressReader) patched(item bridge.Item, patch []byte) {
	var ops []struct {
		Op    string  `json:"op"`
		Path  string  `json:"path"`
		Value rawJSON `json:"value"`
	}
	if json.Unmarshal(patch, &ops) != nil {
		return
	}
	for _, op := range slices.Backward(ops) {
		if op.Path == "/agent" && (op.Op == "add" || op.Op == "replace") {
			r.agentSays(item, op.Value)
			return
		}
	}
}

// snapshot looks for it in the whole state. The first one of a Run is the state that the Run found, which is no news,
// unless it is the thread's first Run.
func (r *ingressReader) snapshot(item bridge.Item, whole []byte) {
	found := !r.stated && r.begun > 1
	r.stated = true
	var state struct {
		Agent rawJSON `json:"agent"`
	}
	if json.Unmarshal(whole, &state) != nil || !there(state.Agent) {
		return
	}
	if bytes.Equal(state.Agent, r.agent) {
		return
	}
	if found {
		r.agent = slices.Clone(state.Agent)
		return
	}
	r.agentSays(item, state.Agent)
}

func (r *ingressReader) agentSays(item bridge.Item, value []byte) {
	var said struct {
		State  string  `json:"state"`
		Detail rawJSON `json:"detail"`
	}
	r.agent = slices.Clone(value)
	if json.Unmarshal(value, &said) == nil && said.State != "" {
		r.agentState(item, said.State, said.Detail)
	}
}

func (r *ingressReader) step(item bridge.Item, state, name string) {
	detail, err := plainText(map[string]string{"name": name})
	if err == nil {
		r.agentState(item, state, detail)
	}
}

func (r *ingressReader) agentState(item bridge.Item, state string, detail rawJSON) {
	m := ingressMessage{Type: ingressState, State: state, Source: "agent"}
	if there(detail) {
		m.Detail = &ingressDetail{raw: detail}
	}
	r.add(item, 0, m)
}

// untilThere reads until the store is there: it has lost nothing.
func untilThere(ctx context.Context, read func() error) error {
	const pause = 250 * time.Millisecond
	for {
		err := read()
		if !errors.Is(err, store.ErrUnavailable) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
