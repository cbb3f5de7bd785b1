// This file defines the types of tokens and what each may contain.

package auth

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"aqueduct/store"
)

// What can be wrong with a token. Each is an ErrBadCredential, and none has a word of the
// token in it.
var (
	ErrTokenInvalid = fmt.Errorf("%w: not a token of this server", ErrBadCredential)
	ErrTokenExpired = fmt.Errorf("%w: the token has expired", ErrBadCredential)
	ErrTokenType    = fmt.Errorf("%w: the token is for something else", ErrBadCredential)
	ErrTokenRevoked = fmt.Errorf("%w: the token has been revoked", ErrBadCredential)
)

const (
	issuer = "aqueduct"
	// leeway is how far clocks of two machines may be apart.
	leeway = 30 * time.Second
	// MaxTokenLife is the longest life of a token unless a setting allows more.
	MaxTokenLife = 90 * 24 * time.Hour
	// LongestTokenLife is the most that the setting may allow. A token that names a later end is refused
	// after that time all the same: a key that signs elsewhere must not make tokens for ever.
	LongestTokenLife = 365 * 24 * time.Hour
	// tokenBytes bounds what is parsed: the largest token has a handful of names of 128 characters.
	tokenBytes = 8 << 10
	// minKeyLength is the size of HS256's hash: a shorter key is the weaker part.
	minKeyLength = 32
)

// Type is what a token is for. One type opens nothing that is another's.
type Type string

// The types of tokens.
const (
	TypeACPProxy  Type = "acp_proxy"     // lets an acp-proxy connect to /ws/agent
	TypeBootstrap Type = "acp_bootstrap" // lets one acp-proxy get its first token, once, or each time where it is reusable
	TypeUser      Type = "user"          // a person: chats, and sees what is that person's
	TypeApprover  Type = "approver"      // a person who decides what agents may do, and does not chat
	TypeChannel   Type = "channel"       // a program that speaks for users on /ws/ingress
	TypeMCP       Type = "mcp"           // an MCP client of a person: calls tools at /mcp, and decides, answers and mints nothing
	TypeOperator  Type = "operator"      // a person or program that runs the installation; of no tenant

	// typeSession is the browser's cookie that was given for a user's or approver's token.
	typeSession Type = "session"
)

// audience is where tokens of the type are taken; "" for a type there is not. The names are part of tokens that are
// out there, and must not change.
func (t Type) audience() string {
	switch t {
	case TypeACPProxy:
		return "aqueduct/ws/agent"
	case TypeBootstrap:
		return "aqueduct/register"
	case TypeUser:
		return "aqueduct/api"
	case TypeApprover:
		return "aqueduct/inbox"
	case TypeChannel:
		return "aqueduct/ws/ingress"
	case TypeMCP:
		return "aqueduct/mcp"
	case TypeOperator:
		return "aqueduct/operator"
	case typeSession:
		return "aqueduct/browser"
	}
	return ""
}

// Claims are the claims of a token: for each type of token the members of that type. It is the payload
// {"type":"user","tenant":"t","user":"ann","roles":["user"]} beside the registered claims.
type Claims struct {
	Type   Type   `json:"type"`
	Tenant string `json:"tenant,omitempty"` // of all but TypeACPProxy, TypeBootstrap and TypeOperator
	ProxyClaims
	UserClaims
	ChannelClaims
	// Reusable, for TypeBootstrap: the first proxy that used the token may use it again.
	Reusable bool `json:"reusable,omitempty"`
}

// UserClaims are those of TypeUser and TypeApprover; of TypeMCP and TypeOperator the user alone.
type UserClaims struct {
	User  string   `json:"user,omitempty"`
	Roles []string `json:"roles,omitempty"`
	For   Type     `json:"for,omitempty"` // of a browser session: the type of token it stands for
	// OpenedBy, of a browser session, is the id of the token it was opened with; "" for none.
	OpenedBy string `json:"opened_by,omitempty"`
	// Own, of a browser session: its cookie is sent to this server alone and is enough without the page's secret.
	Own bool `json:"own,omitempty"`
}

// ChannelClaims are those of TypeChannel.
type ChannelClaims struct {
	ChannelID string `json:"channel,omitempty"`
}

// servicePrefix begins the user of a service account.
const servicePrefix = "service:"

// reserved are users that no token is for: "system" is the actor of what the server does by itself, "unknown" that of
// requests without a good credential, and names of service accounts belong to API keys.
func reserved(user string) bool {
	return user == "system" || user == "unknown" || strings.HasPrefix(user, servicePrefix) || strings.HasPrefix(user, store.ProgramUser)
}

// whole reports whether the claims are those of their type, all of them and no others.
// A token with claims of two types is refused even if it is signed: code that looks at one claim
// only would otherwise take it for either.
func (c Claims) whole() bool {
	if c.Reusable && c.Type != TypeBootstrap || c.Own && c.Type != typeSession {
		return false
	}
	person := c.Tenant != "" && c.User != "" && !reserved(c.User) && c.ProxyClaims == ProxyClaims{} && c.ChannelID == ""
	nobody := c.User == "" && len(c.Roles) == 0 && c.For == "" && c.OpenedBy == ""
	switch c.Type {
	case TypeACPProxy, TypeBootstrap:
		// A reusable token that names no proxy is for the first proxy that uses it: some proxies invent their id.
		return (c.ProxyID != "" || c.Reusable) && c.Tenant == "" && c.ChannelID == "" && nobody
	case TypeUser, TypeApprover:
		return person && c.For == "" && c.OpenedBy == "" && !slices.Contains(c.Roles, RoleOperator)
	case TypeMCP:
		return person && len(c.Roles) == 0 && c.For == "" && c.OpenedBy == ""
	case TypeOperator:
		return c.Tenant == "" && c.User != "" && !reserved(c.User) && len(c.Roles) == 0 && c.For == "" && c.OpenedBy == "" &&
			c.ProxyClaims == ProxyClaims{} && c.ChannelID == ""
	case typeSession:
		return person && (c.For == TypeUser || c.For == TypeApprover)
	case TypeChannel:
		return c.Tenant != "" && c.ChannelID != "" && c.ProxyClaims == ProxyClaims{} && nobody
	}
	return false
}

// needs is the first claim that a token of its type must have and c lacks; "" for none.
func (c Claims) needs() string {
	var all []struct{ what, given string }
	need := func(what, given string) { all = append(all, struct{ what, given string }{what, given}) }
	switch c.Type {
	case TypeUser, TypeApprover, TypeMCP:
		need("a tenant", c.Tenant)
		need("a user", c.User)
	case TypeOperator:
		need("a user", c.User)
	case TypeChannel:
		need("a tenant", c.Tenant)
		need("the id of a channel", c.ChannelID)
	case TypeBootstrap:
		if !c.Reusable {
			need("the id of a proxy", c.ProxyID)
		}
	case TypeACPProxy:
		need("the id of a proxy", c.ProxyID)
	default:
	}
	for _, claim := range all {
		if claim.given == "" {
			return claim.what
		}
	}
	return ""
}

// ProxyClaims are those of TypeACPProxy and TypeBootstrap.
type ProxyClaims struct {
	ProxyID string `json:"proxyId,omitempty"`
	Name    string `json:"name,omitempty"`
	AgentID string `json:"agent,omitempty"` // the Agent it serves; "" leaves it to the gateway
}

// wire is the token's payload.
type wire struct {
	Claims
	jwt.RegisteredClaims
	// Bound is the key that the token is bound to. This server makes none of these, and checks no proof of the key.
	Bound json.RawMessage `json:"cnf,omitempty"`
	key   string          // id of the key that verified it; "" for a token that names none
}

// credential is what is kept of a token when it is used for the first time. Its id is the jti, so a list and a
// revocation name what the token itself names.
func (w wire) credential() store.Credential {
	c := store.Credential{
		ID: w.ID, Parent: w.OpenedBy, Kind: store.CredentialKind(w.Type), Tenant: w.Tenant, User: w.User, Roles: w.Roles, ExpiresAt: w.ExpiresAt.Time,
	}
	switch w.Type {
	case TypeChannel:
		c.Name = w.ChannelID
	case TypeACPProxy, TypeBootstrap:
		c.Name = w.ProxyID
	default:
	}
	if w.IssuedAt != nil {
		c.CreatedAt = w.IssuedAt.Time
	}
	return c
}
