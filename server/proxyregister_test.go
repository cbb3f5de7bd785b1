package server_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"aqueduct/acpgateway/proxy"
	"aqueduct/server"
	"aqueduct/server/auth"
)

const bootstrap = "let-us-all-in-please"

func signing(t *testing.T) *auth.Keys {
	t.Helper()
	keys, err := auth.NewKeys("0123456789abcdef0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

const registerPath = "/api/admin/acp-proxy/register"

// TestRegisteredProxyIsLetIn: what our own proxy does to get a token, and what that opens.
func TestRegisteredProxyIsLetIn(t *testing.T) {
	t.Parallel()
	keys := signing(t)
	h := newHouseWith(t, saysN(1), plan{auth: static(t), proxies: &server.ProxyAccess{Keys: keys, Bootstrap: bootstrap + "\n"}})
	token, err := proxy.Register(h.URL+registerPath, bootstrap, "mac.local:1", "Mac")(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	claims, err := keys.Verify(token, auth.TypeACPProxy)
	if err != nil || claims.ProxyClaims != (auth.ProxyClaims{ProxyID: "mac.local:1", Name: "Mac"}) {
		t.Errorf("%+v %v", claims, err)
	}
	if _, err := proxy.Register(h.URL+registerPath, "something else", "mac", "")(t.Context()); err == nil || !strings.Contains(err.Error(), "UNAUTHORIZED") {
		t.Error(err)
	}
	// And nothing else.
	for _, path := range []string{"/api/threads", "/api/proxies", "/ws/client", "/metrics", "/v1/runs/x/events"} {
		if got := h.do("GET", path, "", "Authorization", "Bearer "+token); got.status != 401 {
			t.Errorf("%s: %d", path, got.status)
		}
	}
	if got := h.do("POST", "/api/session", `{"token":"`+token+`"}`); got.status != 401 {
		t.Errorf("signed in: %d", got.status)
	}
}

func TestRegisterRefuses(t *testing.T) {
	t.Parallel()
	h := newHouseWith(t, saysN(1), plan{proxies: &server.ProxyAccess{Keys: signing(t), Bootstrap: bootstrap}})
	good := []string{"X-Acp-Proxy-Bootstrap", bootstrap}
	for name, c := range map[string]struct {
		body   string
		header []string
		status int
		code   string
	}{
		"no token":      {`{"proxyId":"p"}`, nil, 401, "UNAUTHORIZED"},
		"a wrong one":   {`{"proxyId":"p"}`, []string{"x-acp-proxy-bootstrap", bootstrap + "x"}, 401, "UNAUTHORIZED"},
		"as a bearer":   {`{"proxyId":"p"}`, []string{"Authorization", "Bearer " + bootstrap}, 401, "UNAUTHORIZED"},
		"no proxyId":    {`{}`, good, 400, "BAD_REQUEST"},
		"a bad proxyId": {`{"proxyId":"a/b"}`, good, 400, "BAD_REQUEST"},
		"a long one":    {`{"proxyId":"` + strings.Repeat("p", 129) + `"}`, good, 400, "BAD_REQUEST"},
		"no text":       {`{"proxyId":1}`, good, 400, "BAD_REQUEST"},
		"no JSON":       {`{`, good, 400, "BAD_REQUEST"},
	} {
		got := h.do("POST", registerPath, c.body, c.header...)
		if got.status != c.status || !strings.HasPrefix(got.body, `{"success":false,"error":{"code":"`+c.code+`","message":"`) ||
			strings.Contains(got.body, bootstrap) || !strings.HasPrefix(got.header.Get("Content-Type"), "application/json") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if got := h.do("POST", registerPath, `{"proxyId":"p"}`, "Content-Type", "text/plain"); got.status != 415 {
		t.Errorf("as text: %d", got.status)
	}
	got := h.do("POST", registerPath, `{"proxyId":"p"}`, good...)
	if got.status != http.StatusOK || !strings.HasPrefix(got.body, `{"success":true,"data":{"token":"ey`) || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestNoBootstrap: without one nobody registers, whatever he shows.
func TestNoBootstrap(t *testing.T) {
	t.Parallel()
	for _, access := range []*server.ProxyAccess{nil, {Keys: signing(t)}, {Keys: signing(t), Bootstrap: " \n"}} {
		h := newHouseWith(t, saysN(1), plan{proxies: access})
		for _, given := range []string{"", " ", bootstrap} {
			got := h.do("POST", registerPath, `{"proxyId":"p"}`, "X-Acp-Proxy-Bootstrap", given)
			if got.status != 404 || !strings.HasPrefix(got.body, `{"success":false,"error":{"code":"NOT_FOUND"`) {
				t.Errorf("%q: %d %s", given, got.status, got.body)
			}
		}
	}
	for _, access := range []*server.ProxyAccess{{Keys: signing(t), Bootstrap: "short"}, {Bootstrap: bootstrap}} {
		if _, err := server.New(server.Config{Auth: auth.None(), Logger: slog.New(slog.DiscardHandler), Proxies: access}); err == nil {
			t.Error("taken for good enough")
		}
	}
}
