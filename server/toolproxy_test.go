package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/server/channel"
	"aqueduct/server/limit"
	"aqueduct/store"
)

// toolEnv is an env whose agent has a tool run, and the tool it calls.
type toolEnv struct {
	*env
	ran   atomic.Int32
	said  chan string // what the agent made of it
	token chan string
}

// newToolEnv registers a tool "cut" with a policy of its own.
func newToolEnv(t *testing.T, policy string, uses func(w *toolEnv, call bridge.Call) string) *toolEnv {
	t.Helper()
	return newToolEnvWith(t, plan{}, policy, uses)
}

func newToolEnvWith(t *testing.T, p plan, policy string, uses func(w *toolEnv, call bridge.Call) string) *toolEnv {
	t.Helper()
	p.rules, p.hooks = "tools: {nothing: low}", channel.Webhooks{{ID: "im", Tenant: "local", Secret: hookSecret, Callback: "http://127.0.0.1:1/"}}
	w := &toolEnv{said: make(chan string, 8), token: make(chan string, 8)}
	w.env = newEnvWith(t, func(_ context.Context, say func(...bridge.Output), call bridge.Call, _ []approval.Delivery) {
		w.token <- call.RunToken
		said := uses(w, call)
		w.said <- said
		say(event(&agui.TextMessageStart{MessageID: "m-" + call.TurnID, Role: agui.RoleAssistant}),
			event(&agui.TextMessageContent{MessageID: "m-" + call.TurnID, Delta: said}), event(&agui.TextMessageEnd{MessageID: "m-" + call.TurnID}))
	}, p)
	tool := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.ran.Add(1)
		var body struct{ Args json.RawMessage }
		if json.NewDecoder(r.Body).Decode(&body) != nil || strings.Contains(string(body.Args), "knot") {
			http.Error(rw, "no", http.StatusTeapot)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"cut":%s}`, body.Args)
	}))
	t.Cleanup(tool.Close)
	got := w.do("POST", "/v1/tools", fmt.Sprintf(`{"name":"cut","kind":"server_tool","endpoint":%q,"policy":%s,
		"schema":{"type":"object","required":["wood"],"properties":{"wood":{"type":"string"}}}}`, tool.URL, policy))
	if got.status != http.StatusOK {
		t.Fatal(got.status, got.body)
	}
	return w
}

// invoke calls a tool as the agent does.
func (w *toolEnv) invoke(call bridge.Call, name, args string) map[string]any {
	return w.agentCall(call.RunToken, "/v1/tools/"+name+":invoke", fmt.Sprintf(`{"run_id":%q,"args":%s}`, call.TurnID, args))
}

func (w *toolEnv) agentCall(token, path, body string) map[string]any {
	req, err := http.NewRequest(http.MethodPost, w.URL+path, strings.NewReader(body))
	if err != nil {
		return map[string]any{"err": err.Error()}
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return map[string]any{"err": err.Error()}
	}
	defer resp.Body.Close()
	out := map[string]any{"http": resp.StatusCode}
	_ = json.NewDecoder(resp.Body).Decode(&out)
	return out
}

// settled waits for a pending call.
func (w *toolEnv) settled(call bridge.Call, got map[string]any) map[string]any {
	for got["status"] == "pending" {
		got = w.agentCall(call.RunToken, fmt.Sprintf("/v1/tool_calls/%v:wait?timeout_ms=20000", got["tool_call_id"]), "{}")
	}
	return got
}

func brief(got map[string]any) string {
	if e, ok := got["error"].(map[string]any); ok {
		return fmt.Sprint(got["status"], " ", e["code"])
	}
	raw, _ := json.Marshal(got["result"])
	return fmt.Sprint(got["status"], " ", string(raw))
}

const lowRisk, highRisk = `{"risk":"low"}`, `{"risk":"high","verdict":"require_approval","may_edit":true}`

// TestToolProxyInvokeAllowed: status succeeded with the result, at once.
func TestToolProxyInvokeAllowed(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, lowRisk, func(w *toolEnv, c bridge.Call) string {
		return brief(w.invoke(c, "cut", `{"wood":"oak"}`)) + ", " + brief(w.invoke(c, "cut", `{"wood":"knot"}`)) + ", " +
			brief(w.invoke(c, "cut", `{}`)) + ", " + brief(w.invoke(c, "saw", `{}`))
	})
	w.chat("T", "R", "go")
	want := `succeeded {"cut":{"wood":"oak"}}, failed tool_status, failed invalid_arguments, failed tool_unknown`
	if got := <-w.said; got != want || w.ran.Load() != 2 {
		t.Errorf("%s\n%s (%d runs)", got, want, w.ran.Load())
	}
}

// TestToolProxyIdempotencyKey: the same key is the same call; other arguments are a conflict.
func TestToolProxyIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, lowRisk, func(w *toolEnv, c bridge.Call) string {
		var said []string
		for _, wood := range []string{"oak", "oak", "elm"} {
			said = append(said, brief(w.agentCall(c.RunToken, "/v1/tools/cut:invoke",
				fmt.Sprintf(`{"run_id":%q,"args":{"wood":%q},"idempotency_key":"k"}`, c.TurnID, wood))))
		}
		return strings.Join(said, ", ")
	})
	w.chat("T", "R", "go")
	want := `succeeded {"cut":{"wood":"oak"}}, succeeded {"cut":{"wood":"oak"}}, failed idempotency_key_conflict`
	if got := <-w.said; got != want || w.ran.Load() != 1 {
		t.Errorf("%s (%d runs)", got, w.ran.Load())
	}
}

// TestToolProxyEncodedColon: the verb is one however its colon is spelled.
func TestToolProxyEncodedColon(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, lowRisk, func(w *toolEnv, c bridge.Call) string {
		call := w.agentCall(c.RunToken, "/v1/tools/cut%3Ainvoke", fmt.Sprintf(`{"run_id":%q,"args":{"wood":"oak"}}`, c.TurnID))
		return brief(w.agentCall(c.RunToken, fmt.Sprintf("/v1/tool_calls/%v%%3await", call["tool_call_id"]), ""))
	})
	w.chat("T", "R", "go")
	if said := <-w.said; said != `succeeded {"cut":{"wood":"oak"}}` {
		t.Error(said)
	}
}

// TestToolProxySlowTool: a tool that runs for longer than an answer may take is answered all the same.
func TestToolProxySlowTool(t *testing.T) {
	t.Parallel()
	w := &toolEnv{said: make(chan string, 1)}
	w.env = newEnvWith(t, func(_ context.Context, _ func(...bridge.Output), c bridge.Call, _ []approval.Delivery) {
		w.said <- brief(w.invoke(c, "cut", `{}`))
	}, plan{limits: limit.Limits{AnswerTime: time.Second}})
	tool := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		<-time.After(1500 * time.Millisecond)
		fmt.Fprint(rw, "cut")
	}))
	t.Cleanup(tool.Close)
	w.register(fmt.Sprintf(`{"name":"cut","kind":"server_tool","endpoint":%q,"policy":{"risk":"low"}}`, tool.URL))
	w.chat("T", "R", "go")
	if said := <-w.said; said != `succeeded "cut"` {
		t.Error(said)
	}
}

// TestToolProxyWaitWithoutBody: the contract's wait has none.
func TestToolProxyWaitWithoutBody(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, lowRisk, func(w *toolEnv, c bridge.Call) string {
		call := w.invoke(c, "cut", `{"wood":"oak"}`)
		return brief(w.agentCall(c.RunToken, fmt.Sprintf("/v1/tool_calls/%v:wait?timeout_ms=1000", call["tool_call_id"]), ""))
	})
	w.chat("T", "R", "go")
	if got := <-w.said; got != `succeeded {"cut":{"wood":"oak"}}` {
		t.Error(got)
	}
	for path, token := range map[string]string{"/v1/tool_calls/x:wait": "", "/v1/tool_calls/y:wait": goodToken, "/v1/tools/cut:invoke": <-w.token} {
		if got := w.do("POST", path, "", "Authorization", "Bearer "+token); got.status != http.StatusUnsupportedMediaType {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

// TestToolProxyOneKeyAtOnce: of calls that come together with one key one runs, and all are it.
func TestToolProxyOneKeyAtOnce(t *testing.T) {
	t.Parallel()
	const n = 12
	w := newToolEnv(t, lowRisk, func(w *toolEnv, c bridge.Call) string {
		var all sync.WaitGroup
		ids := make([]string, n)
		for i := range ids {
			all.Go(func() {
				got := w.agentCall(c.RunToken, "/v1/tools/cut:invoke", fmt.Sprintf(`{"run_id":%q,"args":{"wood":"oak"},"idempotency_key":"k"}`, c.TurnID))
				ids[i], _ = got["tool_call_id"].(string)
			})
		}
		all.Wait()
		slices.Sort(ids)
		return strings.Join(slices.Compact(ids), " ")
	})
	w.chat("T", "R", "go")
	if got := <-w.said; len(got) != len(uuid.Nil.String()) || w.ran.Load() != 1 {
		t.Errorf("%s (%d runs)", got, w.ran.Load())
	}
}

// TestToolProxyListed: an agent gets the list of tools, without their addresses.
func TestToolProxyListed(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, lowRisk, func(w *toolEnv, c bridge.Call) string {
		req := w.request("GET", "/v1/tools", "")
		req.Header.Set("Authorization", "Bearer "+c.RunToken)
		return w.send(req).body
	})
	w.chat("T", "R", "go")
	got := <-w.said
	if !strings.Contains(got, `"name":"cut"`) || !strings.Contains(got, `"required":["wood"]`) || strings.Contains(got, "http") || strings.Contains(got, "risk") {
		t.Error(got)
	}
	none := w.request("GET", "/v1/tools", "")
	none.Header.Set("Authorization", "Bearer run_01890000-0000-7000-8000-000000000000_guess")
	if got := w.send(none); got.status != http.StatusUnauthorized {
		t.Error(got.status, got.body)
	}
	// A user's token is good, so "a token is needed" alone would send its owner the wrong way.
	if got := w.do("POST", "/v1/tools/cut:invoke", `{}`); got.status != http.StatusUnauthorized || !strings.Contains(got.body, "run token") {
		t.Error(got.status, got.body)
	}
}

// TestToolProxyTrace: tool_call_created, policy_decision, tool_dispatched, tool_result.
func TestToolProxyTrace(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, lowRisk, func(w *toolEnv, c bridge.Call) string {
		w.invoke(c, "cut", `{"wood":"oak"}`)
		w.invoke(c, "cut", `{"wood":"knot"}`)
		return c.TurnID
	})
	w.chat("T", "R", "go")
	var trace struct {
		Events []struct {
			Type    string
			Payload struct{ Verdict, Status string }
		}
	}
	body := w.do("GET", "/v1/runs/"+<-w.said+"/events?limit=1000", "").body
	if err := json.Unmarshal([]byte(body), &trace); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range trace.Events {
		if strings.HasPrefix(e.Type, "tool_") || e.Type == "policy_decision" {
			got = append(got, strings.TrimSpace(e.Type+" "+e.Payload.Verdict+e.Payload.Status))
		}
	}
	want := "tool_call_created, policy_decision allow, tool_dispatched, tool_result SUCCEEDED, " +
		"tool_call_created, policy_decision allow, tool_dispatched, tool_result FAILED"
	if strings.Join(got, ", ") != want {
		t.Errorf("%q\n%s", got, body)
	}
}

// TestToolProxyRunToken: another Turn's id, another Turn's token, none, and one whose Turn is
// over.
func TestToolProxyRunToken(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, lowRisk, func(w *toolEnv, c bridge.Call) string {
		other := c
		other.TurnID = "01890000-0000-7000-8000-000000000000"
		none := c
		none.RunToken = "run_" + c.TurnID + "_guess"
		return fmt.Sprint(w.invoke(other, "cut", `{"wood":"a"}`)["code"], " ", w.invoke(none, "cut", `{"wood":"a"}`)["code"])
	})
	w.chat("T", "R", "go")
	if got := <-w.said; got != "foreign_run unauthorized" {
		t.Error(got)
	}
	token := <-w.token
	w.idle("T")
	if got := w.agentCall(token, "/v1/tools/cut:invoke", `{"run_id":"x","args":{}}`); got["code"] != "unauthorized" {
		t.Errorf("after the end: %v", got)
	}
	if w.ran.Load() != 0 {
		t.Error("it ran")
	}
}

// TestToolProxyApproval: pending, asked in the chat as request_permission under the call's
// id, and run once it is approved; or not at all.
func TestToolProxyApproval(t *testing.T) {
	t.Parallel()
	for decision, want := range map[string]string{
		`{"decision":"approve"}`: `succeeded {"cut":{"wood":"oak"}}`,
		`{"decision":"reject"}`:  "failed rejected",
		`{"decision":"cancel"}`:  "failed cancelled",
	} {
		t.Run(decision, func(t *testing.T) {
			t.Parallel()
			w := newToolEnv(t, highRisk, func(w *toolEnv, c bridge.Call) string {
				return brief(w.settled(c, w.invoke(c, "cut", `{"wood":"oak"}`)))
			})
			first := w.chat("T", "R", "go")
			id := w.question()
			if all := joined(first); !strings.Contains(all, `"toolCallName":"request_permission"`) || !strings.Contains(all, id) ||
				!strings.Contains(all, `"outcome":{"type":"interrupt"`) {
				t.Fatalf("%s", all)
			}
			if got := w.decide(id, decision); got.status != http.StatusOK {
				t.Fatal(got.status, got.body)
			}
			if got := <-w.said; got != want {
				t.Errorf("the agent heard %s", got)
			}
			if ran := w.ran.Load(); (ran == 1) != (decision == `{"decision":"approve"}`) {
				t.Errorf("it ran %d times", ran)
			}
			w.idle("T")
			call, err := w.store.ToolCall(t.Context(), store.System(), id)
			if err != nil || !call.Status.Terminal() {
				t.Errorf("%+v %v", call, err)
			}
		})
	}
}

// TestToolProxyAlways: an always is a Grant: the same call is not asked again in this thread,
// another is.
func TestToolProxyAlways(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, highRisk, func(w *toolEnv, c bridge.Call) string {
		first := w.settled(c, w.invoke(c, "cut", `{"wood":"oak"}`))
		again := w.invoke(c, "cut", `{"wood":"oak"}`)
		other := w.invoke(c, "cut", `{"wood":"elm"}`)
		return brief(first) + ", " + brief(again) + ", " + fmt.Sprint(other["status"])
	})
	w.chat("T", "R", "go")
	w.decide(w.question(), `{"option_id":"allow_always"}`)
	if got := <-w.said; got != `succeeded {"cut":{"wood":"oak"}}, succeeded {"cut":{"wood":"oak"}}, pending` {
		t.Error(got)
	}
}

// TestToolProxyBlocked: no person is asked, nothing runs, and the reason is in the answer.
func TestToolProxyBlocked(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, `{"verdict":"block","reason":"Not on Sundays."}`, func(w *toolEnv, c bridge.Call) string {
		got := w.invoke(c, "cut", `{"wood":"oak"}`)
		return brief(got) + ": " + fmt.Sprint(got["error"].(map[string]any)["message"])
	})
	w.chat("T", "R", "go")
	if got := <-w.said; got != "failed blocked: Not on Sundays." || w.ran.Load() != 0 {
		t.Error(got)
	}
}

// TestToolProxyClientTool: a tool the client declared is dispatched as a frontend tool call,
// and its result is the agent's.
func TestToolProxyClientTool(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, lowRisk, func(w *toolEnv, c bridge.Call) string {
		return brief(w.settled(c, w.invoke(c, "pick", `{"from":2}`)))
	})
	body := strings.Replace(inputBody("T", "R", "go"), `"tools":[]`, `"tools":[{"name":"pick","description":"","parameters":{"type":"object"}}]`, 1)
	frames := w.open(w.request("POST", "/api/agui/chat", body))
	said, err := frames.until(func(f frame) bool { return f.typ() == "RUN_FINISHED" })
	if err != nil {
		t.Fatal(err)
	}
	frames.close()
	var id string
	for _, f := range said {
		if f.typ() == "TOOL_CALL_START" && f.field("toolCallName") == "pick" {
			id = f.field("toolCallId")
		}
	}
	if id == "" {
		t.Fatalf("%s", joined(said))
	}
	if got := w.do("POST", "/api/tool_calls/"+id+"/result", `{"ok":true,"result":{"picked":7}}`); got.status != http.StatusOK {
		t.Fatal(got.status, got.body)
	}
	if got := <-w.said; got != `succeeded {"picked":7}` {
		t.Error(got)
	}
}

// idle waits until the thread's Turn is over.
func (h *env) idle(thread string) {
	h.t.Helper()
	for range 400 {
		s, err := h.store.SessionByExternalID(h.t.Context(), store.System(), thread)
		if err == nil {
			if _, err = h.store.ActiveTurn(h.t.Context(), store.System(), s.ID); errors.Is(err, store.ErrNotFound) {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	h.t.Fatal("the turn does not end")
}

// joined is all that was sent.
func joined(frames []frame) string {
	var b strings.Builder
	for _, f := range frames {
		b.WriteString(f.data + "\n")
	}
	return b.String()
}

// TestToolProxyAgentEndsWithoutWaiting: a call that is not awaited any more is cancelled, and the
// Turn is done; one that was approved before has run, and the Turn is done as well.
func TestToolProxyAgentEndsWithoutWaiting(t *testing.T) {
	t.Parallel()
	w := newToolEnv(t, highRisk, func(w *toolEnv, c bridge.Call) string {
		return fmt.Sprint(w.invoke(c, "cut", `{"wood":"oak"}`)["status"])
	})
	frames := w.chat("T", "R", "go")
	if last := frames[len(frames)-1]; last.typ() != "RUN_FINISHED" || strings.Contains(joined(frames), "RUN_ERROR") {
		t.Fatalf("%s", joined(frames))
	}
	w.idle("T")
	rows, err := w.store.Approvals(t.Context(), store.System(), store.ApprovalFilter{}, store.Page{})
	if err != nil || len(rows) != 1 || rows[0].Status != store.ApprovalCancelled || w.ran.Load() != 0 {
		t.Errorf("%+v %v, %d runs", rows, err, w.ran.Load())
	}
	after := newToolEnv(t, highRisk, func(w *toolEnv, c bridge.Call) string {
		got := w.invoke(c, "cut", `{"wood":"oak"}`)
		if said := w.decide(fmt.Sprint(got["tool_call_id"]), `{"decision":"approve"}`); said.status != http.StatusOK {
			return said.body
		}
		return brief(w.settled(c, got))
	})
	frames = after.chat("T", "R", "go")
	if said := <-after.said; said != `succeeded {"cut":{"wood":"oak"}}` {
		t.Error(said)
	}
	after.idle("T")
	if all := after.do("GET", "/api/runs/R", "").body; strings.Contains(all, "FAILED") {
		t.Errorf("%s\n%s", all, joined(frames))
	}
}
