package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"aqueduct/server/auth"
)

// issuerDouble has the endpoints of a provider that bearer tokens need, and keys that a test changes.
type issuerDouble struct {
	t    *testing.T
	URL  string
	now  atomic.Int64
	asks atomic.Int64
	down atomic.Bool

	mu   sync.Mutex
	keys []jose.JSONWebKey
}

func newIssuer(t *testing.T) *issuerDouble {
	t.Helper()
	i := &issuerDouble{t: t}
	i.now.Store(time.Now().Unix())
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		if r.URL.Path == "/keys" {
			i.asks.Add(1)
			i.mu.Lock()
			defer i.mu.Unlock()
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: i.keys})
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/auth", "token_endpoint": i.URL + "/token",
			"id_token_signing_alg_values_supported": []string{"ES256"},
		})
	}))
	t.Cleanup(web.Close)
	i.URL = web.URL
	return i
}

// key makes a signing key, and publishes it alone.
func (i *issuerDouble) key(kid string) *ecdsa.PrivateKey {
	i.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = []jose.JSONWebKey{{Key: key.Public(), KeyID: kid, Algorithm: "ES256", Use: "sig"}}
	return key
}

func (i *issuerDouble) time() time.Time { return time.Unix(i.now.Load(), 0) }

func (i *issuerDouble) auth(m auth.Mapping) *auth.Auth {
	i.t.Helper()
	o, err := auth.NewOIDC(auth.OIDCConfig{Issuer: i.URL, ClientID: "web", Audience: "api", Mapping: m, Now: i.time})
	if err != nil {
		i.t.Fatal(err)
	}
	return static(i.t).WithKeys(keys(i.t)).WithOIDC(o)
}

// token signs good claims, changed; nil takes a claim away.
func (i *issuerDouble) token(key any, method jwt.SigningMethod, header, changed map[string]any) auth.Secret {
	i.t.Helper()
	claims := jwt.MapClaims{
		"iss": i.URL, "aud": "api", "sub": "ann", "jti": "1", "org": "acme", "groups": []string{"staff", "approvers"},
		"iat": i.now.Load(), "exp": i.now.Load() + 600,
	}
	for name, value := range changed {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	t := jwt.NewWithClaims(method, claims)
	maps.Copy(t.Header, header)
	signed, err := t.SignedString(key)
	if err != nil {
		i.t.Fatal(err)
	}
	return auth.Secret(signed)
}

func byOrg() auth.Mapping {
	return auth.Mapping{
		Tenant: auth.TenantMapping{Claim: "org"}, Roles: auth.RoleMapping{Claim: "groups", Map: map[string][]string{"approvers": {"approver"}}},
	}
}

// TestIssuedTokens: of a provider's tokens only one that holds all it must names a user.
func TestIssuedTokens(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	key, a := i.key("k1"), i.auth(byOrg())
	es, k1 := jwt.SigningMethodES256, map[string]any{"kid": "k1"}
	got, err := a.Accept(t.Context(), i.token(key, es, k1, nil), auth.KindUser)
	if err != nil || got.Kind != auth.KindUser || got.Principal.Tenant != "acme" || got.Principal.User != "ann" || !got.Has(auth.RoleApprover) || got.Has(auth.RoleAdmin) ||
		got.Until.Unix() != i.now.Load()+600 || got.Credential.ID == "" {
		t.Fatalf("%+v, %v", got, err)
	}
	now, far := i.now.Load(), int64(25*60*60)
	for name, c := range map[string]struct {
		changed map[string]any
		want    error // nil: good
	}{
		"an ID token of the page":  {map[string]any{"aud": "web"}, auth.ErrTokenInvalid},
		"several audiences":        {map[string]any{"aud": []string{"other", "api"}}, nil},
		"no audience":              {map[string]any{"aud": nil}, auth.ErrTokenInvalid},
		"just expired":             {map[string]any{"exp": now - 20}, nil},
		"expired":                  {map[string]any{"exp": now - 60}, auth.ErrTokenExpired},
		"no end":                   {map[string]any{"exp": nil}, auth.ErrTokenExpired},
		"of a clock that is ahead": {map[string]any{"iat": now + 20}, nil},
		"from the future":          {map[string]any{"iat": now + 60}, auth.ErrTokenInvalid},
		"not yet good":             {map[string]any{"nbf": now + 600}, auth.ErrTokenInvalid},
		"without a beginning":      {map[string]any{"iat": nil}, auth.ErrTokenInvalid},
		"good for years, and old":  {map[string]any{"iat": now - far, "exp": now + far}, auth.ErrTokenExpired},
		"a logout token":           {map[string]any{"events": map[string]any{}}, auth.ErrTokenType},
		"of no tenant":             {map[string]any{"org": nil}, auth.ErrNotMapped},
		"of two tenants":           {map[string]any{"org": []string{"acme", "globex"}}, auth.ErrNotMapped},
		"the installation itself":  {map[string]any{"org": "local"}, auth.ErrNotMapped},
		"a tenant that is none":    {map[string]any{"org": "../x"}, auth.ErrNotMapped},
		"the server itself":        {map[string]any{"sub": "System"}, auth.ErrNotMapped},
		"the operator":             {map[string]any{"sub": "local"}, auth.ErrNotMapped},
		"a service account":        {map[string]any{"sub": "service:ci"}, auth.ErrNotMapped},
		"an invisible character":   {map[string]any{"sub": "an\u200bn"}, auth.ErrNotMapped},
		"nobody":                   {map[string]any{"sub": nil}, auth.ErrNotMapped},
		"a number":                 {map[string]any{"sub": 7}, auth.ErrTokenInvalid},
	} {
		got, err := a.Accept(t.Context(), i.token(key, es, k1, c.changed), auth.KindUser)
		if !errors.Is(err, c.want) || c.want == nil && err != nil || err != nil && got.Kind != "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	byDefault := byOrg()
	byDefault.Tenant.Default = "guests"
	guests := i.auth(byDefault)
	if got, err := guests.Accept(t.Context(), i.token(key, es, k1, map[string]any{"org": nil}), auth.KindUser); err != nil || got.Principal.Tenant != "guests" {
		t.Errorf("without the claim: %+v, %v", got, err)
	}
	for _, org := range []any{7, []string{}, []any{7}, map[string]any{"id": "acme"}, ""} {
		if got, err := guests.Accept(t.Context(), i.token(key, es, k1, map[string]any{"org": org}), auth.KindUser); !errors.Is(err, auth.ErrNotMapped) {
			t.Errorf("org %v: %+v, %v", org, got, err)
		}
	}
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, _ := json.Marshal(i.keys[0])
	for name, token := range map[string]auth.Secret{
		"another's key":            i.token(stranger, es, k1, nil),
		"the client's secret":      i.token([]byte("web"), jwt.SigningMethodHS256, k1, nil),
		"the public key as secret": i.token(public, jwt.SigningMethodHS256, k1, nil),
		"no signature":             i.token(jwt.UnsafeAllowNoneSignatureType, jwt.SigningMethodNone, k1, nil),
		"a type of its own":        i.token(key, es, map[string]any{"kid": "k1", "typ": "logout+jwt"}, nil),
		"larger than any":          i.token(key, es, k1, map[string]any{"x": strings.Repeat("x", 20<<10)}),
		"our name, with their key": i.token(key, es, k1, map[string]any{"iss": "aqueduct"}),
		"an issuer with a slash":   i.token(key, es, k1, map[string]any{"iss": i.URL + "/"}),
	} {
		if got, err := a.Accept(t.Context(), token, auth.KindUser); !errors.Is(err, auth.ErrBadCredential) || got.Kind != "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := a.Accept(t.Context(), i.token(key, es, k1, nil), auth.KindChannel); !errors.Is(err, auth.ErrTokenType) {
		t.Errorf("as a channel: %v", err)
	}
}

// TestIssuedKeys: a new key is found by its id at once, invented ids cost the issuer one request in a while, a withdrawn key
// ends, and keys last while the issuer is away.
func TestIssuedKeys(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	a := i.auth(byOrg())
	accept := func(token auth.Secret) error {
		_, err := a.Accept(context.Background(), token, auth.KindUser)
		return err
	}
	with := func(key *ecdsa.PrivateKey, kid string) auth.Secret {
		return i.token(key, jwt.SigningMethodES256, map[string]any{"kid": kid}, nil)
	}
	i.down.Store(true)
	old := i.key("old")
	if err := accept(with(old, "old")); !errors.Is(err, auth.ErrIssuer) || errors.Is(err, auth.ErrBadCredential) {
		t.Fatalf("without an issuer: %v", err)
	}
	i.down.Store(false)
	i.now.Add(11)
	if err := accept(with(old, "old")); err != nil || i.asks.Load() != 1 {
		t.Fatalf("%v after %d requests", err, i.asks.Load())
	}
	fresh := i.key("new") // and old is withdrawn
	i.now.Add(11)
	if err := accept(with(fresh, "new")); err != nil || i.asks.Load() != 2 {
		t.Fatalf("the new key: %v after %d requests", err, i.asks.Load())
	}
	if err := accept(with(old, "old")); !errors.Is(err, auth.ErrTokenInvalid) {
		t.Errorf("the key that is withdrawn: %v", err)
	}
	for range 50 {
		if err := accept(with(old, rand.Text())); !errors.Is(err, auth.ErrTokenInvalid) {
			t.Fatal(err)
		}
	}
	if i.asks.Load() != 2 {
		t.Errorf("%d requests for keys that there are not", i.asks.Load())
	}
	i.down.Store(true)
	i.now.Add(60 * 60)
	if err := accept(with(fresh, "new")); err != nil {
		t.Errorf("while the issuer is away: %v", err)
	}
	i.now.Add(6 * 60 * 60)
	if err := accept(with(fresh, "new")); !errors.Is(err, auth.ErrIssuer) {
		t.Errorf("when it has been away for long: %v", err)
	}
	i.down.Store(false)
	i.key("third")
	i.now.Add(11)
	if err := accept(with(fresh, "new")); !errors.Is(err, auth.ErrTokenInvalid) {
		t.Errorf("withdrawn meanwhile: %v", err)
	}
}

// TestMappingFiles: what a mapping file may say.
func TestMappingFiles(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"tenant: {claim: org}": true, "tenant: {default: acme}": true, "": false, "roles: {claim: groups}": false,
		"tenant: {claim: org}\nroles: {claim: g, map: {ops: [operator]}}":  false,
		"tenant: {claim: org}\nroles: {default: [operator]}":               false,
		"tenant: {claim: org}\nroles: {map: {a: [admin]}}":                 false,
		"tenant: {claim: org}\nrole: {claim: groups}":                      false,
		"tenant: {claim: org, map: {a: 'x y'}}":                            false,
		"tenant: {default: acme, map: {a: b}}":                             false,
		"tenant: {claim: org}\nroles: {claim: g, map: {a: [admin, user]}}": true,
	} {
		if _, err := auth.ParseMapping([]byte(text)); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
	for issuer, good := range map[string]bool{"https://id.example": true, "http://127.0.0.1:1": true, "http://id.example": false, "https://user:pw@id.example": false, "": false} {
		if _, err := auth.NewOIDC(auth.OIDCConfig{Issuer: issuer, ClientID: "c", Mapping: byOrg()}); (err == nil) != good {
			t.Errorf("%q: %v", issuer, err)
		}
	}
}
