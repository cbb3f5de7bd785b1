// This file is the static token: a single secret for an installation of one user, and the browser
// sessions opened with it.

package auth

import (
	"strconv"
	"strings"
	"time"

	"aqueduct/store"
)

// staticToken is the one token of an installation that has no key file. Its bearer is the installation's own user.
type staticToken struct{ secret Secret } // "" for none

// is compares in constant time; the empty token is never right.
func (t staticToken) is(token string) bool { return t.secret != "" && t.secret.Is(token) }

// staticPrefix begins the session of the static token. It is signed with a key made of that token, so
// that a new token ends it.
const staticPrefix = "aqs"

// openSession makes a browser session of the token: the cookie's value, and what is kept of it. The cookie holds the
// end and the id in the open, and the MAC over both; the label of the MAC differs where the cookie is enough.
func (t staticToken) openSession(own bool) (value string, kept store.Credential) {
	id, until := newID(), time.Now().Add(sessionTime)
	text := staticPrefix + "_" + id + "_" + strconv.FormatInt(until.Unix(), 10)
	who := store.LocalPrincipal()
	return text + "_" + t.mac(text, own), store.Credential{
		ID: id, Kind: store.CredentialSession, Tenant: who.Tenant, User: who.User, CreatedAt: time.Now(), ExpiresAt: until,
	}
}

// mac signs a session. The label keeps this use of the token apart from any other.
func (t staticToken) mac(text string, own bool) string {
	label := "aqueduct browser session"
	if own {
		label = "aqueduct own browser session"
	}
	return seal([]byte(t.secret), label, text)
}

// readSession is the Caller of a session of the token. Whether it was revoked is asked by the caller, with the id.
func (t staticToken) readSession(value string) (Caller, error) {
	parts := strings.Split(value, "_")
	if len(parts) != 4 || t.secret == "" {
		return Caller{}, ErrBadCredential
	}
	text := strings.Join(parts[:3], "_")
	own := equal(parts[3], t.mac(text, true))
	if !own && !equal(parts[3], t.mac(text, false)) {
		return Caller{}, ErrBadCredential
	}
	end, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return Caller{}, ErrBadCredential
	}
	caller := operator(KindStatic)
	caller.Until, caller.own, caller.page = time.Unix(end, 0), own, pageSecret([]byte(t.secret), parts[1])
	if !time.Now().Before(caller.Until) {
		return Caller{}, ErrTokenExpired
	}
	caller.Credential = store.Credential{
		ID: parts[1], Kind: store.CredentialSession, Tenant: caller.Principal.Tenant, User: caller.Principal.User, ExpiresAt: caller.Until,
	}
	return caller, nil
}
