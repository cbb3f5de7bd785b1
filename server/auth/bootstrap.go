// This file makes and reads the tokens with which a proxy on another machine enrols. A bootstrap
// token is good once; the store, not this package, remembers that it was used.

package auth

import (
	"errors"
	"strings"
	"time"
)

const (
	// LocalProxyPrefix begins the ids of proxies that this server runs itself. No token of the key file names one: its bearer
	// would get their conversations.
	LocalProxyPrefix = "local-"
	// MaxBootstrapTime bounds the life of a bootstrap token, which is carried to another machine by hand.
	MaxBootstrapTime = 24 * time.Hour
)

// ErrReservedProxy is an id that no token is made for.
var ErrReservedProxy = errors.New("auth: proxy ids that begin with " + LocalProxyPrefix + " are this server's own")

// Bootstrap is what a bootstrap token is for: one proxy, once. TokenID is what the store remembers as used, until the
// token itself has expired.
type Bootstrap struct {
	ProxyClaims
	TokenID string
	Until   time.Time
}

// IssueBootstrap makes a token that enrols one proxy, once.
func (k *Keys) IssueBootstrap(p ProxyClaims, ttl time.Duration) (string, error) {
	if ttl > MaxBootstrapTime {
		return "", errors.New("auth: a bootstrap token is good for a day at most")
	}
	return k.IssueProxy(TypeBootstrap, p, ttl)
}

// IssueProxy makes a token for a proxy elsewhere.
func (k *Keys) IssueProxy(t Type, p ProxyClaims, ttl time.Duration) (string, error) {
	if ReservedProxy(p.ProxyID) {
		return "", ErrReservedProxy
	}
	return k.Issue(Claims{Type: t, ProxyClaims: p}, ttl)
}

// Bootstrap reads a bootstrap token. One that names a proxy of this server itself is refused, even with a good
// signature.
func (k *Keys) Bootstrap(token string) (Bootstrap, error) {
	got, err := k.read(token, TypeBootstrap)
	if err == nil && (got.ID == "" || ReservedProxy(got.ProxyID)) {
		err = ErrTokenInvalid
	}
	if err != nil {
		return Bootstrap{}, err
	}
	return Bootstrap{ProxyClaims: got.ProxyClaims, TokenID: got.ID, Until: got.ExpiresAt.Time}, nil
}

// ReservedProxy reports whether an id is of a proxy that a server runs itself.
func ReservedProxy(id string) bool { return strings.HasPrefix(id, LocalProxyPrefix) }
