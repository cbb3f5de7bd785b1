package tools

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"aqueduct/bridge/inbox"
	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// unknownPrefix begins the UpstreamID of a Question about a call whose runner died.
const unknownPrefix = "unknown:"

// outcomes are what a person may say of such a call.
const (
	outcomeSucceeded = "succeeded"
	outcomeFailed    = "failed"
	outcomeRunAgain  = "run_again"
)

// outcomeSchema is the form of the answer.
const outcomeSchema = `{"type":"object","required":["outcome"],"properties":{"outcome":{"enum":["succeeded","failed","run_again"]},` +
	`"result":{},"message":{"type":"string"}},"additionalProperties":false}`

// orphaned makes a call whose runner died UNKNOWN, and asks a person what became of it: it
// may have done all it does, and running it again could do it twice.
func (s *Service) orphaned(ctx context.Context, call store.ToolCall) error {
	var asked store.ToolCall
	won := false
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		session, err := tx.LockSession(ctx, store.System(), call.SessionID)
		if err != nil {
			return err
		}
		won, err = tx.MoveToolCall(ctx, store.ToolCallMove{ID: call.ID, From: store.ToolRunning, OnlyOf: call.Replica, To: store.ToolUnknown})
		if err != nil || !won {
			return err
		}
		asked = s.unknownCall(call)
		if err := tx.InsertToolCall(ctx, asked); err != nil {
			return err
		}
		a := store.Approval{
			ID: asked.ID, SessionID: call.SessionID, TurnID: call.TurnID, Kind: store.ApprovalInput, Status: store.ApprovalPending, Tool: call.Name,
			Title: "Nobody knows whether " + call.Name + " was carried out: the server stopped while it ran.",
			Args:  asked.Args, ArgsSHA256: call.ArgsSHA256, ResponseSchema: json.RawMessage(outcomeSchema), Risk: call.Risk,
			CreatedAt: asked.CreatedAt, ExpiresAt: asked.ExpiresAt, AskedUser: session.User,
		}
		if err := errors.Join(tx.InsertApproval(ctx, a), tx.InsertRecord(ctx, trace.ApprovalRecord(a))); err != nil {
			return err
		}
		return s.cfg.Notices.Insert(ctx, tx, inbox.Question{Call: asked, Approval: a}, session)
	})
	if err == nil && won {
		s.deadline(asked)
		s.cfg.Ring(call.SessionID)
		s.cfg.Notices.Kept()
	}
	return err
}

func (s *Service) unknownCall(call store.ToolCall) store.ToolCall {
	now := time.Now()
	return store.ToolCall{
		ID: newID(), SessionID: call.SessionID, TurnID: call.TurnID, Name: "tool_outcome", Kind: store.KindQuestion,
		Status: store.ToolWaitingApproval, UpstreamID: unknownPrefix + call.ID, ArgsSHA256: call.ArgsSHA256,
		Args:      mustJSON(map[string]any{"tool_call_id": call.ID, "tool": call.Name, "args": json.RawMessage(call.Args)}),
		CreatedAt: now, ExpiresAt: now.Add(s.cfg.Limits.ApprovalTTL),
	}
}

// Settled carries on after a Question about a ToolCall was settled, in the same transaction.
func (s *Service) Settled(ctx context.Context, tx store.Tx, q inbox.Question, now time.Time) error {
	if id, ok := strings.CutPrefix(q.Call.UpstreamID, unknownPrefix); ok && q.Call.Kind == store.KindQuestion {
		return s.known(ctx, tx, id, q, now)
	}
	if strings.HasPrefix(q.Call.UpstreamID, inbox.SteerPrefix) {
		return endAnswered(ctx, tx, q, now)
	}
	if id, ok := strings.CutPrefix(q.Call.UpstreamID, inbox.ApprovedPrefix); ok && q.ClientTool() {
		return s.clientEnded(ctx, tx, id, q.Call, now)
	}
	if q.Call.Kind == store.KindClient && q.Call.Status == store.ToolDispatched {
		return s.askClient(ctx, tx, q.Call, now)
	}
	return nil
}

// endAnswered ends an answered Question that no Agent hears of.
func endAnswered(ctx context.Context, tx store.Tx, q inbox.Question, now time.Time) error {
	if q.Call.Status != store.ToolDispatched {
		return nil
	}
	_, err := tx.MoveToolCall(ctx, store.ToolCallMove{ID: q.Call.ID, From: store.ToolDispatched, To: store.ToolSucceeded, EndedAt: now})
	return err
}

// known moves an UNKNOWN call to where a person says it is. Nobody having said, it failed. The Question ends with it:
// no Agent is told of an answer that is for the call alone, so no delivery would end it later.
func (s *Service) known(ctx context.Context, tx store.Tx, id string, q inbox.Question, now time.Time) error {
	if err := endAnswered(ctx, tx, q, now); err != nil {
		return err
	}
	said := struct {
		Outcome string
		Result  json.RawMessage
		Message string
	}{Outcome: outcomeFailed}
	if status, payload := inbox.Answered(q); status == "resolved" {
		_ = json.Unmarshal(payload, &said) // it was checked against the schema
	}
	call, err := tx.ToolCall(ctx, store.System(), id)
	if errors.Is(err, store.ErrNotFound) || err == nil && call.TurnID != q.Call.TurnID {
		return nil // an id that was read out of another row is not trusted further
	}
	if err != nil {
		return err
	}
	move := store.ToolCallMove{ID: id, From: store.ToolUnknown, EndedAt: now}
	switch said.Outcome {
	case outcomeSucceeded:
		move.To, move.Result = store.ToolSucceeded, orNull(said.Result)
	case outcomeRunAgain:
		move.To, move.EndedAt = store.ToolDispatched, time.Time{}
	default:
		e := &Error{CodeUnknownOutcome, "The server stopped while the tool ran."}
		if said.Message != "" {
			e.Message = said.Message
		}
		move.To, move.ErrorCode, move.Error = store.ToolFailed, e.Code, e.json()
	}
	if !move.To.Terminal() {
		_, err = tx.MoveToolCall(ctx, move)
		return err
	}
	_, err = moveEnded(ctx, tx, call, move)
	return err
}

// ofTurn says whether a ToolCall belongs to a Turn: an id that was read out of another row is
// not trusted further.
func ofTurn(ctx context.Context, r store.Reader, id, turnID string) (bool, error) {
	call, err := r.ToolCall(ctx, store.System(), id)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return call.TurnID == turnID, err
}
