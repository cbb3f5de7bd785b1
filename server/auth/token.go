package auth

import (
	"errors"
	"fmt"
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

// TypeACPProxy lets an acp-proxy connect to /ws/agent.
const TypeACPProxy Type = "acp_proxy"

// audience is where tokens of the type are taken; "" for a type there is not.
func (t Type) audience() string {
	if t == TypeACPProxy {
		return "aqueduct/ws/agent"
	}
	return ""
}

// Claims are what a token says of its bearer: for each type the members of that type.
type Claims struct {
	Type Type `json:"type"`
	ProxyClaims
}

// ProxyClaims are those of TypeACPProxy.
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
	if c.Type.audience() == "" || c.Type == TypeACPProxy && c.ProxyID == "" || ttl < time.Second {
		return "", errors.New("auth: a token needs a type, whom it is for, and time to live")
	}
	now := time.Now()
	return jwt.NewWithClaims(jwt.SigningMethodHS256, wire{c, jwt.RegisteredClaims{
		Issuer: issuer, Audience: jwt.ClaimStrings{c.Type.audience()}, ID: uuid.NewString(),
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
	}}).SignedString(k.key)
}

// Verify reads a token of the wanted type. Any other is one of the ErrToken….
func (k *Keys) Verify(token string, want Type) (Claims, error) {
	var got wire
	_, err := jwt.ParseWithClaims(token, &got, func(*jwt.Token) (any, error) { return k.key, nil },
		// Exactly this method: a token must not choose how it is checked (alg none, RS256 with
		// a public key as the secret).
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(),
		jwt.WithIssuer(issuer), jwt.WithAudience(want.audience()), jwt.WithLeeway(leeway))
	switch {
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return Claims{}, ErrTokenType
	case errors.Is(err, jwt.ErrTokenExpired):
		return Claims{}, ErrTokenExpired
	case err != nil:
		return Claims{}, ErrTokenInvalid
	case got.Type != want:
		return Claims{}, ErrTokenType
	case want == TypeACPProxy && got.ProxyID == "":
		return Claims{}, ErrTokenInvalid
	}
	return got.Claims, nil
}
