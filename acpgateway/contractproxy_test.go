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
