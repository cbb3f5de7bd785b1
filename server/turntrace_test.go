package server_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"aqueduct/bridge/trace"
	"aqueduct/store"
)

// traceSchemas are the payloads that openapi.json promises, by type.
func traceSchemas(t *testing.T) map[string]payloadSchema {
	t.Helper()
	raw, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct {
			Schemas struct {
				TracePayloads struct{ Properties map[string]payloadSchema }
			}
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Components.Schemas.TracePayloads.Properties
}

type payloadSchema struct {
	Required   []string
	Properties map[string]struct {
		Type string
		Enum []string
	}
}

// fits returns how a payload differs from its documentation.
func (s payloadSchema) fits(payload json.RawMessage) (wrong []string) {
	var got map[string]json.RawMessage
	if err := json.Unmarshal(payload, &got); err != nil || len(got) == 0 {
		return []string{"it is " + string(payload)}
	}
	for _, name := range s.Required {
		if got[name] == nil {
			wrong = append(wrong, "without "+name)
		}
	}
	for name, value := range got {
		p, ok := s.Properties[name]
		var text string
		switch isText := json.Unmarshal(value, &text) == nil && string(value) != "null"; {
		case !ok:
			wrong = append(wrong, name+" is not documented")
		case p.Type == "string" && !isText, len(p.Enum) > 0 && !slices.Contains(p.Enum, text), p.Type == "integer" && strings.Trim(string(value), "0123456789") != "":
			wrong = append(wrong, name+" is "+string(value))
		}
	}
	return wrong
}

// everyKind drives one Turn of an ACP agent with a tool, the same again by its key, refused calls, a blocked one, an approved
// one, a client's, one that expires, one without a client, and the agent's own permission. It gives the Turn's id.
func everyKind(t *testing.T, p plan) (w *toolEnv, turnID string) {
	t.Helper()
	h, a := newACPEnvWith(t, "rm", p)
	w = &toolEnv{env: h}
	tool := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if c, ok := trace.Parse(r.Header.Get("traceparent"), ""); !ok || c.TraceID != strings.Repeat("ab", 16) || r.Header.Get("tracestate") != "v=1" {
			t.Errorf("the tool got %q %q", r.Header.Get("traceparent"), r.Header.Get("tracestate"))
		}
		w.ran.Add(1)
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprint(rw, `{"cut":true}`)
	}))
	t.Cleanup(tool.Close)
	for name, policy := range map[string]string{"cut": lowRisk, "burn": highRisk, "drop": `{"risk":"high","verdict":"block"}`, "slow": `{"risk":"high","verdict":"require_approval","ttl":"1s"}`} {
		got := h.do("POST", "/v1/tools", fmt.Sprintf(`{"name":%q,"kind":"server_tool","endpoint":%q,"policy":%s,"schema":{"type":"object","properties":{"n":{"type":"integer"}}}}`, name, tool.URL, policy))
		if got.status != http.StatusOK {
			t.Fatal(got.status, got.body)
		}
	}
	h.send(h.request("POST", "/api/agui/chat", `{"threadId":"T","runId":"R","protocolVersion":"1.0","messages":[{"id":"u1","role":"user","content":"go"}],
		"tools":[{"name":"move","description":"d","parameters":{"type":"object"}}]}`, "traceparent", "00-"+strings.Repeat("ab", 16)+"-00f067aa0ba902b7-01", "tracestate", "v=1"))
	permission, env := h.question(), <-a.env
	if span := <-a.spans; !strings.HasPrefix(span[0], "00-"+strings.Repeat("ab", 16)+"-") || strings.HasSuffix(span[0], "00f067aa0ba902b7-01") || span[1] != "v=1" {
		t.Errorf("the agent got %q", span)
	}
	run, err := h.store.LastRun(t.Context(), store.System(), env["TUIXIU_RUN_ID"])
	if err != nil {
		t.Fatal(err)
	}
	invoke := func(name, args, key string) map[string]any {
		t.Helper()
		return w.agentCall(env["AQUEDUCT_TOKEN"], "/v1/tools/"+name+":invoke", fmt.Sprintf(`{"run_id":%q,"args":%s,"idempotency_key":%q}`, run.TurnID, args, key))
	}
	ends := func(got map[string]any, want string) {
		t.Helper()
		for got["status"] == "pending" {
			got = w.agentCall(env["AQUEDUCT_TOKEN"], fmt.Sprintf("/v1/tool_calls/%v:wait?timeout_ms=20000", got["tool_call_id"]), "{}")
		}
		if said := brief(got); !strings.HasPrefix(said, want) {
			t.Errorf("the agent heard %v, want %s", got, want)
		}
	}
	for range 3 {
		ends(invoke("cut", `{"n":1}`, "k1"), "succeeded")
	}
	ends(invoke("none", `{}`, ""), "failed tool_unknown")
	ends(invoke("cut", `{"n":"x"}`, ""), "failed invalid_arguments")
	ends(invoke("drop", `{}`, ""), "failed blocked")
	ends(invoke("move", `{}`, ""), "failed client_offline")
	slow := invoke("slow", `{}`, "")
	ends(slow, "failed expired")
	burn := invoke("burn", `{"n":2}`, "")
	h.decide(fmt.Sprint(burn["tool_call_id"]), `{"decision":"approve"}`)
	ends(burn, "succeeded")
	tail := h.open(h.request("GET", "/api/threads/T/events", "", "Accept", "text/event-stream"))
	defer tail.close()
	if _, err := tail.next(); err != nil {
		t.Fatal(err)
	}
	move := invoke("move", `{"to":"b"}`, "")
	if got := h.do("POST", fmt.Sprintf("/api/tool_calls/%v/result", move["tool_call_id"]), `{"ok":true,"result":{"moved":1}}`); got.status != http.StatusOK {
		t.Fatal(got.status, got.body)
	}
	ends(move, "succeeded")
	h.decide(permission, `{"decision":"approve"}`)
	<-a.heard
	h.idle("T")
	return w, run.TurnID
}

// wantTrace is what is on record of everyKind, in order.
const wantTrace = `user_input
run_started
agent_invoke_started prompt
approval_created rm
tool_call_created cut
policy_decision cut allow
tool_dispatched cut
tool_result cut SUCCEEDED
tool_call_created none refused
tool_result none FAILED tool_unknown refused
tool_call_created cut refused
tool_result cut FAILED invalid_arguments refused
tool_call_created drop
policy_decision drop block
tool_result drop BLOCKED blocked
tool_call_created move
policy_decision move allow
tool_result move FAILED client_offline
tool_call_created slow
policy_decision slow require_approval
approval_created slow
approval_decision slow EXPIRED expiry
tool_result slow TIMEOUT expired
tool_call_created burn
policy_decision burn require_approval
approval_created burn
approval_decision burn APPROVED rest
tool_dispatched burn
tool_result burn SUCCEEDED
tool_call_created move
policy_decision move allow
tool_dispatched move
tool_result move SUCCEEDED
approval_decision rm APPROVED rest
agent_invoke_done done
run_done DONE`

// gistOf is entries of the platform, shortly.
func gistOf(t *testing.T, entries []traced) string {
	t.Helper()
	var lines []string
	for _, e := range entries {
		if e.Source != "platform" {
			continue
		}
		var p struct {
			ToolName string `json:"tool_name"`
			Tool     string
			Verdict  string
			Reason   string
			Status   string
			Via      string `json:"decided_via"`
			Error    struct{ Code string }
			Refused  bool
		}
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			t.Fatal(err)
		}
		line := e.Type + " " + cmp.Or(p.ToolName, p.Tool) + " " + cmp.Or(p.Verdict, p.Status) + " " + p.Error.Code
		if e.Type == trace.AgentInvokeStarted {
			line += p.Reason
		}
		if e.Type == trace.ApprovalDecision {
			line += p.Via
		}
		if p.Refused {
			line += " refused"
		}
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

// hearsOffline: a channel that comes back gets the error that no client was there for a tool, once, in the contract's form.
func (h *env) hearsOffline(turn string) {
	h.t.Helper()
	c, n, before := h.channel(`,"last_seq":{"T":0}`), 0, int64(0)
	for m := c.next(); m.Type != "done"; m = c.next() {
		if m.Seq <= before {
			h.t.Errorf("%s after %d", m.raw, before)
		}
		if before = m.Seq; m.Code != "client_offline" {
			continue
		}
		if n++; m.Type != "error" || m.RunID != turn || m.SessionID != "T" || m.ToolCallID == "" || m.ToolName != "move" {
			h.t.Error(m.raw)
		}
	}
	if n != 1 {
		h.t.Errorf("channelMessage %d times that no client was there", n)
	}
}

// newer keeps messages, and what is on record of them, of later Turns of the Session.
func (h *env) newer(session string, n int) {
	h.t.Helper()
	const atOnce = 1000
	for ; n > 0; n -= atOnce {
		err := h.store.InTx(h.t.Context(), func(tx store.Tx) error {
			for range min(n, atOnce) {
				id, now := uuid.Must(uuid.NewV7()).String(), time.Now()
				if err := tx.InsertMessage(h.t.Context(), store.Message{ID: id, SessionID: session, RunID: id, ExternalID: id, Role: "user", Data: []byte(`{"id":"x","role":"user","content":"later"}`), CreatedAt: now}); err != nil {
					return err
				}
				if err := tx.InsertRecord(h.t.Context(), trace.Record(trace.UserInput, session, id, now, trace.InputOf(id, "user", "later", []byte(`"later"`)))); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			h.t.Fatal(err)
		}
	}
}

// cost is the least time that a page takes.
func (h *env) cost(path string) time.Duration {
	h.t.Helper()
	least := time.Hour
	for range 20 {
		began := time.Now()
		h.tracePage(path)
		least = min(least, time.Since(began))
	}
	return least
}
