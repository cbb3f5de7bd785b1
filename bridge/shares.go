package bridge

import (
	"context"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// maxShares bounds how many Shares a thread has: each read of an id that is not the caller's own looks at all Shares that
// name the caller, and a team can share with a role.
const maxShares = 100

// Share shares a thread of the caller, or changes the rights of a Share that names the same user or role. The caller owns
// session.
// The Session's row is locked, because the bound on Shares and the look whether one is there already must hold against
// a second request. Who may decide is read by the approval feed from the rows; Reconcile makes it look now and not at
// its next round. The audit entry stands in the same transaction as the row.
func (t *Threads) Share(ctx context.Context, who store.Principal, session store.Session, to string, write, decide bool) (store.Share, error) {
	row := store.Share{
		ID: newID(), SessionID: session.ID, Tenant: session.Tenant, To: to, Write: write, Decide: decide, CreatedBy: who.User, CreatedAt: time.Now(),
	}
	err := t.store.InTx(ctx, func(tx store.Tx) error {
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
			return fault.New(RefusedTooManyShares, "A thread can be shared with 100 users and roles. Share it with a role that many have.")
		}
		if err := tx.PutShare(ctx, row); err != nil {
			return err
		}
		return auditShare(ctx, tx, who, audit.ShareCreated, row)
	})
	t.feed.Reconcile(session.Tenant) // who may decide has changed
	return row, err
}

// Unshare ends a Share of a thread of the caller.
// One that is not there is not found; a repeated request gets 404 and changes nothing.
func (t *Threads) Unshare(ctx context.Context, who store.Principal, session store.Session, id string) error {
	err := t.store.InTx(ctx, func(tx store.Tx) error {
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
	t.feed.Reconcile(session.Tenant)
	return err
}

// auditShare puts the change of a Share on the audit trail, with the rights it gave.
func auditShare(ctx context.Context, tx store.Tx, who store.Principal, action string, h store.Share) error {
	e, err := audit.Entry(who, action, audit.OfThread(h.SessionID), map[string]any{"share": h.ID, "to": h.To, "write": h.Write, "decide": h.Decide}, time.Now())
	if err == nil {
		_, err = tx.AppendAudit(ctx, e)
	}
	return err
}

// NotShared is the refusal of what a thread is not shared for.
func NotShared(right string) error {
	return fault.New(RefusedNotShared, "This thread is shared with you, but not with the right to "+right+".")
}
