// This file keeps a sign-in in the browser while its person is at the issuer.

package auth

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// signInTime is how long a person may take at the issuer.
const signInTime = 10 * time.Minute

// SignIn is what a browser keeps while its person is at the issuer. It comes back in a cookie of that browser alone. A
// callback URL that is opened in another browser finds no matching cookie there.
type SignIn struct{ State, Nonce, Verifier string }

// newSignIn makes three independent secrets.
func newSignIn() SignIn {
	return SignIn{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
}

// signInCookie is named after the state, so that two tabs can sign in at once.
func signInCookie(state string) string {
	return "aqueduct_signin_" + strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' { // what rand.Text writes; a callback's state may be anything
			return r
		}
		return '-'
	}, state[:min(len(state), 8)])
}

// Cookie keeps the sign-in in the browser. It is SameSite=Lax: the issuer's redirect, another site's
// navigation, must bring it.
func (s SignIn) Cookie(path string, secure bool) *http.Cookie {
	return &http.Cookie{
		Name: signInCookie(s.State), Value: s.State + "." + s.Nonce + "." + s.Verifier, Path: path,
		MaxAge: int(signInTime.Seconds()), HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	}
}

// SignInOf is the sign-in that the browser began under a state, and the cookie that forgets it; the zero
// SignIn when it began none.
func SignInOf(r *http.Request, state, path string, secure bool) (SignIn, *http.Cookie) {
	forget := &http.Cookie{Name: signInCookie(state), Path: path, MaxAge: -1, HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode}
	c, err := r.Cookie(signInCookie(state))
	if err != nil {
		return SignIn{}, forget
	}
	parts := strings.Split(c.Value, ".")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return SignIn{}, forget
	}
	return SignIn{State: parts[0], Nonce: parts[1], Verifier: parts[2]}, forget
}
