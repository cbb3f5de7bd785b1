package server_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"aqueduct/server/limit"
)

// shownOpen are the places where a client that connects now sees what is open in thread T.
var shownOpen = map[string]func(h *env) string{
	"inbox":             func(h *env) string { return h.do("GET", "/api/approvals?status=PENDING", "").body },
	"inbox of a thread": func(h *env) string { return h.do("GET", "/api/approvals?status=PENDING&thread_id=T", "").body },
	"thread":            func(h *env) string { return h.do("GET", "/api/threads/T", "").body },
	"chat, joined":      func(h *env) string { return ends(h, "/api/agui/connect", `{"threadId":"T","protocolVersion":"1.0"}`) },
	"chat, joined with 0.x": func(h *env) string {
		return ends(h, "/api/agui/connect", `{"threadId":"T","messages":[]}`)
	},
	"page, reloaded": func(h *env) string {
		return ends(h, "/api/agui/chat", `{"threadId":"T","toolCallMessage":null}`, "Cache-Control", "no-cache")
	},
	"permission socket": func(h *env) string { return h.permissions("/ws/permissions/T").pending() },
}

// ends is the last event of a stream: a Run's end lists what is open.
func ends(h *env, path, body string, header ...string) string {
	return last(h.open(h.request("POST", path, body, header...)).rest()).data
}

// pending is a page's status, sent before or after the question itself.
func (p *permissions) pending() string {
	p.t.Helper()
	p.send(`{"type":"get_agent_status","data":{}}`)
	for {
		raw, err := receive(p.conn)
		if err != nil {
			p.t.Fatal(err)
		}
		if strings.HasPrefix(string(raw), `{"type":"agent_status"`) {
			return string(raw)
		}
	}
}

// nextSettled is the next message about an approval or a denial.
func (p *permissions) nextSettled() (m permissionTold) {
	p.t.Helper()
	raw, err := receive(p.conn)
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if m.raw = string(raw); err != nil || m.Type != "agent_tool_execution_result" && m.Type != "agent_tool_permission_denied" {
		p.t.Fatalf("%v: %s", err, raw)
	}
	return m
}

// TestOpenEverywhereGoneEverywhere: an open question of the chat is visible on every surface, and every connected client
// receives it. Once it is settled, on any surface, every connected client receives that at the next bell, and no client that
// connects afterwards sees it open.
func TestOpenEverywhereGoneEverywhere(t *testing.T) {
	t.Parallel()
	for name, settle := range map[string]func(h *env, id string){
		"inbox":             func(h *env, id string) { h.decide(id, `{"decision":"approve"}`) },
		"batch":             func(h *env, id string) { inBatch(`{"decision":"reject"}`)(h, id) },
		"chat":              func(h *env, id string) { resumeWith(`{"approved":true}`)(h, id) },
		"page":              func(h *env, id string) { cardAnswer(`{"choice":"no"}`)(h, id) },
		"ingress":           func(h *env, id string) { onIngress(h, id)(`{"decision":"approve"}`) },
		"permission socket": func(h *env, id string) { onPage("/ws/permissions/T")(h, id)(`{"approved":false}`) },
		"link":              func(h *env, id string) { onLinkPage(h, id)(`{"option_id":"yes"}`) },
		"cancel": func(h *env, _ string) {
			h.do("POST", "/api/runs/R/cancel", "{}")
			h.idle("T") // the owner does it
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newEnvWith(t, asks, plan{limits: limit.Limits{Heartbeat: 300 * time.Millisecond}})
			page, channel := h.permissions("/ws/permissions/T"), h.channel("") // before there is such a thread
			tab := h.open(h.prompt("T", "R", "may I?"))
			asked := tab.rest()
			id := h.question()
			if !strings.Contains(last(asked).data, id) {
				t.Errorf("the chat ends with %s", last(asked).data)
			}
			if m := page.next("agent_tool_permission_request"); m.Data.ExecutionID != id {
				t.Errorf("the permission socket shows %s", m.raw)
			}
			if m := last(channel.until("approval_required")); m.ApprovalID != id {
				t.Errorf("the channel hears %s", m.raw)
			}
			if m := last(h.channel("").until("approval_required")); m.ApprovalID != id || !m.Again {
				t.Errorf("a new channel hears %s", m.raw)
			}
			for where, look := range shownOpen {
				if shown := look(h); !strings.Contains(shown, id) {
					t.Errorf("%s does not show it: %s", where, shown)
				}
			}
			watching := h.open(h.request("GET", "/api/threads/T/events", ""))
			settle(h, id)

			for where, look := range shownOpen {
				if shown := look(h); strings.Contains(shown, id) {
					t.Errorf("%s still shows it: %s", where, shown)
				}
			}
			if m := page.nextSettled(); m.Data.ExecutionID != id {
				t.Errorf("the permission socket hears %s", m.raw)
			}
			if m := last(channel.until("state RUNNING")); len(m.Detail.Settled) != 1 || m.Detail.Settled[0].ID != id {
				t.Errorf("the channel hears %s", m.raw)
			}
			if _, err := watching.until(func(f frame) bool { return f.typ() == "TOOL_CALL_RESULT" && f.field("toolCallId") == id }); err != nil {
				t.Errorf("who watches the chat: %v", err)
			}
			watching.close()
			// What is open is sent before what comes.
			h.idle("T")
			late := h.channel(`,"session_id":"T"`)
			late.invoke("r2", "T", "and now?")
			if m := last(late.until("approval_required")); m.ApprovalID == id || m.ApprovalID != h.question() {
				t.Errorf("a new channel hears %s", m.raw)
			}
		})
	}
}
