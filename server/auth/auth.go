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
	open    bool   // nobody needs a token, on loopback
	token   Secret // the one static token
	session string // what the browser's cookie holds in its place
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

// CheckListener refuses to serve without tokens where others than this machine can connect.
func (a *Auth) CheckListener(addr net.Addr) error {
	if a.open && !loopback(addr) {
		return fmt.Errorf("auth: %s can be reached from other machines; start with --auth token --token-file FILE, or listen on 127.0.0.1", addr)
	}
	return nil
}

// Caller names who makes the request, by Authorization header or by cookie. Tokens in
// URLs are not looked at: they end up in logs and histories.
func (a *Auth) Caller(r *http.Request) (Caller, error) {
	if a.open {
		// The listener was checked at the start; this holds for whoever mounts the handler
		// on another one.
		if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !ok || !loopback(addr) {
			return Caller{}, ErrNoCredential
		}
		return Caller{Kind: KindNone, Principal: store.LocalPrincipal()}, nil
	}
	if given := r.Header.Values("Authorization"); len(given) > 0 {
		return a.bearer(given)
	}
	if c, err := r.Cookie(cookieName); err == nil {
		if !equal(c.Value, a.session) {
			return Caller{}, ErrBadCredential
		}
		return Caller{Kind: KindStatic, Principal: store.LocalPrincipal()}, nil
	}
	return Caller{}, ErrNoCredential
}

func (a *Auth) bearer(given []string) (Caller, error) {
	token, ok := bearerToken(given)
	if !ok || !a.isToken(token) {
		return Caller{}, ErrBadCredential
	}
	return Caller{Kind: KindStatic, Principal: store.LocalPrincipal()}, nil
}

// bearerToken is the token of an Authorization header that is there once.
func bearerToken(given []string) (string, bool) {
	scheme, token, _ := strings.Cut(given[0], " ")
	return strings.TrimSpace(token), len(given) == 1 && strings.EqualFold(scheme, "Bearer")
}

func (a *Auth) isToken(token string) bool { return !a.open && a.token.Is(token) }

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func loopback(addr net.Addr) bool {
	if addr.Network() == "unix" {
		return true
	}
	ap, err := netip.ParseAddrPort(addr.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}
