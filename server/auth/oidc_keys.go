// This file keeps the issuer's public keys. Issuers rotate them without notice: a token may name a
// key that was published a second ago, and a withdrawn key must stop working.

package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
)

const (
	// keysBrake is the least time between two requests for the issuer's keys. Without it every token with
	// an invented kid would be a request to the issuer.
	keysBrake = 10 * time.Second
	// keysFresh is how long keys are used without looking whether the issuer has withdrawn one.
	keysFresh = 10 * time.Minute
	// keysStale is how long they are used when the issuer cannot be asked.
	keysStale = 6 * time.Hour
	// maxIssuedToken bounds what is parsed of a bearer token: access tokens with many groups have some KiB.
	maxIssuedToken = 16 << 10
)

// signingAlgs are the asymmetric methods. HS256 would make the client's secret, or a public key that is
// taken for one, sign tokens; none would let any program.
func signingAlgs() []string {
	return []string{
		oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512,
		oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
	}
}

// joseAlgs is signingAlgs for the library that parses signatures.
func joseAlgs() []jose.SignatureAlgorithm {
	var algs []jose.SignatureAlgorithm
	for _, alg := range signingAlgs() {
		algs = append(algs, jose.SignatureAlgorithm(alg))
	}
	return algs
}

// keySet is the issuer's keys. One that is not known is looked for once, with a brake; those known
// are looked at again from time to time, so that a withdrawn one ends. fetching is taken before mu
// and held during the call; mu is never held while the issuer is asked.
type keySet struct {
	client *http.Client
	now    func() time.Time
	url    func(context.Context) (string, error)

	fetching sync.Mutex // held by the one request that asks the issuer

	mu    sync.Mutex
	keys  []jose.JSONWebKey
	got   time.Time // when keys were read
	tried time.Time // when the issuer was last asked
}

// VerifySignature implements oidc.KeySet. A token with several signatures is refused: which of them counts is not
// defined here.
func (k *keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(token, joseAlgs())
	if err != nil || len(signed.Signatures) != 1 {
		return nil, ErrTokenInvalid
	}
	header := signed.Signatures[0].Header
	keys, err := k.matching(ctx, header)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if payload, err := signed.Verify(&key); err == nil {
			return payload, nil
		}
	}
	return nil, ErrTokenInvalid
}

// matching are the keys that may have signed with the header. Three cases. Fresh keys are used. Keys
// older than keysFresh are refreshed by one request, while the others go on with what is known. No
// fitting key, or keys older than keysStale: every such request waits for the refresh, which the
// brake in refresh limits to one call.
func (k *keySet) matching(ctx context.Context, header jose.Header) ([]jose.JSONWebKey, error) {
	keys, age := k.known(header)
	switch {
	case len(keys) > 0 && age <= keysFresh:
		return keys, nil
	case len(keys) > 0 && age <= keysStale && !k.fetching.TryLock():
		return keys, nil // another request looks already
	case len(keys) == 0 || age > keysStale:
		k.fetching.Lock()
	}
	defer k.fetching.Unlock()
	err := k.refresh(ctx)
	fresh, age := k.known(header)
	switch {
	case len(fresh) > 0 && age <= keysStale:
		return fresh, nil
	case err != nil:
		return nil, err
	case age > keysStale: // the last try failed a moment ago
		return nil, ErrIssuer
	}
	return nil, ErrTokenInvalid
}

// known are the keys that fit a header, and how long ago all were read.
func (k *keySet) known(header jose.Header) (fit []jose.JSONWebKey, age time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range k.keys {
		if (header.KeyID == "" || key.KeyID == header.KeyID) && (key.Algorithm == "" || key.Algorithm == header.Algorithm) {
			fit = append(fit, key)
		}
	}
	return fit, k.now().Sub(k.got)
}

// refresh reads the keys, unless that was tried a moment ago. The caller holds fetching. tried is set before the call
// and also when it fails, so a broken issuer is asked once in keysBrake.
func (k *keySet) refresh(ctx context.Context) error {
	k.mu.Lock()
	braked := !k.tried.IsZero() && k.now().Sub(k.tried) < keysBrake
	if !braked {
		k.tried = k.now()
	}
	k.mu.Unlock()
	if braked {
		return nil
	}
	keys, err := k.fetch(ctx)
	if err != nil {
		return fmt.Errorf("%w: its keys: %w", ErrIssuer, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys, k.got = keys, k.now()
	return nil
}

// fetch reads the key set. Private and symmetric keys in it are ignored: with a symmetric one, its
// readers could sign tokens.
func (k *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	from, err := k.url(ctx)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() // it was read
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New("status " + resp.Status)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&set); err != nil {
		return nil, err
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		// A key of a kind that is not known here is of no use and no fault: RFC 7517, 5.
		if key.UnmarshalJSON(raw) == nil && key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig") {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// unverifiedIssuer is the issuer that a token names; "" when it is no JWT.
func unverifiedIssuer(token string) string {
	if len(token) > maxIssuedToken || strings.Count(token, ".") != 2 {
		return ""
	}
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &claims); err != nil {
		return ""
	}
	return claims.Issuer
}

// bearerKind reports whether a token's header calls it one that a caller may show: an access token (RFC
// 9068) or a plain JWT. Logout and other tokens of the same keys have types of their own.
func bearerKind(token string) bool {
	got, _, err := jwt.NewParser().ParseUnverified(token, jwt.MapClaims{})
	if err != nil {
		return false
	}
	if got.Header["typ"] == nil {
		return true
	}
	typ, _ := got.Header["typ"].(string)
	switch strings.TrimPrefix(strings.ToLower(typ), "application/") {
	case "jwt", "at+jwt":
		return true
	}
	return false
}
