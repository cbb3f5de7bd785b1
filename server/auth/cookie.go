package auth

import "net/http"

// cookieName is the browser's session. What it holds is derived from the token, not the
// token: a new token ends it, and it opens nothing elsewhere.
const cookieName = "aqueduct_session"

// SignIn turns a token into the browser's cookie. ErrBadCredential when it is not the token.
func (a *Auth) SignIn(token Secret, secure bool) (*http.Cookie, error) {
	if !a.isToken(string(token)) {
		return nil, ErrBadCredential
	}
	return cookie(a.session, 0, secure), nil
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
