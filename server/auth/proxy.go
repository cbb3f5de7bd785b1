// This file reads the tokens of acp-proxies.

package auth

import (
	"net/http"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"aqueduct/store"
)

// Proxy names the acp-proxy that makes a request, by its Authorization header alone: no
// cookie, and no token in the URL, is ever one of a proxy.
func (k *Keys) Proxy(r *http.Request) (ProxyClaims, error) {
	c, _, _, err := k.ProxyCredential(r)
	return c, err
}

// ProxyCredential is Proxy, and what is kept of the token, and the id of the key that signed it.
func (k *Keys) ProxyCredential(r *http.Request) (ProxyClaims, store.Credential, string, error) {
	given := r.Header.Values("Authorization")
	if len(given) == 0 {
		return ProxyClaims{}, store.Credential{}, "", ErrNoCredential
	}
	token, ok := bearerToken(given)
	if !ok {
		return ProxyClaims{}, store.Credential{}, "", ErrTokenInvalid
	}
	got, err := k.read(token, TypeACPProxy)
	if err != nil {
		return got.ProxyClaims, store.Credential{}, "", err // whose an expired token was
	}
	return got.ProxyClaims, got.credential(), got.key, nil
}

// ProxyTokenCredential is what is kept of a proxy's token that these keys have made.
func (k *Keys) ProxyTokenCredential(token string) (store.Credential, error) {
	got, err := k.read(token, TypeACPProxy)
	if err != nil {
		return store.Credential{}, err
	}
	return got.credential(), nil
}

// ShownAgent is Shown for the token of an agent's run or session, ShownKey for an API key.
const (
	ShownAgent = "agent"
	ShownKey   = "api_key"
)

// Shown returns the type that the bearer token of a request claims, or "". The claim is not verified: it only selects the
// words of a refusal.
func Shown(r *http.Request) string {
	token, ok := bearerToken(r.Header.Values("Authorization"))
	if !ok {
		return ""
	}
	if strings.HasPrefix(token, store.RunTokenPrefix) {
		return ShownAgent
	}
	if strings.HasPrefix(token, apiKeyPrefix) {
		return ShownKey
	}
	return string(saysType(token))
}

// saysType returns the type that a token claims, or "".
func saysType(token string) Type {
	var got wire
	if _, _, err := jwt.NewParser().ParseUnverified(token, &got); err != nil {
		return ""
	}
	return got.Type
}

// saysProxy reports whether a token claims to be a proxy's. Refusing such a token needs no check of its signature. A
// token that lies about it harms its bearer alone.
func saysProxy(token string) bool {
	t := saysType(token)
	return t == TypeACPProxy || t == TypeBootstrap
}
