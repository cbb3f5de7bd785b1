package auth

import "net/http"

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
