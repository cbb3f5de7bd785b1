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

	"aqueduct/store"
)

var (
	// ErrNoCredential: a credential is needed and none was shown.
	ErrNoCredential = errors.New("auth: no credential")
	// ErrBadCredential: one was shown and it is not good.
	ErrBadCredential = errors.New("auth: bad credential")
)

// minTokenLength keeps out tokens that can be guessed by trying.
const minTokenLength = 16

// Auth decides who a request's Caller is.
type Auth struct {
	open     bool   // nobody needs a token, on loopback
	token    Secret // the one static token; "" for none
	keys     func() (*Keys, error)
	users    string // the tenant whose users the static token may speak for on channels; "" for none
	signIn   *signInCode
	registry *Registry // nil: nothing is kept and nothing can be revoked
	oidc     *OIDC     // whose bearer tokens are accepted as well; nil for none
}

// None asks nobody for a token, on loopback listeners only.
func None() *Auth { return &Auth{open: true} }

// Open reports whether requests need no token.
func (a *Auth) Open() bool { return a.open }

// Static wants one token from everybody.
func Static(token Secret) (*Auth, error) {
	raw := strings.TrimSpace(string(token))
	if len(raw) < minTokenLength {
		return nil, fmt.Errorf("auth: the token must have at least %d characters", minTokenLength)
	}
	return &Auth{token: Secret(raw), signIn: &signInCode{}}, nil
}

// Typed takes tokens that the keys have made, and no other.
func Typed(k *Keys) *Auth { return (&Auth{}).WithKeys(k) }

// WithKeys takes tokens that the keys have made as well. Where nobody needs a token they are
// asked for by Accept alone.
func (a *Auth) WithKeys(k *Keys) *Auth {
	return a.WithLateKeys(func() (*Keys, error) { return k, nil })
}

// WithRegistry has credentials kept and checked for revocation, and takes API keys.
func (a *Auth) WithRegistry(r *Registry) *Auth {
	with := *a
	with.registry = r
	return &with
}

// Registry is what WithRegistry was given; nil for nothing.
func (a *Auth) Registry() *Registry { return a.registry }

// Keys are those that sign tokens; ErrTokenInvalid when there are none.
func (a *Auth) Keys() (*Keys, error) {
	if a.keys == nil {
		return nil, ErrTokenInvalid
	}
	return a.keys()
}

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

// CheckListener refuses to serve without tokens where others than this machine can connect.
func (a *Auth) CheckListener(addr net.Addr) error {
	if a.open && !loopback(addr) {
		return fmt.Errorf("auth: %s can be reached from other machines; --auth none is for 127.0.0.1 only. Leave it out, or listen on 127.0.0.1", addr)
	}
	return nil
}

// Caller names who makes the request, by Authorization header or by cookie. Tokens in
// URLs are not looked at: they end up in logs and histories. Approvers and channels are
// callers only where they are named in also. A request that may change something is checked for
// revocation with the store, any other within checkTime.
func (a *Auth) Caller(r *http.Request, also ...Kind) (Caller, error) {
	if token, ok := bearerToken(r.Header.Values("Authorization")); ok && (strings.HasPrefix(token, store.RunTokenPrefix) || saysProxy(token)) {
		return Caller{}, ErrTokenType // good for its own tools or socket only, though nobody else need show anything
	}
	if a.open {
		// The listener was checked at the start; this holds for whoever mounts the handler
		// on another one.
		if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !ok || !loopback(addr) {
			return Caller{}, ErrNoCredential
		}
		return operator(KindNone), nil
	}
	kinds := append([]Kind{KindStatic, KindUser, KindService, KindOperator}, also...)
	fresh := r.Method != http.MethodGet && r.Method != http.MethodHead
	if given := r.Header.Values("Authorization"); len(given) > 0 {
		token, ok := bearerToken(given)
		if !ok || token == "" {
			return Caller{}, ErrBadCredential
		}
		return a.accept(r.Context(), Secret(token), fresh, kinds)
	}
	if c, err := r.Cookie(cookieName); err == nil {
		caller, err := a.browser(c.Value, kinds)
		if err == nil {
			err = a.registry.admit(r.Context(), caller.Credential, fresh)
		}
		if err != nil {
			return Caller{}, err
		}
		return caller, nil
	}
	return Caller{}, ErrNoCredential
}

// Accept names the bearer of a token that came another way than with a header: in the first
// frame of a socket. Only the given kinds are taken.
func (a *Auth) Accept(ctx context.Context, token Secret, kinds ...Kind) (Caller, error) {
	return a.accept(ctx, token, true, kinds)
}

func (a *Auth) accept(ctx context.Context, token Secret, fresh bool, kinds []Kind) (Caller, error) {
	switch {
	case token == "":
		return Caller{}, ErrNoCredential
	case a.isToken(string(token)):
		if !slices.Contains(kinds, KindStatic) {
			return Caller{}, ErrTokenType
		}
		return operator(KindStatic), nil
	}
	caller, err := a.bearer(ctx, string(token), fresh, kinds)
	if err == nil {
		err = a.registry.admit(ctx, caller.Credential, fresh && caller.Kind != KindService) // a key has just been looked up
	}
	if err != nil {
		return Caller{}, err
	}
	return caller, nil
}

// bearer reads an API key, a token of the OpenID provider, or a typed token.
func (a *Auth) bearer(ctx context.Context, token string, fresh bool, kinds []Kind) (Caller, error) {
	if IsAPIKey(token) {
		if a.registry != nil && !slices.Contains(kinds, KindService) {
			return Caller{}, ErrTokenType
		}
		return a.registry.apiKey(ctx, token, fresh)
	}
	if a.oidc != nil && a.oidc.issued(token) {
		if !slices.Contains(kinds, KindUser) {
			return Caller{}, ErrTokenType
		}
		return a.oidc.Accept(ctx, Secret(token))
	}
	got, err := a.typed(token, typesOf(kinds)...)
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

// Watch ends the context when the Caller's credential is revoked, within watchTime and a query; the
// cause is ErrTokenRevoked. release must be called.
func (a *Auth) Watch(ctx context.Context, c Caller) (watched context.Context, release func()) {
	return a.registry.watch(ctx, c.Credential.ID)
}

// typed reads a token of the keys, if there are any. What has not the form of one does not
// have keys read for it.
func (a *Auth) typed(token string, want ...Type) (wire, error) {
	if a.keys == nil || strings.Count(token, ".") != 2 {
		return wire{}, ErrTokenInvalid
	}
	keys, err := a.keys()
	if err != nil {
		return wire{}, fmt.Errorf("auth: the keys: %w", err)
	}
	return keys.read(token, want...)
}

// typesOf are the tokens by which one becomes a Caller of the kinds.
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
		case KindOperator:
			types = append(types, TypeOperator)
		}
	}
	return types
}

// callerOf is whom a verified token names.
func callerOf(got wire) Caller {
	c := got.Claims
	caller := Caller{
		Until: got.ExpiresAt.Time, Principal: store.Principal{Tenant: c.Tenant, User: c.User, Roles: c.Roles}, Credential: got.credential(),
	}
	switch c.Type {
	case TypeUser:
		caller.Kind, caller.Principal.Roles = KindUser, PersonRoles(c.Roles)
	case TypeApprover:
		caller.Kind = KindApprover
		if !caller.Has(RoleApprover) { // it is what the token is for
			caller.Principal.Roles = append(slices.Clone(c.Roles), RoleApprover)
		}
	case TypeOperator:
		caller.Kind, caller.Principal.Roles = KindOperator, []string{RoleOperator}
	case TypeChannel:
		caller.Kind, caller.ChannelID = KindChannel, c.ChannelID
	}
	return caller
}

// bearerToken is the token of an Authorization header that is there once.
func bearerToken(given []string) (string, bool) {
	if len(given) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

func (a *Auth) isToken(token string) bool { return a.token != "" && a.token.Is(token) }

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func loopback(addr net.Addr) bool {
	if addr.Network() == "unix" {
		return true
	}
	ap, err := netip.ParseAddrPort(addr.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}
