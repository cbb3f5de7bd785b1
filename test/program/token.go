package program

import (
	"crypto/rand"
	"errors"
	"net/http"
	"os"
	"path/filepath"
)

// token is what every server of a package's tests asks for. One token for all of them lets a
// client go from a server to its successor, as the replicas of an installation share theirs.
var token string

// base is http.DefaultTransport as the standard library made it.
var base = http.DefaultTransport.(*http.Transport)

// provideToken names the token's file in the environment, where the program, the examples and the
// judges look for it, and has http.DefaultClient show it. The keys that the program makes when it
// finds none are named too, so that the replicas of a test share them, and a state folder for commands that are given none.
func provideToken(folder string) error {
	token = rand.Text()
	path := filepath.Join(folder, "token")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		return err
	}
	http.DefaultTransport = Authorized(base)
	return errors.Join(
		os.Setenv("AQUEDUCT_TOKEN_FILE", path),
		os.Setenv("AQUEDUCT_SIGNING_KEY_FILE", filepath.Join(folder, "signing.key")),
		os.Setenv("AQUEDUCT_SEALING_KEY_FILE", filepath.Join(folder, "sealing.key")),
		os.Setenv("STATE_DIRECTORY", filepath.Join(folder, "state")),
	)
}

// Token is the token of the servers that the tests of this package start.
func Token() string { return token }

// Authorization is the header that shows the token, for dialers.
func Authorization() http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// Transport is a fresh transport that shows the token.
func Transport() http.RoundTripper { return Authorized(base.Clone()) }

// Authorized is a transport that shows the token where a request shows none.
func Authorized(base http.RoundTripper) http.RoundTripper { return authorized{base} }

type authorized struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return a.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections is what http.Client looks for.
func (a authorized) CloseIdleConnections() {
	if c, ok := a.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
