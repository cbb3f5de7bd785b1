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

// SignIn is what a browser keeps while its person is at the issuer. It comes back in a cookie of that
// browser alone, so a callback that somebody else's browser is led to has none that fits.
type SignIn struct{ State, Nonce, Verifier string }

func newSignIn() SignIn {
	return SignIn{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
}

// signInCookie is named after the state, so that two tabs can sign in at once.
func signInCookie(state string) string {
	if len(state) > 8 {
		state = state[:8]
	}
	return "aqueduct_signin_" + strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, state)
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

// WithOIDC accepts bearer tokens of an issuer as well; nil accepts none.
func (a *Auth) WithOIDC(o *OIDC) *Auth {
	with := *a
	with.oidc = o
	return &with
}

// OIDC is the issuer at which people sign in; nil for none.
func (a *Auth) OIDC() *OIDC { return a.oidc }
