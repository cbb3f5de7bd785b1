package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

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
	open    bool   // nobody needs a token, on loopback
	token   Secret // the one static token; "" for none
	session string // what the browser's cookie holds in its place
	keys    func() (*Keys, error)
	users   string // the tenant whose users the static token may speak for on channels; "" for none
	oidc    *OIDC  // whose bearer tokens are accepted as well; nil for none
}

// None asks nobody for a token, on loopback listeners only.
func None() *Auth { return &Auth{open: true} }

// Static wants one token from everybody.
func Static(token Secret) (*Auth, error) {
	raw := strings.TrimSpace(string(token))
	if len(raw) < minTokenLength {
		return nil, fmt.Errorf("auth: the token must have at least %d characters", minTokenLength)
	}
	mac := hmac.New(sha256.New, []byte(raw))
	mac.Write([]byte("aqueduct browser session"))
	return &Auth{token: Secret(raw), session: hex.EncodeToString(mac.Sum(nil))}, nil
}

// Typed takes tokens that the keys have made, and no other.
func Typed(k *Keys) *Auth { return (&Auth{}).WithKeys(k) }

// WithKeys takes tokens that the keys have made as well. Where nobody needs a token they are
// asked for by Accept alone.
func (a *Auth) WithKeys(k *Keys) *Auth {
	return a.WithLateKeys(func() (*Keys, error) { return k, nil })
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
		return fmt.Errorf("auth: %s can be reached from other machines; start with --auth token --token-file FILE, or listen on 127.0.0.1", addr)
	}
	return nil
}

// Caller names who makes the request, by Authorization header or by cookie. Tokens in
// URLs are not looked at: they end up in logs and histories. Approvers and channels are
// callers only where they are named in also.
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
	kinds := append([]Kind{KindStatic, KindUser}, also...)
	if given := r.Header.Values("Authorization"); len(given) > 0 {
		token, ok := bearerToken(given)
		if !ok || token == "" {
			return Caller{}, ErrBadCredential
		}
		return a.Accept(Secret(token), kinds...)
	}
	if c, err := r.Cookie(cookieName); err == nil {
		return a.browser(c.Value, kinds)
	}
	return Caller{}, ErrNoCredential
}

// Accept names the bearer of a token that came another way than with a header: in the first
// frame of a socket. Only the given kinds are taken.
func (a *Auth) Accept(token Secret, kinds ...Kind) (Caller, error) {
	switch {
	case token == "":
		return Caller{}, ErrNoCredential
	case a.isToken(string(token)):
		if !slices.Contains(kinds, KindStatic) {
			return Caller{}, ErrTokenType
		}
		return operator(KindStatic), nil
	}
	if c, is, err := a.issued(string(token), kinds); is {
		return c, err
	}
	got, err := a.typed(string(token), typesOf(kinds)...)
	if err != nil {
		return Caller{}, err
	}
	return callerOf(got.Claims, got.ExpiresAt.Time), nil
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
		}
	}
	return types
}

func callerOf(c Claims, until time.Time) Caller {
	caller := Caller{Until: until, Principal: store.Principal{Tenant: c.Tenant, User: c.User, Roles: c.Roles}}
	switch c.Type {
	case TypeUser:
		caller.Kind = KindUser
	case TypeApprover:
		caller.Kind = KindApprover
		if !caller.Has(RoleApprover) { // it is what the token is for
			caller.Principal.Roles = append(slices.Clone(c.Roles), RoleApprover)
		}
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
