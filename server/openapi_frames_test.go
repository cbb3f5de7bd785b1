package server_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"aqueduct/acpgateway/wire"
)

// countedProxy is a proxy that counts its frames and takes elicitations. Its agent answers all that it is asked; a prompt with "ask"
// asks in turn.
type countedProxy struct {
	t    *testing.T
	conn *websocket.Conn
	seqs map[string]int64 // of its frames, by run
	seen chan string      // the types of frames that it was sent
}

// counted links one.
func (h *env) counted(t *testing.T) *countedProxy {
	t.Helper()
	conn, resp, err := h.dial("/ws/agent")
	if err != nil {
		t.Fatal(err, resp)
	}
	p := &countedProxy{t: t, conn: conn, seqs: make(map[string]int64), seen: make(chan string, 100)}
	p.send("", &wire.RegisterAgent{Agent: wire.ProxyInfo{ID: "p1", Name: "double", Capabilities: []byte(`{"seq":true,"epoch":"e1","elicitation":true}`)}})
	p.send("", &wire.Heartbeat{AgentID: "p1"})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		prompt := ""
		for {
			_, raw, err := conn.ReadMessage()
			if err != nil {
				return
			}
			head, frame, err := wire.Decode(raw)
			if err != nil {
				t.Errorf("%v: %s", err, raw)
			}
			if head.Seq > 0 {
				p.send("", &wire.Ack{RunID: head.RunID, Seq: head.Seq})
			}
			prompt = p.answer(head.RunID, prompt, frame)
			p.seen <- head.Type
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
	return p
}

// send sends a frame, which is counted where it is of a run.
func (p *countedProxy) send(run string, f wire.Frame) {
	raw, err := wire.Encode(f)
	if run != "" {
		p.seqs[run]++
		raw = wire.WithSeq(raw, p.seqs[run])
	}
	if err == nil {
		err = p.conn.WriteMessage(websocket.TextMessage, raw)
	}
	if err != nil {
		p.t.Error(err)
	}
}

// answer answers a frame, and gives the prompt that is under way then.
func (p *countedProxy) answer(run, prompt string, frame wire.Frame) string {
	controlled := func(id string) { p.send(run, &wire.SessionControlResult{RunID: run, ControlID: id, OK: true}) }
	session, stop := "S1", "end_turn"
	ends := func() {
		p.send(run, &wire.PromptResult{RunID: run, PromptID: prompt, OK: true, SessionID: session, StopReason: &stop})
	}
	switch f := frame.(type) {
	case *wire.Open:
		p.send(run, &wire.Opened{RunID: run, OK: true, Agent: json.RawMessage(`{"protocolVersion":1}`)})
	case *wire.PromptSend:
		prompt = f.PromptID
		p.send(run, &wire.ACPUpdate{RunID: run, PromptID: &prompt, SessionID: &session, Update: []byte(
			`{"sessionUpdate":"x","content":{"type":"session_state","modes":{"currentModeId":"ask","availableModes":[{"id":"ask"},{"id":"code"}]}}}`)})
		if strings.Contains(string(f.Prompt[len(f.Prompt)-1]), `"ask"`) {
			p.send(run, &wire.ProxyUpdate{RunID: run, Content: []byte(
				`{"type":"elicitation_request","request_id":7,"session_id":"S1","prompt_id":"` + prompt + `","mode":"form","message":"Which?","requested_schema":{"type":"object","properties":{"n":{"type":"integer"}}}}`)})
		} else {
			ends()
		}
	case *wire.SessionElicitation:
		ends()
	case *wire.SessionCancel:
		controlled(f.ControlID)
	case *wire.SessionSetMode:
		controlled(f.ControlID)
	case *wire.SessionSetModel:
		controlled(f.ControlID)
	case *wire.SessionSetConfigOption:
		controlled(f.ControlID)
	case *wire.SandboxControl:
		p.send("", &wire.SandboxInventory{InventoryID: "i", Provider: "host_process", CapturedAt: "2026-01-01T00:00:00Z", Instances: []wire.SandboxInstance{{InstanceName: "n", Status: "running"}}})
		p.send("", &wire.WorkspaceInventory{InventoryID: "j", CapturedAt: "2026-01-01T00:00:00Z", WorkspaceProvider: "host", Workspaces: []wire.Workspace{{HostPath: "/h"}}})
		p.send("", &wire.SandboxControlResult{RequestID: &f.RequestID, Action: f.Action, OK: true})
	case *wire.Close:
		p.send(run, &wire.Closed{RunID: run, OK: true})
	}
	return prompt
}

// sees waits until it was sent a frame of each of these types.
func (p *countedProxy) sees(types ...string) {
	p.t.Helper()
	late := time.After(socketPatience)
	for len(types) > 0 {
		select {
		case got := <-p.seen:
			types = slices.DeleteFunc(types, func(typ string) bool { return typ == got })
		case <-late:
			p.t.Fatalf("no %v comes", types)
		}
	}
}

// TestOpenAPIFramesDriven: what no other test has a proxy and a page be sent of the frames that are documented.
func TestOpenAPIFramesDriven(t *testing.T) {
	t.Parallel()
	h := newEnvWith(t, nil, plan{acp: true})
	page, p := h.watch(""), h.counted(t)
	p.sees("register_ack")
	h.chat("T", "R1", "hi")
	h.chat("T", "R2", "ask")
	if got := h.decide(h.question(), `{"payload":{"n":3}}`); got.status != 200 {
		t.Error(got)
	}
	p.sees("acp_open", "prompt_send", "session_elicitation", "ack")
	h.idle("T")
	for _, body := range []string{
		`{"action":"set_mode","mode_id":"code"}`, `{"action":"set_model","model_id":"big"}`, `{"action":"set_config_option","config_id":"o","value":true}`,
		`{"action":"cancel"}`, `{"action":"close"}`,
	} {
		if got := h.do("POST", "/api/threads/T/control", body); got.status != 204 {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	if got := h.do("POST", "/api/proxies/p1/control", `{"action":"inspect","thread_id":"T"}`); got.status != 200 {
		t.Error(got)
	}
	p.sees("session_set_mode", "session_set_model", "session_set_config_option", "session_cancel", "acp_close", "sandbox_control")
	for wanted := []string{"acp.prompt_update", "event_added", "sandbox_inventory", "workspace_inventory"}; len(wanted) > 0; {
		raw, err := receive(page)
		if err != nil {
			t.Fatalf("%v does not come: %v", wanted, err)
		}
		wanted = slices.DeleteFunc(wanted, func(typ string) bool { return strings.HasPrefix(string(raw), `{"type":"`+typ+`"`) })
	}
}
