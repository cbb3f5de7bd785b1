// This file is the result of authentication: a Caller, and what its kind and roles allow.

package auth

import (
	"context"
	"slices"
	"time"

	"aqueduct/store"
)

// Kind is what sort of credential a Caller showed.
type Kind string

// The kinds of credentials.
const (
	KindNone     Kind = "none"     // no credential was required: a loopback listener without tokens
	KindStatic   Kind = "static"   // the one token of --token-file
	KindUser     Kind = "user"     // a token for a person, or the browser session made of it
	KindApprover Kind = "approver" // one for a person who decides and does not chat
	KindChannel  Kind = "channel"  // one for a program that speaks for users
	KindService  Kind = "service"  // the API key of a service account
	KindMCP      Kind = "mcp"      // a token or an API key for an MCP client
	KindOperator Kind = "operator" // one for who runs the installation, of no tenant
)

// Roles that a Principal can have; package store defines each. The routes they open are in package route's table.
const (
	RoleUser     = store.RoleUser
	RoleApprover = store.RoleApprover
	RoleAuditor  = store.RoleAuditor
	RoleAdmin    = store.RoleAdmin
	RoleAgent    = store.RoleAgent
	RoleMCP      = store.RoleMCP
	RoleOperator = store.RoleOperator
)

// Caller is who makes a request. It is a value: a request's Caller does not change, and a socket
// asks the Auth again (Confirm, Watch) whether its credential still holds.
type Caller struct {
	Kind      Kind
	Principal store.Principal // of a channel the tenant alone
	ChannelID string          // of KindChannel
	Until     time.Time       // when the credential ends, which a socket may outlive; zero: never
	lent      store.Scope     // of a request for a thread that is shared with the Caller; zero for its own
	// Credential is what was shown, as it is kept and can be revoked; without an ID where nothing
	// was, and for the static token, which ends by being replaced.
	Credential store.Credential
	key        string // id of the key that signed it; "" for what was not signed
	page       Secret // of a session: what its page shows beside the cookie
	own        bool   // of a session: the cookie is sent to this server alone, and is enough
}

// operator is the caller where there is one tenant and one user: the owner of the installation.
func operator(kind Kind) Caller {
	p := store.LocalPrincipal()
	p.Roles = []string{RoleUser, RoleApprover, RoleAuditor, RoleAdmin, RoleAgent, RoleOperator}
	return Caller{Kind: kind, Principal: p}
}

// PersonRoles are the roles of a person of a tenant whose token or claims name these. The roles
// operator and mcp are never among them. A person chats unless the roles mean that it only reads: who is an
// auditor, and no user or admin besides, does not.
func PersonRoles(named []string) []string {
	roles := slices.DeleteFunc(slices.Clone(named), func(r string) bool { return r == RoleOperator || r == RoleMCP })
	reads := slices.Contains(roles, RoleAuditor) && !slices.Contains(roles, RoleAdmin)
	if !reads && !slices.Contains(roles, RoleUser) {
		roles = append(roles, RoleUser)
	}
	return roles
}

// Has reports whether the Caller has the role. No role has another's rights. An administrator is no user, and an
// operator no administrator, unless the token has both.
func (c Caller) Has(role string) bool { return slices.Contains(c.Principal.Roles, role) }

// Scope is what the Caller may see: what is its own, or within a request for a thread that is shared with it,
// that thread alone.
func (c Caller) Scope() store.Scope {
	if c.lent.Session() != "" {
		return c.lent
	}
	return store.As(c.Principal)
}

// Within is the Caller with the eyes of an Access. Everything that is read for the request then goes through that
// scope.
func (c Caller) Within(lent store.Scope) Caller {
	c.lent = lent
	return c
}

// Review is what the Caller may read of what others of the tenant did: all of it with the role
// auditor, its own without.
func (c Caller) Review() store.Scope {
	if c.Has(RoleAuditor) {
		return store.Within(c.Principal.Tenant)
	}
	return c.Scope()
}

// ReviewInbox is what the Caller may read of questions: what it may decide, and with the role auditor
// those of the whole tenant.
func (c Caller) ReviewInbox() store.Scope {
	if c.Has(RoleAuditor) {
		return store.Within(c.Principal.Tenant)
	}
	return c.Inbox()
}

// Inbox is what the Caller may see of what waits for a decision, its own and others'.
func (c Caller) Inbox() store.Scope { return store.Deciding(c.Principal) }

// For is the Principal of a user that a channel names; false when the Caller is no channel. Reserved names belong to
// no user. The roles stay empty: a channel passes messages on and does not know them.
func (c Caller) For(user string) (store.Principal, bool) {
	if c.Kind != KindChannel || user == "" || reserved(user) {
		return store.Principal{}, false
	}
	return store.Principal{Tenant: c.Principal.Tenant, User: user}, true
}

// callerKey is the key of the Caller in a context; no other package can make one.
type callerKey struct{}

// With returns a context that carries the Caller to the handler of the request.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From is the Caller of a request. Without one it is the zero Caller, whose Scope sees
// nothing that anybody owns.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
