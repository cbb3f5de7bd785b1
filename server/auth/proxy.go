package auth

import (
	"net/http"

	"github.com/golang-jwt/jwt/v5"
)

// Proxy names the acp-proxy that makes a request, by its Authorization header alone: no
// cookie, and no token in the URL, is ever one of a proxy.
func (k *Keys) Proxy(r *http.Request) (ProxyClaims, error) {
	given := r.Header.Values("Authorization")
	if len(given) == 0 {
		return ProxyClaims{}, ErrNoCredential
	}
	token, ok := bearerToken(given)
	if !ok {
		return ProxyClaims{}, ErrTokenInvalid
	}
	c, err := k.Verify(token, TypeACPProxy)
	return c.ProxyClaims, err
}

// saysProxy tells whether a token calls itself a proxy's. To refuse it nothing need be checked.
func saysProxy(token string) bool {
	var got wire
	_, _, err := jwt.NewParser().ParseUnverified(token, &got)
	return err == nil && (got.Type == TypeACPProxy || got.Type == TypeBootstrap)
}
