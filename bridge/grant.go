package bridge

import (
	"cmp"
	"context"
	"time"

	"aqueduct/bridge/audit"
	"aqueduct/bridge/inbox"
	"aqueduct/policy"
	"aqueduct/store"
)

// defaultGrantTTL ends a Grant whose giver names no end: what nobody remembers should not
// be allowed for ever.
const defaultGrantTTL = 30 * 24 * time.Hour

// GrantRequest is a Grant that somebody gives ahead of any Question.
type GrantRequest struct {
	Template string // several at once, under a name of the policy's, which has tools, kinds and matches
	Tool     string
	Kind     string
	AgentID  string
	Session  string // the thread; "" every thread
	User     string // whose calls; "" the giver's
	Everyone bool   // of the tenant, not one user
	Match    []byte // of the arguments
	TTL      time.Duration
	MaxUses  int
	Note     string
}

// Grant keeps standing answers.
func (s *Sessions) Grant(ctx context.Context, who store.Principal, req GrantRequest) ([]store.Grant, error) {
	user := cmp.Or(req.User, who.User)
	switch {
	case (req.Everyone || user != who.User) && !who.Has(store.RoleApprover):
		return nil, &Refusal{Code: inbox.NotApprover, Message: "Only an approver may give a grant for others."}
	case req.Everyone && req.User != "":
		return nil, &Refusal{Code: RefusedInvalidAnswer, Message: "A grant is for everyone or for one user."}
	}
	given, err := s.requested(req)
	if err != nil {
		return nil, err
	}
	ttl := cmp.Or(req.TTL, given.TTL, defaultGrantTTL)
	session := ""
	if req.Session != "" {
		row, err := s.cfg.Store.SessionByExternalID(ctx, store.As(store.Principal{Tenant: who.Tenant, User: user}), req.Session)
		if err != nil {
			return nil, err
		}
		session = row.ID
	}
	now, rows := time.Now(), make([]store.Grant, 0, len(given.Grants))
	for _, g := range given.Grants {
		g.Tenant, g.Session, g.ExpiresAt = who.Tenant, session, now.Add(ttl)
		g.Agent = cmp.Or(g.Agent, req.AgentID)
		if !req.Everyone {
			g.User = user
		}
		if n := req.MaxUses; n > 0 && (g.UsesLeft == policy.Unlimited || n < g.UsesLeft) {
			g.UsesLeft = n // a template's own number is never exceeded
		}
		row := inbox.GrantRow(newID(), g, who.User, now)
		row.Template, row.Note = req.Template, req.Note
		rows = append(rows, row)
	}
	return rows, s.cfg.Store.InTx(ctx, func(tx store.Tx) error { return keepGrants(ctx, tx, who, rows, now) })
}

// requested is what a request asks for, before whose it is and until when.
func (s *Sessions) requested(req GrantRequest) (policy.Template, error) {
	refuse := func(why string) (policy.Template, error) {
		return policy.Template{}, &Refusal{Code: RefusedInvalidAnswer, Message: why}
	}
	switch {
	case req.Template == "" && req.Tool == "":
		return refuse("A grant names its tool.")
	case req.Template == "":
		if err := policy.CheckMatch(req.Match); err != nil {
			return refuse(err.Error())
		}
		g := policy.Grant{Tool: req.Tool, Kind: req.Kind, Match: req.Match, UsesLeft: policy.Unlimited}
		return policy.Template{Grants: []policy.Grant{g}}, nil
	case req.Tool != "" || req.Kind != "" || len(req.Match) > 0 && string(req.Match) != "null":
		return refuse("A template says itself for which tools and arguments it is.")
	case s.cfg.Policy != nil:
		for _, t := range s.cfg.Policy.Templates() {
			if t.Name == req.Template {
				return t, nil
			}
		}
	}
	return refuse("There is no template of that name.")
}

func keepGrants(ctx context.Context, tx store.Tx, who store.Principal, rows []store.Grant, now time.Time) error {
	for _, row := range rows {
		if err := tx.InsertGrant(ctx, row); err != nil {
			return err
		}
	}
	for _, row := range rows {
		if err := audit.AppendAt(ctx, tx, who, audit.GrantCreated, audit.OfGrant(row.ID), map[string]any{"tool": row.Tool, "template": row.Template, "user": row.User}, now); err != nil {
			return err
		}
	}
	return nil
}

// RevokeGrant takes a Grant back. One that is revoked already, or not the caller's, is
// store.ErrNotFound.
func (s *Sessions) RevokeGrant(ctx context.Context, who store.Principal, id string) error {
	now := time.Now()
	return s.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		ok, err := tx.RevokeGrant(ctx, inboxOf(who), id, who.User, now)
		if err == nil && !ok {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		return audit.AppendAt(ctx, tx, who, audit.GrantRevoked, audit.OfGrant(id), nil, now)
	})
}

// Delegate hands an open Approval to another user of the tenant; an empty to takes it back.
func (s *Sessions) Delegate(ctx context.Context, who store.Principal, id, to string, until time.Time) (store.Approval, error) {
	var a store.Approval
	err := s.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		if a, err = tx.Approval(ctx, inboxOf(who), id); err != nil {
			return err
		}
		if err := mayPassOn(ctx, tx, a, who); err != nil {
			return err
		}
		ok, err := tx.DelegateApproval(ctx, store.ApprovalDelegation{ID: id, To: to, By: who.User, Until: until})
		if err == nil && !ok {
			err = &Refusal{Code: RefusedDecided, Message: "This question has been decided already."}
		}
		if err != nil {
			return err
		}
		if a, err = tx.Approval(ctx, store.System(), id); err != nil {
			return err
		}
		if err := s.tellDelegate(ctx, tx, a); err != nil {
			return err
		}
		details := map[string]any{"to": to}
		if !until.IsZero() {
			details["until"] = until.UTC()
		}
		return audit.AppendAt(ctx, tx, who, audit.ApprovalDelegated, audit.OfApproval(id), details, time.Now())
	})
	if err == nil {
		s.cfg.Notices.Kept()
	}
	return a, err
}

// tellDelegate tells others that the Question is open for somebody else now, with a link for
// that one. That it was taken back concerns nobody: it is open as it was.
func (s *Sessions) tellDelegate(ctx context.Context, tx store.Tx, a store.Approval) error {
	if a.DelegatedTo == "" {
		return nil
	}
	q, err := inbox.Load(ctx, tx, store.System(), a.ID)
	if err != nil {
		return err
	}
	session, err := tx.Session(ctx, store.System(), a.SessionID)
	if err != nil {
		return err
	}
	return s.cfg.Notices.Insert(ctx, tx, q, session)
}

// Audit lists what was done, oldest first, as far as the caller may know.
func (s *Sessions) Audit(ctx context.Context, who store.Principal, after int64, limit int) ([]store.AuditEntry, error) {
	in := store.As(who)
	if who.Has(store.RoleAdmin) || who.Has(store.RoleAuditor) {
		in = store.Within(who.Tenant)
	}
	return s.cfg.Store.Audit(ctx, in, after, limit)
}
