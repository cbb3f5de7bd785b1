package approval

import (
	"context"
	"slices"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

const (
	// defaultDelegationTTL ends a standing delegation whose giver names no end.
	defaultDelegationTTL = 30 * 24 * time.Hour
	// maxDelegationTTL bounds one: a deputy for longer should get the approver's role.
	maxDelegationTTL = 366 * 24 * time.Hour
)

// Delegations lets people decide for others: a standing Delegation for all that its giver may decide, or a single Approval
// that is handed over. It has no state of its own and is safe for concurrent use.
type Delegations struct {
	store   store.Store
	notices Notices
	feed    *Feed
	newID   func() string
}

// DelegationRequest is a standing delegation as its giver asks for it.
type DelegationRequest struct {
	To       string // a user of the same tenant
	Tool     string // "" every tool, and so for the others
	ToolKind string // ACP's kind
	AgentID  string
	Until    time.Time // zero: the default
	Note     string
}

// Give lets another user of the tenant decide what the caller may decide, open
// Questions too, until it ends. What was delegated to the caller is not passed on.
func (d *Delegations) Give(ctx context.Context, who store.Principal, req DelegationRequest) (store.Delegation, error) {
	now := time.Now()
	if req.Until.IsZero() {
		req.Until = now.Add(defaultDelegationTTL)
	}
	switch {
	case req.To == who.User:
		return store.Delegation{}, fault.New(InvalidAnswer, "A delegation is to another user.")
	case !req.Until.After(now):
		return store.Delegation{}, fault.New(InvalidAnswer, "until has passed already.")
	case req.Until.Sub(now) > maxDelegationTTL:
		return store.Delegation{}, fault.New(InvalidAnswer, "A delegation lasts a year at most.")
	}
	row := store.Delegation{
		ID: d.newID(), Tenant: who.Tenant, User: who.User, To: req.To, Wide: who.Has(store.RoleApprover), Holds: mustJSON(store.DeciderNames(who)),
		AgentID: req.AgentID, Tool: req.Tool, ToolKind: req.ToolKind, Note: req.Note, CreatedAt: now.Truncate(time.Millisecond),
		ExpiresAt: req.Until.Truncate(time.Millisecond),
	}
	err := d.store.InTx(ctx, func(tx store.Tx) error {
		if err := tx.InsertDelegation(ctx, row); err != nil {
			return err
		}
		return audit.AppendAt(ctx, tx, who, audit.DelegationCreated, audit.OfDelegation(row.ID), struct {
			To        string    `json:"to"`
			Tool      string    `json:"tool,omitempty"`
			Kind      string    `json:"kind,omitempty"`
			Agent     string    `json:"agent,omitempty"`
			Wide      bool      `json:"tenantwide,omitempty"`
			ExpiresAt time.Time `json:"expires_at"`
		}{row.To, row.Tool, row.ToolKind, row.AgentID, row.Wide, row.ExpiresAt.UTC()}, now)
	})
	if err == nil {
		d.feed.Reconcile(who.Tenant)
	}
	return row, err
}

// Revoke ends a standing delegation: by its giver, or by an approver. One that is
// revoked already, or that the caller may not end, is store.ErrNotFound.
func (d *Delegations) Revoke(ctx context.Context, who store.Principal, id string) error {
	now := time.Now()
	err := d.store.InTx(ctx, func(tx store.Tx) error {
		ok, err := tx.RevokeDelegation(ctx, inboxOf(who), id, who.User, now)
		if err == nil && !ok {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		return audit.AppendAt(ctx, tx, who, audit.DelegationRevoked, audit.OfDelegation(id), nil, now)
	})
	if err == nil {
		d.feed.Reconcile(who.Tenant)
	}
	return err
}

// Delegate hands an open Approval to another user of the tenant; an empty to takes it back.
// The Approval is read in the caller's inbox, so that one which the caller cannot see is not found. Whether it may be
// passed on is checked before the row moves, and the move compares: one that is decided in the same moment stays
// decided.
func (d *Delegations) Delegate(ctx context.Context, who store.Principal, id, to string, until time.Time) (store.Approval, error) {
	var q Question
	err := d.store.InTx(ctx, func(tx store.Tx) error {
		open, err := tx.Approval(ctx, inboxOf(who), id)
		if err != nil {
			return err
		}
		session, err := tx.Session(ctx, store.System(), open.SessionID)
		if err != nil {
			return err
		}
		if err := mayPassOn(open, session, who); err != nil {
			return err
		}
		ok, err := tx.DelegateApproval(ctx, store.ApprovalDelegation{ID: id, To: to, By: who.User, Until: until})
		if err == nil && !ok {
			err = fault.New(AlreadyDecided, "This question has been decided already.")
		}
		if err != nil {
			return err
		}
		if q, err = Load(ctx, tx, store.System(), id); err != nil {
			return err
		}
		if to != "" { // the delegate gets a link of its own; taking back changes nothing for the others
			if err := d.notices.Insert(ctx, tx, q, session); err != nil {
				return err
			}
		}
		details := map[string]any{"to": to}
		if !until.IsZero() {
			details["until"] = until.UTC()
		}
		return audit.AppendAt(ctx, tx, who, audit.ApprovalDelegated, audit.OfApproval(id), details, time.Now())
	})
	if err == nil {
		d.notices.Kept(q, store.Session{}) // a child's Question is delegated to no one
		d.feed.Look()
		d.feed.Reconcile(who.Tenant)
	}
	return q.Approval, err
}

// mayPassOn refuses a caller who may decide an Approval only by delegation, of this Approval or a standing one, and wants
// to delegate it further.
func mayPassOn(a store.Approval, session store.Session, who store.Principal) error {
	if who.Has(store.RoleApprover) || a.AskedUser == who.User || session.User == who.User {
		return nil
	}
	named := TermsOf(a).Approvers
	if slices.ContainsFunc(store.DeciderNames(who), func(name string) bool { return slices.Contains(named, name) }) {
		return nil
	}
	return fault.New(NotApprover, "What was delegated to you is not yours to delegate.")
}
