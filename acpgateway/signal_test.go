package acpgateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway/acp"
)

// acp is a thread's state under /acp.
func (h *house) acp(thread string) map[string]json.RawMessage {
	h.t.Helper()
	var state struct{ ACP map[string]json.RawMessage }
	h.must(json.Unmarshal(h.session(thread).State, &state))
	return state.ACP
}

// session_created names the session only while none is named; the end of a prompt says which
// one goes on.
func TestSessionIDIsSetWhenEmpty(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		if c.sent.SessionID != "" {
			t.Errorf("session_id %q", c.sent.SessionID)
		}
		other := "S2"
		created := `{"sessionUpdate":"session_created","content":{"type":"session_created"}}`
		c.update(created)
		p.say(&acp.ACPUpdate{RunID: c.run, PromptID: &c.prompt, SessionID: &other, Update: []byte(created)})
		h.settle()
		if row := h.instance("t1"); row.ACPSessionID != agentSession {
			t.Errorf("%+v", row)
		}
		end := c.result()
		end.SessionID, end.SessionCreated, end.SessionRecreatedFrom = "S3", true, &other
		p.say(end)
		c.s.rest()
		h.settle()
		if row := h.instance("t1"); row.ACPSessionID != "S3" {
			t.Errorf("%+v", row)
		}
		c = p.begin("t1", "again")
		if c.sent.SessionID != "S3" {
			t.Errorf("session_id %q", c.sent.SessionID)
		}
		c.ends()
		c.s.rest()
	})
}

// session_state and config_option_update are kept in the thread's state, and what follows from
// them: the current mode and model.
func TestSessionStateIsState(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.update(`{"content":{"type":"session_state","activity":"busy","inFlight":1,"currentModeId":"ask","currentModelId":"big"}}`)
		c.update(`{"sessionUpdate":"config_option_update","configOptions":[
			{"id":"mode","name":"Mode","type":"select","currentValue":"plan","options":[{"value":"plan","name":"Plan"}]},
			{"id":"model","name":"Model","type":"select","currentValue":"small","options":[{"value":"small","name":"Small"}]}]}`)
		c.ends()
		c.s.rest()
		h.settle()
		state := h.acp("t1")
		if string(state["modeId"]) != `"plan"` || string(state["modelId"]) != `"small"` || !strings.Contains(string(state["configOptions"]), "Small") {
			t.Errorf("%s", h.session("t1").State)
		}
	})
}

// transport_connected and transport_disconnected, sandbox_instance_status and init_result are
// kept in the thread's state; agent_notification, branch_created and text are told.
func TestProxySignals(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		for _, s := range []string{
			`{"type":"transport_connected","instance_name":"i","at":"now"}`,
			`{"type":"sandbox_instance_status","instance_name":"i","provider":"bwrap","runtime":null,"status":"running","last_seen_at":"now","last_error":null}`,
			`{"type":"init_result","ok":true}`,
			`{"type":"text","text":"[proxy:error] odd"}`,
			`{"type":"agent_notification","method":"_codex/x","params":{"a":1}}`,
			`{"type":"session_update","update":` + chunk("m", "in the old form") + `}`,
		} {
			p.say(signal(c.run, s))
		}
		p.say(&acp.BranchCreated{RunID: c.run, Branch: "feature"})
		c.ends()
		c.s.rest()
		h.settle()
		h.reads("t1", "RUN", "custom proxy.text", "custom proxy.agent_notification", "says: in the old form", "custom proxy.branch_created", "DONE success")
		state := h.acp("t1")
		if string(state["transport"]) != `{"connected":true}` || string(state["sandbox"]) != `{"status":"running","provider":"bwrap"}` || string(state["init"]) != `{"ok":true}` {
			t.Errorf("%s", h.session("t1").State)
		}
	})
}

// A workspace that could not be prepared is one RUN_ERROR that says why.
func TestInitFailed(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		s := h.post("t1", "hi")
		run := want[*acp.Open](p).RunID
		p.say(signal(run, `{"type":"init_step","stage":"clone","status":"failed","message":"no such repository"}`))
		p.say(signal(run, `{"type":"init_result","ok":false,"exitCode":128,"error":"git: exit 128"}`))
		p.say(&acp.Opened{RunID: run, Error: "Error: init failed"})
		events := s.rest()
		last := events[len(events)-1]
		for _, cause := range []string{"agent_init_failed", "no such repository", "git: exit 128"} {
			if !strings.Contains(last, cause) {
				t.Errorf("no %q in %s", cause, last)
			}
		}
		h.settle()
		if row := h.instance("t1"); !strings.Contains(string(row.Init), "128") {
			t.Errorf("%+v", row)
		}
	})
}

// Much state that nobody reads does not pile up: it is taken in, and acknowledged.
func TestStateThatNobodyReads(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.ends()
		c.s.rest()
		for i := range 1100 {
			p.say(update(c.run, "", fmt.Sprintf(`{"sessionUpdate":"usage_update","used":%d,"size":2000}`, i)))
		}
		h.pass(10 * time.Second)
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
		if state := h.acp("t1"); !strings.Contains(string(state["usage"]), "1099") {
			t.Errorf("%s", h.session("t1").State)
		}
	})
}

// What comes right after the end of a prompt is not lost: state is the next Run's.
func TestStateBehindTheEnd(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.ends()
		c.update(`{"sessionUpdate":"usage_update","used":7,"size":2000}`)
		c.s.rest()
		h.settle()
		c = p.begin("t1", "again")
		c.ends()
		c.s.rest()
		h.settle()
		if state := h.acp("t1"); !strings.Contains(string(state["usage"]), "7") {
			t.Errorf("%s", h.session("t1").State)
		}
		h.reads("t1", "RUN", "DONE success", "RUN", "DONE success")
	})
}
