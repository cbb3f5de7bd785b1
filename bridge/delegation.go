package bridge

import (
	"context"
	"slices"
	"time"

	"aqueduct/bridge/audit"
	"aqueduct/bridge/inbox"
	"aqueduct/policy"
	"aqueduct/store"
)

const (
	// defaultDelegationTTL ends a standing delegation whose giver names no end.
	defaultDelegationTTL = 30 * 24 * time.Hour
	// maxDelegationTTL bounds one: a deputy for longer should get the approver's role.
	maxDelegationTTL = 366 * 24 * time.Hour
)

// DelegationRequest is a standing delegation as its giver asks for it.
type DelegationRequest struct {
	To       string // a user of the same tenant
	Tool     string // "" every tool, and so for the others
	ToolKind string // ACP's kind
	AgentID  string
	Until    time.Time // zero: the default
	Note     string
}

// GiveDelegation lets another user of the tenant decide what the caller may decide, open
// Questions too, until it ends. What was delegated to the caller is not passed on.
func (s *Sessions) GiveDelegation(ctx context.Context, who store.Principal, req DelegationRequest) (store.Delegation, error) {
	now := time.Now()
	if req.Until.IsZero() {
		req.Until = now.Add(defaultDelegationTTL)
	}
	switch {
	case req.To == who.User:
		return store.Delegation{}, &Refusal{Code: RefusedInvalidAnswer, Message: "A delegation is to another user."}
	case !req.Until.After(now):
		return store.Delegation{}, &Refusal{Code: RefusedInvalidAnswer, Message: "until has passed already."}
	case req.Until.Sub(now) > maxDelegationTTL:
		return store.Delegation{}, &Refusal{Code: RefusedInvalidAnswer, Message: "A delegation lasts a year at most."}
	}
	d := store.Delegation{
		ID: newID(), Tenant: who.Tenant, User: who.User, To: req.To, Wide: who.Has(store.RoleApprover), Holds: mustJSON(store.DeciderNames(who)),
		AgentID: req.AgentID, Tool: req.Tool, ToolKind: req.ToolKind, Note: req.Note, CreatedAt: now.Truncate(time.Millisecond),
		ExpiresAt: req.Until.Truncate(time.Millisecond),
	}
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		if err := tx.InsertDelegation(ctx, d); err != nil {
			return err
		}
		return audit.AppendAt(ctx, tx, who, audit.DelegationCreated, audit.OfDelegation(d.ID), struct {
			To        string    `json:"to"`
			Tool      string    `json:"tool,omitempty"`
			Kind      string    `json:"kind,omitempty"`
			Agent     string    `json:"agent,omitempty"`
			Wide      bool      `json:"tenantwide,omitempty"`
			ExpiresAt time.Time `json:"expires_at"`
		}{d.To, d.Tool, d.ToolKind, d.AgentID, d.Wide, d.ExpiresAt.UTC()}, now)
	})
	if err == nil {
		s.inbox.LookAgain(who.Tenant)
	}
	return d, err
}

// RevokeDelegation ends a standing delegation: by its giver, or by an approver. One that is
// revoked already, or that the caller may not end, is store.ErrNotFound.
func (s *Sessions) RevokeDelegation(ctx context.Context, who store.Principal, id string) error {
	now := time.Now()
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
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
		s.inbox.LookAgain(who.Tenant)
	}
	return err
}

// Templates are those of the policy in force.
func (s *Sessions) Templates() []policy.Template {
	if s.cfg.Policy == nil {
		return nil
	}
	return s.cfg.Policy.Templates()
}

// mayPassOn refuses a caller who may decide an Approval only by delegation, of this Approval or
// a standing one, and wants to delegate it further.
func mayPassOn(ctx context.Context, tx store.Tx, a store.Approval, who store.Principal) error {
	if who.Has(store.RoleApprover) || a.AskedUser == who.User {
		return nil
	}
	session, err := tx.Session(ctx, store.System(), a.SessionID)
	if err != nil || session.User == who.User {
		return err
	}
	if named := inbox.TermsOf(a).Approvers; len(named) > 0 {
		for _, name := range store.DeciderNames(who) {
			if slices.Contains(named, name) {
				return nil
			}
		}
	}
	return &Refusal{Code: inbox.NotApprover, Message: "What was delegated to you is not yours to delegate."}
}
