package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// TestToolArgumentsAreThoseShown: whatever a decision claims to be about, what was shown is
// what runs (S16, S18).
func TestToolArgumentsAreThoseShown(t *testing.T) {
	t.Parallel()
	w, id := asking(t, `{"risk":"high"}`)
	shown := fields(t, w.do("GET", "/api/approvals/"+id, ""))
	call, err := w.store.ToolCall(t.Context(), store.System(), id)
	if err != nil || fmt.Sprint(shown["args"]) != "map[wood:oak]" || shown["args_sha256"] != call.ArgsSHA256 {
		t.Fatalf("%v %v", shown, err)
	}
	if got := w.decide(id, `{"decision":"approve","args":{"wood":"gold"},"args_sha256":"0000","tool_name":"rm","tool_call_id":"x"}`); got.status != http.StatusOK {
		t.Fatal(got.status, got.body)
	}
	if said := <-w.said; said != `succeeded {"cut":{"wood":"oak"}}` {
		t.Error(said)
	}
}

// TestToolForeignIDs: unknown ids and other users' ids are answered alike: not there, on
// every surface, and nothing of it changes (S11, S16).
func TestToolForeignIDs(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, highRisk, func(w *toolEnv, c bridge.Call) string {
		var said []string
		for _, id := range []string{foreignCall, "01890000-0000-7000-8000-00000000dead"} {
			said = append(said, fmt.Sprint(w.agentCall(c.RunToken, "/v1/tool_calls/"+id+":wait?timeout_ms=1", "{}")["http"]))
		}
		return strings.Join(append(said, waiting(w, c)), " ")
	})
	session := w.foreign()
	now := time.Now()
	err := w.store.InTx(t.Context(), func(tx store.Tx) error {
		if err := tx.InsertToolCall(t.Context(), store.ToolCall{
			ID: foreignCall, SessionID: session, TurnID: "01890000-0000-7000-8000-0000000000f1", Name: "cut", Kind: store.KindServer,
			Status: store.ToolWaitingApproval, Args: []byte(`{}`), ArgsSHA256: "x", CreatedAt: now, ExpiresAt: now.Add(time.Hour),
		}); err != nil {
			return err
		}
		options, _ := json.Marshal(approval.StandingOptions())
		return tx.InsertApproval(t.Context(), store.Approval{
			ID: foreignCall, SessionID: session, TurnID: "01890000-0000-7000-8000-0000000000f1", Kind: store.ApprovalPermission,
			Status: store.ApprovalPending, Tool: "cut", Options: options, CreatedAt: now, ExpiresAt: now.Add(time.Hour),
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	w.chat("T", "R", "go")
	for _, id := range []string{foreignCall, "01890000-0000-7000-8000-00000000dead"} {
		for name, got := range map[string]answer{
			"read": w.do("GET", "/api/approvals/"+id, ""), "decide": w.decide(id, `{"decision":"approve"}`),
			"delegate": w.do("POST", "/api/approvals/"+id+"/delegate", `{"to":"me"}`), "revoke": w.do("POST", "/api/approvals/"+id+"/revoke", `{}`),
			"result": w.do("POST", "/api/tool_calls/"+id+"/result", `{"ok":true,"result":1}`),
		} {
			if got.status != http.StatusNotFound || strings.Contains(got.body, "cut") {
				t.Errorf("%s of %s: HTTP %d %s", name, id, got.status, got.body)
			}
		}
		if got := inBatch(`{"decision":"approve"}`)(w.env, id); !strings.Contains(got.body, `"not_found"`) {
			t.Errorf("batch: %s", got.body)
		}
		if got := resumeWith(`{"approved":true}`)(w.env, id); got.status != 200 || !strings.Contains(got.body, "question_unknown") {
			t.Errorf("chat: HTTP %d %s", got.status, got.body)
		}
	}
	if a, err := w.store.Approval(t.Context(), store.System(), foreignCall); err != nil || a.Status != store.ApprovalPending {
		t.Errorf("the foreign question is %s %v", a.Status, err)
	}
	if list := w.do("GET", "/api/approvals", "").body; strings.Contains(list, foreignCall) {
		t.Errorf("it is listed: %s", list)
	}
	own := w.questions()
	w.decide(own[len(own)-1], `{"decision":"reject"}`)
	if said := <-w.said; said != "404 404 failed rejected" {
		t.Error(said)
	}
}

const foreignCall = "01890000-0000-7000-8000-0000000000fc"

// TestToolAgentCannotDecide: a run token opens nothing that people do, though no token is required of others (S21).
func TestToolAgentCannotDecide(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, highRisk, func(w *toolEnv, c bridge.Call) string {
		call := w.invoke(c, "cut", `{"wood":"oak"}`)
		id := fmt.Sprint(call["tool_call_id"])
		var said []string
		for path, body := range map[string]string{
			"/api/approvals/" + id + "/decision": `{"decision":"approve"}`, "/api/approvals/" + id + "/delegate": `{"to":"me"}`,
			"/api/approvals/decisions":          `{"decisions":[{"approval_id":"` + id + `","decision":"approve"}]}`,
			"/api/grants":                       `{"tool":"cut","match":{"*":true}}`,
			"/v1/tools":                         `{"name":"cut","kind":"client_tool"}`,
			"/api/tool_calls/" + id + "/result": `{"ok":true,"result":1}`,
			"/api/agui/chat":                    `{"threadId":"T","runId":"X","messages":[],"resume":[{"interruptId":"` + id + `","status":"resolved","payload":{"approved":true}}]}`,
		} {
			if got := w.agentCall(c.RunToken, path, body); got["http"] != http.StatusUnauthorized && got["http"] != http.StatusForbidden {
				said = append(said, fmt.Sprint(path, " ", got["http"], ";"))
			}
		}
		return strings.Join(append(said, brief(w.settled(c, call))), " ")
	})
	w.chat("T", "R", "go")
	w.decide(w.question(), `{"decision":"reject"}`)
	if said := <-w.said; said != "failed rejected" || w.ran.Load() != 0 {
		t.Error(said)
	}
}

// TestToolAgentIsNoChannel: nor does its run token open the channel, where without tokens any
// other key does (S21).
func TestToolAgentIsNoChannel(t *testing.T) {
	t.Parallel()
	w, id := asking(t, highRisk)
	if code := w.hello("", <-w.token); code != "unauthorized" {
		t.Errorf("%q", code)
	}
	if code := w.hello("", "any other"); code != "" {
		t.Errorf("%q", code)
	}
	w.decide(id, `{"decision":"reject"}`)
	<-w.said
}

// TestToolFourEyesInTheChat: the user who prompted cannot approve there either, and gets the reason (S21).
func TestToolFourEyesInTheChat(t *testing.T) {
	t.Parallel()
	w, id := asking(t, `{"risk":"high","verdict":"require_approval","four_eyes":true}`)
	for name, send := range map[string]func(*env, string) answer{
		"resume": resumeWith(`{"approved":true}`), "page": cardAnswer(`{"optionId":"allow_once"}`), "batch": inBatch(`{"decision":"approve"}`),
	} {
		why := "four_eyes"
		if name == "page" {
			why = "somebody else has to. The question is still open."
		}
		if got := send(w.env, id); got.status != 200 || !strings.Contains(got.body, why) {
			t.Errorf("%s: HTTP %d %s", name, got.status, got.body)
		}
		if a, err := w.store.Approval(t.Context(), store.System(), id); err != nil || a.Status != store.ApprovalPending {
			t.Fatalf("%s: %s %v", name, a.Status, err)
		}
	}
	w.decide(id, `{"decision":"reject"}`)
	if said := <-w.said; said != "failed rejected" || w.ran.Load() != 0 {
		t.Error(said)
	}
}

// TestToolRuleByRole: a rule knows the roles of who prompted, by its condition and in its
// expression.
func TestToolRuleByRole(t *testing.T) {
	t.Parallel()
	w := &toolEnv{said: make(chan string, 1)}
	w.env = newEnvWith(t, func(_ context.Context, _ func(...bridge.Output), c bridge.Call, _ []approval.Delivery) {
		w.said <- fmt.Sprint(brief(w.invoke(c, "cut", `{}`)), ", ", brief(w.invoke(c, "saw", `{}`)), ", ", w.invoke(c, "axe", `{}`)["status"])
	}, plan{rules: `
rules:
  - {name: by-role, tool: cut, role: admin, verdict: block}
  - {name: by-expression, tool: saw, when: '"approver" in roles', verdict: block}
  - {name: of-others, tool: axe, role: intern, verdict: block}
`})
	for _, name := range []string{"cut", "saw", "axe"} {
		w.register(`{"name":"` + name + `","kind":"client_tool","policy":{"risk":"high"}}`)
	}
	w.chat("T", "R", "go") // as the operator of the server, an admin and approver
	if said := <-w.said; said != "failed blocked, failed blocked, pending" {
		t.Error(said)
	}
}

// TestS20GrantCreep: a grant for a command or a folder covers that, and nothing that only
// begins alike (S20).
func TestS20GrantCreep(t *testing.T) {
	t.Parallel()
	calls := []struct{ args, want string }{
		{`{"wood":"git status"}`, "succeeded"},
		{`{"wood":"git status; rm -rf /"}`, "pending"}, {`{"wood":"git status && rm x"}`, "pending"}, {`{"wood":"git status | sh"}`, "pending"},
		{`{"wood":"git status\nrm x"}`, "pending"}, {`{"wood":"git status $(rm x)"}`, "pending"}, {"{\"wood\":\"git status `rm x`\"}", "pending"},
		{`{"wood":"git status --porcelain"}`, "pending"}, {`{"wood":"git  status","also":"rm"}`, "pending"}, {`{"wood":"gitstatus"}`, "pending"},
		{`{"path":"/w/a","wood":"x"}`, "succeeded"}, {`{"path":"/w","wood":"x"}`, "succeeded"},
		{`{"path":"/w2/a","wood":"x"}`, "pending"}, {`{"path":"/w/../etc/passwd","wood":"x"}`, "pending"}, {`{"path":"/w/a/..","wood":"x"}`, "pending"},
		{`{"path":"w/a","wood":"x"}`, "pending"}, {`{"path":"/w/%2e%2e/etc","wood":"x"}`, "pending"}, {`{"path":"/w\\..\\etc","wood":"x"}`, "pending"},
		{`{"path":["/w/a"],"wood":"x"}`, "pending"}, {`{"path":"/W/a","wood":"x"}`, "pending"},
	}
	w := newToolEnv(t, highRisk, func(w *toolEnv, c bridge.Call) string {
		var wrong []string
		for _, call := range calls {
			if got := w.invoke(c, "cut", call.args); got["status"] != call.want {
				wrong = append(wrong, fmt.Sprint(call.args, ": ", got["status"]))
			}
		}
		return strings.Join(wrong, "\n")
	})
	for _, grant := range []string{
		`{"tool":"cut","match":{"wood":{"argv":["git","status"]}}}`, `{"tool":"cut","match":{"path":{"prefix_path":"/w"},"wood":"x"}}`,
	} {
		if got := w.do("POST", "/api/grants", grant); got.status != http.StatusOK {
			t.Fatal(got.status, got.body)
		}
	}
	w.chat("T", "R", "go")
	if wrong := <-w.said; wrong != "" {
		t.Error(wrong)
	}
	if n := w.ran.Load(); n != 3 {
		t.Errorf("%d ran", n)
	}
}
