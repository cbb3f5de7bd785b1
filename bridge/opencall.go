package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// An AG-UI or HTTP agent may end its Run with a call that has no result, of a tool that no client declared. A page of TDesign
// shows a form for it and sends the person's input. The Turn does not wait for such a call, so it is not a Question. An
// answer to it is a tool message of the client, and begins the next Turn.
//
// A Question in its place would block the thread. Many HTTP agents never send the results of tools that they run themselves,
// and their Turns would never end. So only the answer distinguishes the two kinds of calls.
//
// Two simultaneous answers are processed one after the other, under the lock of the Session's row. The second answer finds
// the first either as the Turn under way, and joins it, or as a result in the transcript.

// openCallLooks bounds the messages of a thread that are searched for an open call. A call that can still be answered is
// among the newest: it is not older than the newest user message.
const openCallLooks = 256

// AnsweredCall is a call that a request answered and that was not a Question.
type AnsweredCall struct {
	ID, Name string
	TurnID   string // the Turn that the answer began, or that made the call
	Failed   bool
	// Repeated is set if the call already had a result, so that the request changed nothing. Differs is set if that result
	// was another.
	Repeated, Differs bool
}

// openCalls finds the calls that an answer may belong to.
type openCalls struct {
	*thread
	agents *Directory

	read    bool
	calls   []agui.ToolCall         // those since the newest message of a user, the newest message's first
	results map[string]agui.Message // by call
	runID   string                  // the last Run, whose end left them
	turnID  string                  // its Turn
	agentID string                  // the agent that made them

	taken    []agui.Message // the tool messages that answer
	answered []AnsweredCall
}

// load reads the calls of the thread. It reads none if the thread's agent cannot receive a result. While the agent is
// running, only calls with a result count. So the second of two answers still finds its call. The calls of the Run under way
// are not in the transcript yet, and most of them get their results from the agent.
func (o *openCalls) load(ctx context.Context) error {
	if o.read || !o.exists || o.req.JoinOnly || o.session.IsChild() {
		return nil
	}
	o.read = true
	last, err := o.tx.LastRun(ctx, store.System(), o.session.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	turn, err := o.tx.Turn(ctx, store.System(), last.TurnID)
	if err != nil {
		return err
	}
	if o.agents.Protocol(o.session.Tenant, turn.AgentID) == store.AgentACP {
		return nil // it keeps its own conversation, and runs its own tools
	}
	o.runID, o.turnID, o.agentID = last.ID, turn.ID, turn.AgentID
	said, err := saidSince(ctx, o.tx, o.session.ID)
	if err != nil {
		return err
	}
	o.results = make(map[string]agui.Message)
	for _, m := range said {
		if m.Role == agui.RoleTool {
			o.results[m.ToolCallID] = m
		}
		o.calls = append(o.calls, m.ToolCalls...)
	}
	if o.active != nil && !o.active.Status.Paused() || last.Status == store.RunRunning {
		o.calls = slices.DeleteFunc(o.calls, func(call agui.ToolCall) bool { _, has := o.results[call.ID]; return !has })
	}
	return nil
}

// saidSince returns the messages since the newest user message, the newest first.
func saidSince(ctx context.Context, tx store.Tx, sessionID string) (said []agui.Message, err error) {
	rows, err := tx.Messages(ctx, store.System(), sessionID, store.Page{Limit: openCallLooks})
	for _, row := range slices.Backward(rows) {
		if row.Role == agui.RoleUser {
			break
		}
		m, err := decodeMessage(row)
		if err != nil {
			return nil, err
		}
		said = append(said, m)
	}
	return said, err
}

// take applies an answer to a call that is not a Question. It reports false if no open call matches either.
//
// An answer without an id matches the only open call, because pages of TDesign lose ids. An answer to a call with a result
// changes nothing. A client that repeats its history gets no note about that.
func (o *openCalls) take(ctx context.Context, a approval.Answer) (bool, error) {
	if err := o.load(ctx); err != nil {
		return false, err
	}
	call, found := o.find(a.QuestionID)
	if !found {
		return false, nil
	}
	if o.access != nil && !o.access.Write {
		o.note("question_open", map[string]any{"id": call.ID, "code": approval.NotApprover, "message": "This thread is shared with you to read only."})
		return true, nil
	}
	m := o.message(call.ID, a)
	before, has := o.results[call.ID]
	if has {
		differs := before.Content.String() != m.Content.String() || before.Error != m.Error
		o.answered = append(o.answered, AnsweredCall{ID: call.ID, Name: call.Function.Name, TurnID: o.turnID, Failed: before.Error != "", Repeated: true, Differs: differs})
		if a.MessageID == "" {
			status := store.ToolSucceeded
			if before.Error != "" {
				status = store.ToolFailed
			}
			o.note("question_settled", map[string]any{"id": call.ID, "status": status})
		}
		return true, nil
	}
	o.results[call.ID] = m
	o.taken = append(o.taken, m)
	o.answered = append(o.answered, AnsweredCall{ID: call.ID, Name: call.Function.Name, TurnID: o.turnID, Failed: m.Error != ""})
	return true, nil
}

// find returns the newest call of an id. For "" it returns the only call without a result.
func (o *openCalls) find(id string) (call agui.ToolCall, found bool) {
	for _, c := range o.calls {
		_, has := o.results[c.ID]
		switch {
		case id != "" && c.ID == id:
			return c, true
		case id == "" && !has && found:
			return agui.ToolCall{}, false
		case id == "" && !has:
			call, found = c, true
		}
	}
	return call, found
}

// message converts an answer to a tool message: the client's own, or one of ours whose id follows from the call, so that a
// second request cannot add another.
func (o *openCalls) message(callID string, a approval.Answer) agui.Message {
	m := agui.Message{ID: "result:" + callID, Role: agui.RoleTool, Content: agui.Text(textOfPayload(a.Payload)), Error: a.Error}
	if i := slices.IndexFunc(o.req.Messages, func(m agui.Message) bool { return m.ID == a.MessageID }); i >= 0 && a.MessageID != "" {
		m = o.req.Messages[i]
	}
	if a.Cancelled {
		m.Content, m.Error = agui.Text("The user did not answer."), "cancelled"
	}
	m.ToolCallID = callID
	return m
}

// textOfPayload returns an answer's payload in the form of a tool's result: a text unchanged, any other value as JSON.
func textOfPayload(payload json.RawMessage) string {
	var text string
	if json.Unmarshal(payload, &text) == nil && len(payload) > 0 && payload[0] == '"' {
		return text
	}
	return string(payload)
}

// begins reports whether an answer begins a Turn, because the thread is idle.
func (o *openCalls) begins() bool { return len(o.taken) > 0 && o.active == nil }

// begin makes the answers begin the Turn of the request, before the message that came with them, with the agent that made the
// calls.
func (o *openCalls) begin() {
	o.fresh = append(o.taken, o.fresh...)
	o.req.AgentID = cmp.Or(o.req.AgentID, o.agentID)
}

// keep writes answers that begin no Turn to the transcript, because a Question of the same Run is still open. The agent reads
// them there when its Turn continues.
func (o *openCalls) keep(ctx context.Context, runID string) error {
	if runID == "" {
		runID = o.runID
	}
	for _, m := range o.taken {
		if _, err := o.insertMessage(ctx, m, runID); err != nil {
			return err
		}
	}
	return nil
}
