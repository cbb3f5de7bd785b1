package acpgateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
	"aqueduct/bridge"
)

// TestSeededHistoryIsContext: of a history with which a client begins a thread an ACP agent is prompted with the newest message
// of the user, and has the rest as the conversation before it. Instructions of the client do not reach it, and props or a
// state without a message call it for nothing.
func TestSeededHistoryIsContext(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		said := func(id, role, text string) agui.Message {
			return agui.Message{ID: id, Role: role, Content: agui.Text(text)}
		}
		seed := []agui.Message{
			said("s", agui.RoleSystem, "Be a pirate."), said("g", agui.RoleAssistant, "Ahoy!"), said("q", agui.RoleUser, "Who are you?"),
			said("a", agui.RoleAssistant, "An agent."), said("u", agui.RoleUser, "Write it."),
		}
		s := h.request(bridge.ChatRequest{ThreadID: "t1", Messages: seed})
		d := p.next()
		if open, ok := d.frame.(*wire.Open); ok {
			p.send(&wire.Opened{RunID: open.RunID, OK: true})
			d = p.next()
		}
		sent, ok := d.frame.(*wire.PromptSend)
		if !ok {
			t.Fatalf("wanted a prompt_send, got %s", d.raw)
		}
		if prompt := fmt.Sprintf("%s", sent.Prompt); !strings.Contains(prompt, "Write it.") || strings.Contains(prompt, "Ahoy!") || strings.Contains(prompt, "Who") {
			t.Errorf("the prompt is %s", prompt)
		}
		if !strings.Contains(sent.Context, "assistant: Ahoy!\nuser: Who are you?\nassistant: An agent.") || strings.Contains(sent.Context, "pirate") {
			t.Errorf("the context is %s", sent.Context)
		}
		c := &conversation{p, s, sent.RunID, sent.PromptID, sent, "m"}
		c.says("m", "Written.")
		c.ends()
		h.settle()
		events := h.events("t1")
		var id string
		for _, e := range events {
			if start, err := agui.Decode([]byte(e)); err == nil {
				if m, ok := start.(*agui.TextMessageStart); ok {
					id = m.MessageID
				}
			}
		}
		h.request(bridge.ChatRequest{ThreadID: "t1", Messages: append(seed, said(id, agui.RoleAssistant, "Written.")), Props: json.RawMessage(`{"go":1}`), State: json.RawMessage(`{"mine":1}`)})
		h.settle()
		p.silent()
	})
}
