// This file decides who makes a request: it picks the kind of credential that was shown, has it
// verified by the part that knows that kind, and asks the registry whether it is revoked.

package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"aqueduct/internal/fault"
	"aqueduct/store"
)

var (
	// ErrNoCredential: a credential is needed and none was shown.
	ErrNoCredential error = &fault.Error{Code: codeUnauthorized, Cause: errors.New("auth: no credential")}
	// ErrBadCredential: one was shown and it is not good.
	ErrBadCredential error = &fault.Error{Code: codeUnauthorized, Cause: errors.New("auth: bad credential")}
)

// Codes of these errors in the table of server/problem. An empty message makes that table word the answer: it is the same for a
// missing, a forged, an expired and a revoked credential, so that trying credentials teaches nothing about them.
const (
	codeUnauthorized = "unauthorized"
	codeIssuer       = "issuer_unavailable"
)

// minTokenLength keeps out tokens that can be guessed by trying.
const minTokenLength = 16

// Auth decides who a request's Caller is. It is configured by the With methods, each of which
// returns a changed copy, and never changes afterwards, so it needs no lock. What changes while the
// server runs is behind pointers with locks of their own: signIn, registry, oidc.
type Auth struct {
	open     bool // no token is required; loopback only
	static   staticToken
	keys     keySource
	users    string // the tenant whose users the static token may speak for on channels; "" for none
	signIn   *signInCode
	cookies  cookies
	registry *Registry // nil: nothing is kept and nothing can be revoked
	oidc     *OIDC     // whose bearer tokens are accepted as well; nil for none
}

// None requires no token. It is for loopback listeners only.
func None() *Auth { return &Auth{open: true} }

// Open reports whether requests need no token.
func (a *Auth) Open() bool { return a.open }

// Static wants one token from everybody.
func Static(token Secret) (*Auth, error) {
	raw := strings.TrimSpace(string(token))
	if len(raw) < minTokenLength {
		return nil, fmt.Errorf("auth: the token must have at least %d characters", minTokenLength)
	}
	return &Auth{static: staticToken{Secret(raw)}, signIn: &signInCode{}}, nil
}

// Typed takes tokens that the keys have made, and no other.
func Typed(k *Keys) *Auth { return (&Auth{}).WithKeys(k) }

// WithKeys accepts tokens that the keys have made as well. Where no token is required, only Accept checks them.
func (a *Auth) WithKeys(k *Keys) *Auth {
	return a.WithLateKeys(func() (*Keys, error) { return k, nil })
}

// WithRegistry has credentials kept and checked for revocation, and takes API keys. It must be called before the
// server starts, like every With method.
func (a *Auth) WithRegistry(r *Registry) *Auth {
	with := *a
	with.registry = r
	return &with
}

// Registry is what WithRegistry was given; nil for nothing.
func (a *Auth) Registry() *Registry { return a.registry }

// Keys are those that sign tokens; ErrTokenInvalid when there are none.
func (a *Auth) Keys() (*Keys, error) { return a.keys.get() }

// WithUsers lets the static token speak on channels for the users that it names, all of one tenant.
func (a *Auth) WithUsers(tenant string) *Auth {
	with := *a
	with.users = tenant
	return &with
}

// SpeaksFor is the Principal of a user that a channel names: one with a channel's token, or with the static token where
// that may speak for users.
func (a *Auth) SpeaksFor(c Caller, user string) (store.Principal, bool) {
	if c.Kind == KindStatic && a.users != "" {
		c.Kind, c.Principal.Tenant = KindChannel, a.users
	}
	return c.For(user)
}

// WithLateKeys is WithKeys for keys that are read when the first such token comes. An error
// of keys is no ErrBadCredential: it is ours.
func (a *Auth) WithLateKeys(keys func() (*Keys, error)) *Auth {
	with := *a
	with.keys = keys
	return &with
}

// WithOIDC accepts bearer tokens of an issuer as well; nil accepts none.
func (a *Auth) WithOIDC(o *OIDC) *Auth {
	with := *a
	with.oidc = o
	return &with
}

// OIDC is the issuer at which people sign in; nil for none.
func (a *Auth) OIDC() *OIDC { return a.oidc }

// CheckListener refuses to serve without tokens where others than this machine can connect. It is called before
// anything is served, and ends the start.
func (a *Auth) CheckListener(addr net.Addr) error {
	if a.open && !loopback(addr) {
		return fmt.Errorf("auth: %s can be reached from other machines; --auth none is for 127.0.0.1 only. Leave it out, or listen on 127.0.0.1", addr)
	}
	return nil
}

// Caller names who makes the request, by Authorization header or by cookie. Tokens in URLs are not
// looked at: they end up in logs and histories; a ticket (page.go) is worth nothing by then. Approvers and channels are callers only where they
// are named in also. A request that may change something is checked for revocation with the store,
// any other within checkTime. The order of the checks matters. Tokens of agents and proxies are
// refused first, even where no credential is required: otherwise an agent on a loopback listener
// would be the operator. A bad header is not rescued by a good cookie: a program that sends a header
// means it.
func (a *Auth) Caller(r *http.Request, also ...Kind) (Caller, error) {
	if token, ok := bearerToken(r.Header.Values("Authorization")); ok && (strings.HasPrefix(token, store.RunTokenPrefix) || saysProxy(token)) {
		return Caller{}, ErrTokenType // good for its own tools or socket only, even where no credential is required
	}
	if showsRunToken(r) {
		return Caller{}, ErrTokenType
	}
	if a.open {
		if caller, ok, err := a.registry.Program(r); ok || err != nil {
			return caller, err // it has no role, like a run token, also if no credential is required
		}
		if token, ok := bearerToken(r.Header.Values("Authorization")); ok && (saysType(token) == TypeMCP || a.registry.isMCPKey(r.Context(), token)) {
			return a.accept(r.Context(), Secret(token), true, also) // it has its own role only, like a program
		}
		// The listener was checked at the start. This holds for a handler that is mounted on another listener.
		if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !ok || !loopback(addr) {
			return Caller{}, ErrNoCredential
		}
		return operator(KindNone), nil
	}
	kinds := append([]Kind{KindStatic, KindUser, KindService, KindOperator}, also...)
	if given := r.Header.Values("Authorization"); len(given) > 0 {
		token, ok := bearerToken(given)
		if !ok || token == "" {
			return Caller{}, ErrBadCredential
		}
		return a.accept(r.Context(), Secret(token), changes(r), kinds)
	}
	caller, err := a.Named(r, kinds...)
	if err == nil && !caller.own {
		err = caller.provesPage(r, a.registry)
	}
	if err != nil {
		return Caller{}, err
	}
	return caller, nil
}

// changes reports whether a request may change something.
func changes(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// Accept names the bearer of a token that came another way than with a header: in the first
// frame of a socket. Only the given kinds are taken.
func (a *Auth) Accept(ctx context.Context, token Secret, kinds ...Kind) (Caller, error) {
	return a.accept(ctx, token, true, kinds)
}

// accept is Accept with a choice of freshness: a socket's first frame and a request that writes ask
// the store, and a GET may use an answer that is seconds old.
func (a *Auth) accept(ctx context.Context, token Secret, fresh bool, kinds []Kind) (Caller, error) {
	switch {
	case token == "":
		return Caller{}, ErrNoCredential
	case a.static.is(string(token)):
		if !slices.Contains(kinds, KindStatic) {
			return Caller{}, ErrTokenType
		}
		return operator(KindStatic), nil
	}
	caller, err := a.bearer(ctx, string(token), fresh, kinds)
	if err == nil {
		err = a.registry.admit(ctx, caller.Credential, fresh && caller.Credential.Kind != store.CredentialAPIKey) // a key has just been looked up
	}
	if err != nil {
		return Caller{}, err
	}
	return caller, nil
}

// bearer reads an API key, a token of the OpenID provider, or a typed token.
// The form of a token chooses who verifies it, before anything of it is trusted: a prefix, the
// issuer it names, or three parts. A token cannot gain by lying about that, because only its own
// kind of verifier accepts it.
func (a *Auth) bearer(ctx context.Context, token string, fresh bool, kinds []Kind) (Caller, error) {
	if IsAPIKey(token) {
		caller, err := a.registry.apiKey(ctx, token, fresh)
		if err == nil && !slices.Contains(kinds, caller.Kind) {
			return Caller{}, ErrTokenType
		}
		return caller, err
	}
	if a.oidc != nil && a.oidc.issued(token) {
		if !slices.Contains(kinds, KindUser) {
			return Caller{}, ErrTokenType
		}
		return a.oidc.Accept(ctx, Secret(token))
	}
	got, err := a.keys.read(token, typesOf(kinds)...)
	if err != nil {
		return Caller{}, err
	}
	return callerOf(got), nil
}

// Confirm checks again, with the store, that a Caller's credential is not revoked: for what a socket
// that was opened long ago decides.
func (a *Auth) Confirm(ctx context.Context, c Caller) error {
	return a.registry.admit(ctx, c.Credential, true)
}

// Watch ends the context when the Caller's credential is revoked, or the key that signed it retired,
// within watchTime and a query; the cause is ErrTokenRevoked. release must be called.
// Both conditions are needed: a revoked token is found in the store, but a retired signing key only
// in this process's own keys.
func (a *Auth) Watch(ctx context.Context, c Caller) (watched context.Context, release func()) {
	return a.registry.Watch(ctx, c.Credential.ID, func() bool {
		keys, err := a.Keys()
		return c.key == "" || err != nil || keys.Has(c.key)
	})
}

// typesOf are the tokens by which one becomes a Caller of the kinds. Kinds without a token of their own (static,
// service, none) give no type.
func typesOf(kinds []Kind) []Type {
	var types []Type
	for _, kind := range kinds {
		switch kind {
		case KindUser:
			types = append(types, TypeUser)
		case KindApprover:
			types = append(types, TypeApprover)
		case KindChannel:
			types = append(types, TypeChannel)
		case KindMCP:
			types = append(types, TypeMCP)
		case KindOperator:
			types = append(types, TypeOperator)
		default:
		}
	}
	return types
}

// callerOf is whom a verified token names. The roles are those of the token; its type may add one or replace them
// all.
func callerOf(got wire) Caller {
	c := got.Claims
	caller := Caller{
		Until: got.ExpiresAt.Time, Principal: store.Principal{Tenant: c.Tenant, User: c.User, Roles: c.Roles}, Credential: got.credential(), key: got.key,
	}
	switch c.Type {
	case TypeUser:
		caller.Kind, caller.Principal.Roles = KindUser, PersonRoles(c.Roles)
	case TypeApprover:
		caller.Kind = KindApprover
		caller.Principal.Roles = slices.DeleteFunc(slices.Clone(c.Roles), func(r string) bool { return r == RoleMCP })
		if !caller.Has(RoleApprover) { // it is what the token is for
			caller.Principal.Roles = append(caller.Principal.Roles, RoleApprover)
		}
	case TypeMCP:
		caller.Kind, caller.Principal.Roles = KindMCP, []string{RoleMCP}
	case TypeOperator:
		caller.Kind, caller.Principal.Roles = KindOperator, []string{RoleOperator}
	case TypeChannel:
		caller.Kind, caller.ChannelID = KindChannel, c.ChannelID
	default:
	}
	return caller
}

// bearerToken is the token of an Authorization header that is there once. Two Authorization headers give none:
// proxies and servers disagree on which of them counts.
func bearerToken(given []string) (string, bool) {
	if len(given) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// equal compares two texts in constant time.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// loopback reports whether only this machine can connect. A Unix socket counts: its file permissions
// decide.
func loopback(addr net.Addr) bool {
	if addr.Network() == "unix" {
		return true
	}
	ap, err := netip.ParseAddrPort(addr.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}
