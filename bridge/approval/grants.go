package approval

import (
	"cmp"
	"context"
	"slices"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/internal/fault"
	"aqueduct/policy"
	"aqueduct/store"
)

// defaultGrantTTL ends a Grant whose giver names no end: a permission that everyone has forgotten must not last for ever.
const defaultGrantTTL = 30 * 24 * time.Hour

// Grants keeps standing answers: a store.Grant is the row, a policy.Grant the same as the policy judges calls by, and a
// GrantRequest what a person asks for ahead of any Question. It has no state and is safe for concurrent use.
type Grants struct {
	store  store.Store
	policy *policy.Holder // nil: no templates
	newID  func() string
}

// GrantRequest is a Grant that a person gives ahead of any Question.
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

// Give keeps the Grants of a request: one, or those of a template.
// A Grant for others, or for everyone, needs the role of an approver, because it decides in their place. A thread is
// looked up as its user's: its id is that user's own name for it.
func (g *Grants) Give(ctx context.Context, who store.Principal, req GrantRequest) ([]store.Grant, error) {
	user := cmp.Or(req.User, who.User)
	switch {
	case (req.Everyone || user != who.User) && !who.Has(store.RoleApprover):
		return nil, fault.New(NotApprover, "Only an approver may give a grant for others.")
	case req.Everyone && req.User != "":
		return nil, fault.New(InvalidAnswer, "A grant is for everyone or for one user.")
	}
	given, err := g.requested(req)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(given.Grants, func(one policy.Grant) bool { return one.Tool == BudgetTool }) {
		return nil, errNoBudgetGrant
	}
	ttl := cmp.Or(req.TTL, given.TTL, defaultGrantTTL)
	session := ""
	if req.Session != "" {
		row, err := g.store.SessionByExternalID(ctx, store.As(store.Principal{Tenant: who.Tenant, User: user}), req.Session)
		if err != nil {
			return nil, err
		}
		session = row.ID
	}
	now, rows := time.Now(), make([]store.Grant, 0, len(given.Grants))
	for _, one := range given.Grants {
		one.Tenant, one.Session, one.ExpiresAt = who.Tenant, session, now.Add(ttl)
		one.Agent = cmp.Or(one.Agent, req.AgentID)
		if !req.Everyone {
			one.User = user
		}
		if n := req.MaxUses; n > 0 && (one.UsesLeft == policy.Unlimited || n < one.UsesLeft) {
			one.UsesLeft = n // a template's own number is never exceeded
		}
		row := grantRow(g.newID(), one, who.User, now)
		row.Template, row.Note = req.Template, req.Note
		rows = append(rows, row)
	}
	return rows, g.store.InTx(ctx, func(tx store.Tx) error { return keepGrants(ctx, tx, who, rows, now) })
}

var errNoBudgetGrant = fault.New(InvalidAnswer, "There is no grant for "+BudgetTool+": each time a budget is added to, a person decides.")

// requested is the tools and matches of a request; whose Grant it is and until when, Give adds.
func (g *Grants) requested(req GrantRequest) (policy.Template, error) {
	refuse := func(why string) (policy.Template, error) {
		return policy.Template{}, fault.New(InvalidAnswer, why)
	}
	switch {
	case req.Template == "" && req.Tool == "":
		return refuse("A grant names its tool.")
	case req.Template == "":
		if err := policy.CheckMatch(req.Match); err != nil {
			return refuse(err.Error())
		}
		one := policy.Grant{Tool: req.Tool, Kind: req.Kind, Match: req.Match, UsesLeft: policy.Unlimited}
		return policy.Template{Grants: []policy.Grant{one}}, nil
	case req.Tool != "" || req.Kind != "" || len(req.Match) > 0 && string(req.Match) != "null":
		return refuse("A template says itself for which tools and arguments it is.")
	}
	for _, t := range g.Templates() {
		if t.Name == req.Template {
			return t, nil
		}
	}
	return refuse("There is no template of that name.")
}

// Templates are those of the policy in force.
func (g *Grants) Templates() []policy.Template {
	if g.policy == nil {
		return nil
	}
	return g.policy.Templates()
}

// keepGrants inserts all rows before the first audit entry, which every other transaction that writes one waits for.
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

// Revoke ends a Grant. One that is revoked already, or that is not in the caller's inbox, is store.ErrNotFound.
func (g *Grants) Revoke(ctx context.Context, who store.Principal, id string) error {
	now := time.Now()
	return g.store.InTx(ctx, func(tx store.Tx) error {
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
