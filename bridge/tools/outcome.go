package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/bridge/trace"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// unknownPrefix begins the UpstreamID of a Question about a call whose runner died.
const unknownPrefix = "unknown:"

// The outcomes that a person may answer with.
const (
	outcomeSucceeded = "succeeded"
	outcomeFailed    = "failed"
	outcomeRunAgain  = "run_again"
)

// outcomeSchema is the form of the answer.
const outcomeSchema = `{"type":"object","required":["outcome"],"properties":{"outcome":{"enum":["succeeded","failed","run_again"]},` +
	`"result":{},"message":{"type":"string"}},"additionalProperties":false}`

// subject is what a settled Question about a ToolCall has consequences for.
type subject int

const (
	aboutNothing      subject = iota
	aboutOutcome              // a call whose runner died
	aboutSteering             // a change of the agent's mode, which the request that asked applies
	aboutClientResult         // an approved call, by the client's call for it
	aboutClientCall           // a call that the client executes next
)

// concern is what a settled Question is about, and which other call it means.
type concern struct {
	kind   subject
	callID string // of the other call, where there is one
}

// concerns finds the subject of a settled Question.
func concerns(q approval.Question) concern {
	if id, ok := strings.CutPrefix(q.Call.UpstreamID, unknownPrefix); ok && q.Call.Kind == store.KindQuestion {
		return concern{aboutOutcome, id}
	}
	if strings.HasPrefix(q.Call.UpstreamID, approval.SteerPrefix) {
		return concern{kind: aboutSteering}
	}
	if id, ok := strings.CutPrefix(q.Call.UpstreamID, approval.ApprovedPrefix); ok && q.ClientTool() {
		return concern{aboutClientResult, id}
	}
	if q.Call.Kind == store.KindClient && q.Call.Status == store.ToolDispatched {
		return concern{kind: aboutClientCall}
	}
	return concern{}
}

// outcomes asks a person what became of a call whose runner or tool died, and applies the answer. The tool may have done all it
// does, and executing it again could do it twice.
type outcomes struct {
	store     store.Store
	ttl       time.Duration // of the Question
	notices   approval.Notices
	deadlines *deadlines
	ring      func(sessionID string)
}

// stoppedHere is why the outcome of a call is not known whose runner died.
const stoppedHere = "The server stopped while the tool ran."

// ask makes a call UNKNOWN and opens the Question about it; why is a sentence.
// The move and the Question are one transaction: a call that is UNKNOWN always has a Question, and two replicas that
// find the same orphan ask once, because only one of them wins the move. OnlyOf names the runner, which may have died.
func (o *outcomes) ask(ctx context.Context, call store.ToolCall, why string) error {
	var asked store.ToolCall
	var session store.Session
	won := false
	err := o.store.InTx(ctx, func(tx store.Tx) (err error) {
		session, err = tx.LockSession(ctx, store.System(), call.SessionID)
		if err != nil {
			return err
		}
		won, err = tx.MoveToolCall(ctx, store.ToolCallMove{ID: call.ID, From: store.ToolRunning, OnlyOf: call.Replica, To: store.ToolUnknown})
		if err != nil || !won {
			return err
		}
		asked = o.question(call)
		if err := tx.InsertToolCall(ctx, asked); err != nil {
			return err
		}
		a := store.Approval{
			ID: asked.ID, SessionID: call.SessionID, TurnID: call.TurnID, Kind: store.ApprovalInput, Status: store.ApprovalPending, Tool: call.Name,
			Title: "Nobody knows whether " + call.Name + " was carried out. " + why,
			Args:  asked.Args, ArgsSHA256: call.ArgsSHA256, ResponseSchema: json.RawMessage(outcomeSchema), Risk: call.Risk,
			CreatedAt: asked.CreatedAt, ExpiresAt: asked.ExpiresAt, AskedUser: session.User,
		}
		if err := errors.Join(tx.InsertApproval(ctx, a), tx.InsertRecord(ctx, trace.ApprovalRecord(a))); err != nil {
			return err
		}
		return o.notices.Insert(ctx, tx, approval.Question{Call: asked, Approval: a}, session)
	})
	if err == nil && won {
		o.deadlines.arm(asked)
		o.ring(call.SessionID)
		o.notices.Kept(approval.Question{Call: asked, Approval: store.Approval{ID: asked.ID}}, session)
	}
	return err
}

// question is the row of the Question: a ToolCall of its own, for no agent, that expires like one.
func (o *outcomes) question(call store.ToolCall) store.ToolCall {
	now := time.Now()
	return store.ToolCall{
		ID: newID(), SessionID: call.SessionID, TurnID: call.TurnID, Name: "tool_outcome", Kind: store.KindQuestion,
		Status: store.ToolWaitingApproval, UpstreamID: unknownPrefix + call.ID, ArgsSHA256: call.ArgsSHA256,
		Args:      mustJSON(map[string]any{"tool_call_id": call.ID, "tool": call.Name, "args": json.RawMessage(call.Args)}),
		CreatedAt: now, ExpiresAt: now.Add(o.ttl),
	}
}

// apply moves an UNKNOWN call to where the answer puts it; without an answer it failed. The Question ends here as well: its
// answer is for the call alone, so no delivery to an agent would end it.
func (o *outcomes) apply(ctx context.Context, tx store.Tx, id string, q approval.Question, now time.Time) error {
	if err := endAnswered(ctx, tx, q, now); err != nil {
		return err
	}
	answer := struct {
		Outcome string
		Result  json.RawMessage
		Message string
	}{Outcome: outcomeFailed}
	if status, payload := approval.DecisionOf(q); status == agui.ResumeResolved {
		_ = json.Unmarshal(payload, &answer) // it was checked against the schema
	}
	call, err := tx.ToolCall(ctx, store.System(), id)
	if errors.Is(err, store.ErrNotFound) || err == nil && call.TurnID != q.Call.TurnID {
		return nil // an id that was read out of another row is not trusted further
	}
	if err != nil {
		return err
	}
	switch answer.Outcome {
	case outcomeRunAgain:
		_, err = tx.MoveToolCall(ctx, store.ToolCallMove{ID: id, From: store.ToolUnknown, To: store.ToolDispatched})
	case outcomeSucceeded:
		_, err = endInTx(ctx, tx, call, store.ToolCallMove{ID: id, From: store.ToolUnknown, To: store.ToolSucceeded, Result: orNull(answer.Result), EndedAt: now})
	default:
		why := fault.New(CodeUnknownOutcome, cmp.Or(answer.Message, "It is not known whether the tool did its work."))
		_, err = endInTx(ctx, tx, call, failedMove(call, store.ToolUnknown, why, now))
	}
	return err
}

// endAnswered ends an answered Question whose answer no agent gets.
func endAnswered(ctx context.Context, tx store.Tx, q approval.Question, now time.Time) error {
	if q.Call.Status != store.ToolDispatched {
		return nil
	}
	_, err := tx.MoveToolCall(ctx, store.ToolCallMove{ID: q.Call.ID, From: store.ToolDispatched, To: store.ToolSucceeded, EndedAt: now})
	return err
}
