package auth

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// What can be wrong with a token. Each is an ErrBadCredential, and none has a word of the
// token in it.
var (
	ErrTokenInvalid = fmt.Errorf("%w: not a token of this server", ErrBadCredential)
	ErrTokenExpired = fmt.Errorf("%w: the token has expired", ErrBadCredential)
	ErrTokenType    = fmt.Errorf("%w: the token is for something else", ErrBadCredential)
)

const (
	issuer = "aqueduct"
	// leeway is how far clocks of two machines may be apart.
	leeway = 30 * time.Second
	// minKeyLength is the size of HS256's hash: a shorter key is the weaker part.
	minKeyLength = 32
)

// Type is what a token is for. One type opens nothing that is another's.
type Type string

// The types of tokens.
const (
	TypeACPProxy  Type = "acp_proxy"     // lets an acp-proxy connect to /ws/agent
	TypeBootstrap Type = "acp_bootstrap" // lets one acp-proxy get its first token, once
	TypeUser      Type = "user"          // a person: chats, and sees what is that person's
	TypeApprover  Type = "approver"      // a person who decides what agents may do, and does not chat
	TypeChannel   Type = "channel"       // a program that speaks for users on /ws/ingress

	// typeSession is the browser's cookie that was given for a user's or approver's token.
	typeSession Type = "session"
)

// audience is where tokens of the type are taken; "" for a type there is not.
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
	case typeSession:
		return "aqueduct/browser"
	}
	return ""
}

// Claims are what a token says of its bearer: for each type the members of that type.
type Claims struct {
	Type   Type   `json:"type"`
	Tenant string `json:"tenant,omitempty"` // of all but TypeACPProxy and TypeBootstrap
	ProxyClaims
	UserClaims
	ChannelClaims
}

// UserClaims are those of TypeUser and TypeApprover.
type UserClaims struct {
	User  string   `json:"user,omitempty"`
	Roles []string `json:"roles,omitempty"`
	For   Type     `json:"for,omitempty"` // of a browser session: what it was given for
}

// ChannelClaims are those of TypeChannel.
type ChannelClaims struct {
	ChannelID string `json:"channel,omitempty"`
}

// reserved are users that no token is for: what we do ourselves is told under this name.
func reserved(user string) bool { return user == "system" }

// whole reports whether the claims are those of their type, all of them and no others.
func (c Claims) whole() bool {
	person := c.Tenant != "" && c.User != "" && !reserved(c.User) && c.ProxyClaims == ProxyClaims{} && c.ChannelID == ""
	nobody := c.User == "" && len(c.Roles) == 0 && c.For == ""
	switch c.Type {
	case TypeACPProxy, TypeBootstrap:
		return c.ProxyID != "" && c.Tenant == "" && c.ChannelID == "" && nobody
	case TypeUser, TypeApprover:
		return person && c.For == "" && !slices.Contains(c.Roles, RoleOperator)
	case typeSession:
		return person && (c.For == TypeUser || c.For == TypeApprover)
	case TypeChannel:
		return c.Tenant != "" && c.ChannelID != "" && c.ProxyClaims == ProxyClaims{} && nobody
	}
	return false
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
}

// Keys make tokens and tell those made here from others.
type Keys struct{ key []byte }

// NewKeys takes the key that signs; see LoadKey.
func NewKeys(key Secret) (*Keys, error) {
	if len(key) < minKeyLength {
		return nil, fmt.Errorf("auth: the signing key must have at least %d bytes", minKeyLength)
	}
	return &Keys{key: []byte(key)}, nil
}

// Issue makes a token that is good for ttl.
func (k *Keys) Issue(c Claims, ttl time.Duration) (string, error) {
	if c.Type == typeSession || !c.whole() || ttl < time.Second {
		return "", errors.New("auth: a token needs a type, whom it is for and nothing else, and time to live")
	}
	return k.sign(c, time.Now().Add(ttl))
}

func (k *Keys) sign(c Claims, until time.Time) (string, error) {
	return jwt.NewWithClaims(jwt.SigningMethodHS256, wire{c, jwt.RegisteredClaims{
		Issuer: issuer, Audience: jwt.ClaimStrings{c.Type.audience()}, ID: uuid.NewString(),
		IssuedAt: jwt.NewNumericDate(time.Now()), ExpiresAt: jwt.NewNumericDate(until),
	}}).SignedString(k.key)
}

// Verify reads a token of one of the wanted types. Any other is one of the ErrToken….
func (k *Keys) Verify(token string, want ...Type) (Claims, error) {
	got, err := k.read(token, want...)
	return got.Claims, err
}

func (k *Keys) read(token string, want ...Type) (wire, error) {
	var got wire
	_, err := jwt.ParseWithClaims(token, &got, func(*jwt.Token) (any, error) { return k.key, nil },
		// Exactly this method: a token must not choose how it is checked (alg none, RS256 with
		// a public key as the secret).
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(),
		jwt.WithIssuer(issuer), jwt.WithLeeway(leeway))
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return wire{}, ErrTokenExpired
	case err != nil || !slices.ContainsFunc(got.Audience, func(a string) bool { return a != "" }):
		return wire{}, ErrTokenInvalid
	// Type and audience must say the same, so that neither can be added to a token alone.
	case !slices.Contains(want, got.Type) || !slices.Contains(got.Audience, got.Type.audience()):
		return wire{}, ErrTokenType
	case !got.whole():
		return wire{}, ErrTokenInvalid
	}
	return got, nil
}
