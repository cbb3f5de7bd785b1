package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/server"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// lines is a log that a test reads.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// last is its last line.
func (l *lines) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Split(strings.TrimSpace(l.buf.String()), "\n")
	return all[len(all)-1]
}

// enrols is a server at which proxies enrol, with its log and what it keeps of credentials.
func enrols(t *testing.T, open func(testing.TB) (store.Store, error)) (*env, *auth.Keys, *lines, *server.ProxyAccess) {
	t.Helper()
	st, err := open(t)
	if err != nil {
		t.Fatal(err)
	}
	keys, log := signing(t), &lines{}
	kept := auth.NewRegistry(st, slog.New(slog.DiscardHandler))
	access := registers(keys)
	access.Admit, access.Made = kept.Admit, kept.Made
	now := time.Now()
	access.Now = func() time.Time { now = now.Add(time.Minute); return now } // no brake is met
	h := newEnvWith(t, saysN(1), plan{
		auth: static(t), revoke: true, proxies: access, open: func(testing.TB) (store.Store, error) { return st, nil }, log: slog.New(slog.NewTextHandler(log, nil)),
	})
	return h, keys, log, access
}

func reusable(t *testing.T, keys *auth.Keys, p auth.ProxyClaims) auth.Issued {
	t.Helper()
	issued, err := keys.IssueReusableBootstrap(p, 48*time.Hour, auth.MaxTokenLife)
	if err != nil {
		t.Fatal(err)
	}
	return issued
}

// TestS05BootstrapReusedByItsProxy: a reusable bootstrap token gives the proxy that used it first a token at each start, on
// both databases, and no other proxy; it can be revoked, and what it gave ends with it. Each use is audited, each refusal
// audited and logged with the proxy's id and the reason.
func TestS05BootstrapReusedByItsProxy(t *testing.T) {
	t.Parallel()
	for name, open := range teams() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, _ := open(t)
			h, keys, log, _ := enrols(t, first)
			if err := acpgateway.NewRegistry(h.store).SaveProxy(t.Context(), store.Proxy{ID: "live", AgentID: "live", Status: store.ProxyOnline}); err != nil {
				t.Fatal(err)
			}
			any1, named := reusable(t, keys, auth.ProxyClaims{}), reusable(t, keys, auth.ProxyClaims{ProxyID: "live", AgentID: "live"})
			once := bootstrapFor(t, keys, "once")
			over := endedAt(t, signingKey, reusable(t, keys, auth.ProxyClaims{ProxyID: "late"}).Token, time.Now().Add(-time.Hour))
			same := map[string]bool{} // the caller does not learn why
			refused := func(code string, why string) string { return code + " " + why }
			for i, c := range []struct {
				name, token, id string
				status          int
				want            string // of the log and the audit
			}{
				{"another's place", any1.Token, "live", 409, refused("PROXY_KNOWN", "is known")},
				{"the first", any1.Token, "vm-1", 200, ""},
				{"a restart", any1.Token, "vm-1", 200, ""},
				{"another proxy", any1.Token, "vm-2", 401, refused("UNAUTHORIZED", "vm-1's")},
				{"a restart after that", any1.Token, "vm-1", 200, ""},
				{"the server's own agent", any1.Token, "demo", 403, refused("RESERVED", "agent of this server")},
				{"one of ours", any1.Token, "local-x", 403, refused("RESERVED", "agent of this server")},
				{"the proxy that it names, known", named.Token, "live", 200, ""},
				{"another than it names", named.Token, "vm-1", 403, refused("FORBIDDEN", "another proxy")},
				{"once", once, "once", 200, ""},
				{"once, again", once, "once", 401, refused("UNAUTHORIZED", "used before")},
				{"over", over, "late", 401, refused("UNAUTHORIZED", "has expired")},
			} {
				got := h.do("POST", registerPath, `{"proxyId":"`+c.id+`","name":"n"}`, bootHeader, c.token)
				if got.status != c.status {
					t.Fatalf("%d %s: %d %s", i, c.name, got.status, got.body)
				}
				audited := h.audited("local")[0]
				if c.status == http.StatusOK {
					if !strings.HasPrefix(audited, "proxy.registered "+c.id+" ") {
						t.Errorf("%s: the audit has %s", c.name, audited)
					}
					continue
				}
				code, why, _ := strings.Cut(c.want, " ")
				if line := log.last(); !strings.Contains(line, "level=WARN") || !strings.Contains(line, "proxy="+c.id+" ") && c.id != "vm-1" || !strings.Contains(line, "code="+code) || !strings.Contains(line, why) {
					t.Errorf("%s: the log has %s", c.name, line)
				}
				if !strings.Contains(audited, code) || !strings.Contains(audited, why) {
					t.Errorf("%s: the audit has %s", c.name, audited)
				}
				if c.status == http.StatusUnauthorized {
					same[got.body] = true
				}
			}
			if len(same) != 1 {
				t.Errorf("the refusals differ: %v", same)
			}
			got := h.do("POST", registerPath, `{"proxyId":"vm-1"}`, bootHeader, any1.Token)
			var answer struct {
				Data struct {
					Token     string    `json:"token"`
					ExpiresAt time.Time `json:"expires_at"`
				} `json:"data"`
			}
			if err := json.Unmarshal([]byte(got.body), &answer); err != nil || answer.Data.ExpiresAt.Sub(any1.Until).Abs() > time.Second {
				t.Errorf("the token's life: %s %v, the bootstrap token's %s", got.body, err, any1.Until)
			}
			if _, err := keys.Verify(answer.Data.Token, auth.TypeACPProxy); err != nil {
				t.Error(err)
			}
			if renewed := h.do("POST", registerPath, `{"proxyId":"vm-1"}`, "Authorization", "Bearer "+answer.Data.Token); renewed.status != 200 {
				t.Errorf("renewal: %d %s", renewed.status, renewed.body)
			}
			listed := h.do("GET", "/api/tokens?installation=true&kind=acp_bootstrap", "", "Authorization", "Bearer "+goodToken)
			if !strings.Contains(listed.body, any1.ID) || strings.Contains(listed.body, any1.Token) {
				t.Errorf("the list: %s", listed.body)
			}
			if err := h.store.InTx(t.Context(), func(tx store.Tx) error {
				_, err := tx.RevokeCredential(t.Context(), store.System(), any1.ID, "local", time.Now())
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if got := h.do("POST", registerPath, `{"proxyId":"vm-1"}`, bootHeader, any1.Token); got.status != 401 || !strings.Contains(log.last(), "has been revoked") || !strings.Contains(log.last(), any1.ID) {
				t.Errorf("revoked: %d %s; the log has %s", got.status, got.body, log.last())
			}
			if got := h.do("POST", registerPath, `{"proxyId":"vm-1"}`, "Authorization", "Bearer "+answer.Data.Token); got.status != 401 {
				t.Errorf("what it gave, revoked with it: %d %s", got.status, got.body)
			}
		})
	}
}

// TestS05BootstrapReusableRace: of proxies that race for one reusable token that names none, one gets it.
func TestS05BootstrapReusableRace(t *testing.T) {
	t.Parallel()
	for name, open := range teams() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, _ := open(t)
			h, keys, _, access := enrols(t, first)
			access.Now = nil
			token := reusable(t, keys, auth.ProxyClaims{}).Token
			var mu sync.Mutex
			good := map[string]int{}
			var wg sync.WaitGroup
			for i := range 12 {
				wg.Go(func() {
					id := fmt.Sprint("vm-", i%4)
					if got := h.do("POST", registerPath, `{"proxyId":"`+id+`"}`, bootHeader, token); got.status == 200 {
						mu.Lock()
						defer mu.Unlock()
						good[id]++
					} else if got.status >= 500 {
						t.Errorf("%d %s", got.status, got.body)
					}
				})
			}
			wg.Wait()
			if len(good) != 1 {
				t.Errorf("enrolled: %v", good)
			}
			for _, n := range good {
				if n != 3 {
					t.Errorf("enrolled: %v, want all three tries of one", good)
				}
			}
		})
	}
}

// TestS05BootstrapReusedTooOften: a proxy that is started again and again does not fill the audit.
func TestS05BootstrapReusedTooOften(t *testing.T) {
	t.Parallel()
	keys := signing(t)
	access := registers(keys)
	now := time.Now()
	access.Now = func() time.Time { return now }
	h := newEnvWith(t, saysN(1), plan{proxies: access})
	token := reusable(t, keys, auth.ProxyClaims{}).Token
	try := func() answer { return h.do("POST", registerPath, `{"proxyId":"vm"}`, bootHeader, token) }
	for range 20 {
		if got := try(); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	if got := try(); got.status != 429 || !strings.Contains(got.body, "TOO_MANY_REQUESTS") || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", got.status, got.body)
	}
	now = now.Add(2 * time.Minute)
	if got := try(); got.status != 200 {
		t.Errorf("later: %d %s", got.status, got.body)
	}
}
