package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/store"
)

// withACPAgent is an env with an ACP agent that works on a prompt, a tool, and what the agent has in its environment.
func withACPAgent(t *testing.T) (w *toolEnv, env map[string]string) {
	t.Helper()
	h, a := newACPEnv(t, "rm")
	w = &toolEnv{env: h}
	tool := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		w.ran.Add(1)
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprint(rw, `{"cut":true}`)
	}))
	t.Cleanup(tool.Close)
	got := h.do("POST", "/v1/tools", fmt.Sprintf(`{"name":"cut","kind":"server_tool","endpoint":%q,"policy":%s,"schema":{"type":"object"}}`, tool.URL, lowRisk))
	if got.status != http.StatusOK {
		t.Fatal(got.status, got.body)
	}
	h.chat("T", "R", "go") // it asks, and waits
	return w, <-a.env
}

// TestSessionTokenIsItsAgents: an ACP agent calls tools with what its environment holds, under the Turn that is under way;
// no other Session and no other token will do.
func TestSessionTokenIsItsAgents(t *testing.T) {
	t.Parallel()
	w, env := withACPAgent(t)
	token, session := env["AQUEDUCT_TOKEN"], env["TUIXIU_RUN_ID"]
	if env["AQUEDUCT_BASE_URL"] == "" || !strings.Contains(token, session) {
		t.Fatalf("the agent got %v", env)
	}
	invoke := func(token, run string) map[string]any {
		return w.agentCall(token, "/v1/tools/cut:invoke", fmt.Sprintf(`{"run_id":%q,"args":{}}`, run))
	}
	got := invoke(token, session)
	if brief(got) != `succeeded {"cut":true}` || w.ran.Load() != 1 {
		t.Fatalf("%v", got)
	}
	run, err := w.store.LastRun(t.Context(), store.System(), session)
	if err != nil {
		t.Fatal(err)
	}
	call, err := w.store.ToolCall(t.Context(), store.System(), fmt.Sprint(got["tool_call_id"]))
	if err != nil || call.TurnID != run.TurnID || call.SessionID != session {
		t.Errorf("it is attributed to %+v %v", call, err)
	}
	if got := w.agentCall(token, "/v1/tool_calls/"+call.ID+":wait", "{}"); got["status"] != "succeeded" {
		t.Errorf("%v", got)
	}
	if got := invoke(token, run.TurnID); got["status"] != "succeeded" {
		t.Errorf("by the Turn's id: %v", got)
	}
	w.chat("T2", "R2", "hi")
	other, err := w.store.SessionByExternalID(t.Context(), scope(), "T2")
	if err != nil {
		t.Fatal(err)
	}
	if got := invoke(token, other.ID); got["code"] != "foreign_run" {
		t.Errorf("for another Session: %v", got)
	}
	for name, bad := range map[string]string{
		"another secret": token[:len(token)-4] + "AAAA", "another session": strings.Replace(token, session, other.ID, 1), "none": "run_session_" + session + "_", "bare": "run_session_",
	} {
		if got := invoke(bad, session); got["code"] != "unauthorized" {
			t.Errorf("%s: %v", name, got)
		}
	}
	row, err := w.store.SandboxInstance(t.Context(), store.System(), session)
	if err != nil || len(row.TokenHash) != 32 || strings.Contains(token, string(row.TokenHash)) {
		t.Errorf("%+v %v", row, err)
	}
}

// TestSessionTokenActsInNoTurnOfAnother: while a prompt of the thread is for another agent, the thread's own has no Turn.
func TestSessionTokenActsInNoTurnOfAnother(t *testing.T) {
	t.Parallel()
	w, env := withACPAgent(t)
	w.decide(w.question(), `{"decision":"reject"}`)
	gate := make(chan struct{})
	defer close(gate)
	w.agents.Add("other", &scripted{script: waits(gate)})
	for err := error(nil); err == nil; time.Sleep(time.Millisecond) { // until its own Turn is over
		if _, err = w.store.ActiveTurn(t.Context(), store.System(), env["TUIXIU_RUN_ID"]); err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
	}
	_, err := w.open(w.request("POST", "/api/agui/chat?agent=other", inputBody("T", "R2", "and you?"))).until(func(f frame) bool { return f.typ() == "TEXT_MESSAGE_CONTENT" })
	if err != nil {
		t.Fatal(err)
	}
	got := w.agentCall(env["AQUEDUCT_TOKEN"], "/v1/tools/cut:invoke", fmt.Sprintf(`{"run_id":%q,"args":{}}`, env["TUIXIU_RUN_ID"]))
	if got["code"] != "unauthorized" || w.ran.Load() != 0 {
		t.Errorf("it is let in: %v", got)
	}
}

// TestSessionTokenDecidesNothing: it opens nothing that people do, though this server requires no token of others.
func TestSessionTokenDecidesNothing(t *testing.T) {
	t.Parallel()
	w, env := withACPAgent(t)
	token, id := env["AQUEDUCT_TOKEN"], w.question()
	for path, body := range map[string]string{
		"/api/approvals/" + id + "/decision": `{"decision":"approve"}`, "/api/approvals/" + id + "/delegate": `{"to":"me"}`,
		"/api/approvals/decisions":          `{"decisions":[{"approval_id":"` + id + `","decision":"approve"}]}`,
		"/api/grants":                       `{"tool":"cut","match":{"*":true}}`,
		"/v1/tools":                         `{"name":"cut","kind":"client_tool"}`,
		"/api/tool_calls/" + id + "/result": `{"ok":true,"result":1}`,
		"/api/threads/T/control":            `{"action":"set_mode","mode_id":"yolo"}`,
		"/api/agui/chat":                    `{"threadId":"T","runId":"X","messages":[],"resume":[{"interruptId":"` + id + `","status":"resolved","payload":{"approved":true}}]}`,
	} {
		if got := w.agentCall(token, path, body); got["http"] != http.StatusUnauthorized && got["http"] != http.StatusForbidden {
			t.Errorf("%s answers %v", path, got)
		}
	}
	for _, path := range []string{"/ws/client", "/ws/permissions/T"} {
		conn, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(w.URL, "http")+path, http.Header{"Authorization": {"Bearer " + token}})
		if err == nil {
			_ = conn.Close()
			t.Errorf("%s is open", path)
		} else if resp == nil || resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %v", path, err)
		}
	}
	if code := w.hello("", token); code != "unauthorized" {
		t.Errorf("/ws/ingress: %q", code)
	}
	w.decide(id, `{"decision":"reject"}`) // it was open all the while
}
