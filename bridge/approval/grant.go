package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"aqueduct/policy"
	"aqueduct/store"
)

// LiveGrants are the standing answers that may let a call of the Session's agent through.
func LiveGrants(ctx context.Context, r store.Reader, s store.Session, prompter string, now time.Time) ([]policy.Grant, error) {
	rows, err := r.LiveGrants(ctx, store.System(), s.Tenant, prompter, s.AgentID, s.ID, now)
	grants := make([]policy.Grant, 0, len(rows))
	for _, row := range rows {
		grants = append(grants, grantOf(row))
	}
	return grants, err
}

// grantOf is a row as the policy judges calls by it. A row without a number of uses has no end but its time.
func grantOf(row store.Grant) policy.Grant {
	g := policy.Grant{
		ID: row.ID, Tenant: row.Tenant, Tool: row.Tool, Kind: row.Kind, Agent: row.AgentID, Session: row.SessionID,
		User: row.User, Match: row.Match, ExpiresAt: row.ExpiresAt, UsesLeft: policy.Unlimited,
		GivenBy: policy.Principal{Tenant: row.Tenant, User: row.CreatedBy}, GivenAt: row.CreatedAt,
	}
	if row.MaxUses > 0 {
		g.UsesLeft = int(max(0, row.MaxUses-row.Uses))
	}
	return g
}

// grantRow is a Grant as it is kept.
func grantRow(id string, g policy.Grant, by string, now time.Time) store.Grant {
	row := store.Grant{
		ID: id, Tenant: g.Tenant, User: g.User, AgentID: g.Agent, SessionID: g.Session, Tool: g.Tool, Kind: g.Kind,
		Match: g.Match, CreatedBy: by, CreatedAt: now, ExpiresAt: g.ExpiresAt,
	}
	if row.ExpiresAt.IsZero() && g.TTL > 0 {
		row.ExpiresAt = now.Add(g.TTL)
	}
	if g.UsesLeft > 0 {
		row.MaxUses = int64(g.UsesLeft)
	}
	return row
}

// Prompter is who has the Session's agent act in a Turn, with the roles that the Turn was begun with: the Session's
// owner, or a person it is shared with.
func Prompter(s store.Session, t store.Turn) policy.Principal {
	p := policy.Principal{Tenant: s.Tenant, User: t.Prompter(s)}
	_ = json.Unmarshal(t.Roles, &p.Roles) // of our own writing, or none
	return p
}

// Answering is the Session as rules see it in a Turn: its Agent is the one that answers.
func Answering(s store.Session, t store.Turn) store.Session {
	s.AgentID = t.AgentID
	return s
}

// CallOf is the call a permission was asked for, as the policy judges calls.
func CallOf(q Question, s store.Session) policy.Call {
	return policy.Call{
		AgentID: s.AgentID, Session: s.ID, Tool: q.Approval.Tool, Title: titleOf(q), Args: q.Call.Args, Risk: policy.Risk(q.Call.Risk),
		Always: chosenAlways(q),
		By:     policy.Principal{Tenant: s.Tenant, User: cmp.Or(q.Approval.AskedUser, s.User)}, // a Grant names no roles
	}
}

// chosenAlways is which calls the option that a settled Question was answered with is for.
func chosenAlways(q Question) policy.Always {
	id := ChosenOption(q)
	for _, o := range q.Options() {
		if o.ID == id {
			return o.Always
		}
	}
	return ""
}

// titleOf is the agent's title of a call: that of a tool we execute is ours and has no meaning here.
func titleOf(q Question) string {
	if q.IsToolCall() {
		return ""
	}
	return q.Approval.Title
}
