package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/approval/audit"
	"aqueduct/server/auth"
	"aqueduct/store"
)

// outside is an HTTP agent that a program runs: it answers with its name, and keeps what it was sent.
type outside struct {
	name string
	url  string

	mu    sync.Mutex
	calls []http.Header
	body  string
	// busy is called before the answer; nil is nothing.
	busy func(r *http.Request)
}

func newOutside(t *testing.T, name string) *outside {
	t.Helper()
	o := &outside{name: name}
	web := httptest.NewServer(o)
	t.Cleanup(web.Close)
	o.url = web.URL
	return o
}

// ServeHTTP implements http.Handler.
func (o *outside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/health" {
		return
	}
	body, _ := io.ReadAll(r.Body)
	o.mu.Lock()
	o.calls, o.body = append(o.calls, r.Header), string(body)
	busy := o.busy
	o.mu.Unlock()
	if busy != nil {
		busy(r)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "event: delta\ndata: {\"text\":\"%s\"}\n\nevent: done\ndata: {}\n\n", o.name)
}

func (o *outside) last() http.Header {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.calls) == 0 {
		return http.Header{}
	}
	return o.calls[len(o.calls)-1]
}

// directory is a server with programs and people of two tenants.
type directory struct {
	*env
	keys   *auth.Keys
	tokens map[string]string
}

func newDirectory(t *testing.T, open func(t testing.TB) (store.Store, error)) *directory {
	t.Helper()
	p, keys := keyed(t)
	p.open, p.revoke, p.secrets = open, true, newSecrets(t)
	d := &directory{env: newEnvWith(t, saysN(1), p), keys: keys, tokens: make(map[string]string)}
	for name, tenant := range map[string]string{"ada": "acme", "ann": "acme", "gil": "globex", "gus": "globex"} {
		roles := map[bool][]string{true: {auth.RoleAdmin}}[name == "ada" || name == "gil"]
		d.tokens[name] = issue(t, keys, auth.Claims{Type: auth.TypeUser, Tenant: tenant, UserClaims: auth.UserClaims{User: name, Roles: roles}}, time.Hour)
	}
	d.tokens["planner"] = d.account(d.tokens["ada"], "planner", auth.RoleAgent).Key
	d.tokens["rival"] = d.account(d.tokens["ada"], "rival", auth.RoleAgent).Key
	d.tokens["stranger"] = d.account(d.tokens["gil"], "stranger", auth.RoleAgent).Key
	return d
}

func (d *directory) by(who, method, path, body string) answer {
	d.t.Helper()
	return d.do(method, path, body, bearerOf(d.tokens[who])...)
}

func (d *directory) registers(who, id, url, more string) answer {
	d.t.Helper()
	return d.by(who, "POST", "/v1/agents/register", fmt.Sprintf(`{"agent_id":%q,"name":"The %s","endpoint":%q,"capabilities":{"reasoning":{"supported":true}}%s}`, id, id, url, more))
}

// asked is what a user gets as answer from an agent, in a thread of its own unless one is named.
func (d *directory) asked(who, agent, thread string) string {
	d.t.Helper()
	if thread == "" {
		thread = uuid.NewString()
	}
	return d.by(who, "POST", "/api/agui/chat?agent="+agent, inputBody(thread, uuid.NewString(), "hi "+uuid.NewString())).body
}

// seen is an agent as somebody sees it; nil where it is unknown.
func (d *directory) seen(who, id string) map[string]any {
	d.t.Helper()
	got := d.by(who, "GET", "/v1/agents/"+id, "")
	if got.status == http.StatusNotFound {
		return nil
	}
	var agent map[string]any
	if err := json.Unmarshal([]byte(got.body), &agent); err != nil || got.status != 200 {
		d.t.Fatal(got, err)
	}
	var all struct{ Agents []map[string]any }
	if err := json.Unmarshal([]byte(d.by(who, "GET", "/v1/agents", "").body), &all); err != nil {
		d.t.Fatal(err)
	}
	for _, listed := range all.Agents {
		if listed["agent_id"] == id {
			if fmt.Sprint(listed) != fmt.Sprint(agent) {
				d.t.Errorf("listed as %v, read as %v", listed, agent)
			}
			return agent
		}
	}
	d.t.Errorf("%s is not in the list that %s sees", id, who)
	return nil
}

// TestAgentRegisters: a program registers an agent, users of its tenant talk to it, and it gets its credential, which nobody
// sees.
func TestAgentRegisters(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		d := newDirectory(t, db.open)
		far := newOutside(t, "far-away")
		const secret = "tok-4711-of-the-planner"
		got := d.registers("planner", "planner", far.url+"/", `,"auth":{"type":"bearer","token":"`+secret+`"}`)
		if got.status != 200 || strings.TrimSpace(got.body) != `{"ok":true}` {
			t.Fatal(got)
		}
		if answer := d.asked("ann", "planner", ""); !strings.Contains(answer, "far-away") {
			t.Fatal(answer)
		}
		if h := far.last(); h.Get("Authorization") != "Bearer "+secret || h.Get("X-Run-Id") == "" {
			t.Errorf("the agent was called with %v", h)
		}
		if answer := d.asked("gus", "planner", ""); !strings.Contains(answer, "agent_unknown") {
			t.Errorf("a user of another tenant talks to it: %s", answer)
		}
		user, owner := d.seen("ann", "planner"), d.seen("planner", "planner")
		if user["endpoint"] != nil || user["owner"] != nil || owner["endpoint"] != far.url || owner["owner"] != "service:planner" {
			t.Errorf("a user sees %v, the owner %v", user, owner)
		}
		if user["name"] != "The planner" || user["protocol"] != "http" || user["source"] != "api" || user["last_heartbeat_at"] == nil ||
			fmt.Sprint(user["capabilities"]) != "map[reasoning:map[supported:true]]" {
			t.Errorf("a user sees %v", user)
		}
		if d.seen("gus", "planner") != nil || d.seen("gus", "scripted") == nil {
			t.Error("another tenant sees it, or not what is everybody's")
		}
		kept, err := d.store.Agent(t.Context(), store.System(), "planner")
		if err != nil || bytes.Contains(kept.Auth, []byte(secret)) || len(kept.Auth) < len(secret) {
			t.Errorf("its credential is kept as %q %v", kept.Auth, err)
		}
		log, err := d.store.Audit(t.Context(), store.System(), 0, 100)
		if text := fmt.Sprintf("%+v", log); err != nil || !strings.Contains(text, audit.AgentRegistered) || strings.Contains(text, secret) {
			t.Errorf("the audit has %s %v", text, err)
		}

		before := owner["last_heartbeat_at"]
		time.Sleep(2 * time.Millisecond)
		if got := d.by("planner", "POST", "/v1/agents/planner/heartbeat", `{}`); got.status != 200 {
			t.Error(got)
		}
		if after := d.seen("planner", "planner")["last_heartbeat_at"]; after == before {
			t.Errorf("the heartbeat stayed at %v", after)
		}
	})
}

// TestAgentOfItsOwner: an id belongs to who registered it; an administrator may change it, others may not, and what was
// removed gets no prompt of the threads it had, also when another tenant takes the id.
func TestAgentOfItsOwner(t *testing.T) {
	t.Parallel()
	d := newDirectory(t, nil)
	first, second, foreign := newOutside(t, "the-first"), newOutside(t, "the-second"), newOutside(t, "foreign")
	is := func(got answer, status int, code string) {
		t.Helper()
		if got.status != status || code != "" && isProblem(t, got, status)["code"] != code {
			t.Errorf("%v, want %d %s", got, status, code)
		}
	}
	is(d.registers("planner", "p", first.url, ""), 200, "")
	d.asked("ann", "p", "old")
	is(d.registers("rival", "p", foreign.url, ""), 409, "agent_id_taken")
	is(d.registers("planner", "scripted", foreign.url, ""), 409, "agent_id_taken")
	is(d.registers("ann", "q", foreign.url, ""), 403, "role_required")
	for _, who := range []string{"rival", "stranger", "gil"} {
		is(d.by(who, "DELETE", "/v1/agents/p", ""), 404, "not_found")
		is(d.by(who, "POST", "/v1/agents/p/heartbeat", "{}"), 404, "not_found")
	}
	is(d.by("ada", "DELETE", "/v1/agents/scripted", ""), 404, "not_found") // the operator's
	if answer := d.asked("ann", "p", ""); !strings.Contains(answer, "the-first") {
		t.Error(answer)
	}

	is(d.registers("ada", "p", second.url, ""), 200, "")
	if answer := d.asked("ann", "p", "old"); !strings.Contains(answer, "the-second") {
		t.Error(answer)
	}
	if owner := d.seen("ada", "p")["owner"]; owner != "service:planner" {
		t.Errorf("an administrator who changed it made %v its owner", owner)
	}
	text := ""
	log, err := d.store.Audit(t.Context(), store.Within("acme"), 0, 100)
	for _, e := range log {
		text += fmt.Sprintf("%s %s %s %s\n", e.Actor, e.Action, e.SubjectID, e.Payload)
	}
	for _, want := range []string{"service:rival agent.refused p", "ada agent.registered p {\"before\":\"" + first.url, "service:planner agent.registered p"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("the audit has no %s:\n%s %v", want, text, err)
		}
	}

	is(d.by("planner", "DELETE", "/v1/agents/p", ""), 204, "")
	if answer := d.asked("ann", "p", ""); !strings.Contains(answer, "agent_unknown") {
		t.Error(answer)
	}
	is(d.registers("stranger", "p", foreign.url, ""), 200, "")
	if answer := d.by("ann", "POST", "/api/agui/chat", inputBody("old", "R9", "are you there?")).body; !strings.Contains(answer, "agent_unknown") {
		t.Errorf("a thread of the agent that is gone gets %s", answer)
	}
	if len(foreign.last()) != 0 {
		t.Error("another tenant's agent got a prompt of a thread that it took the name of")
	}
}

// TestRegistrationsRefused: what could not be called, or would be understood differently by others, is refused with the
// place of the mistake.
func TestRegistrationsRefused(t *testing.T) {
	t.Parallel()
	d := newDirectory(t, nil)
	for body, want := range map[string]string{
		`{"agent_id":"a/b","endpoint":"http://127.0.0.1:1"}`:                                                                    "/agent_id: must be",
		`{"endpoint":"http://127.0.0.1:1"}`:                                                                                     "agent_id: required",
		`{"agent_id":"a"}`:                                                                                                      "endpoint: required",
		`{"agent_id":"a","endpoint":"nowhere"}`:                                                                                 "/endpoint: must be a URL",
		`{"agent_id":"a","endpoint":"http://10.0.0.1:80"}`:                                                                      "--outbound",
		`{"agent_id":"a","endpoint":"ftp://127.0.0.1"}`:                                                                         "/endpoint",
		`{"agent_id":"a","endpoint":"http://u:p@127.0.0.1:1"}`:                                                                  "/endpoint: must have no user",
		`{"agent_id":"a","endpoint":"http://127.0.0.1:1?x=1"}`:                                                                  "/endpoint: must have no user",
		`{"agent_id":"a","endpoint":"http://127.0.0.1:1","protocol":"acp"}`:                                                     "/protocol: must be http",
		`{"agent_id":"a","endpoint":"http://127.0.0.1:1","capabilities":"all"}`:                                                 "/capabilities: must be an object",
		`{"agent_id":"a","endpoint":"http://127.0.0.1:1","capabilities":["` + strings.Repeat("x", 16<<10) + `"]}`:               "/capabilities: must be at most",
		`{"agent_id":"a","endpoint":"http://127.0.0.1:1","auth":{"type":"magic"}}`:                                              "/auth/type",
		`{"agent_id":"a","endpoint":"http://127.0.0.1:1","auth":{"type":"bearer"}}`:                                             "/auth/token",
		`{"agent_id":"a","endpoint":"http://127.0.0.1:1","auth":{"type":"bearer","token":"a\r\nX-Run-Id: 1"}}`:                  "/auth/token",
		`{"agent_id":"a","endpoint":"http://127.0.0.1:1","auth":{"type":"header","header":"X-Run-Id","value":"1"}}`:             "/auth/header",
		`{"agent_id":"a","endpoint":"http://127.0.0.1:1","auth":{"type":"header","header":"x-aqueduct-run-token","value":"1"}}`: "/auth/header",
		`{"agent_id":"a","endpoint":"http://127.0.0.1:1","auth":{"type":"header","header":"Host","value":"1"}}`:                 "/auth/header",
		`{"agent_id":"a","endpoint":"http://127.0.0.1:1","auth":{"type":"header","header":"X-Key","value":"` + "\u00e9" + `"}}`: "/auth/value",
		`{"agent_id":"a","endpoint":"http://127.0.0.1:1","auth":{"type":"hmac","secret":"short"}}`:                              "/auth/secret",
		`{"agent_id":"a","endpoint":"http://127.0.0.1:1","name":"` + strings.Repeat("n", 129) + `"}`:                            "/name: must be",
		`{"agent_id":"a","endpoint":"http://169.254.169.254"}`:                                                                  "/endpoint",
		`{"agent_id":"a","endpoint":"http://127.0.0.1:1","Endpoint":"http://evil.example"}`:                                     "names are case-sensitive",
	} {
		got := d.by("planner", "POST", "/v1/agents/register", body)
		if got.status != 400 || !strings.Contains(got.body, want) || strings.Contains(got.body, "u:p") {
			t.Errorf("%s: %v, want %s", body, got, want)
		}
	}
	if d.seen("planner", "a") != nil {
		t.Error("a refused registration was kept")
	}
}

// TestRegisteredElsewhere: what is registered, changed or removed at one server is so at another at once, when it is needed
// there.
func TestRegisteredElsewhere(t *testing.T) {
	onBothDatabases(t, func(t *testing.T, db database) {
		d := newDirectory(t, db.open)
		near := newOutside(t, "near-by")
		there := *d
		there.env = d.replica()
		if got := there.registers("planner", "p", near.url, ""); got.status != 200 {
			t.Fatal(got)
		}
		if answer := d.asked("ann", "p", ""); !strings.Contains(answer, "\"near-by\"") {
			t.Fatal(answer)
		}
		if got := there.by("planner", "DELETE", "/v1/agents/p", ""); got.status != 204 {
			t.Fatal(got)
		}
		for end := time.Now().Add(20 * time.Second); !strings.Contains(d.asked("ann", "p", ""), "agent_unknown"); {
			if time.Now().After(end) {
				t.Fatal("an agent that was removed elsewhere is still called")
			}
		}
	})
}

// TestAgentsForAgents: an agent sees with its run token the agents that its user sees.
func TestAgentsForAgents(t *testing.T) {
	t.Parallel()
	d := newDirectory(t, nil)
	far := newOutside(t, "far")
	listed := make(chan string, 1)
	far.busy = func(r *http.Request) {
		got := d.do("GET", "/v1/agents", "", bearerOf(r.Header.Get("X-Aqueduct-Run-Token"))...)
		listed <- fmt.Sprint(got.status, got.body)
	}
	d.registers("planner", "p", far.url, "")
	d.registers("stranger", "s", far.url, "")
	d.asked("ann", "p", "")
	if got := <-listed; !strings.HasPrefix(got, "200") || !strings.Contains(got, `"agent_id":"p"`) || !strings.Contains(got, `"scripted"`) ||
		strings.Contains(got, `"agent_id":"s"`) || strings.Contains(got, far.url) {
		t.Error(got)
	}
	if got := d.do("GET", "/v1/agents", "", bearerOf("run_x_y")...); got.status != 401 {
		t.Error(got)
	}
}
