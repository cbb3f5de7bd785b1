// This file opens, reads and ends browser sessions. A browser never gets a token that works
// elsewhere: it gets a cookie that stands for one, and that ends with it.

package auth

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"aqueduct/bridge/approval/audit"
	"aqueduct/store"
)

// cookieName begins the name of the browser's session. What it holds opens nothing elsewhere.
const cookieName = "aqueduct_session"

// securePrefix on a cookie's name has browsers take it over https only, for the whole host and from no
// other host: a neighbour under the same domain can neither read nor plant it.
const securePrefix = "__Host-"

// CookieName is the name of a cookie that is secure, or is not.
func CookieName(name string, secure bool) string {
	if secure {
		return securePrefix + name
	}
	return name
}

// cookies makes the browser's cookies, and decides which of them are secure.
type cookies struct{ secure bool } // every one is for https alone

// secureFor reports whether the cookies of a request are for https: the request came by it, or all do.
func (c cookies) secureFor(r *http.Request) bool { return c.secure || r.TLS != nil }

// name is that of the session's cookie for a request. It has the port that the browser connected to, where the Host has one:
// two servers under one name would replace each other's cookies.
func (c cookies) name(r *http.Request) string {
	name := cookieName
	if _, port, err := net.SplitHostPort(r.Host); err == nil && port != "" && strings.Trim(port, "0123456789") == "" {
		name += "_" + port
	}
	return CookieName(name, c.secureFor(r))
}

// session is out of reach for scripts (HttpOnly) and is not sent along when another site
// makes the request (SameSite=Strict). Other ports of this host are of the same site, and get it: page.go.
func (c cookies) session(r *http.Request, value string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: c.name(r), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: c.secureFor(r), SameSite: http.SameSiteStrictMode,
	}
}

// WithSecureCookies makes every cookie secure: people reach the server by https, though it may not
// speak it itself.
func (a *Auth) WithSecureCookies() *Auth {
	with := *a
	with.cookies.secure = true
	return &with
}

// Secure reports whether the cookies of a request are secure ones.
func (a *Auth) Secure(r *http.Request) bool { return a.cookies.secureFor(r) }

// sessionTime is how long a browser session lasts at most. It is not prolonged by use.
const sessionTime = 30 * 24 * time.Hour

// Session is what a browser session is opened for. It is the way in for every sign-in: a token, a link, a provider of
// identities. The roles are fixed when it begins; a change of them needs another sign-in.
type Session struct {
	Tenant, User string
	Roles        []string
	For          Type      // what it stands for: TypeUser or TypeApprover
	OpenedBy     string    // id of the credential it was opened with, whose revocation ends it; "" for none
	Until        time.Time // when it ends at the latest; zero: after sessionTime
}

// SignIn turns a token into a browser session. The token of a user or an approver becomes
// a session that ends when the token does; ErrBadCredential for any other but the static one.
// Tokens of channels, operators and proxies open no session: they belong to programs, and a browser
// would keep one for 30 days.
func (a *Auth) SignIn(r *http.Request, token Secret) (SignedIn, error) {
	if a.static.is(string(token)) {
		value, kept := a.static.openSession(a.cookies.own(r))
		return SignedIn{a.cookies.session(r, value, 0), pageSecret([]byte(a.static.secret), kept.ID)}, a.registry.open(r.Context(), kept)
	}
	got, err := a.keys.read(string(token), TypeUser, TypeApprover)
	if err != nil {
		return SignedIn{}, err
	}
	if err := a.registry.admit(r.Context(), got.credential(), true); err != nil {
		return SignedIn{}, err
	}
	return a.StartSession(r, Session{
		Tenant: got.Tenant, User: got.User, Roles: got.Roles, For: got.Type, OpenedBy: got.ID, Until: got.ExpiresAt.Time,
	})
}

// StartSession keeps a session of a person. It needs keys that sign. The row is kept
// before the cookie is returned: a session that no list shows could not be ended.
func (a *Auth) StartSession(r *http.Request, s Session) (SignedIn, error) {
	keys, err := a.keys.get()
	if err != nil {
		return SignedIn{}, err
	}
	until := time.Now().Add(sessionTime)
	if !s.Until.IsZero() && s.Until.Before(until) {
		until = s.Until
	}
	claims := Claims{Type: typeSession, Tenant: s.Tenant, UserClaims: UserClaims{User: s.User, Roles: s.Roles, For: s.For, OpenedBy: s.OpenedBy, Own: a.cookies.own(r)}}
	if !claims.whole() {
		return SignedIn{}, ErrTokenInvalid
	}
	id := newID()
	value, err := keys.sign(claims, id, until)
	if err != nil {
		return SignedIn{}, err
	}
	return SignedIn{a.cookies.session(r, value, 0), keys.page(keys.keys[0].id, id)}, a.registry.open(r.Context(), store.Credential{
		ID: id, Parent: s.OpenedBy, Kind: store.CredentialSession, Tenant: s.Tenant, User: s.User, Roles: s.Roles, CreatedAt: time.Now(), ExpiresAt: until,
	})
}

// open keeps a session that begins. The session's row is written before the browser gets the cookie.
// If the token it was opened with is revoked at the same time, the store returns a row that is
// revoked already, and the sign-in fails.
func (r *Registry) open(ctx context.Context, c store.Credential) error {
	if r == nil {
		return nil
	}
	var kept store.Credential
	err := r.store.InTx(ctx, func(tx store.Tx) (err error) {
		kept, err = tx.KeepCredential(ctx, c)
		return err
	})
	if err == nil && !kept.RevokedAt.IsZero() { // of the same millisecond
		return ErrTokenRevoked
	}
	return err
}

// Named is the Caller whom a request's cookie names. That proves which browser sends the request, and not from which page or
// port: the cookie alone is for refusals. A session stands for a user or an approver (For), and its
// bearer is that kind of Caller; the credential that can be revoked is the session's own.
// Registry.look also checks the token it was opened with.
func (a *Auth) Named(r *http.Request, kinds ...Kind) (Caller, error) {
	c, err := r.Cookie(a.cookies.name(r))
	if err != nil {
		return Caller{}, ErrNoCredential
	}
	var caller Caller
	if strings.HasPrefix(c.Value, staticPrefix+"_") {
		caller, err = a.static.readSession(c.Value)
	} else {
		caller, err = a.keys.session(c.Value, kinds)
	}
	if err == nil {
		err = a.registry.admit(r.Context(), caller.Credential, changes(r))
	}
	if err != nil {
		return Caller{}, err
	}
	return caller, nil
}

// session reads the cookie of a session that a key signed.
func (s keySource) session(value string, kinds []Kind) (Caller, error) {
	got, err := s.read(value, typeSession)
	if err != nil {
		return Caller{}, err
	}
	as := got
	as.Type, as.For = got.For, ""
	if !slices.Contains(typesOf(kinds), as.Type) {
		return Caller{}, ErrTokenType
	}
	keys, err := s.get()
	if err != nil {
		return Caller{}, err
	}
	caller := callerOf(as)
	caller.Credential, caller.own, caller.page = got.credential(), got.Own, keys.page(got.key, got.ID)
	return caller, nil
}

// SignOut ends the session of a Caller on the server and is the cookie that takes it from the browser.
// A Caller who showed a token has no session that could end.
func (a *Auth) SignOut(r *http.Request, c Caller) (*http.Cookie, error) {
	gone := a.cookies.session(r, "", -1)
	if a.registry == nil || c.Credential.Kind != store.CredentialSession {
		return gone, nil
	}
	ctx := r.Context()
	err := a.registry.store.InTx(ctx, func(tx store.Tx) error {
		ended, err := tx.RevokeCredential(ctx, store.As(c.Principal), c.Credential.ID, c.Principal.User, time.Now())
		if err != nil || !ended {
			return err
		}
		return record(ctx, tx, c.Principal, audit.SignedOut, c.Credential.ID, nil)
	})
	if err == nil {
		a.registry.forget(ctx)
	}
	return gone, err
}
