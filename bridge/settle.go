package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"aqueduct/bridge/audit"
	"aqueduct/bridge/eventlog"
	"aqueduct/bridge/inbox"
	"aqueduct/internal/schema"
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
	settled, err := s.settle(ctx, decider{who: who, in: inboxOf(who)}, id, func(ctx context.Context, q inbox.Question) (inbox.Decision, error) {
		d, err := inbox.Read(ctx, q, a)
		d.By, d.Via = who.User, via
		return d, err
	})
	var unclear *inbox.Unclear
	switch {
	case errors.As(err, &unclear):
		if refusesDecider(unclear.Code) {
			s.auditRefusal(ctx, who, id, unclear.Code)
		}
		return settled, &Refusal{Code: unclear.Code, Message: unclear.Message}
	case errors.Is(err, store.ErrNotFound):
		s.Foreign(ctx, who, id)
	case err == nil && !settled.Won && !settled.Repeated:
		s.auditRefusal(ctx, who, id, RefusedDecided)
		return settled, &Refusal{Code: RefusedDecided, Message: "This question has been decided already."}
	}
	return settled, err
}

// auditRefusal writes down that somebody tried to decide who may not. What was refused stays refused without it.
func (s *Sessions) auditRefusal(ctx context.Context, who store.Principal, id, code string) {
	s.cfg.Audit.Refused(ctx, who, audit.ApprovalRefused, audit.OfApproval(id), map[string]string{"code": code})
}

// Foreign writes down that somebody tried to decide a Question that is another's, or none.
func (s *Sessions) Foreign(ctx context.Context, who store.Principal, id string) {
	s.auditRefusal(ctx, who, id, "not_found")
}

// refusesDecider reports whether a decision was refused for what it tried, and not for its form.
func refusesDecider(code string) bool {
	switch code {
	case inbox.NotApprover, inbox.FourEyes, inbox.EditRefused, inbox.AskerLost:
		return true
	}
	return false
}

// settle applies one Decision. The Session's owner passes it on. What has to be checked against a schema is checked
// between two tries of the transaction, because a check may take as long as many transactions.
func (s *Sessions) settle(ctx context.Context, by decider, id string, decide func(context.Context, inbox.Question) (inbox.Decision, error)) (settled inbox.Settled, err error) {
	err = schema.Outside(ctx, func(ctx context.Context) error {
		return s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			q, err := by.load(ctx, tx, id)
			if err != nil {
				return err
			}
			session, err := tx.LockSession(ctx, store.System(), q.Call.SessionID)
			if err != nil {
				return err
			}
			if q, err = inbox.Load(ctx, tx, store.System(), id); err != nil {
				return err
			}
			d, err := decide(ctx, q)
			if err != nil {
				return err
			}
			settled, err = s.settler.Apply(ctx, tx, session, q, d, by.who)
			return err
		})
	})
	if err == nil && settled.Won {
		s.cfg.Bell.Ring(settled.Question.Call.SessionID)
		s.carryOn(settled)
	}
	return settled, err
}

// decider is who settles, and what it sees. The zero Principal is the system.
type decider struct {
	who store.Principal
	in  store.Scope
}

// system settles what no person does.
func system() decider { return decider{in: store.System()} }

// inboxOf is what a Principal sees of what waits for a decision.
func inboxOf(who store.Principal) store.Scope { return store.Deciding(who) }

// load reads a Question that the decider sees. An Approval is seen by whom it is delegated
// to as well.
func (by decider) load(ctx context.Context, tx store.Tx, id string) (inbox.Question, error) {
	_, err := tx.Approval(ctx, by.in, id)
	if errors.Is(err, store.ErrNotFound) {
		_, err = tx.ToolCall(ctx, by.in, id)
	}
	if errors.Is(err, store.ErrNotFound) {
		err = by.loadShared(ctx, tx, id)
	}
	if err != nil {
		return inbox.Question{}, err
	}
	return inbox.Load(ctx, tx, store.System(), id)
}

// carryOn has done at once, instead of when it is looked for, what is to be done now that
// Questions are kept as settled.
func (s *Sessions) carryOn(all ...inbox.Settled) {
	s.measure(all...)
	for _, settled := range all {
		if settled.Question.Proxied() && s.cfg.Tools != nil {
			s.cfg.Tools.Decided(settled.Question)
		}
	}
	if len(all) > 0 {
		s.cfg.Notices.Kept()
	}
}

// measure counts Questions that were settled, once that is kept.
func (s *Sessions) measure(all ...inbox.Settled) {
	for _, settled := range all {
		if f := s.cfg.Meter.Settled; f != nil && settled.Won {
			f(settled.Question)
		}
	}
}

// reserved is the Run that what was settled goes into: one that is reserved for it (ok), or the open one.
type reserved struct {
	run store.Run
	ok  bool
}

// posted is what a chat POST says about the Run it names.
type posted struct {
	profile  []byte
	bodyHash []byte
	parent   string // AG-UI's parentRunId
	tails    string
}

// reserveNext reserves the Run that a chat POST with an answer names, unless one is reserved already, or one is open:
// what was settled goes into that. The Session is locked.
func reserveNext(ctx context.Context, tx store.Tx, turnID, externalID string, post posted) (reserved, error) {
	turn, err := tx.Turn(ctx, store.System(), turnID)
	if err != nil || !turn.Status.Paused() {
		return reserved{}, err
	}
	runs, err := tx.RunsOfTurn(ctx, store.System(), turnID)
	if err != nil {
		return reserved{}, err
	}
	last := runs[len(runs)-1]
	open := slices.IndexFunc(runs, func(r store.Run) bool { return r.Status == store.RunRunning })
	switch {
	case open >= 0:
		return reserved{run: runs[open]}, nil
	case last.Status == store.RunReserved:
		return reserved{run: last, ok: true}, nil
	}
	next := nextRun(last, externalID, &post)
	return reserved{run: next, ok: true}, tx.InsertRun(ctx, next)
}

// nextRun is the Run after another of the same Turn. Nobody having posted it, it inherits
// the profile of the one before.
func nextRun(last store.Run, externalID string, post *posted) store.Run {
	run := store.Run{
		ID: newID(), SessionID: last.SessionID, TurnID: last.TurnID, ExternalID: externalID,
		Status: store.RunReserved, Profile: withoutClient(last.Profile), CreatedAt: time.Now(),
	}
	if externalID == "" {
		run.ExternalID = run.ID
	}
	if post != nil {
		run.Profile, run.BodyHash = mergeProfile(last.Profile, post.profile), post.bodyHash
		run.ParentRunID, run.Tails = post.parent, post.tails
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

// askerThere says whether the Agent of a Turn can still get the result of a ToolCall: it ended to wait, or the replica
// that called it lives. After a restart it is there again once it has been taken up.
func (s *Sessions) askerThere(ctx context.Context, tx store.Tx, turn store.Turn) (bool, error) {
	switch turn.Upstream {
	case "", store.UpstreamWaits, s.cfg.Replica:
		return true, nil
	}
	return tx.ReplicaLives(ctx, turn.Upstream)
}

// entryOf is an Entry of moves alone.
func entryOf(moves ...store.Move) eventlog.Entry { return eventlog.Entry{Moves: moves} }
