package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"aqueduct/bridge/audit"
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
	settled, err := s.settle(ctx, decider{who: who, in: inboxOf(who)}, id, func(q inbox.Question) (inbox.Decision, error) {
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
func (s *Sessions) settle(ctx context.Context, by decider, id string, decide func(inbox.Question) (inbox.Decision, error)) (settled inbox.Settled, err error) {
	err = s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		q, err := by.load(ctx, tx, id)
		if err != nil {
			return err
		}
		if _, err := tx.LockSession(ctx, store.System(), q.Call.SessionID); err != nil {
			return err
		}
		if q, err = inbox.Load(ctx, tx, store.System(), id); err != nil {
			return err
		}
		d, err := decide(q)
		if err != nil {
			return err
		}
		if settled, err = s.settleIn(ctx, tx, q, d, by); err != nil || !settled.Won {
			return err
		}
		_, err = reserveNext(ctx, tx, q.Call.TurnID, "", nil)
		return err
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
	if err != nil {
		return inbox.Question{}, err
	}
	return inbox.Load(ctx, tx, store.System(), id)
}

// settleIn applies one Decision, and to a ToolCall of ours what follows from it. Its audit
// comes last: it holds up all others.
func (s *Sessions) settleIn(ctx context.Context, tx store.Tx, q inbox.Question, d inbox.Decision, by decider) (inbox.Settled, error) {
	session, err := tx.Session(ctx, store.System(), q.Call.SessionID)
	if err != nil {
		return inbox.Settled{}, err
	}
	if q.Open() {
		if err := s.permitted(ctx, tx, session, q, &d, by); err != nil {
			return inbox.Settled{Question: q}, err
		}
	}
	now := time.Now()
	settled, err := inbox.Settle(ctx, tx, q, d, now)
	if err != nil || !settled.Won {
		return settled, err
	}
	grant := ""
	if d.Option.Kind == inbox.AllowAlways && d.Status == store.ApprovalApproved {
		if grant, err = s.standing(ctx, tx, session, settled.Question, d, now); err != nil {
			return settled, err
		}
	}
	if q.Proxied() && s.cfg.Tools != nil {
		if err := s.cfg.Tools.Settled(ctx, tx, settled.Question, now); err != nil {
			return settled, err
		}
	}
	if err := s.cfg.Notices.Insert(ctx, tx, settled.Question, session); err != nil {
		return settled, err
	}
	return settled, s.auditDecision(ctx, tx, session, settled.Question, d, by, grant, now)
}

// permitted says whether the decider may decide so. Arguments that were changed are put into
// the form they will run in. It reads by the transaction: a further connection, which all
// others may hold while they wait for this one, might never come.
func (s *Sessions) permitted(ctx context.Context, tx store.Tx, session store.Session, q inbox.Question, d *inbox.Decision, by decider) (err error) {
	if by.who.User != "" {
		if err := inbox.MayDecideFor(ctx, tx, q, *d, by.who); err != nil {
			return err
		}
	}
	if d.Status == store.ApprovalApproved && q.Proxied() && !q.Outlives() {
		turn, err := tx.Turn(ctx, store.System(), q.Call.TurnID)
		if err != nil {
			return err
		}
		if turn.Status.Terminal() {
			return &inbox.Unclear{Code: inbox.InvalidAnswer, Message: "The run this call belongs to has ended: nobody waits for it."}
		}
	}
	if d.Edited == nil {
		return nil
	}
	if !q.Approval.MayEdit || !q.Proxied() || s.cfg.Tools == nil {
		return &inbox.Unclear{Code: inbox.EditRefused, Message: "The arguments of this call may not be changed."}
	}
	d.Edited, d.SHA256, err = s.cfg.Tools.Edited(ctx, tx, session, q, d.Edited)
	return err
}

// auditDecision writes down who decided what.
func (s *Sessions) auditDecision(ctx context.Context, tx store.Tx, session store.Session, q inbox.Question, d inbox.Decision, by decider, grant string, now time.Time) error {
	if q.Approval.ID == "" {
		return nil // a client's tool: nobody decided anything
	}
	action, who := audit.ApprovalDecided, by.who
	if who.User == "" {
		who = audit.Nobody(session.Tenant)
		action = audit.ApprovalExpired
	}
	e, err := audit.Entry(who, action, audit.OfApproval(q.Call.ID), struct {
		Status string `json:"status"`
		Option string `json:"option,omitempty"`
		Via    string `json:"via"`
		Tool   string `json:"tool"`
		SHA256 string `json:"args_sha256"`
		Edited string `json:"edited_sha256,omitempty"`
		Grant  string `json:"grant_id,omitempty"`
		Reason string `json:"reason,omitempty"`
	}{string(d.Status), d.Option.Kind, d.Via, q.Approval.Tool, q.Approval.ArgsSHA256, d.SHA256, grant, d.Reason}, now)
	if err == nil {
		_, err = tx.AppendAudit(ctx, e)
	}
	return err
}

// standing keeps an "always" as a Grant: for this call, in this Session. What cannot be told
// apart from other calls is allowed this once only.
func (s *Sessions) standing(ctx context.Context, tx store.Tx, session store.Session, q inbox.Question, d inbox.Decision, now time.Time) (id string, err error) {
	g, err := policy.GrantFor(inbox.CallOf(q, session), policy.ForSession)
	if err != nil {
		s.cfg.Logger.Info("an always was taken for once", slog.String("approval_id", q.Call.ID), slog.Any("reason", err))
		return "", nil
	}
	id = newID()
	return id, tx.InsertGrant(ctx, inbox.GrantRow(id, g, d.By, now))
}

// carryOn has done at once, instead of when it is looked for, what is to be done now that
// Questions are kept as settled.
func (s *Sessions) carryOn(all ...inbox.Settled) {
	for _, settled := range all {
		if settled.Question.Proxied() && s.cfg.Tools != nil {
			s.cfg.Tools.Decided(settled.Question)
		}
	}
	if len(all) > 0 {
		s.cfg.Notices.Kept()
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
