package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"aqueduct/store"
)

// cookieName is the browser's session. What it holds opens nothing elsewhere.
const cookieName = "aqueduct_session"

// sessionTime is how long a browser session lasts at most.
const sessionTime = 30 * 24 * time.Hour

// Session is what a browser session is opened for. It is the way in for every sign-in: a token, a
// link, a provider of identities.
type Session struct {
	Tenant, User string
	Roles        []string
	For          Type      // what it stands for: TypeUser or TypeApprover
	OpenedBy     string    // id of the credential it was opened with, whose revocation ends it; "" for none
	Until        time.Time // when it ends at the latest; zero: after sessionTime
}

// SignIn turns a token into the browser's cookie. The token of a user or an approver becomes
// a session that ends when the token does; ErrBadCredential for any other but the static one.
func (a *Auth) SignIn(ctx context.Context, token Secret, secure bool) (*http.Cookie, error) {
	if a.isToken(string(token)) {
		return a.staticSession(ctx, secure)
	}
	got, err := a.typed(string(token), TypeUser, TypeApprover)
	if err != nil {
		return nil, err
	}
	if err := a.registry.admit(ctx, got.credential(), true); err != nil {
		return nil, err
	}
	return a.StartSession(ctx, Session{
		Tenant: got.Tenant, User: got.User, Roles: got.Roles, For: got.Type, OpenedBy: got.ID, Until: got.ExpiresAt.Time,
	}, secure)
}

// StartSession keeps a session of a person and gives the browser's cookie. It needs keys that sign.
func (a *Auth) StartSession(ctx context.Context, s Session, secure bool) (*http.Cookie, error) {
	if a.keys == nil {
		return nil, ErrTokenInvalid
	}
	keys, err := a.keys()
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(sessionTime)
	if !s.Until.IsZero() && s.Until.Before(until) {
		until = s.Until
	}
	claims := Claims{Type: typeSession, Tenant: s.Tenant, UserClaims: UserClaims{User: s.User, Roles: s.Roles, For: s.For, OpenedBy: s.OpenedBy}}
	if !claims.whole() {
		return nil, ErrTokenInvalid
	}
	id := newID()
	value, err := keys.sign(claims, id, until)
	if err != nil {
		return nil, err
	}
	return cookie(value, 0, secure), a.registry.open(ctx, store.Credential{
		ID: id, Parent: s.OpenedBy, Kind: store.CredentialSession, Tenant: s.Tenant, User: s.User, Roles: s.Roles, CreatedAt: time.Now(), ExpiresAt: until,
	})
}

// open keeps a session that begins.
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

// staticPrefix begins the session of the static token. It is signed with a key made of that token, so
// that a new token ends it.
const staticPrefix = "aqs"

func (a *Auth) staticSession(ctx context.Context, secure bool) (*http.Cookie, error) {
	id, until := newID(), time.Now().Add(sessionTime)
	text := staticPrefix + "_" + id + "_" + strconv.FormatInt(until.Unix(), 10)
	who := store.LocalPrincipal()
	return cookie(text+"_"+a.sessionMAC(text), 0, secure), a.registry.open(ctx, store.Credential{
		ID: id, Kind: store.CredentialSession, Tenant: who.Tenant, User: who.User, CreatedAt: time.Now(), ExpiresAt: until,
	})
}

func (a *Auth) sessionMAC(text string) string {
	mac := hmac.New(sha256.New, []byte(a.token))
	mac.Write([]byte("aqueduct browser session\x00" + text))
	return hex.EncodeToString(mac.Sum(nil))
}

// readStatic is the Caller of a session of the static token.
func (a *Auth) readStatic(value string) (Caller, error) {
	parts := strings.Split(value, "_")
	if len(parts) != 4 || a.token == "" || !equal(parts[3], a.sessionMAC(strings.Join(parts[:3], "_"))) {
		return Caller{}, ErrBadCredential
	}
	end, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return Caller{}, ErrBadCredential
	}
	caller := operator(KindStatic)
	caller.Until = time.Unix(end, 0)
	if !time.Now().Before(caller.Until) {
		return Caller{}, ErrTokenExpired
	}
	caller.Credential = store.Credential{
		ID: parts[1], Kind: store.CredentialSession, Tenant: caller.Principal.Tenant, User: caller.Principal.User, ExpiresAt: caller.Until,
	}
	return caller, nil
}

// browser names the Caller of a cookie.
func (a *Auth) browser(value string, kinds []Kind) (Caller, error) {
	if strings.HasPrefix(value, staticPrefix+"_") {
		return a.readStatic(value)
	}
	got, err := a.typed(value, typeSession)
	if err != nil {
		return Caller{}, err
	}
	as := got
	as.Type, as.For = got.For, ""
	if !slices.Contains(typesOf(kinds), as.Type) {
		return Caller{}, ErrTokenType
	}
	caller := callerOf(as)
	caller.Credential = got.credential()
	return caller, nil
}

// SignOut ends the session of a Caller on the server and is the cookie that takes it from the browser.
// A Caller who showed a token has no session that could end.
func (a *Auth) SignOut(ctx context.Context, c Caller, secure bool) (*http.Cookie, error) {
	gone := cookie("", -1, secure)
	if a.registry == nil || c.Credential.Kind != store.CredentialSession {
		return gone, nil
	}
	err := a.registry.store.InTx(ctx, func(tx store.Tx) error {
		ended, err := tx.RevokeCredential(ctx, store.As(c.Principal), c.Credential.ID, c.Principal.User, time.Now())
		if err != nil || !ended {
			return err
		}
		return record(ctx, tx, c.Principal, auditSessionEnded, c.Credential.ID, nil)
	})
	if err == nil {
		a.registry.forget(ctx)
	}
	return gone, err
}

// cookie is out of reach for scripts (HttpOnly) and is not sent along when another site
// makes the request (SameSite=Strict); server's Origin list covers other ports of this host.
func cookie(value string, maxAge int, secure bool) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
	}
}
