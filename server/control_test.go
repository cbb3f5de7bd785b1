package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
	"aqueduct/store"
)

// fakeControl answers what a test set and keeps what it was asked.
type fakeControl struct {
	err       error
	result    bridge.SandboxResult
	inventory bridge.Inventory
	settings  bridge.Settings
	away      error // of Ready
	asked     []string
}

func (f *fakeControl) note(format string, args ...any) error {
	f.asked = append(f.asked, fmt.Sprintf(format, args...))
	return f.err
}

func (f *fakeControl) Control(_ context.Context, sessionID string, c bridge.Control) error {
	return f.note("control %s %s %s %s", sessionID, c.Action, c.Option, c.Value)
}

func (f *fakeControl) Sandbox(_ context.Context, proxyID string, c bridge.SandboxControl) (bridge.SandboxResult, error) {
	return f.result, f.note("sandbox %s %+v", proxyID, c)
}

func (f *fakeControl) Inventory(_ context.Context, proxyID string) (bridge.Inventory, error) {
	return f.inventory, f.note("inventory %s", proxyID)
}

func (f *fakeControl) Prune(_ context.Context, proxyID string, dryRun bool) (bridge.SandboxResult, error) {
	return f.result, f.note("prune %s %t", proxyID, dryRun)
}

func (f *fakeControl) Ready(context.Context, string, bridge.Control) error { return f.away }

func (f *fakeControl) Linked(proxyID string) (bool, int) { return proxyID == "p1", 2 }

func (f *fakeControl) Place(context.Context, string) (string, string, error) {
	return "p1", "/srv/shop", nil
}

func (f *fakeControl) Remove(_ context.Context, proxyID string) error {
	return f.note("remove %s", proxyID)
}

func (f *fakeControl) Settings(string) bridge.Settings { return f.settings }

// last is what was asked last, once.
func (f *fakeControl) last() string {
	if len(f.asked) != 1 {
		return fmt.Sprint(len(f.asked), " were asked: ", f.asked)
	}
	defer func() { f.asked = nil }()
	return f.asked[0]
}

// steered is a server with a fake gateway, two proxies and a thread T.
func steered(t *testing.T) (*env, *fakeControl, store.Session) {
	t.Helper()
	f := &fakeControl{}
	h := newEnvWith(t, saysN(1), plan{control: f})
	h.chat("T", "R", "hi")
	s, err := h.store.SessionByExternalID(t.Context(), scope(), "T")
	if err != nil {
		t.Fatal(err)
	}
	known := acpgateway.NewRegistry(h.store)
	for _, p := range []store.Proxy{
		{ID: "p1", Name: "Mac", AgentID: "opencode", Capabilities: []byte(`{"acpTunnel":true}`), MaxConcurrent: 3, Status: store.ProxyOnline,
			ConnectedAt: time.UnixMilli(1000), LastSeen: time.UnixMilli(2000)},
		{ID: "p2", Status: store.ProxyOffline, LastError: "no room"},
	} {
		if err := known.SaveProxy(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	return h, f, s
}

// is compares an answer's JSON.
func (a answer) is(t *testing.T, status int, body string) {
	t.Helper()
	if a.status != status || strings.TrimSpace(a.body) != body {
		t.Errorf("%d %s\nwant %d %s", a.status, a.body, status, body)
	}
}

// TestInboxSaysWhereFrom: who decides sees which agent asks, and where it works.
func TestInboxSaysWhereFrom(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, func(_ context.Context, say func(...bridge.Output), _ bridge.Call, answers []approval.Delivery) {
		if len(answers) == 0 {
			say(permission("q1"))
		}
	}, plan{control: &fakeControl{}})
	h.chat("T", "R", "go")
	const want = `"thread_id":"T","agent":"scripted","proxy_id":"p1","folder":"/srv/shop"`
	for _, path := range []string{"/api/approvals", "/api/approvals/" + h.question()} {
		if got := h.do("GET", path, ""); got.status != 200 || !strings.Contains(got.body, want) {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

// TestProxyIsRemoved: the gateway's result is the answer.
func TestProxyIsRemoved(t *testing.T) {
	t.Parallel()
	h, control, _ := steered(t)
	h.do("DELETE", "/api/proxies/p1", "").is(t, 204, "")
	if got := control.last(); got != "remove p1" {
		t.Error(got)
	}
	control.err = fault.New(bridge.ControlConnected, "It is here.")
	if got := h.do("DELETE", "/api/proxies/p1", ""); got.status != 409 || !strings.Contains(got.body, `"code":"proxy_connected"`) {
		t.Errorf("%+v", got)
	}
}

func TestProxies(t *testing.T) {
	t.Parallel()
	h, _, _ := steered(t)
	one := `{"id":"p1","name":"Mac","agent":"opencode","status":"online","linked":true,"busy":2,"max_concurrent":3,` +
		`"connected_at":"1970-01-01T00:00:01Z","last_seen":"1970-01-01T00:00:02Z","capabilities":{"acpTunnel":true}}`
	two := `{"id":"p2","name":"","agent":"","status":"offline","linked":false,"busy":2,"max_concurrent":0,"last_error":"no room"}`
	h.do("GET", "/api/proxies", "").is(t, 200, `{"proxies":[`+one+`,`+two+`]}`)
	h.do("GET", "/api/proxies/p1", "").is(t, 200, one)
	isProblem(t, h.do("GET", "/api/proxies/p3", ""), 404)
}

func TestProxyInventory(t *testing.T) {
	t.Parallel()
	h, f, _ := steered(t)
	h.do("GET", "/api/proxies/p2/inventory", "").is(t, 200, `{"proxy_id":"p2","instances":[],"workspaces":[]}`)
	f.inventory = bridge.Inventory{CapturedAt: time.UnixMilli(1000),
		Instances:  []bridge.InventoryItem{{InstanceName: "a", SessionID: "s", Status: "running"}, {InstanceName: "b", Unknown: true}},
		Workspaces: []bridge.InventoryItem{{SessionID: "s", Path: "/w/s", Missing: true}}}
	h.do("GET", "/api/proxies/p1/inventory", "").is(t, 200, `{"proxy_id":"p1","captured_at":"1970-01-01T00:00:01Z",`+
		`"instances":[{"instance_name":"a","run_id":"s","status":"running","state":"known"},{"instance_name":"b","state":"unknown"}],`+
		`"workspaces":[{"run_id":"s","path":"/w/s","state":"missing"}]}`)
}

func TestProxyPrune(t *testing.T) {
	t.Parallel()
	h, f, _ := steered(t)
	f.result = bridge.SandboxResult{OK: true, Details: json.RawMessage(`{"deleted":["a"]}`)}
	h.do("POST", "/api/proxies/p1/prune", `{"dry_run":true}`).is(t, 200, `{"ok":true,"details":{"deleted":["a"]}}`)
	if got := f.last(); got != "prune p1 true" {
		t.Error(got)
	}
	h.do("POST", "/api/proxies/p1/prune", `{}`)
	if got := f.last(); got != "prune p1 false" {
		t.Error(got)
	}
}

// TestProxyControl: every action and member of the contract's sandbox_control gets through.
func TestProxyControl(t *testing.T) {
	t.Parallel()
	h, f, s := steered(t)
	for _, action := range strings.Fields("inspect ensure_running stop remove prune_orphans gc remove_workspace report_inventory remove_image git_push") {
		h.do("POST", "/api/proxies/p1/control", `{"action":"`+action+`","run_id":"`+s.ID+`"}`).is(t, 200, `{"ok":false}`)
		if got := f.last(); !strings.HasPrefix(got, "sandbox p1 {Action:"+action+" SessionID:"+s.ID+" ") {
			t.Error(got)
		}
	}
	code := 1
	f.result = bridge.SandboxResult{Error: "rejected", Stdout: "o", Stderr: "<e>", Code: &code, Signal: "SIGTERM", Status: "error"}
	got := h.do("POST", "/api/proxies/p1/control", `{"action":"git_push","run_id":"`+s.ID+`","instance_name":"i","image":"m","branch":"b","remote":"r",
		"cwd":"/w","timeout_seconds":90,"dry_run":true,"gc":{"remove_orphans":true,"remove_workspaces":true,"max_delete_count":5}}`)
	got.is(t, 200, `{"ok":false,"error":"rejected","stdout":"o","stderr":"<e>","code":1,"signal":"SIGTERM","status":"error"}`)
	want := "sandbox p1 {Action:git_push SessionID:" + s.ID + " InstanceName:i Image:m Branch:b Remote:r Cwd:/w Timeout:1m30s " +
		"DryRun:true RemoveOrphans:true RemoveWork:true MaxDeleteCount:5}"
	if asked := f.last(); asked != want {
		t.Errorf("%s\n%s", asked, want)
	}
	h.do("POST", "/api/proxies/p1/control", `{"action":"stop","thread_id":"T"}`)
	if asked := f.last(); !strings.Contains(asked, "SessionID:"+s.ID+" ") {
		t.Error(asked)
	}
	for _, body := range []string{
		`{}`, `{"action":"explode"}`, `{"action":"stop","run_id":"a","thread_id":"T"}`, `{"action":"stop","timeout_seconds":-1}`,
		`{"action":"stop","timeout_seconds":3601}`, `{"action":"git_push","env":["TOKEN=hunter2"]}`, `{"action":"git_push","env":{"TOKEN":{"x":"hunter2"}}}`,
	} {
		got := h.do("POST", "/api/proxies/p1/control", body)
		if isProblem(t, got, 400); strings.Contains(got.body, "hunter2") {
			t.Errorf("the environment is in %s", got.body)
		}
	}
	isProblem(t, h.do("POST", "/api/proxies/p1/control", `{"action":"stop","thread_id":"none"}`), 404)
	if len(f.asked) != 0 {
		t.Errorf("%v", f.asked)
	}
}

func TestThreadControls(t *testing.T) {
	t.Parallel()
	h, f, s := steered(t)
	h.do("GET", "/api/threads/T/control", "").is(t, 200, `{}`)
	state := `{"mine":1,"acp":{"modeId":"auto","modelId":"m1","modes":{"availableModes":[]},"models":{"x":1},"configOptions":[{"id":"mode"}],"commands":[{"name":"init"}]}}`
	h.keepState(s.ID, state)
	known := acpgateway.NewRegistry(h.store)
	err := known.SaveInstance(t.Context(), store.SandboxInstance{SessionID: s.ID, ProxyID: "p1", InstanceName: "tuixiu-run-1", Status: "running",
		LastError: "e", LastSeen: time.UnixMilli(1000), Transport: []byte(`{"type":"transport_connected"}`), Init: []byte(`{"ok":true}`)})
	if err != nil {
		t.Fatal(err)
	}
	h.do("GET", "/api/threads/T/control", "").is(t, 200, `{"mode_id":"auto","model_id":"m1","modes":{"availableModes":[]},"models":{"x":1},`+
		`"config_options":[{"id":"mode"}],"commands":[{"name":"init"}],"instance":{"proxy_id":"p1","linked":true,"instance_name":"tuixiu-run-1",`+
		`"status":"running","transport":{"type":"transport_connected"},"init":{"ok":true},"last_seen":"1970-01-01T00:00:01Z","last_error":"e"}}`)
	f.settings = bridge.Settings{ModeID: "plan", ConfigOptions: json.RawMessage(`[{"id":"newer"}]`)} // since the last Run
	newer := `{"mode_id":"plan","model_id":"m1","modes":{"availableModes":[]},"models":{"x":1},"config_options":[{"id":"newer"}],`
	if got := h.do("GET", "/api/threads/T/control", ""); !strings.HasPrefix(got.body, newer) {
		t.Errorf("%s\nwant %s", got.body, newer)
	}
	f.settings = bridge.Settings{}
	h.keepState(s.ID, `{"acp":"an agent's own"}`)
	if got := h.do("GET", "/api/threads/T/control", ""); got.status != 200 || strings.Contains(got.body, "mode_id") {
		t.Errorf("%d %s", got.status, got.body)
	}
	isProblem(t, h.do("GET", "/api/threads/none/control", ""), 404)
}

// keepState writes a Session's state, as the end of a Run does.
func (h *env) keepState(sessionID, state string) {
	h.t.Helper()
	replicas, err := h.store.ListReplicas(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	_, err = h.store.Commit(h.t.Context(), &store.Batch{Replica: replicas[0].ID, Moves: []store.Move{
		store.SessionMove{ID: sessionID, State: []byte(state), UpdatedAt: time.Now()},
	}})
	if err != nil {
		h.t.Fatal(err)
	}
}

func TestThreadControl(t *testing.T) {
	t.Parallel()
	h, f, s := steered(t)
	for body, want := range map[string]string{
		`{"action":"cancel"}`:                                                 "cancel  ",
		`{"action":"close"}`:                                                  "close  ",
		`{"action":"set_mode","mode_id":"plan"}`:                              `set_mode  "plan"`,
		`{"action":"set_model","model_id":"a/b"}`:                             `set_model  "a/b"`,
		`{"action":"set_config_option","config_id":"mode","value":"ask"}`:     `set_config_option mode "ask"`,
		`{"action":"set_config_option","config_id":"think","value": false }`:  `set_config_option think false`,
		`{"action":"set_mode","mode_id":"x","config_id":"y","value":"other"}`: `set_mode  "x"`,
	} {
		h.do("POST", "/api/threads/T/control", body).is(t, 204, "")
		if got := f.last(); got != "control "+s.ID+" "+want {
			t.Errorf("%s: %q", body, got)
		}
	}
	for _, body := range []string{
		`{}`, `{"action":"stop"}`, `{"action":"set_mode"}`, `{"action":"set_model","mode_id":"x"}`, `{"action":"set_config_option","config_id":"a"}`,
		`{"action":"set_config_option","config_id":"a","value":1}`, `{"action":"set_config_option","config_id":"a","value":null}`,
		`{"action":"set_config_option","config_id":"a","value":{"b":1}}`, `{"action":"set_config_option","value":"x"}`,
	} {
		isProblem(t, h.do("POST", "/api/threads/T/control", body), 400)
	}
	isProblem(t, h.do("POST", "/api/threads/none/control", `{"action":"close"}`), 404)
	if len(f.asked) != 0 {
		t.Errorf("%v", f.asked)
	}
}

// asksSoon waits for the next question.
func (h *env) asksSoon() string {
	h.t.Helper()
	for {
		rows, err := h.store.Approvals(h.t.Context(), store.System(), store.ApprovalFilter{Status: store.ApprovalPending}, store.Page{})
		if err != nil {
			h.t.Fatal(err)
		}
		if len(rows) > 0 {
			return rows[0].ID
		}
	}
}

// TestModeAsksItsProxyBeforeAPerson: a mode that cannot be set now is refused at once, without a question.
func TestModeAsksItsProxyBeforeAPerson(t *testing.T) {
	t.Parallel()
	h, f, _ := steered(t)
	for code, status := range map[string]int{bridge.ControlOffline: 503, bridge.ControlNotOffered: 422, bridge.ControlNoAgent: 409} {
		f.away = &fault.Error{Code: code}
		for _, body := range []string{`{"action":"set_mode","mode_id":"yolo"}`, `{"action":"set_config_option","config_id":"mode","value":"full"}`} {
			if p := isProblem(t, h.do("POST", "/api/threads/T/control", body), status); p["code"] != code {
				t.Errorf("%s: %v", body, p)
			}
		}
	}
	rows, err := h.store.Approvals(t.Context(), store.System(), store.ApprovalFilter{}, store.Page{})
	if err != nil || len(rows) != 0 || len(f.asked) != 0 {
		t.Errorf("asked: %d persons, the agent %v (%v)", len(rows), f.asked, err)
	}
}

// TestPermissiveModesAreAsked: a mode in which the agent asks no person is set when a person has approved it, and only then;
// the policy may decide otherwise.
func TestPermissiveModesAreAsked(t *testing.T) {
	t.Parallel()
	f := &fakeControl{}
	h := newEnvWith(t, saysN(1), plan{control: f, rules: `rules:
  - {name: never, tool: set_mode, when: "args.mode == 'yolo'", verdict: block, reason: Not here.}
  - {name: known, tool: set_mode, when: "args.mode == 'autoPlan'", verdict: allow}
  - {name: boss, tool: set_mode, when: "args.mode == 'full'", verdict: ask, approvers: ["role:boss"]}`})
	h.chat("T", "R", "hi")
	s, err := h.store.SessionByExternalID(t.Context(), scope(), "T")
	if err != nil {
		t.Fatal(err)
	}
	h.keepState(s.ID, `{"acp":{"modes":{"availableModes":[{"id":"m1","name":"Bypass all questions"},{"id":"plan","name":"Plan"}]},"configOptions":[{"id":"speed","name":"Speed","options":[{"value":"v1","name":"Full access"},{"value":"v2","name":"Slow"}]}]}}`)
	for _, body := range []string{`{"action":"set_mode","mode_id":"plan"}`, `{"action":"set_mode","mode_id":"autoPlan"}`, `{"action":"set_config_option","config_id":"speed","value":"v2"}`} {
		h.do("POST", "/api/threads/T/control", body).is(t, 204, "")
		f.last()
	}
	if p := isProblem(t, h.do("POST", "/api/threads/T/control", `{"action":"set_mode","mode_id":"yolo"}`), 403); p["code"] != "policy_blocks" {
		t.Error(p)
	}
	answered := func(body string, settle func(id string)) chan answer {
		got := make(chan answer, 1)
		go func() { got <- h.do("POST", "/api/threads/T/control", body) }()
		settle(h.asksSoon())
		return got
	}
	for body, say := range map[string]string{
		`{"action":"set_mode","mode_id":"bypassPermissions"}`:                        `set_mode  "bypassPermissions"`,
		`{"action":"set_mode","mode_id":"m1"}`:                                       `set_mode  "m1"`,
		`{"action":"set_config_option","config_id":"speed","value":"v1"}`:            `set_config_option speed "v1"`,
		`{"action":"set_config_option","config_id":"approve_all_auto","value":true}`: `set_config_option approve_all_auto true`,
	} {
		(<-answered(body, func(id string) {
			if len(f.asked) != 0 {
				t.Errorf("%s is set before it is approved", body)
			}
			if got := h.decide(id, `{"decision":"approve"}`); got.status != 200 {
				t.Fatal(got.status, got.body)
			}
		})).is(t, 204, "")
		if got := f.last(); got != "control "+s.ID+" "+say {
			t.Errorf("%s: %q", body, got)
		}
		got := <-answered(body, func(id string) { h.decide(id, `{"decision":"reject"}`) })
		if p := isProblem(t, got, 403); p["code"] != "control_rejected" || len(f.asked) != 0 {
			t.Error(p, f.asked)
		}
	}
	got := <-answered(`{"action":"set_mode","mode_id":"full"}`, func(id string) {
		if p := isProblem(t, h.decide(id, `{"decision":"approve"}`), 403); p["code"] != "not_approver" {
			t.Error(p)
		}
		h.decide(id, `{"decision":"reject"}`)
	})
	isProblem(t, got, 403)
	// who asked goes away: the question goes too
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", h.URL+"/api/threads/T/control", strings.NewReader(`{"action":"set_mode","mode_id":"bypassPermissions"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	left := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		left <- err
	}()
	id := h.asksSoon()
	leave()
	<-left
	for a := (store.Approval{Status: store.ApprovalPending}); a.Status != store.ApprovalCancelled; {
		if a, err = h.store.Approval(t.Context(), store.System(), id); err != nil || a.Status == store.ApprovalApproved {
			t.Fatal(a.Status, err)
		}
	}
	if len(f.asked) != 0 {
		t.Error(f.asked)
	}
	if got := h.do("GET", "/api/threads/T/messages", ""); strings.Contains(got.body, "set_mode") {
		t.Errorf("the transcript has a control: %s", got.body)
	}
}

// TestControlErrorsSayWhy: the agent's own words, within bounds.
func TestControlErrorsSayWhy(t *testing.T) {
	t.Parallel()
	h, f, _ := steered(t)
	f.err = fault.New(bridge.ControlFailed, "no such mode "+strings.Repeat("é", 1000))
	p := isProblem(t, h.do("POST", "/api/threads/T/control", `{"action":"close"}`), 502)
	if detail, _ := p["detail"].(string); !strings.HasPrefix(detail, "no such mode é") || len([]rune(detail)) != 501 {
		t.Errorf("%v", p)
	}
	for method, path := range map[string]string{"GET": "/api/proxies/p1/inventory", "POST": "/api/proxies/p1/control"} {
		if p := isProblem(t, h.do(method, path, `{"action":"stop"}`), 502); p["code"] != bridge.ControlFailed {
			t.Errorf("%v", p)
		}
	}
}

// TestNoGateway: a server that no proxy can connect to answers with an error.
func TestNoGateway(t *testing.T) {
	t.Parallel()
	h := newEnv(t, saysN(1))
	h.chat("T", "R", "hi")
	h.do("GET", "/api/proxies", "").is(t, 200, `{"proxies":[]}`)
	for path, body := range map[string]string{"control": `{"action":"stop"}`, "prune": `{}`} {
		if p := isProblem(t, h.do("POST", "/api/proxies/p1/"+path, body), 404); p["code"] != bridge.ControlUnknown {
			t.Errorf("%v", p)
		}
	}
	isProblem(t, h.do("GET", "/api/proxies/p1/inventory", ""), 404)
	isProblem(t, h.do("POST", "/api/threads/T/control", `{"action":"cancel"}`), 422)
	h.do("GET", "/api/threads/T/control", "").is(t, 200, `{}`)
}
