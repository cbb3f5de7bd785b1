package acpgateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/bridge"
	"aqueduct/bridge/livefeed"
	"aqueduct/store"
)

// TestWorkspacesKnownByRunID: a proxy that names no instance of a workspace has it known by its run, and one that does not
// know whether it is there does not have it gone.
func TestWorkspacesKnownByRunID(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := oldProxy(h, "p1").link()
		a, b := p.begin("a", "hi"), p.begin("b", "hi")
		a.ends()
		b.ends()
		h.settle()
		p.raw(`{"type":"workspace_inventory","inventory_id":"i","captured_at":"2000-01-01T00:00:00Z","workspace_provider":"host","workspaces":[
			{"workspace_provider":"host","run_id":"` + a.run + `","instance_name":null,"host_path":"/w/run-` + a.run + `","guest_path":null,"exists":true,"mtime":"2000-01-01T00:00:05Z","size_bytes":null},
			{"workspace_provider":"guest","run_id":"` + b.run + `","instance_name":"tuixiu-run-` + b.run + `","host_path":null,"guest_path":"/workspace/run-` + b.run + `","exists":null,"mtime":null,"size_bytes":null},
			{"workspace_provider":"host","run_id":"nobody","instance_name":null,"host_path":"/w/run-nobody","guest_path":null,"exists":false,"mtime":null,"size_bytes":null}]}`)
		h.settle()
		inv, err := h.gateway.Controller().Inventory(h.t.Context(), "p1")
		h.must(err)
		if len(inv.Workspaces) != 3 {
			t.Fatalf("%+v", inv.Workspaces)
		}
		for i, want := range []bridge.InventoryItem{
			{InstanceName: "tuixiu-run-" + a.run, SessionID: a.run, Path: "/w/run-" + a.run},
			{InstanceName: "tuixiu-run-" + b.run, SessionID: b.run, Path: "/workspace/run-" + b.run},
			{Path: "/w/run-nobody", Unknown: true, Gone: true},
		} {
			got := inv.Workspaces[i]
			got.ModifiedAt = time.Time{}
			if got != want {
				t.Errorf("workspace %d: %+v, want %+v", i, got, want)
			}
		}
		for range 2 { // it is known after a restart too, before the proxy lists it again
			if _, folder, err := h.gateway.Controller().Place(h.t.Context(), a.run); err != nil || folder != "/w/run-"+a.run {
				t.Errorf("a works at %q %v", folder, err)
			}
			if _, folder, err := h.gateway.Controller().Place(h.t.Context(), b.run); err != nil || strings.Contains(folder, a.run) {
				t.Errorf("b works at %q %v", folder, err)
			}
			p.restart()
			p.link()
		}
	})
}

// TestReadyAsksTheProxyFirst: what cannot be set now is known before the agent is asked, and so before a person is.
func TestReadyAsksTheProxyFirst(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		mode := func(id string) bridge.Control {
			return bridge.Control{Action: bridge.ControlSetMode, Value: json.RawMessage(`"` + id + `"`)}
		}
		ready := func(session, id string) string {
			return code(t, h.gateway.Controller().Ready(h.t.Context(), session, mode(id)))
		}
		c.update(`{"sessionUpdate":"session_created","content":{"type":"session_created"},"modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask"},{"id":"yolo","name":"YOLO"}]}}`)
		c.ends()
		h.settle()
		for _, want := range []struct{ session, mode, code string }{
			{c.run, "yolo", ""}, {c.run, "bypass", bridge.ControlNotOffered}, {"nobody", "yolo", bridge.ControlNoAgent},
		} {
			if got := ready(want.session, want.mode); got != want.code {
				t.Errorf("%s of %.6s: %q, want %q", want.mode, want.session, got, want.code)
			}
		}
		p.cut()
		h.settle()
		if got := ready(c.run, "yolo"); got != bridge.ControlOffline {
			t.Errorf("without a link: %q", got)
		}
	})
}

// TestStderrIsShownAtOnce: each line of an agent's stderr reaches pages that watch as it comes, masked as its record is, and
// once; a page that comes between two lines gets the record whole.
func TestStderrIsShownAtOnce(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		watch := h.hub.Subscribe(livefeed.Wanted{In: store.As(h.who)})
		defer watch.Close()
		next := func(within time.Duration) string {
			ctx, cancel := context.WithTimeout(h.t.Context(), within)
			defer cancel()
			var text strings.Builder
			for {
				frames, err := watch.Next(ctx)
				for _, raw := range frames {
					var f struct {
						Type  string
						RunID string `json:"run_id"`
						Event livefeed.Event
					}
					var payload struct{ Type, Text string }
					if json.Unmarshal(raw, &f) == nil && f.Type == "event_added" && json.Unmarshal(f.Event.Payload, &payload) == nil && strings.HasPrefix(payload.Text, "[agent:stderr]") {
						if f.RunID == "" || f.Event.ID == "" || f.Event.Type != "acp.update.received" || payload.Type != "text" {
							t.Errorf("%s", raw)
						}
						text.WriteString(payload.Text)
					}
				}
				if err != nil || text.Len() > 0 {
					return text.String()
				}
			}
		}
		line := func(text string) { p.send(signal(c.run, `{"type":"text","text":"[agent:stderr] `+text+`"}`)) }
		for _, text := range []string{"one", "two"} {
			began := time.Now()
			line(text)
			if got := next(time.Second); got != "[agent:stderr] "+text+"\n" {
				t.Errorf("%q after %s", got, time.Since(began))
			}
		}
		if again := next(10 * time.Second); again != "" {
			t.Errorf("shown once more: %q", again)
		}
		h.recorded(c.prompt, `proxy acp.update.received {"text":"[agent:stderr] one\ntwo\n","type":"text"}`)
		watch.Close()
		line("three")
		h.pass(time.Second)
		watch = h.hub.Subscribe(livefeed.Wanted{In: store.As(h.who)})
		line("four")
		if got := next(time.Second); got != "[agent:stderr] four\n" {
			t.Errorf("%q", got)
		}
		if got := next(10 * time.Second); got != "[agent:stderr] three\nfour\n" {
			t.Errorf("%q", got)
		}
	})
}

// TestLinkEndsWithItsToken: a link does not outlive its token, whose end is on record.
func TestLinkEndsWithItsToken(t *testing.T) {
	inEnv(t, plan{revoke: true}, func(h *acpEnv) {
		p := oldProxy(h, "p1").link()
		h.settle()
		row, err := h.store.Proxy(h.t.Context(), store.System(), "p1")
		h.must(err)
		if left := time.Until(row.TokenEnds); left < 23*time.Hour || left > 24*time.Hour {
			t.Errorf("the token ends in %s", left)
		}
		select {
		case err := <-p.bye:
			t.Errorf("the link has ended: %v", err)
		case <-time.After(23 * time.Hour):
		}
		began := time.Now()
		if code := closeCode(<-p.bye); code != websocket.ClosePolicyViolation || time.Since(began) > time.Hour {
			t.Errorf("closed with %d after %s", code, time.Since(began))
		}
	})
}

// TestContractsFramesAsWritten: a conversation in the contract's own frames, §4 word by word and with no member more: each is
// taken, and does what the contract describes.
func TestContractsFramesAsWritten(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		conn := h.dial(h.token("p1", "dev"))
		send := func(frame string) {
			h.t.Helper()
			h.must(conn.WriteMessage(websocket.TextMessage, []byte(frame)))
		}
		next := func(kind string) map[string]any {
			h.t.Helper()
			for {
				_, raw, err := conn.ReadMessage()
				if err != nil {
					h.t.Fatal(err)
				}
				var f map[string]any
				h.must(json.Unmarshal(raw, &f))
				if f["type"] == kind {
					return f
				}
				if f["type"] == "ack" {
					t.Errorf("a proxy that counts nothing gets %s", raw)
				}
			}
		}
		send(`{"type":"register_agent","agent":{"id":"p1","capabilities":{}}}`) // §4.1
		if ack := next("register_ack"); ack["success"] != true {
			t.Errorf("%v", ack)
		}
		send(`{"type":"heartbeat","agent_id":"p1"}`)
		send(`{"type":"heartbeat","agent_id":"p1","timestamp":"2026-02-03T00:00:00Z"}`)
		watch := h.hub.Subscribe(livefeed.Wanted{In: store.As(h.who)})
		defer watch.Close()
		s := h.post("t1", "hi")
		open := next("acp_open") // §3.1
		run := open["run_id"].(string)
		if init, ok := open["init"].(map[string]any); !ok || init["agentInputs"] == nil {
			t.Errorf("init: %v", open["init"])
		}
		for _, content := range []string{
			`{"type":"text","text":"[init] ready"}`, `{"type":"init_step","stage":"clone","status":"started"}`, `{"type":"init_step","stage":"clone","status":"done"}`,
			`{"type":"init_result","ok":true}`, `{"type":"sandbox_instance_status","provider":"host_process","runtime":null,"last_seen_at":"2026-02-03T00:00:00Z","last_error":null}`,
			`{"type":"transport_connected"}`,
		} { // §4.4
			send(`{"type":"proxy_update","run_id":"` + run + `","content":` + content + `}`)
		}
		send(`{"type":"acp_opened","run_id":"` + run + `","ok":true}`) // §4.2
		sent := next("prompt_send")                                    // §3.2
		prompt := sent["prompt_id"].(string)
		if blocks, ok := sent["prompt"].([]any); !ok || len(blocks) != 1 {
			t.Errorf("prompt: %v", sent["prompt"])
		}
		update := func(u string) { // §4.3
			send(`{"type":"acp_update","run_id":"` + run + `","prompt_id":"` + prompt + `","session_id":"S9","update":` + u + `}`)
		}
		update(`{"content":{"type":"session_created"}}`)
		update(`{"content":{"type":"session_state","activity":"busy","inFlight":1,"currentModeId":"ask"}}`)
		update(`{"sessionUpdate":"config_option_update","configOptions":[{"id":"mode","name":"Mode","type":"select","currentValue":"ask","options":[{"value":"ask","name":"Ask"}]}]}`)
		update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello"}}`)
		send(`{"type":"proxy_update","run_id":"` + run + `","content":{"type":"permission_request","request_id":"7","session_id":"S9","prompt_id":"` + prompt +
			`","tool_call":{"toolCallId":"c1","title":"rm x","kind":"execute"},"options":[{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]}}`)
		s.rest()
		h.settle()
		asked := h.asked("t1")
		if len(asked) != 1 {
			t.Fatalf("%d questions", len(asked))
		}
		if row := h.instance("t1"); row.ACPSessionID != "S9" || row.Status != "running" && row.Status != "" {
			t.Errorf("the instance: %+v", row)
		}
		s = h.answer("t1", asked[0], "allow_once")
		answer := next("session_permission") // §3.5, with these members alone
		for name, want := range map[string]any{"run_id": run, "session_id": "S9", "request_id": "7", "outcome": "selected", "option_id": "yes"} {
			if answer[name] != want {
				t.Errorf("session_permission: %s is %v", name, answer[name])
			}
		}
		send(`{"type":"prompt_result","run_id":"` + run + `","prompt_id":"` + prompt + `","ok":true}`) // §4.5
		s.rest()
		if got := strings.Join(h.events("t1"), "\n"); !strings.Contains(got, `"delta":"hello"`) || !strings.Contains(got, `"outcome":{"type":"success"}`) || !strings.Contains(got, `"stepName":"init:clone"`) {
			t.Errorf("%s", got)
		}
		settle := func(c bridge.Control, kind string) { // §3.4
			h.t.Helper()
			done := h.controlled(run, c)
			f := next(kind)
			send(`{"type":"session_control_result","run_id":"` + run + `","control_id":"` + f["control_id"].(string) + `","ok":true}`)
			if err := <-done; err != nil || f["session_id"] != "S9" {
				t.Errorf("%s: %v %v", kind, f, err)
			}
		}
		settle(bridge.Control{Action: bridge.ControlSetMode, Value: json.RawMessage(`"ask"`)}, "session_set_mode")
		settle(bridge.Control{Action: bridge.ControlSetModel, Value: json.RawMessage(`"m"`)}, "session_set_model")
		settle(bridge.Control{Action: bridge.ControlSetOption, Option: "mode", Value: json.RawMessage(`"ask"`)}, "session_set_config_option")
		send(`{"type":"acp_exit","run_id":"` + run + `","code":1,"signal":null}`) // §4.6
		send(`{"type":"proxy_update","run_id":"` + run + `","content":{"type":"transport_disconnected","reason":"agent_exit","code":1,"signal":null}}`)
		h.settle()
		if row := h.instance("t1"); row.Status != "stopped" {
			t.Errorf("after the exit: %+v", row)
		}
		kinds := map[string]int{} // §5.1
		ctx, cancel := context.WithTimeout(h.t.Context(), time.Second)
		defer cancel()
		frames, err := watch.Next(ctx)
		h.must(err)
		for _, raw := range frames {
			var f struct{ Type string }
			h.must(json.Unmarshal(raw, &f))
			kinds[f.Type]++
		}
		const ofAgent, ofControls = 4, 2 // the mode and the model that were set
		if kinds["acp.prompt_update"] != ofAgent+ofControls || kinds["event_added"] == 0 || kinds["run.init_step"] != 2 {
			t.Errorf("hints: %v", kinds)
		}
		if got := h.refusals(); len(got) != 0 {
			t.Errorf("refused: %v", got)
		}
	})
}
