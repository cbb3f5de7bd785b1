package auth

import (
	"net/http"
	"slices"
)

// cookieName is the browser's session. What it holds is derived from the token, not the
// token: a new token ends it, and it opens nothing elsewhere.
const cookieName = "aqueduct_session"

// SignIn turns a token into the browser's cookie. The token of a user or an approver becomes
// a session that ends when the token does; ErrBadCredential for any other but the static one.
func (a *Auth) SignIn(token Secret, secure bool) (*http.Cookie, error) {
	if a.isToken(string(token)) {
		return cookie(a.session, 0, secure), nil
	}
	got, err := a.typed(string(token), TypeUser, TypeApprover)
	if err != nil {
		return nil, err
	}
	keys, err := a.keys()
	if err != nil {
		return nil, err
	}
	session := got.Claims
	session.Type, session.For = typeSession, got.Type
	value, err := keys.sign(session, got.ExpiresAt.Time)
	if err != nil {
		return nil, err
	}
	return cookie(value, 0, secure), nil
}

// browser names the Caller of a cookie.
func (a *Auth) browser(value string, kinds []Kind) (Caller, error) {
	if a.session != "" && equal(value, a.session) {
		return operator(KindStatic), nil
	}
	got, err := a.typed(value, typeSession)
	if err != nil {
		return Caller{}, err
	}
	c := got.Claims
	c.Type, c.For = got.For, ""
	if !slices.Contains(typesOf(kinds), c.Type) {
		return Caller{}, ErrTokenType
	}
	return callerOf(c, got.ExpiresAt.Time), nil
}

// SignOut is the cookie that takes the session away.
func (a *Auth) SignOut(secure bool) *http.Cookie { return cookie("", -1, secure) }

// cookie is out of reach for scripts (HttpOnly) and is not sent along when another site
// makes the request (SameSite=Strict); server's Origin list covers other ports of this host.
func cookie(value string, maxAge int, secure bool) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
	}
}
