package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"aqueduct/server/auth"
	"aqueduct/server/problem"
)

// provider has the endpoints of an OpenID provider; its token endpoint gives an ID token of what a test sets.
type provider struct {
	t      *testing.T
	URL    string
	key    *ecdsa.PrivateKey
	claims map[string]any
	refuse string // the token endpoint's error; "" gives a token
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{t: t, key: key}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	p.URL = web.URL
	return p
}

// ServeHTTP implements http.Handler.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var out any
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/keys":
		out = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k1", Algorithm: "ES256", Use: "sig"}}}
	case "/token":
		if p.refuse != "" {
			w.WriteHeader(http.StatusBadRequest)
			out = map[string]any{"error": p.refuse}
			break
		}
		out = map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": p.idToken()}
	default:
		out = map[string]any{
			"issuer": p.URL, "jwks_uri": p.URL + "/keys", "authorization_endpoint": p.URL + "/auth", "token_endpoint": p.URL + "/token",
			"id_token_signing_alg_values_supported": []string{"ES256"},
		}
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (p *provider) idToken() string {
	now := time.Now()
	claims := jwt.MapClaims{"iss": p.URL, "aud": "web", "sub": "ann", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	for name, value := range p.claims {
		claims[name] = value
	}
	token := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
	token.Header["kid"] = "k1"
	signed, err := token.SignedString(p.key)
	if err != nil {
		p.t.Error(err)
	}
	return signed
}

// env is a server whose people sign in at the provider.
func (p *provider) env() *env {
	p.t.Helper()
	o, err := auth.NewOIDC(auth.OIDCConfig{Issuer: p.URL, ClientID: "web", Mapping: auth.Mapping{Tenant: auth.TenantMapping{Claim: "org"}}})
	if err != nil {
		p.t.Fatal(err)
	}
	keys, err := auth.NewKeys(auth.NewKey())
	if err != nil {
		p.t.Fatal(err)
	}
	return newEnvWith(p.t, saysN(1), plan{auth: static(p.t).WithKeys(keys).WithOIDC(o)})
}

// begin begins a sign-in: the cookie that it keeps and the query that the provider is sent.
func (h *env) begin() (cookie string, query url.Values) {
	h.t.Helper()
	got := h.noRedirect("GET", "/api/session/oidc/login")
	to, err := url.Parse(got.header.Get("Location"))
	if err != nil || got.status != http.StatusSeeOther || to.Path != "/auth" {
		h.t.Fatal(got.status, got.header, err)
	}
	cookie, _, _ = strings.Cut(got.header.Get("Set-Cookie"), ";")
	return cookie, to.Query()
}

// noRedirect is a browser's request whose answer is not followed.
func (h *env) noRedirect(method, path string, header ...string) answer {
	h.t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(h.request(method, path, "", header...))
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	return answer{status: resp.StatusCode, header: resp.Header}
}

// TestSignInCodes: a browser whose sign-in failed is back on the page with the reason's code behind '#', which is in the table
// as one that no problem carries, and has no session.
func TestSignInCodes(t *testing.T) {
	t.Parallel()
	down := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(down.Close)
	good := newProvider(t)
	h := good.env()
	away := (&provider{t: t, URL: down.URL}).env()
	finish := func(query string, claims map[string]any, refuse string) func() answer {
		return func() answer {
			cookie, asked := h.begin()
			good.claims, good.refuse = map[string]any{"nonce": asked.Get("nonce")}, refuse
			for name, value := range claims {
				good.claims[name] = value
			}
			return h.noRedirect("GET", "/api/session/oidc/callback?state="+asked.Get("state")+query, "Cookie", cookie)
		}
	}
	for name, c := range map[string]struct {
		cause func() answer
		code  string
	}{
		"refused by the provider":       {finish("&error=access_denied", nil, ""), "signin_denied"},
		"a code that is used up":        {finish("&code=c", nil, "invalid_grant"), "signin_denied"},
		"a provider that cannot answer": {finish("&code=c", nil, "server_error"), "issuer_unavailable"},
		"a provider that is away":       {func() answer { return away.noRedirect("GET", "/api/session/oidc/login") }, "issuer_unavailable"},
		"another browser": {func() answer {
			_, asked := h.begin()
			return h.noRedirect("GET", "/api/session/oidc/callback?code=c&state="+asked.Get("state"))
		}, "signin_expired"},
		"a token for another sign-in": {finish("&code=c", map[string]any{"org": "acme", "nonce": "x"}, ""), "signin_expired"},
		"a token for another client":  {finish("&code=c", map[string]any{"org": "acme", "aud": "other"}, ""), "signin_failed"},
		"no tenant":                   {finish("&code=c", nil, ""), "signin_not_mapped"},
		"good":                        {finish("&code=c", map[string]any{"org": "acme"}, ""), ""},
	} {
		got := c.cause()
		want := "/#signed-in=aqt_"
		if c.code != "" {
			want = "/#signin=" + c.code
		}
		session := strings.Contains(strings.Join(got.header.Values("Set-Cookie"), "\n"), "aqueduct_session_")
		if got.status != http.StatusSeeOther || !strings.HasPrefix(got.header.Get("Location"), want) || session != (c.code == "") {
			t.Errorf("%s: %d %s, want %s; a session %t", name, got.status, got.header.Get("Location"), want, session)
		}
	}
	for _, code := range problem.Codes() {
		if strings.HasPrefix(code.Name, "signin_") && code.Status != 0 {
			t.Errorf("%s has the status %d, and no answer with it", code.Name, code.Status)
		}
	}
}

// signInCases are requests with tokens of a provider.
func signInCases(t *testing.T, cases map[string]func() answer) {
	cases["issuer_unavailable"] = func() answer {
		p := newProvider(t)
		token, h := p.idToken(), p.env()
		p.URL = "http://127.0.0.1:1" // the discovery names another issuer, so that the token cannot be checked
		return h.do("GET", "/api/threads", "", bearerOf(token)...)
	}
}
