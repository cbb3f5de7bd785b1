package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/inbox"
	"aqueduct/policy"
	"aqueduct/store"
)

// Decide settles a permission or an input for a person.
func (s *Sessions) Decide(ctx context.Context, who store.Principal, approvalID string, a inbox.Answer, via string) (inbox.Settled, error) {
	return s.answer(ctx, who, approvalID, a, via)
}

// ToolResult settles a client tool call with what the client made of it.
func (s *Sessions) ToolResult(ctx context.Context, who store.Principal, toolCallID string, a inbox.Answer) (inbox.Settled, error) {
	return s.answer(ctx, who, toolCallID, a, inbox.ViaREST)
}

// answer reads and settles one Answer outside the chat. A different decision that came
// first is a *Refusal beside what it decided.
func (s *Sessions) answer(ctx context.Context, who store.Principal, id string, a inbox.Answer, via string) (inbox.Settled, error) {
	settled, err := s.settle(ctx, store.As(who), id, func(q inbox.Question) (inbox.Decision, error) {
		d, err := inbox.Read(q, a)
		d.By, d.Via = who.User, via
		return d, err
	})
	var unclear *inbox.Unclear
	switch {
	case errors.As(err, &unclear):
		return settled, &Refusal{Code: unclear.Code, Message: unclear.Message}
	case err == nil && !settled.Won && !settled.Repeated:
		return settled, &Refusal{Code: RefusedDecided, Message: "This question has been decided already."}
	}
	return settled, err
}

// settle applies one Decision and, when it was the last that its Turn waited for, opens
// the next Run.
func (s *Sessions) settle(ctx context.Context, in store.Scope, id string, decide func(inbox.Question) (inbox.Decision, error)) (settled inbox.Settled, err error) {
	err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		q, err := inbox.Load(ctx, tx, in, id)
		if err != nil {
			return err
		}
		if _, err := tx.LockSession(ctx, in, q.Call.SessionID); err != nil {
			return err
		}
		if q, err = inbox.Load(ctx, tx, in, id); err != nil {
			return err
		}
		d, err := decide(q)
		if err != nil {
			return err
		}
		if settled, err = s.settleIn(ctx, tx, q, d); err != nil || !settled.Won {
			return err
		}
		_, err = reserveNext(ctx, tx, q.Call.TurnID, "", nil)
		return err
	})
	if err == nil && settled.Won {
		s.cfg.Bell.Ring(settled.Question.Call.SessionID)
		s.kickTools(settled.Question)
	}
	return settled, err
}

// settleIn applies one Decision, and to a ToolCall of ours what follows from it.
func (s *Sessions) settleIn(ctx context.Context, tx store.Tx, q inbox.Question, d inbox.Decision) (inbox.Settled, error) {
	now := time.Now()
	settled, err := inbox.Settle(ctx, tx, q, d, now)
	if err != nil || !settled.Won {
		return settled, err
	}
	if d.Option.Kind == inbox.AllowAlways && d.Status == store.ApprovalApproved {
		if err := s.standing(ctx, tx, settled.Question, d, now); err != nil {
			return settled, err
		}
	}
	if q.Proxied() && s.cfg.Tools != nil {
		err = s.cfg.Tools.Settled(ctx, tx, settled.Question, now)
	}
	return settled, err
}

// standing keeps an "always" as a Grant: for this call, in this Session. What cannot be told
// apart from other calls is allowed this once only.
func (s *Sessions) standing(ctx context.Context, tx store.Tx, q inbox.Question, d inbox.Decision, now time.Time) error {
	session, err := tx.Session(ctx, store.System(), q.Call.SessionID)
	if err != nil {
		return err
	}
	g, err := policy.GrantFor(inbox.CallOf(q, session), policy.ForSession)
	if err != nil {
		s.cfg.Logger.Info("an always was taken for once", slog.String("approval_id", q.Call.ID), slog.Any("reason", err))
		return nil
	}
	return tx.InsertGrant(ctx, inbox.GrantRow(newID(), g, d.By, now))
}

// kickTools has an approved ToolCall run at once, instead of when it is looked for.
func (s *Sessions) kickTools(q inbox.Question) {
	if q.Proxied() && s.cfg.Tools != nil {
		s.cfg.Tools.Kick()
	}
}

// reserved is a Run reserved for what follows an answer.
type reserved struct {
	run     store.Run
	ok      bool
	partial bool // Questions that were shown are still open
}

// posted is what a chat POST says about the Run it names.
type posted struct {
	profile  []byte
	bodyHash []byte
}

// reserveNext reserves the Run after an answer, unless one is reserved already. With a
// POST it is reserved even when Questions stay open: a short Run that ends with the rest.
// Without one it waits for the last Question that was shown. The Session is locked.
func reserveNext(ctx context.Context, tx store.Tx, turnID, externalID string, post *posted) (reserved, error) {
	turn, err := tx.Turn(ctx, store.System(), turnID)
	if err != nil || !turn.Status.Paused() {
		return reserved{}, err
	}
	questions, err := questionsOf(ctx, tx, turnID)
	if err != nil {
		return reserved{}, err
	}
	open := 0
	for _, q := range questions {
		if q.Call.RunID != "" && q.Open() {
			open++
		}
	}
	runs, err := tx.RunsOfTurn(ctx, store.System(), turnID)
	if err != nil {
		return reserved{}, err
	}
	last := runs[len(runs)-1]
	switch {
	case open > 0 && post == nil:
		return reserved{partial: open > 0}, nil
	case last.Status == store.RunReserved:
		return reserved{run: last, ok: true, partial: open > 0}, nil
	case last.Status == store.RunRunning:
		return reserved{partial: open > 0}, nil // its end will see to what follows
	}
	next := nextRun(last, externalID, post)
	return reserved{run: next, ok: true, partial: open > 0}, tx.InsertRun(ctx, next)
}

// nextRun is the Run after another of the same Turn. Nobody having posted it, it inherits
// the profile of the one before.
func nextRun(last store.Run, externalID string, post *posted) store.Run {
	run := store.Run{
		ID: newID(), SessionID: last.SessionID, TurnID: last.TurnID, ExternalID: externalID,
		Status: store.RunReserved, Profile: last.Profile, CreatedAt: time.Now(),
	}
	if externalID == "" {
		run.ExternalID = run.ID
	}
	if post != nil {
		run.Profile, run.BodyHash = mergeProfile(last.Profile, post.profile), post.bodyHash
	}
	return run
}

// mergeProfile lets an answer that declares no tools keep those declared before.
func mergeProfile(last, now []byte) []byte {
	var before, after Profile
	if json.Unmarshal(now, &after) != nil || len(after.Tools) > 0 || json.Unmarshal(last, &before) != nil {
		return now
	}
	after.Tools = before.Tools
	return mustJSON(after)
}

// reserveAfter reserves the Run that follows when a Turn's Questions were settled by its
// owner, or past it.
func (s *Sessions) reserveAfter(ctx context.Context, turn store.Turn) error {
	return s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.LockSession(ctx, store.System(), turn.SessionID); err != nil {
			return err
		}
		_, err := reserveNext(ctx, tx, turn.ID, "", nil)
		return err
	})
}

// entryOf is an Entry of moves alone.
func entryOf(moves ...store.Move) eventlog.Entry { return eventlog.Entry{Moves: moves} }
