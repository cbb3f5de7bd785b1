// This file signs a browser in with a link from the terminal: the page needs no password field, and
// the static token never appears in a URL.

package auth

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"aqueduct/internal/secretfile"
)

// SignInCodeTTL is how long a sign-in code is good: the time to move a link from a terminal to a
// browser. The terminal's history and a container's log keep the link for longer.
const SignInCodeTTL = 10 * time.Minute

// ErrSignInCode is a sign-in code that was used before, is too old, or was never issued.
var ErrSignInCode = errors.New("auth: bad sign-in code")

// signInCode is the one code that is good now. It is kept in memory alone: a code that outlived its process could be
// used again after a restart. mu guards code and expires.
type signInCode struct {
	mu      sync.Mutex
	code    Secret // "" for none
	expires time.Time
}

// LoadToken reads the static token from a file, which it makes on first use.
// A token that the file holds already is kept, so restarts do not sign clients out.
func LoadToken(path string) (Secret, error) {
	raw, err := secretfile.ReadOrMake(path, rand.Text)
	if err != nil {
		return "", fmt.Errorf("auth: the token: %w", err)
	}
	return Secret(raw), nil
}

// IssueSignInCode returns a code that signs one browser in as the bearer of the static token.
// The code before it is good no longer.
func (a *Auth) IssueSignInCode() Secret {
	c := a.signIn
	c.mu.Lock()
	defer c.mu.Unlock()
	c.code, c.expires = Secret(rand.Text()+rand.Text()), time.Now().Add(SignInCodeTTL)
	return c.code
}

// SignInByCode turns a code into a browser session. The code is taken under the lock, so that
// of two browsers that send it at once one gets a session.
func (a *Auth) SignInByCode(r *http.Request, code Secret) (SignedIn, error) {
	if a.signIn == nil || !a.signIn.take(code) {
		return SignedIn{}, ErrSignInCode
	}
	return a.SignIn(r, a.static.secret)
}

// take reports whether the code is the good one, and uses it up. A wrong code does not: an attacker
// who guesses must not be able to lock the operator out.
func (c *signInCode) take(code Secret) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.code == "" || !c.code.Is(string(code)) || time.Now().After(c.expires) {
		return false
	}
	c.code = ""
	return true
}
