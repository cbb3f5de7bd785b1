package server_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/proxy"
	"aqueduct/server"
	"aqueduct/server/auth"
	"aqueduct/store"
	"aqueduct/store/postgres"
	"aqueduct/store/storetest"
)

const signingKey = auth.Secret("0123456789abcdef0123456789abcdef")

func signing(t *testing.T) *auth.Keys {
	t.Helper()
	keys, err := auth.NewKeys(signingKey)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

const (
	registerPath = "/api/admin/acp-proxy/register"
	bootHeader   = "X-Acp-Proxy-Bootstrap"
)

// registers is a server that proxies can register with.
func registers(keys *auth.Keys) *server.ProxyAccess {
	return &server.ProxyAccess{
		Keys: func() (*auth.Keys, error) { return keys, nil }, Reserved: func(id string) bool { return id == "demo" },
	}
}

func bootstrapFor(t *testing.T, keys *auth.Keys, id string) string {
	t.Helper()
	token, err := keys.IssueBootstrap(auth.ProxyClaims{ProxyID: id, Name: "Mac"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestS05RegisteredProxyIsLetIn: what our own proxy does to get its tokens, across its own restarts, and what they open.
func TestS05RegisteredProxyIsLetIn(t *testing.T) {
	t.Parallel()
	keys := signing(t)
	h := newEnvWith(t, saysN(1), plan{auth: static(t), proxies: registers(keys)})
	file := filepath.Join(t.TempDir(), "token")
	own := &proxy.Enrolment{URL: h.URL + registerPath, Bootstrap: bootstrapFor(t, keys, "mac.local:1"), ID: "mac.local:1", File: file}
	token, err := own.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	claims, err := keys.Verify(token, auth.TypeACPProxy)
	if err != nil || claims.ProxyClaims != (auth.ProxyClaims{ProxyID: "mac.local:1", Name: "Mac"}) {
		t.Errorf("%+v %v", claims, err)
	}
	again := &proxy.Enrolment{URL: own.URL, ID: own.ID, File: file} // started again, without a bootstrap token
	if kept, err := again.Token(t.Context()); err != nil || kept != token {
		t.Errorf("%v, the same token: %t", err, kept == token)
	}
	// A known id is renewed with its own token.
	got := h.do("POST", registerPath, `{"proxyId":"mac.local:1"}`, "Authorization", "Bearer "+token)
	if got.status != http.StatusOK || strings.Contains(got.body, token) {
		t.Errorf("renewal: %d %s", got.status, got.body)
	}
	if list := h.audited("local"); len(list) != 2 || !strings.HasPrefix(list[0], "proxy.registered mac.local:1 by system ") || !strings.Contains(list[0], "127.0.0.1") {
		t.Error(list)
	}
	// One that was revoked is not renewed.
	revoked := registers(keys)
	revoked.Admit = func(context.Context, store.Credential) error { return auth.ErrTokenRevoked }
	strict := newEnvWith(t, saysN(1), plan{proxies: revoked})
	if got := strict.do("POST", registerPath, `{"proxyId":"mac.local:1"}`, "Authorization", "Bearer "+token); got.status != http.StatusUnauthorized {
		t.Errorf("a revoked token: %d %s", got.status, got.body)
	}
	// And nothing else.
	for _, credential := range []string{token, own.Bootstrap} {
		for _, path := range []string{"/api/threads", "/api/proxies", "/ws/client", "/metrics", "/v1/runs/x/events"} {
			if got := h.do("GET", path, "", "Authorization", "Bearer "+credential); got.status != 401 {
				t.Errorf("%s: %d", path, got.status)
			}
		}
		if got := h.do("POST", "/api/session", `{"token":"`+credential+`"}`); got.status != 401 {
			t.Errorf("signed in: %d", got.status)
		}
	}
}

// TestS05BootstrapTakesNoProxyOver: a bootstrap token is for one id and works once; a known id, the server's own and those of
// its agents cannot be taken; each attempt is audited with its address.
func TestS05BootstrapTakesNoProxyOver(t *testing.T) {
	t.Parallel()
	keys := signing(t)
	h := newEnvWith(t, saysN(1), plan{proxies: registers(keys)})
	for _, id := range []string{"live", "local-code"} { // one that is connected, and one of --acp
		if err := acpgateway.NewRegistry(h.store).SaveProxy(t.Context(), store.Proxy{ID: id, AgentID: id, Status: store.ProxyOnline}); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.store.InTx(t.Context(), func(tx store.Tx) error {
		_, err := tx.ClaimAgent(t.Context(), store.Agent{ID: "taken", Tenant: "acme", Owner: "ada", Source: store.AgentFromAPI, Protocol: store.AgentHTTP})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.IssueBootstrap(auth.ProxyClaims{ProxyID: "local-code"}, time.Hour); err == nil {
		t.Error("a bootstrap token for local-code")
	}
	if _, err := keys.IssueBootstrap(auth.ProxyClaims{ProxyID: "p"}, 48*time.Hour); err == nil {
		t.Error("a bootstrap token for two days")
	}
	forged, err := keys.Issue(auth.Claims{Type: auth.TypeBootstrap, ProxyClaims: auth.ProxyClaims{ProxyID: "local-code"}}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	others, err := keys.IssueProxy(auth.TypeACPProxy, auth.ProxyClaims{ProxyID: "other"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, id, header, credential string
		status                       int
		code                         string
	}{
		{"a static secret", "p", bootHeader, "let-us-all-in-please", 401, "UNAUTHORIZED"},
		{"none", "p", "X-Nothing", "", 401, "UNAUTHORIZED"},
		{"a token of another key", "p", bootHeader, strings.Repeat("x", 20) + ".y.z", 401, "UNAUTHORIZED"},
		{"a live id", "live", bootHeader, bootstrapFor(t, keys, "live"), 409, "PROXY_KNOWN"},
		{"an id of ours", "local-code", bootHeader, forged, 401, "UNAUTHORIZED"},
		{"an agent's id", "demo", bootHeader, bootstrapFor(t, keys, "demo"), 403, "RESERVED"},
		{"an agent that is registered", "taken", bootHeader, bootstrapFor(t, keys, "taken"), 409, "AGENT_TAKEN"},
		{"for another", "live", bootHeader, bootstrapFor(t, keys, "p"), 403, "FORBIDDEN"},
		{"another's own", "live", "Authorization", "Bearer " + others, 403, "FORBIDDEN"},
		{"a proxy's token as a bootstrap token", "other", bootHeader, others, 401, "UNAUTHORIZED"},
	} {
		got := h.do("POST", registerPath, `{"proxyId":"`+c.id+`"}`, c.header, c.credential)
		if got.status != c.status || !strings.HasPrefix(got.body, `{"success":false,"error":{"code":"`+c.code+`"`) {
			t.Errorf("%s: %d %s", c.name, got.status, got.body)
		}
		if list := h.audited("local"); !strings.HasPrefix(list[0], "proxy.register_refused ") || !strings.Contains(list[0], c.code) || !strings.Contains(list[0], "127.0.0.1") {
			t.Errorf("%s: the audit has %v", c.name, list)
		}
	}
	live, err := h.store.Proxy(t.Context(), store.System(), "live")
	if err != nil || live.Status != store.ProxyOnline {
		t.Errorf("%+v %v", live, err)
	}
}

// TestS05RaceOfBootstraps: of 50 that use one token at once one gets a token, and so it is for 50 tokens of one id; on both
// databases.
func TestS05RaceOfBootstraps(t *testing.T) {
	t.Parallel()
	race := func(t *testing.T, open func(testing.TB) (store.Store, error)) {
		keys := signing(t)
		h := newEnvWith(t, saysN(1), plan{proxies: registers(keys), open: open})
		one := bootstrapFor(t, keys, "one")
		for _, token := range []func() string{func() string { return one }, func() string { return bootstrapFor(t, keys, "two") }} {
			var tokens []string
			for range 50 {
				tokens = append(tokens, token())
			}
			id := map[bool]string{true: "one", false: "two"}[tokens[0] == tokens[1]]
			var mu sync.Mutex
			statuses := map[int]int{}
			var wg sync.WaitGroup
			for _, token := range tokens {
				wg.Go(func() {
					got := h.do("POST", registerPath, `{"proxyId":"`+id+`"}`, bootHeader, token)
					mu.Lock()
					defer mu.Unlock()
					statuses[got.status]++
				})
			}
			wg.Wait()
			if statuses[200] != 1 || statuses[500] != 0 || statuses[401]+statuses[409]+statuses[429] != 49 {
				t.Errorf("%s: %v", id, statuses)
			}
			t.Logf("%s: %v", id, statuses)
		}
	}
	for name, open := range map[string]func(testing.TB) (store.Store, error){
		"sqlite": nil,
		"postgres": func(t testing.TB) (store.Store, error) {
			return postgres.Open(t.Context(), storetest.Postgres(t), postgres.Options{Tracer: &sentPostgres})
		},
	} {
		t.Run(name, func(t *testing.T) { race(t, open) })
	}
}

// TestS05FailuresAreBraked: an address that fails again and again gets 429 with Retry-After, and fills no audit; a good token
// from there still passes, and time refills it.
func TestS05FailuresAreBraked(t *testing.T) {
	t.Parallel()
	keys := signing(t)
	now := time.Now()
	access := registers(keys)
	access.Now = func() time.Time { return now }
	h := newEnvWith(t, saysN(1), plan{proxies: access})
	braked := 0
	for range 30 {
		got := h.do("POST", registerPath, `{"proxyId":"p"}`, bootHeader, "wrong")
		switch got.status {
		case 401:
		case 429:
			if braked++; got.header.Get("Retry-After") != "10" {
				t.Errorf("Retry-After %q", got.header.Get("Retry-After"))
			}
		default:
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	if list := h.audited("local"); braked != 20 || len(list) != 10 {
		t.Errorf("%d braked, %d audited", braked, len(list))
	}
	if got := h.do("POST", registerPath, `{"proxyId":"p"}`, bootHeader, bootstrapFor(t, keys, "p")); got.status != 200 {
		t.Errorf("a good one: %d %s", got.status, got.body)
	}
	now = now.Add(time.Minute)
	if got := h.do("POST", registerPath, `{"proxyId":"p"}`, bootHeader, "wrong"); got.status != 401 {
		t.Errorf("a minute later: %d %s", got.status, got.body)
	}
}

func TestRegisterRefuses(t *testing.T) {
	t.Parallel()
	keys := signing(t)
	h := newEnvWith(t, saysN(1), plan{proxies: registers(keys)})
	good := []string{bootHeader, bootstrapFor(t, keys, "p")}
	for name, c := range map[string]struct {
		body   string
		header []string
		status int
		code   string
	}{
		"no proxyId":    {`{}`, good, 400, "BAD_REQUEST"},
		"a bad proxyId": {`{"proxyId":"a/b"}`, good, 400, "BAD_REQUEST"},
		"a long one":    {`{"proxyId":"` + strings.Repeat("p", 129) + `"}`, good, 400, "BAD_REQUEST"},
		"no text":       {`{"proxyId":1}`, good, 400, "BAD_REQUEST"},
		"no JSON":       {`{`, good, 400, "BAD_REQUEST"},
		"as a bearer":   {`{"proxyId":"p"}`, []string{"Authorization", "Bearer " + good[1]}, 401, "UNAUTHORIZED"},
	} {
		got := h.do("POST", registerPath, c.body, c.header...)
		if got.status != c.status || !strings.HasPrefix(got.body, `{"success":false,"error":{"code":"`+c.code+`","message":"`) ||
			strings.Contains(got.body, good[1]) || !strings.HasPrefix(got.header.Get("Content-Type"), "application/json") {
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
	if got := h.do("POST", registerPath, `{"proxyId":"p"}`, good...); got.status != http.StatusUnauthorized {
		t.Errorf("once more: %d %s", got.status, got.body)
	}
	none := newEnvWith(t, saysN(1), plan{})
	if got := none.do("POST", registerPath, `{"proxyId":"p"}`, good...); got.status != 404 || !strings.Contains(got.body, "NOT_FOUND") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// TestS14RevokedProxyRenewsNothing: the holder of a proxy's token can renew it. The new one is listed at once, and ends with
// any token that it came from.
func TestS14RevokedProxyRenewsNothing(t *testing.T) {
	t.Parallel()
	for name, open := range teams() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys := signing(t)
			first, _ := open(t)
			st, err := first(t)
			if err != nil {
				t.Fatal(err)
			}
			registry := auth.NewRegistry(st, slog.New(slog.DiscardHandler))
			access := registers(keys)
			access.Admit, access.Made = registry.Admit, registry.Made
			h := newEnvWith(t, saysN(1), plan{auth: static(t), proxies: access, open: func(testing.TB) (store.Store, error) { return st, nil }})
			get := func(header, token string) (string, int) {
				req, _ := http.NewRequestWithContext(t.Context(), "POST", h.URL+registerPath, strings.NewReader(`{"proxyId":"mac"}`))
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set(header, token)
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				var got struct{ Data struct{ Token string } }
				_ = json.NewDecoder(resp.Body).Decode(&got)
				return got.Data.Token, resp.StatusCode
			}
			line := make([]string, 4) // each renewed with the one before
			line[0], _ = get(bootHeader, bootstrapFor(t, keys, "mac"))
			for i := range line[1:] {
				line[i+1], _ = get("Authorization", "Bearer "+line[i])
			}
			listed, err := st.Credentials(t.Context(), store.Installation(), store.CredentialFilter{})
			if err != nil || len(listed) != len(line) {
				t.Fatalf("%d of %d tokens are listed (%v)", len(listed), len(line), err)
			}
			second, err := keys.ProxyTokenCredential(line[1])
			if err != nil {
				t.Fatal(err)
			}
			if err := st.InTx(t.Context(), func(tx store.Tx) error {
				_, err := tx.RevokeCredential(t.Context(), store.System(), second.ID, "local", time.Now())
				return err
			}); err != nil {
				t.Fatal(err)
			}
			for i, want := range []int{200, 401, 401, 401} {
				if _, got := get("Authorization", "Bearer "+line[i]); got != want {
					t.Errorf("token %d: %d, want %d", i, got, want)
				}
			}
		})
	}
}
