package auth_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"aqueduct/server/auth"
)

// TestS67TokensBoundToAKey: a token that is bound to a key or a certificate (RFC 7800: cnf) is no bearer token: of this server or of
// the issuer, whatever the claim holds.
func TestS67TokensBoundToAKey(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	key, issued := i.key("k1"), i.auth(byOrg())
	own := static(t).WithKeys(keys(t))
	exp := time.Now().Add(time.Hour).Unix()
	for name, cnf := range map[string]string{
		"DPoP": `{"jkt":"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}`, "mutual TLS": `{"x5t#S256":"bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2"}`,
		"a key": `{"jwk":{"kty":"EC"}}`, "a key's id": `{"kid":"k"}`, "a later method": `{"x":1}`, "nothing": `{}`, "a text": `"jkt"`, "a list": `[]`, "false": `false`, "null": `null`,
	} {
		payload := fmt.Sprintf(`{"type":"user","tenant":"acme","user":"ada","iss":"aqueduct","aud":"aqueduct/api","exp":%d,"cnf":%s}`, exp, cnf)
		if c, err := own.Caller(from("192.0.2.1", bearer(forge(signingKey, `{"alg":"HS256","typ":"JWT"}`, payload))...)); !errors.Is(err, auth.ErrBadCredential) {
			t.Errorf("%s, of ours: %+v %v", name, c, err)
		}
		for _, kind := range []string{"JWT", "at+jwt"} {
			token := i.token(key, jwt.SigningMethodES256, map[string]any{"kid": "k1", "typ": kind}, map[string]any{"cnf": rawClaim(cnf)})
			if c, err := issued.Accept(t.Context(), token, auth.KindUser); !errors.Is(err, auth.ErrTokenType) {
				t.Errorf("%s, of the issuer, %s: %+v %v", name, kind, c, err)
			}
		}
	}
}

// rawClaim is a claim as it stands in a token; a nil one would be left out.
type rawClaim string

// MarshalJSON implements json.Marshaler.
func (c rawClaim) MarshalJSON() ([]byte, error) { return []byte(c), nil }
