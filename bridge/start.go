package bridge

import (
	"context"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/inbox"
	"aqueduct/bridge/internal/failpoint"
	"aqueduct/store"
)

// start gives a queued Turn to its Agent. That it is dispatched is kept before the Agent
// is called, so a crash in between can never call it twice.
func (t *turn) start(ctx context.Context) error {
	call, err := t.call(ctx)
	if err != nil {
		return err
	}
	token, hash := newRunToken(t.row.ID)
	call.RunToken = token
	now := time.Now()
	begun, err := t.run.started(startedInput(t.s.row.ExternalID, t.run.row, call.fresh))
	if err != nil {
		return err
	}
	if t.run.differs(t.input.State) {
		t.run.emitState()
	}
	_, err = t.run.keep(ctx, nil, begun,
		store.TurnMove{
			ID: t.row.ID, From: []store.TurnStatus{store.TurnQueued}, To: store.TurnRunning,
			StartedAt: now, DispatchedAt: now, TokenHash: hash,
		})
	if err != nil {
		return err
	}
	t.row.Status = store.TurnRunning
	if t.input.Unprompted {
		return t.readAgain(ctx, call.Call, nil)
	}
	agent := t.s.m.cfg.Agents.agent(t.row.AgentID)
	if agent == nil {
		return t.fail(ctx, agentUnknown())
	}
	t.s.m.callers.add(t, token)
	failpoint.Here("before_dispatch")
	t.pump = startPump(ctx, func(ctx context.Context) (Turn, error) {
		defer failpoint.Here("after_dispatch")
		return agent.Start(ctx, call.Call)
	})
	return nil
}

// readAgain reads an upstream that this process does not hold.
func (t *turn) readAgain(ctx context.Context, call Call, answers []Answer) error {
	if call.RunToken != "" {
		t.s.m.callers.add(t, call.RunToken)
	}
	if t.pump = t.resume(ctx, call, answers); t.pump == nil {
		return t.fail(ctx, agentUnknown())
	}
	return nil
}

func agentUnknown() *Failure {
	return &Failure{Code: CodeAgentUnknown, Message: "There is no agent of that name here."}
}

// proceed writes the Run after an answer. If Questions are still open it is a short one
// that ends with the rest; else the Agent is told and goes on.
func (t *turn) proceed(ctx context.Context) error {
	call, err := t.call(ctx)
	if err != nil {
		return err
	}
	// A client that answered by a tool message of its own is told nothing; all others are.
	begun, err := t.run.started(startedInput(t.s.row.ExternalID, t.run.row, call.fresh))
	if err != nil {
		return err
	}
	moves, open, err := t.tell(ctx, []store.Move{begun})
	if err != nil {
		return err
	}
	if len(open) > 0 {
		return t.show(ctx, open, moves)
	}
	return t.deliver(ctx, moves)
}

// tell emits the results of what was settled and not told yet, and finds what is open.
func (t *turn) tell(ctx context.Context, moves []store.Move) ([]store.Move, []inbox.Question, error) {
	questions, err := t.questions(ctx)
	if err != nil {
		return nil, nil, err
	}
	var open []inbox.Question
	for _, q := range questions {
		switch {
		case q.Open():
			open = append(open, q)
		case !q.Call.Told:
			if q.Call.RunID == "" { // settled before anybody was shown it
				if err := t.run.emitCall(q); err != nil {
					return nil, nil, err
				}
			}
			if err := t.run.emitResult(q); err != nil {
				return nil, nil, err
			}
			moves = append(moves, store.ToolCallTold{ID: q.Call.ID})
		}
	}
	return moves, open, nil
}

// deliver tells the Agent every answer it has not heard. That it was told is kept first.
func (t *turn) deliver(ctx context.Context, moves []store.Move) error {
	questions, err := t.questions(ctx)
	if err != nil {
		return err
	}
	var answers []Answer
	now := time.Now()
	for _, q := range questions {
		if q.Open() || !q.Call.DeliveredAt.IsZero() {
			continue
		}
		moves = append(moves, store.ToolCallDelivered{ID: q.Call.ID, At: now})
		if q.Proxied() { // its Agent waits for the call, not for the answer
			continue
		}
		answers = append(answers, answerTo(q))
		if q.Call.Status == store.ToolDispatched {
			moves = append(moves, store.ToolCallMove{ID: q.Call.ID, From: store.ToolDispatched, To: store.ToolSucceeded, EndedAt: now})
		}
	}
	call, err := t.call(ctx)
	if err != nil {
		return err
	}
	records, err := t.emitBack()
	if err != nil {
		if err := t.keep(ctx, nil, moves...); err != nil { // the end tells what is not kept as told
			return err
		}
		return t.failOr(ctx, err)
	}
	running := store.TurnMove{ID: t.row.ID, From: []store.TurnStatus{t.row.Status}, To: store.TurnRunning}
	if t.pump == nil { // it will be called again, with a token of its own
		call.RunToken, running.TokenHash = newRunToken(t.row.ID)
		running.DispatchedAt = now
	}
	if _, err := t.run.keep(ctx, records, append(moves, running)...); err != nil {
		return err
	}
	t.row.Status, t.asked = store.TurnRunning, false
	failpoint.Here("before_delivery")
	return t.goOn(ctx, call.Call, answers)
}

// goOn lets the Agent go on: through the upstream that still waits, or by calling again.
func (t *turn) goOn(ctx context.Context, call Call, answers []Answer) error {
	if last := t.back; len(last) > 0 {
		t.back = nil
		return t.take(ctx, batch{outputs: last})
	}
	if t.pump != nil {
		t.pump.pause(false)
	}
	if t.pump != nil && len(answers) == 0 { // all it asked, it took back
		return nil
	}
	if t.pump != nil {
		switch err := t.pump.answer(ctx, answers); {
		case err == nil:
			return nil
		case !cannotResume(err):
			return t.fail(ctx, asFailure(err))
		}
	}
	t.release()
	if call.RunToken == "" {
		if err := t.renewToken(ctx, &call); err != nil {
			return err
		}
	}
	return t.readAgain(ctx, call, answers)
}

// renewToken makes the token of a call that was not foreseen: of an upstream that was held
// and cannot be told.
func (t *turn) renewToken(ctx context.Context, call *Call) error {
	token, hash := newRunToken(t.row.ID)
	call.RunToken = token
	return t.keep(ctx, nil, store.TurnMove{
		ID: t.row.ID, From: []store.TurnStatus{t.row.Status}, DispatchedAt: time.Now(), TokenHash: hash,
	})
}

func answerTo(q inbox.Question) Answer {
	status, payload := inbox.Heard(q)
	a := Answer{UpstreamID: q.Call.UpstreamID, Kind: AskPermission, Status: status, Payload: payload}
	switch {
	case q.ClientTool():
		a.Kind = AskClientTool
	case q.Approval.Kind == store.ApprovalInput:
		a.Kind = AskInput
	}
	return a
}

// callWithFresh is a Call and which of its messages began this Run.
type callWithFresh struct {
	Call
	fresh []agui.Message
}

// call gathers what the Agent is called with.
func (t *turn) call(ctx context.Context) (callWithFresh, error) {
	return t.callIn(ctx, t.run.row.ID, t.run.profile)
}

// callIn is call for a Run that need not be open.
func (t *turn) callIn(ctx context.Context, runID string, profile Profile) (callWithFresh, error) {
	c := callWithFresh{Call: Call{
		SessionID: t.s.id, TurnID: t.row.ID, AgentID: t.row.AgentID, UserID: t.s.row.User,
		Traceparent: t.input.Traceparent, Context: t.input.Context, ForwardedProps: t.input.Props,
		State: overlay(t.s.row.State, t.input.State), Tools: profile.tools(),
		Unprompted: t.input.Unprompted,
	}}
	if first := t.s.transcript; first != nil {
		t.s.transcript = nil
		c.Messages, c.Prompt, c.fresh = first, first, first
		return c, nil
	}
	var past []pastMessage
	err := patiently(ctx, func() (err error) {
		past, err = t.s.m.pasts.of(ctx, t.s.id, t.s.m.cfg.Limits.Transcript)
		return err
	})
	if err != nil {
		return c, err
	}
	c.gather(past, runID, t.row.ID)
	return c, nil
}

func (p Profile) tools() []agui.Tool {
	tools := make([]agui.Tool, 0, len(p.Tools))
	for _, t := range p.Tools {
		tools = append(tools, agui.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	return tools
}

// startedInput puts what the user said into the log, for those who did not send it.
func startedInput(threadID string, row store.Run, fresh []agui.Message) *agui.RunAgentInput {
	if len(fresh) == 0 {
		return nil
	}
	return &agui.RunAgentInput{ThreadID: threadID, RunID: row.ExternalID, Messages: fresh}
}
