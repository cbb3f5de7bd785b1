package bridge

import (
	"context"
	"errors"
	"time"

	"aqueduct/bridge/audit"
	"aqueduct/bridge/inbox"
	"aqueduct/store"
)

// maxShares bounds how many Shares a thread has: each read of an id that is not the caller's own looks at
// all that name the caller, and a team has a role to share with.
const maxShares = 100

// Share shares a thread of the caller's, or changes the rights of one that names the same user or role.
// session is a Session that belongs to who.
func (s *Sessions) Share(ctx context.Context, who store.Principal, session store.Session, to string, write, decide bool) (store.Share, error) {
	row := store.Share{
		ID: newID(), SessionID: session.ID, Tenant: session.Tenant, To: to, Write: write, Decide: decide, CreatedBy: who.User, CreatedAt: time.Now(),
	}
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.LockSession(ctx, store.As(who), session.ID); err != nil {
			return err
		}
		there, err := tx.Shares(ctx, store.As(who), session.ID)
		if err != nil {
			return err
		}
		known := false
		for _, h := range there {
			if h.To == to {
				row.ID, row.CreatedBy, row.CreatedAt, known = h.ID, h.CreatedBy, h.CreatedAt, true
			}
		}
		if !known && len(there) >= maxShares {
			return &Refusal{Code: RefusedTooManyShares, Message: "A thread can be shared with 100 users and roles. Share it with a role that many have."}
		}
		if err := tx.PutShare(ctx, row); err != nil {
			return err
		}
		return auditShare(ctx, tx, who, audit.ShareCreated, row)
	})
	s.inbox.LookAgain(session.Tenant) // who may decide has changed
	return row, err
}

// Unshare ends a Share of a thread of the caller's.
func (s *Sessions) Unshare(ctx context.Context, who store.Principal, session store.Session, id string) error {
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.LockSession(ctx, store.As(who), session.ID); err != nil {
			return err
		}
		there, err := tx.Shares(ctx, store.As(who), session.ID)
		if err != nil {
			return err
		}
		for _, h := range there {
			if h.ID != id {
				continue
			}
			if _, err := tx.DeleteShare(ctx, session.ID, id); err != nil {
				return err
			}
			return auditShare(ctx, tx, who, audit.ShareRemoved, h)
		}
		return store.ErrNotFound
	})
	s.inbox.LookAgain(session.Tenant)
	return err
}

func auditShare(ctx context.Context, tx store.Tx, who store.Principal, action string, h store.Share) error {
	e, err := audit.Entry(who, action, audit.OfThread(h.SessionID), map[string]any{"share": h.ID, "to": h.To, "write": h.Write, "decide": h.Decide}, time.Now())
	if err == nil {
		_, err = tx.AppendAudit(ctx, e)
	}
	return err
}

// OpenedSession writes down that a person signed in by an OpenID provider. Without it nobody is signed in.
func (s *Sessions) OpenedSession(ctx context.Context, who store.Principal, issuer string) error {
	e, err := audit.Entry(who, audit.SignedIn, audit.OfUser(who.User), map[string]any{"issuer": issuer, "roles": who.Roles}, time.Now())
	if err != nil {
		return err
	}
	return s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		_, err := tx.AppendAudit(ctx, e)
		return err
	})
}

// sharedSession finds a Session of others that the caller has access to; "" when there is none.
func (in *intake) sharedSession(ctx context.Context, by store.AccessBy) (string, error) {
	a, err := in.tx.Access(ctx, in.req.Principal, by)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	in.access = &a
	return a.Session.ID, nil
}

// scope is what the caller sees of the thread: its own rows, or those of one that is shared with it.
func (in *intake) scope() store.Scope {
	if in.access != nil {
		return in.access.Scope()
	}
	return store.As(in.req.Principal)
}

// promptedBy is who prompts a thread of others; "" in the caller's own.
func (in *intake) promptedBy() string {
	if in.access == nil {
		return ""
	}
	return in.req.Principal.User
}

// mayTake refuses a message in a thread that is shared without the right to write.
func (in *intake) mayTake(v verdict) error {
	if in.access == nil || in.access.Write {
		return nil
	}
	if v == takePrompt || v == refuseBusy || v == takeAnswer && len(in.fresh) > 0 {
		return NotShared("write")
	}
	return nil
}

// mayAnswer refuses an answer in a thread that is shared without the right to give it: a client's tool is
// answered by who may write, what a person is asked by who may decide.
func (in *intake) mayAnswer(q inbox.Question) error {
	if in.access == nil || q.ClientTool() && in.access.Write || !q.ClientTool() && in.access.Decide {
		return nil
	}
	return &inbox.Unclear{Code: inbox.NotApprover, Message: "This thread is shared with you, but not to answer its questions."}
}

// NotShared is the refusal of what a thread is not shared for.
func NotShared(right string) error {
	return &Refusal{Code: RefusedNotShared, Message: "This thread is shared with you, but not with the right to " + right + "."}
}

// loadShared lets who may write answer a client's tool in a thread of others. Approvals are seen by by.in.
func (by decider) loadShared(ctx context.Context, tx store.Tx, id string) error {
	a, err := tx.Access(ctx, by.who, store.AccessBy{ToolCallID: id})
	if err != nil {
		return err
	}
	call, err := tx.ToolCall(ctx, a.Scope(), id)
	if err == nil && (!a.Write || call.Kind != store.KindClient) {
		err = store.ErrNotFound
	}
	return err
}
