package store

import (
	"context"
	"time"
)

// CredentialKind is what a Credential is used as.
type CredentialKind string

// The kinds of credentials that are kept.
const (
	CredentialUser     CredentialKind = "user"
	CredentialApprover CredentialKind = "approver"
	CredentialChannel  CredentialKind = "channel"
	CredentialProxy    CredentialKind = "acp_proxy"
	CredentialOperator CredentialKind = "operator"
	CredentialSession  CredentialKind = "session" // a browser session
	CredentialAPIKey   CredentialKind = "api_key" // of a service account
	CredentialOIDC     CredentialKind = "oidc"    // a bearer token of another issuer
	CredentialMCP      CredentialKind = "mcp"     // for an MCP client of a user's
	// CredentialBootstrap is a reusable bootstrap token. A token that works once has no credential; only its use is recorded.
	CredentialBootstrap CredentialKind = "acp_bootstrap"
)

// Credential is a token, browser session or API key that this installation accepts. The secret
// itself is never kept: a token is checked by its signature, an API key by its hash.
type Credential struct {
	ID        string // jti of a token, id of a session or an API key
	Parent    string // of a session: the token it was opened with; of a proxy's token: the one it was got or renewed with; revoking that revokes both
	Kind      CredentialKind
	Tenant    string // "" for proxies and operators, which belong to the installation
	User      string // whom it authenticates; "" for channels and proxies
	Name      string // of a service account, channel or proxy, shown to people
	Roles     []string
	AgentID   string // of an API key that calls models and tools as this agent, and nothing else; "" for any other credential
	Owner     string // of such a key: the user who decides its questions
	Hash      string // hex SHA-256 of an API key's secret; "" for any other
	CreatedBy string // the user who created it; "" when the signing key alone did
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	// LastUsedAt is accurate to a minute.
	LastUsedAt time.Time
	RevokedAt  time.Time
	RevokedBy  string
}

// Live reports whether the Credential authenticates at a time.
func (c Credential) Live(now time.Time) bool {
	return c.RevokedAt.IsZero() && (c.ExpiresAt.IsZero() || now.Before(c.ExpiresAt))
}

// CredentialFilter narrows a list of Credentials.
type CredentialFilter struct {
	User string // "" for all that the Scope sees
	Kind CredentialKind
	// Current leaves out what is revoked or has expired at this time; zero leaves out nothing.
	Current time.Time
	Page
}

// CredentialReader reads credentials. A Scope of As sees those of the user, Within those of the
// tenant; Installation those that belong to no tenant.
type CredentialReader interface {
	Credential(ctx context.Context, in Scope, id string) (Credential, error)
	// Credentials lists newest first.
	Credentials(ctx context.Context, in Scope, filter CredentialFilter) ([]Credential, error)
	// RevokedCredentials returns those of the ids that are revoked, directly or by a Parent, or one of that.
	RevokedCredentials(ctx context.Context, ids []string) ([]string, error)
	// UserRevokedAt is when all credentials of a user were last revoked together; zero for never.
	UserRevokedAt(ctx context.Context, tenant, user string) (time.Time, error)
}

// CredentialTx changes credentials.
type CredentialTx interface {
	// KeepCredential inserts a Credential, unless one of its ID is kept already, and returns what is
	// kept. One that was created before a RevokeCredentials of its user is kept as revoked: that call
	// cannot name tokens that were signed elsewhere and not used yet.
	KeepCredential(ctx context.Context, c Credential) (Credential, error)
	// RevokeCredential is false when the Scope sees no such Credential that is not revoked.
	RevokeCredential(ctx context.Context, in Scope, id, by string, at time.Time) (bool, error)
	// RevokeCredentials revokes all of one user of a tenant and returns how many were kept and live.
	RevokeCredentials(ctx context.Context, tenant, user, by string, at time.Time) (int64, error)
	// UseCredentials writes when credentials were last used.
	UseCredentials(ctx context.Context, ids []string, at time.Time) error
	// DropCredentials deletes those that expired before a time.
	DropCredentials(ctx context.Context, before time.Time) error
	// UseTicket uses a page's ticket up; false when it was used before.
	UseTicket(ctx context.Context, id string, expires time.Time) (bool, error)
	// DropTickets forgets used tickets that expired before a time.
	DropTickets(ctx context.Context, before time.Time) error
}
