package approval

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/internal/fault"
	"aqueduct/internal/schema"
	"aqueduct/store"
)

// Codes of decisions that came too late.
const (
	AlreadyDecided    = "already_decided"    // a different decision came first
	AlreadyDispatched = "already_dispatched" // the approved call has begun
	AlreadyDelivered  = "already_delivered"  // the agent has the decision
)

// actor is who settles, and which Questions that actor sees. The zero Principal is the system.
type actor struct {
	who store.Principal
	in  store.Scope
}

// person is a Principal with its inbox.
func person(who store.Principal) actor { return actor{who: who, in: inboxOf(who)} }

// inboxOf is the Scope of what waits for a Principal's decision. Every method that names a Question, a Grant or a
// Delegation by its id reads through it: to any other Principal the id does not exist.
func inboxOf(who store.Principal) store.Scope { return store.Deciding(who) }

// system settles what no person does.
func system() actor { return actor{in: store.System()} }

// Decide settles a permission or an input for a person.
func (s *Service) Decide(ctx context.Context, who store.Principal, approvalID string, a Answer, via string) (Settled, error) {
	return s.answer(ctx, who, approvalID, a.as, via)
}

// ToolResult settles a client tool call with what the client made of it.
func (s *Service) ToolResult(ctx context.Context, who store.Principal, toolCallID string, a Answer) (Settled, error) {
	return s.answer(ctx, who, toolCallID, a.as, ViaREST)
}

// answer reads and settles one Answer outside the chat. A different decision that came first is a *fault.Error beside
// what it decided.
func (s *Service) answer(ctx context.Context, who store.Principal, id string, given func(Question) (Answer, error), via string) (Settled, error) {
	settled, err := s.settle(ctx, person(who), id, func(ctx context.Context, q Question) (Decision, error) {
		a, err := given(q)
		if err != nil {
			return Decision{}, err
		}
		d, err := s.OptionIDs().Read(ctx, q, a)
		d.By, d.Via = who.User, via
		return d, err
	})
	// The audit is written after the transaction, which a refusal has rolled back.
	var refused *fault.Error
	switch {
	case errors.As(err, &refused):
		if refusesActor(refused.Code) {
			s.auditRefusal(ctx, who, id, refused.Code)
		}
		return settled, fault.New(refused.Code, refused.Message)
	case errors.Is(err, store.ErrNotFound):
		s.AuditForeign(ctx, who, id)
	case err == nil && settled.Proposed:
		s.Feed.Look()
		s.Notices.Kept(settled.Question, settled.Session)
		return settled, ErrProposed()
	case err == nil && !settled.Won && !settled.Repeated:
		s.auditRefusal(ctx, who, id, AlreadyDecided)
		return settled, fault.New(AlreadyDecided, "This question has been decided already.")
	}
	return settled, err
}

// auditRefusal records an attempt to decide by a person who may not. The refusal stands when the audit fails.
func (s *Service) auditRefusal(ctx context.Context, who store.Principal, id, code string) {
	s.audit.Refused(ctx, who, audit.ApprovalRefused, audit.OfApproval(id), map[string]string{"code": code})
}

// AuditForeign records an attempt to decide a Question that belongs to another user, or that does not exist.
func (s *Service) AuditForeign(ctx context.Context, who store.Principal, id string) {
	s.auditRefusal(ctx, who, id, "not_found")
}

// refusesActor reports whether a decision was refused for what it tried, and not for its form.
func refusesActor(code string) bool {
	switch code {
	case NotApprover, FourEyes, EditRefused, AskerLost:
		return true
	}
	return false
}

// Withdraw cancels a Question of the system's own, because the request that asked has ended.
func (s *Service) Withdraw(ctx context.Context, id string) error {
	_, err := s.settle(ctx, system(), id, func(context.Context, Question) (Decision, error) { return AskerGone(), nil })
	return err
}

// Expire settles a Question whose time has come. After a failure it is armed again: a Question never stays open because
// the database was away at its deadline.
func (s *Service) Expire(ctx context.Context, id string) {
	_, err := s.settle(ctx, system(), id, func(context.Context, Question) (Decision, error) { return Expired(), nil })
	if err != nil && !errors.Is(err, store.ErrNotFound) && ctx.Err() == nil {
		s.logger.Error("question not expired, trying again", slog.String("approval_id", id), slog.Any("error", err))
		s.Deadlines.Arm(id, expireAgain)
	}
}

// settle makes and applies one Decision in a transaction of its own; the Session's owner passes it on to the agent. An answer
// is checked against its schema between two tries of the transaction: one check may take as long as many transactions, and the
// first try holds the Session's lock.
//
// With an error settle returns no outcome: the transaction was rolled back, or it is not known whether it was. With a refusal
// it returns the Question as it was read.
func (s *Service) settle(ctx context.Context, by actor, id string, decide func(context.Context, Question) (Decision, error)) (settled Settled, err error) {
	var asked Question
	err = schema.Outside(ctx, func(ctx context.Context) error {
		return s.store.InTx(ctx, func(tx store.Tx) error {
			session, q, err := by.lock(ctx, tx, id)
			if err != nil {
				return err
			}
			asked = q
			d, err := decide(ctx, q)
			if err != nil {
				return err
			}
			settled, err = s.Apply(ctx, tx, session, q, d, by.who)
			return err
		})
	})
	switch {
	case fault.CodeOf(err) != "":
		return Settled{Question: asked}, err
	case err != nil:
		return Settled{}, err
	case settled.Won:
		s.ring(settled.Question.Call.SessionID)
		s.AfterCommit(settled)
	}
	return settled, nil
}

// AfterCommit starts at once what would otherwise wait for the next poll: execution of an approved ToolCall, and
// notices. Call it when the transaction that settled is committed.
func (s *Service) AfterCommit(all ...Settled) {
	s.Count(all...)
	for _, settled := range all {
		if settled.Question.IsToolCall() && s.Calls != nil {
			s.Calls.Decided(settled.Question)
		}
	}
	s.notify(all)
}

// notify wakes who has to learn of Questions that were settled, after the commit.
func (s *Service) notify(all []Settled) {
	for _, settled := range all {
		if settled.Won {
			s.Notices.Kept(settled.Question, settled.Session)
		}
	}
}

// Count passes Questions that were settled to the metrics, after the commit.
func (s *Service) Count(all ...Settled) {
	for _, settled := range all {
		if s.settled != nil && settled.Won {
			s.settled(settled.Question)
		}
	}
}

// OwnerSettled is to be called after the commit of what the Session's owner settled: it counts, and wakes who has to learn.
func (s *Service) OwnerSettled(all ...Settled) {
	s.Count(all...)
	s.notify(all)
}

// lock finds the Session of a Question that the actor sees, locks it, and then reads the Question, once. What was read
// before the lock would be stale: another writer may settle between the two.
func (a actor) lock(ctx context.Context, tx store.Tx, id string) (store.Session, Question, error) {
	sessionID, err := a.find(ctx, tx, id)
	if err != nil {
		return store.Session{}, Question{}, err
	}
	session, err := tx.LockSession(ctx, store.System(), sessionID)
	if err != nil {
		return session, Question{}, err
	}
	q, err := Load(ctx, tx, store.System(), id)
	return session, q, err
}

// find returns the Session of a Question, or store.ErrNotFound to an actor who does not see it. An Approval is visible
// to delegates as well; a client's tool call, to its user and to those who may write in a thread shared with them.
func (a actor) find(ctx context.Context, tx store.Tx, id string) (sessionID string, err error) {
	asked, err := tx.Approval(ctx, a.in, id)
	if !errors.Is(err, store.ErrNotFound) {
		return asked.SessionID, err
	}
	call, err := tx.ToolCall(ctx, a.in, id)
	if !errors.Is(err, store.ErrNotFound) {
		return call.SessionID, err
	}
	shared, err := tx.Access(ctx, a.who, store.AccessBy{ToolCallID: id})
	if err != nil {
		return "", err
	}
	q, err := Load(ctx, tx, shared.Scope(), id)
	if err == nil && (!shared.Write || !q.ClientTool()) {
		err = store.ErrNotFound // a call of a client's tool with an Approval is for those who may decide
	}
	return q.Call.SessionID, err
}

// Revoke takes back an approval that nothing has acted on yet: of a tool call that has not begun, or of a Question whose
// Agent does not have the decision. The Agent gets it as cancelled.
func (s *Service) Revoke(ctx context.Context, who store.Principal, id string) error {
	sessionID := ""
	err := s.store.InTx(ctx, func(tx store.Tx) error {
		session, q, err := person(who).lock(ctx, tx, id)
		if err != nil {
			return err
		}
		if q.Approval.ID == "" || q.Open() {
			return store.ErrNotFound
		}
		sessionID = session.ID
		now := time.Now()
		if err := s.revoke(ctx, tx, who, q, now); err != nil {
			return err
		}
		return audit.AppendAt(ctx, tx, who, audit.ApprovalRevoked, audit.OfApproval(id), nil, now)
	})
	if err == nil {
		s.ring(sessionID)
	}
	return err
}
