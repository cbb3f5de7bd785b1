package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"aqueduct/bridge/inbox"
	"aqueduct/bridge/trace"
	"aqueduct/internal/schema"
	"aqueduct/policy"
	"aqueduct/store"
)

// own is the policy that a tool was registered with. The file's rules go before it.
type own struct {
	Risk policy.Risk `json:"risk,omitempty"`
	TTL  string      `json:"ttl,omitempty"` // as in policy files: 30m
	policy.Own
}

func readOwn(raw json.RawMessage) (o own, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err = dec.Decode(&o); err == nil && o.TTL != "" {
		o.Own.TTL, err = time.ParseDuration(o.TTL)
	}
	return o, err
}

// judged is a call as the policy saw it, and what it says of it.
type judged struct {
	call policy.Call
	policy.Verdict
}

// judge asks the policy, and where that has no rule, what the tool was registered with.
func (s *Service) judge(from Request, tool ready, call store.ToolCall, grants []policy.Grant) judged {
	c := policy.Call{
		AgentID: from.Session.AgentID, Session: from.Session.ID, Tool: tool.Name, Args: call.Args, Risk: tool.own.Risk, Own: tool.own.Own,
		By: from.By,
	}
	return judged{c, s.cfg.Policy().Decide(c, grants, time.Now())}
}

// useGrant counts one use of the Grant that let the call through. One that was used up or
// revoked meanwhile lets nothing through: a person is asked.
func (s *Service) useGrant(ctx context.Context, tx store.Tx, v judged) (judged, error) {
	if v.Grant == "" {
		return v, nil
	}
	ok, err := tx.UseGrant(ctx, v.Grant, time.Now())
	if err == nil && !ok {
		v.Action, v.Grant, v.Reason = policy.Ask, "", "The grant for it is used up."
	}
	return v, err
}

// approval is the Question that a call waits for. What is shown is what will run: the hash
// binds them.
func approvalOf(call store.ToolCall, v policy.Verdict, asked string) store.Approval {
	a := store.Approval{
		ID: call.ID, SessionID: call.SessionID, TurnID: call.TurnID, Kind: store.ApprovalPermission, Status: store.ApprovalPending,
		Tool: call.Name, Title: call.Name, Args: call.Args, ArgsSHA256: call.ArgsSHA256, Options: mustJSON(inbox.StandingOptions()),
		Risk: call.Risk, CreatedAt: call.CreatedAt, ExpiresAt: call.ExpiresAt,
	}
	inbox.SetTerms(&a, v.Terms, asked)
	return a
}

// recordsOf is what is on record of a call that was taken: that it was made, what the policy said, and what came of that.
func recordsOf(call store.ToolCall, v judged, asked *store.Approval, span trace.Context) []store.Record {
	records := []store.Record{trace.Created(call), trace.Record(trace.PolicyDecision, call.SessionID, call.TurnID, call.CreatedAt, struct {
		ToolCallID string `json:"tool_call_id"`
		policy.Decision
	}{call.ID, policy.Decided(v.call, v.Verdict)})}
	switch {
	case asked != nil:
		records = append(records, trace.ApprovalRecord(*asked))
	case call.Status == store.ToolRunning:
		records = append(records, runningRecord(call, span))
	case call.Status == store.ToolWaitingClient:
		records = append(records, trace.Dispatched(call, "", "", time.Now(), call.ExpiresAt))
	case call.Status.Terminal():
		records = append(records, trace.ResultOf(call).Record(call, call.EndedAt))
	}
	return records
}

// runningRecord is on record of a call that runs here: the tool is given the span.
func runningRecord(call store.ToolCall, span trace.Context) store.Record {
	return trace.Dispatched(call, "", span.Traceparent(), call.RunningAt, call.RunningAt.Add(call.Timeout))
}

// keepRefused puts on record that an agent's call was not taken. That fails at most with the store, which the agent hears of
// at its next call.
func (s *Service) keepRefused(ctx context.Context, req Request, e *Error) {
	call := store.ToolCall{
		ID: newID(), SessionID: req.Session.ID, TurnID: req.TurnID, Name: policy.Visible(req.Name, refusedName), IdempotencyKey: req.Key, CreatedAt: time.Now(),
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepWait)
	defer cancel()
	if _, err := s.cfg.Keep(ctx, call.SessionID, nil, trace.Refused(call, req.Args, e.Code, e.Message)); err != nil {
		s.cfg.Logger.Error("a refused tool call is not on record", slog.String("turn_id", call.TurnID), slog.Any("error", err))
	}
}

// refusedName bounds the name of a tool that is not there, in characters: people read it in the trace.
const refusedName = 128

// Edited is what a call becomes when who approves it changes its arguments: they must be what
// the tool takes, and the policy is asked again. What it blocks nobody can approve.
func (s *Service) Edited(ctx context.Context, r store.Reader, session store.Session, q inbox.Question, edited json.RawMessage) (args json.RawMessage, sha string, err error) {
	tool, err := readTool(ctx, r, session.Tenant, q.Call.Name)
	if err != nil {
		return nil, "", err
	}
	if args, err = checkArgs(ctx, tool, edited); schema.Deferred(err) {
		return nil, "", err
	} else if err != nil {
		return nil, "", &inbox.Unclear{Code: inbox.InvalidAnswer, Message: err.Error()}
	}
	q.Call.Args = args
	v, err := s.judgeAgain(ctx, r, session, tool, q)
	if err != nil {
		return nil, "", err
	}
	if v.Action == policy.Block {
		return nil, "", &inbox.Unclear{Code: inbox.EditRefused, Message: blockedBecause(v)}
	}
	return args, hashOf(args), nil
}

// Judged is what the policy in force says of a call that was asked about. A tool that is no more cannot run, and its
// approval says so when it is dispatched.
func (s *Service) Judged(ctx context.Context, r store.Reader, session store.Session, q inbox.Question) (policy.Verdict, error) {
	tool, err := readTool(ctx, r, session.Tenant, q.Call.Name)
	if errors.Is(err, store.ErrNotFound) {
		return policy.Verdict{}, nil
	}
	if err != nil {
		return policy.Verdict{}, err
	}
	return s.judgeAgain(ctx, r, session, tool, q)
}

// judgeAgain judges without Grants: they lift no block, and nothing else counts where a person decides.
func (s *Service) judgeAgain(ctx context.Context, r store.Reader, session store.Session, tool ready, q inbox.Question) (policy.Verdict, error) {
	turn, err := r.Turn(ctx, store.System(), q.Call.TurnID)
	if err != nil {
		return policy.Verdict{}, err
	}
	session.AgentID = turn.AgentID
	return s.judge(Request{Session: session, By: inbox.Prompter(session, turn)}, tool, q.Call, nil).Verdict, nil
}
