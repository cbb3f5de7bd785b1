package bridge

import (
	"context"
	"encoding/json"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/inbox"
	"aqueduct/bridge/internal/failpoint"
	"aqueduct/store"
)

// start gives a queued Turn to its Agent. That it is dispatched is kept before the Agent
// is called, so a crash in between can never call it twice.
func (t *turn) start(ctx context.Context) error {
	if err := t.placeInputs(ctx); err != nil {
		return err
	}
	call, err := t.call(ctx)
	if err != nil {
		return err
	}
	token, hash := newRunToken(t.row.ID)
	call.RunToken = token
	now := time.Now()
	begun, err := t.run.started(startedInput(t.s.row.ExternalID, t.run.row, t.s.m.shownAll(call.fresh)))
	if err != nil {
		return err
	}
	if err := t.baseState(ctx, true); err != nil {
		return t.failOr(ctx, err, begun)
	}
	call.State = t.run.stateJSON()
	_, err = t.run.keep(ctx, t.begunRecords(now, &call.Call), begun,
		store.TurnMove{
			ID: t.row.ID, From: []store.TurnStatus{store.TurnQueued}, To: store.TurnRunning,
			StartedAt: now, DispatchedAt: now, TokenHash: hash, Upstream: t.s.m.cfg.Replica,
		})
	if err != nil {
		return err
	}
	t.row.Status, t.row.Upstream = store.TurnRunning, t.s.m.cfg.Replica
	if t.input.Unprompted {
		return t.readAgain(ctx, call.Call, nil)
	}
	agent := t.s.m.cfg.Agents.agent(t.row.AgentID)
	if agent == nil {
		return t.fail(ctx, agentUnknown())
	}
	t.s.m.callers.add(t, token)
	failpoint.Here("before_dispatch")
	t.pump = startPump(ctx, false, func(ctx context.Context) (Turn, error) {
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

// proceed writes the Run that a client's answer reserved: the results, and the Agent's words when nothing is open any
// more. Else it is a short one that ends with the rest, so that the client shows it; what the Agent says to the answer
// is in the Run after it.
func (t *turn) proceed(ctx context.Context) error {
	full, err := t.call(ctx)
	if err != nil {
		return err
	}
	begun, err := t.run.started(startedInput(t.s.row.ExternalID, t.run.row, t.s.m.shownAll(full.fresh)))
	if err != nil {
		return err
	}
	if err := t.baseState(ctx, false); err != nil {
		return t.failOr(ctx, err, begun)
	}
	if err := t.catchUp(ctx, begun); err != nil || t.run == nil || !t.row.Status.Paused() {
		return err
	}
	open, err := t.open(ctx)
	if err != nil {
		return err
	}
	if len(open) == 0 {
		return t.catchUp(ctx)
	}
	return t.endWithQuestions(ctx, open, nil)
}

func answerTo(q inbox.Question) Answer {
	status, payload := inbox.Heard(q)
	a := Answer{UpstreamID: q.Call.UpstreamID, Fingerprint: q.Fingerprint(), Kind: AskPermission, Status: status, Payload: payload}
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

// stateNow is the shared state: of the open Run, or as the last one left it.
func (t *turn) stateNow() json.RawMessage {
	if t.run != nil {
		return t.run.stateJSON()
	}
	return t.s.row.State
}

// call gathers what the Agent is called with.
func (t *turn) call(ctx context.Context) (callWithFresh, error) {
	return t.callIn(ctx, t.run.row.ID, t.run.profile)
}

// callIn is call for a Run that need not be open.
func (t *turn) callIn(ctx context.Context, runID string, profile Profile) (callWithFresh, error) {
	c := callWithFresh{Call: Call{
		SessionID: t.s.id, InstanceID: InstanceID(t.s.row, t.row.AgentID), ThreadID: t.s.row.ExternalID, TurnID: t.row.ID, AgentID: t.row.AgentID, UserID: t.row.Prompter(t.s.row),
		Traceparent: t.span().Traceparent(), Tracestate: t.span().State, Context: t.input.Context, ForwardedProps: t.input.Props,
		State: t.stateNow(), Tools: profile.tools(),
		Unprompted: t.input.Unprompted, Branched: t.row.BranchedFrom != "",
	}}
	if first := t.s.transcript; first != nil {
		t.s.transcript = nil
		c.Messages, c.Prompt, c.fresh = first, first, first
		err := t.loadParts(ctx, &c.Call)
		return c, err
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
	nameSpeakers(c.Messages, t.s.row.AgentID, t.row.AgentID)
	err = t.loadParts(ctx, &c.Call) // not in the return itself, which may copy c before
	return c, err
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
