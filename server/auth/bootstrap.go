// This file makes and reads the tokens with which a proxy on another machine enrols. A bootstrap token works once or, if it
// is reusable, for the first proxy that used it. The store, not this package, records that proxy.

package auth

import (
	"errors"
	"strings"
	"time"

	"aqueduct/store"
)

const (
	// LocalProxyPrefix begins the ids of proxies that this server runs itself. No token of the key file names one: its bearer
	// would get their conversations.
	LocalProxyPrefix = "local-"
	// MaxBootstrapTime bounds the life of a bootstrap token that works once and is carried to another machine by hand.
	MaxBootstrapTime = 24 * time.Hour
)

// ErrReservedProxy is an id that no token is made for.
var ErrReservedProxy = errors.New("auth: proxy ids that begin with " + LocalProxyPrefix + " are this server's own")

// Bootstrap describes a bootstrap token. It enrols one proxy, once or, if it is reusable, repeatedly. The store records
// TokenID as used until the token has expired.
type Bootstrap struct {
	ProxyClaims
	Reusable bool
	TokenID  string
	Until    time.Time
	// Credential is the stored form of a reusable token, so that it can be listed and revoked.
	Credential store.Credential
}

// IssueBootstrap makes a token that enrols one proxy, once.
func (k *Keys) IssueBootstrap(p ProxyClaims, ttl time.Duration) (string, error) {
	if ttl > MaxBootstrapTime {
		return "", errors.New("auth: a bootstrap token is good for a day at most; a reusable one may live longer")
	}
	return k.IssueProxy(TypeBootstrap, p, ttl)
}

// IssueReusableBootstrap makes a token that enrols one proxy at each of its starts. If p has no id, the token is for the
// first proxy that uses it.
func (k *Keys) IssueReusableBootstrap(p ProxyClaims, ttl, most time.Duration) (Issued, error) {
	if ReservedProxy(p.ProxyID) {
		return Issued{}, ErrReservedProxy
	}
	return k.IssueWithin(Claims{Type: TypeBootstrap, ProxyClaims: p, Reusable: true}, ttl, most)
}

// IssueProxy makes a token for a proxy elsewhere.
func (k *Keys) IssueProxy(t Type, p ProxyClaims, ttl time.Duration) (string, error) {
	if ReservedProxy(p.ProxyID) {
		return "", ErrReservedProxy
	}
	return k.Issue(Claims{Type: t, ProxyClaims: p}, ttl)
}

// Bootstrap reads a bootstrap token. One that names a proxy of this server itself is refused, even with a good
// signature. With ErrTokenExpired the result names the proxy and the id of the token.
func (k *Keys) Bootstrap(token string) (Bootstrap, error) {
	got, err := k.read(token, TypeBootstrap)
	if err == nil && (got.ID == "" || ReservedProxy(got.ProxyID)) {
		return Bootstrap{}, ErrTokenInvalid
	}
	boot := Bootstrap{ProxyClaims: got.ProxyClaims, Reusable: got.Reusable, TokenID: got.ID}
	if err == nil {
		boot.Until, boot.Credential = got.ExpiresAt.Time, got.credential()
	}
	return boot, err
}

// ReservedProxy reports whether an id is of a proxy that a server runs itself.
func ReservedProxy(id string) bool { return strings.HasPrefix(id, LocalProxyPrefix) }
