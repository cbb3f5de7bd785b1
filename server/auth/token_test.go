package auth_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"aqueduct/internal/bubbletest"
	"aqueduct/server/auth"
)

const signingKey = auth.Secret("0123456789abcdef0123456789abcdef")

func keys(t *testing.T) *auth.Keys {
	t.Helper()
	k, err := auth.NewKeys(signingKey)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func proxyToken(t *testing.T, c auth.ProxyClaims) string {
	t.Helper()
	token, err := keys(t).Issue(auth.Claims{Type: auth.TypeACPProxy, ProxyClaims: c}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// good are the claims of a token that is taken; tests spoil one at a time.
func good() jwt.MapClaims {
	return jwt.MapClaims{"type": "acp_proxy", "proxyId": "p1", "iss": "aqueduct", "aud": "aqueduct/ws/agent", "exp": time.Now().Add(time.Hour).Unix()}
}

func but(key string, value any) jwt.MapClaims {
	c := good()
	c[key] = value
	if value == nil {
		delete(c, key)
	}
	return c
}

func signed(t *testing.T, method jwt.SigningMethod, key any, c jwt.MapClaims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(method, c).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestTokenTellsWhatItWasMadeWith(t *testing.T) {
	t.Parallel()
	want := auth.ProxyClaims{ProxyID: "p1", Name: "Ada's <machine>", AgentID: "opencode"}
	token := proxyToken(t, want)
	got, err := keys(t).Verify(token, auth.TypeACPProxy)
	if err != nil || got.ProxyClaims != want || got.Type != auth.TypeACPProxy {
		t.Errorf("%+v %v", got, err)
	}
	if token == proxyToken(t, want) {
		t.Error("two tokens are the same: no jti")
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{`"type":"acp_proxy"`, `"proxyId":"p1"`, `"agent":"opencode"`, `"aud":["aqueduct/ws/agent"]`, `"iat":`, `"exp":`, `"jti":"`, `"iss":"aqueduct"`} {
		if !strings.Contains(string(payload), member) {
			t.Errorf("%s is not in %s", member, payload)
		}
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	key := []byte(signingKey)
	public, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	hs := jwt.SigningMethodHS256
	ok := signed(t, hs, key, good())
	if _, err := keys(t).Verify(ok, auth.TypeACPProxy); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	for name, c := range map[string]struct {
		token string
		want  error
	}{
		"alg none":             {signed(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good()), auth.ErrTokenInvalid},
		"RS256":                {signed(t, jwt.SigningMethodRS256, public, good()), auth.ErrTokenInvalid},
		"HS512":                {signed(t, jwt.SigningMethodHS512, key, good()), auth.ErrTokenInvalid},
		"HS384":                {signed(t, jwt.SigningMethodHS384, key, good()), auth.ErrTokenInvalid},
		"another key":          {signed(t, hs, []byte(strings.Repeat("x", 32)), good()), auth.ErrTokenInvalid},
		"no exp":               {signed(t, hs, key, but("exp", nil)), auth.ErrTokenInvalid},
		"expired":              {signed(t, hs, key, but("exp", time.Now().Add(-time.Minute).Unix())), auth.ErrTokenExpired},
		"type user":            {signed(t, hs, key, but("type", "user")), auth.ErrTokenType},
		"no type":              {signed(t, hs, key, but("type", nil)), auth.ErrTokenType},
		"type is no text":      {signed(t, hs, key, but("type", 1)), auth.ErrTokenInvalid},
		"another audience":     {signed(t, hs, key, but("aud", "aqueduct/api")), auth.ErrTokenType},
		"no audience":          {signed(t, hs, key, but("aud", nil)), auth.ErrTokenInvalid},
		"an empty audience":    {signed(t, hs, key, but("aud", "")), auth.ErrTokenInvalid},
		"another issuer":       {signed(t, hs, key, but("iss", "tuixiu")), auth.ErrTokenInvalid},
		"no proxyId":           {signed(t, hs, key, but("proxyId", nil)), auth.ErrTokenInvalid},
		"not yet":              {signed(t, hs, key, but("nbf", time.Now().Add(time.Hour).Unix())), auth.ErrTokenInvalid},
		"cut":                  {ok[:len(ok)-4], auth.ErrTokenInvalid},
		"with a tail":          {ok + "AAAA", auth.ErrTokenInvalid},
		"no token":             {"", auth.ErrTokenInvalid},
		"two dots":             {"..", auth.ErrTokenInvalid},
		"a static token":       {token, auth.ErrTokenInvalid},
		"payload of another's": {spliced(ok, signed(t, hs, key, but("proxyId", "p2"))), auth.ErrTokenInvalid},
	} {
		got, err := keys(t).Verify(c.token, auth.TypeACPProxy)
		if !errors.Is(err, c.want) || !errors.Is(err, auth.ErrBadCredential) || !reflect.DeepEqual(got, auth.Claims{}) {
			t.Errorf("%s: %+v %v", name, got, err)
		}
		if len(c.token) > 10 && err != nil && strings.Contains(err.Error(), c.token[:10]) {
			t.Errorf("%s: the token is in %q", name, err)
		}
	}
	if _, err := keys(t).Verify(ok, "user"); !errors.Is(err, auth.ErrBadCredential) {
		t.Errorf("taken for a type there is not: %v", err)
	}
}

// spliced is the payload of b under the signature of a.
func spliced(a, b string) string {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	return x[0] + "." + y[1] + "." + x[2]
}

// TestTokenLeeway: clocks may be half a minute apart, not more.
func TestTokenLeeway(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		k, token := keys(t), proxyToken(t, auth.ProxyClaims{ProxyID: "p1"})
		time.Sleep(time.Hour + 29*time.Second)
		if _, err := k.Verify(token, auth.TypeACPProxy); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if _, err := k.Verify(token, auth.TypeACPProxy); !errors.Is(err, auth.ErrTokenExpired) {
			t.Error(err)
		}
	})
}

func TestTokensThatAreNotMade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]auth.Claims{
		"no type":                  {ProxyClaims: auth.ProxyClaims{ProxyID: "p1"}},
		"a user's":                 {Type: "user", ProxyClaims: auth.ProxyClaims{ProxyID: "p1"}},
		"another type":             {Type: "run", Tenant: "acme", UserClaims: auth.UserClaims{User: "ada"}},
		"a session":                {Type: "session", Tenant: "acme", UserClaims: auth.UserClaims{User: "ada", For: "user"}},
		"a proxy's with a tenant":  {Type: auth.TypeACPProxy, Tenant: "acme", ProxyClaims: auth.ProxyClaims{ProxyID: "p1"}},
		"a proxy's with roles":     {Type: auth.TypeACPProxy, ProxyClaims: auth.ProxyClaims{ProxyID: "p1"}, UserClaims: auth.UserClaims{Roles: []string{"admin"}}},
		"a user without tenant":    {Type: auth.TypeUser, UserClaims: auth.UserClaims{User: "ada"}},
		"a user without name":      {Type: auth.TypeUser, Tenant: "acme"},
		"the user system":          {Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "system"}},
		"the user unknown":         {Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "unknown"}},
		"a user who is a proxy":    {Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "ada"}, ProxyClaims: auth.ProxyClaims{ProxyID: "p1"}},
		"a user who is a channel":  {Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "ada"}, ChannelClaims: auth.ChannelClaims{ChannelID: "im"}},
		"a user for something":     {Type: auth.TypeUser, Tenant: "acme", UserClaims: auth.UserClaims{User: "ada", For: "approver"}},
		"an approver without name": {Type: auth.TypeApprover, Tenant: "acme", UserClaims: auth.UserClaims{Roles: []string{"approver"}}},
		"an MCP client with roles": {Type: auth.TypeMCP, Tenant: "acme", UserClaims: auth.UserClaims{User: "ada", Roles: []string{"user"}}},
		"a channel without id":     {Type: auth.TypeChannel, Tenant: "acme"},
		"a channel without tenant": {Type: auth.TypeChannel, ChannelClaims: auth.ChannelClaims{ChannelID: "im"}},
		"a channel that is a user": {Type: auth.TypeChannel, Tenant: "acme", ChannelClaims: auth.ChannelClaims{ChannelID: "im"}, UserClaims: auth.UserClaims{User: "ada"}},
		"a channel with roles":     {Type: auth.TypeChannel, Tenant: "acme", ChannelClaims: auth.ChannelClaims{ChannelID: "im"}, UserClaims: auth.UserClaims{Roles: []string{"admin"}}},
		"no proxyId":               {Type: auth.TypeACPProxy},
	} {
		if _, err := keys(t).Issue(c, time.Hour); err == nil {
			t.Errorf("%s: made", name)
		}
	}
	for want, c := range map[string]auth.Claims{ // who left something out reads what
		"user needs a user":                 {Type: auth.TypeUser, Tenant: "acme"},
		"approver needs a tenant":           {Type: auth.TypeApprover, UserClaims: auth.UserClaims{User: "ada"}},
		"mcp needs a user":                  {Type: auth.TypeMCP, Tenant: "acme"},
		"operator needs a user":             {Type: auth.TypeOperator},
		"channel needs the id of a channel": {Type: auth.TypeChannel, Tenant: "acme"},
		"acp_proxy needs the id of a proxy": {Type: auth.TypeACPProxy},
	} {
		if _, err := keys(t).Issue(c, time.Hour); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := keys(t).Issue(auth.Claims{Type: auth.TypeACPProxy, ProxyClaims: auth.ProxyClaims{ProxyID: "p"}}, 0); err == nil {
		t.Error("made one that is dead already")
	}
	if _, err := auth.NewKeys(signingKey[:31]); err == nil {
		t.Error("a key of 31 bytes")
	}
}

// TestProxyOfARequest: the header alone names the proxy, and names it once.
func TestProxyOfARequest(t *testing.T) {
	t.Parallel()
	good := proxyToken(t, auth.ProxyClaims{ProxyID: "p1"})
	for name, c := range map[string]struct {
		path   string
		header []string
		want   error
	}{
		"bearer":           {"/ws/agent", []string{"Authorization", "Bearer " + good}, nil},
		"no header":        {"/ws/agent", nil, auth.ErrNoCredential},
		"in the URL":       {"/ws/agent?token=" + good, nil, auth.ErrNoCredential},
		"as a cookie":      {"/ws/agent", []string{"Cookie", "aqueduct_session=" + good}, auth.ErrNoCredential},
		"basic":            {"/ws/agent", []string{"Authorization", "Basic " + good}, auth.ErrTokenInvalid},
		"twice":            {"/ws/agent", []string{"Authorization", "Bearer " + good, "Authorization", "Bearer " + good}, auth.ErrTokenInvalid},
		"the static token": {"/ws/agent", []string{"Authorization", "Bearer " + token}, auth.ErrTokenInvalid},
	} {
		r := httptest.NewRequest("GET", c.path, nil)
		for i := 0; i < len(c.header); i += 2 {
			r.Header.Add(c.header[i], c.header[i+1])
		}
		got, err := keys(t).Proxy(r)
		if !errors.Is(err, c.want) || (err == nil) != (got.ProxyID == "p1") {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}

// TestS04ProxyTokenIsNobodysCredential: on every other surface it opens nothing.
func TestS04ProxyTokenIsNobodysCredential(t *testing.T) {
	t.Parallel()
	good := proxyToken(t, auth.ProxyClaims{ProxyID: "p1"})
	if _, err := static(t).Caller(from("127.0.0.1", "Authorization", "Bearer "+good)); !errors.Is(err, auth.ErrBadCredential) {
		t.Error(err)
	}
	if _, err := static(t).SignIn(from("127.0.0.1"), auth.Secret(good)); !errors.Is(err, auth.ErrBadCredential) {
		t.Error(err)
	}
}

// TestSignInCodeEnds: a link that lies in a terminal's history is good for minutes.
func TestSignInCodeEnds(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		a := static(t)
		code := a.IssueSignInCode()
		time.Sleep(auth.SignInCodeTTL - time.Second)
		if _, err := a.SignInByCode(from("127.0.0.1"), code); err != nil {
			t.Error(err)
		}
		code = a.IssueSignInCode()
		time.Sleep(auth.SignInCodeTTL + time.Second)
		if _, err := a.SignInByCode(from("127.0.0.1"), code); !errors.Is(err, auth.ErrSignInCode) {
			t.Error(err)
		}
	})
}
