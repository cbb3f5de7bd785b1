package acpgateway_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/wire"
	"aqueduct/bridge"
	"aqueduct/store"
)

// good reports whether a token opens anything.
func (h *acpEnv) good(token string) bool {
	h.t.Helper()
	_, err := h.sessions.AgentRequests().Turn(h.t.Context(), token)
	return err == nil
}

// A token is good from before its agent starts until the instance ends, also across a restart of the server; only its hash is
// kept, and nothing else tells it.
func TestTokenLivesWithItsInstance(t *testing.T) {
	inEnv(t, plan{baseURL: "http://127.0.0.1:8080"}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		s := h.post("t1", "hi")
		open := want[*wire.Open](p)
		token := open.Init.Env["AQUEDUCT_TOKEN"]
		if !h.good(token) || open.Init.Env["AQUEDUCT_BASE_URL"] != "http://127.0.0.1:8080" {
			t.Fatalf("before it starts: %v", open.Init.Env)
		}
		p.send(&wire.Opened{RunID: open.RunID, OK: true})
		sent := want[*wire.PromptSend](p)
		c := &conversation{p, s, sent.RunID, sent.PromptID, sent, "m"}
		if sent.Init.Env["AQUEDUCT_TOKEN"] != token {
			t.Error("the prompt has another token")
		}
		c.says("m", "one")
		c.ends()
		s.rest()
		p.restart() // the agent's process lives on, with its token
		p.link()
		h.settle()
		if !h.good(token) {
			t.Error("it is worthless after the server's restart")
		}
		c = p.begin("t1", "again")
		again := c.sent.Init.Env["AQUEDUCT_TOKEN"]
		if again == token || !h.good(token) || !h.good(again) {
			t.Error("the two tokens are not both good, the one of before the restart and the new one")
		}
		c.ends()
		c.s.rest()
		h.must(<-h.controlled(c.run, bridge.Control{Action: bridge.ControlClose}))
		h.settle()
		if h.good(token) || h.good(again) {
			t.Error("a token outlived its instance")
		}
		p.left()
		h.stop()
		for _, suffix := range []string{"", "-wal"} {
			raw, err := os.ReadFile(h.path + suffix)
			if err != nil && suffix == "" {
				t.Fatal(err)
			}
			if bytes.Contains(raw, []byte("run_session_")) {
				t.Errorf("a token is in %s", h.path+suffix)
			}
		}
	})
}

// What ends an instance ends its token: the exit of the agent, a new start of the proxy, the thread's deletion.
func TestTokenEndsWithItsInstance(t *testing.T) {
	for name, end := range map[string]func(h *acpEnv, p *fakeProxy, c *conversation){
		"exit":      func(_ *acpEnv, p *fakeProxy, c *conversation) { p.send(exitOf(c.run, nil)) },
		"new start": func(_ *acpEnv, p *fakeProxy, _ *conversation) { p.cut(); p.reborn("e2"); p.link() },
		"new start of both": func(_ *acpEnv, p *fakeProxy, _ *conversation) {
			p.restart()
			p.reborn("e2")
			p.link()
		},
		"deletion": func(h *acpEnv, _ *fakeProxy, _ *conversation) {
			h.must(h.sessions.Threads().Delete(h.t.Context(), h.who, "t1"))
		},
		"idle": func(h *acpEnv, _ *fakeProxy, _ *conversation) { h.pass(31 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			inEnv(t, plan{baseURL: "http://127.0.0.1:8080"}, func(h *acpEnv) {
				p := newProxy(h, "p1").link()
				c := p.begin("t1", "hi")
				c.ends()
				c.s.rest()
				token := c.sent.Init.Env["AQUEDUCT_TOKEN"]
				if !h.good(token) {
					t.Fatal("it is worthless at once")
				}
				end(h, p, c)
				h.pass(2 * time.Second)
				if h.good(token) {
					t.Error("it is still good")
				}
			})
		})
	}
}

// An Agent that is configured without a token gets none, nor does any on a server without an address.
func TestTokenIsLeftOut(t *testing.T) {
	for name, p := range map[string]plan{
		"server":   {},
		"agent":    {baseURL: "http://127.0.0.1:8080", agents: map[string]acpgateway.AgentConfig{"dev": {NoToken: true}}},
		"operator": {baseURL: "http://127.0.0.1:8080", agents: map[string]acpgateway.AgentConfig{"dev": {Env: map[string]string{"AQUEDUCT_TOKEN": "own", "AQUEDUCT_BASE_URL": "own"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			inEnv(t, p, func(h *acpEnv) {
				c := newProxy(h, "p1").link().begin("t1", "hi")
				want := ""
				if name == "operator" {
					want = "own"
				}
				if env := c.sent.Init.Env; env["AQUEDUCT_TOKEN"] != want || env["AQUEDUCT_BASE_URL"] != want {
					t.Errorf("%v", env)
				}
				if row, err := h.store.SandboxInstance(h.t.Context(), store.System(), c.run); err != nil || len(row.TokenHash) > 0 && name != "operator" {
					t.Errorf("%+v %v", row, err)
				}
			})
		})
	}
}
