package acpgateway_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/wire"
	"aqueduct/bridge"
	"aqueduct/store/broker/local"
)

var rewrite = flag.Bool("update", false, "write the golden files")

// normal replaces what is different each time by the order it appears in.
type normal struct{ names map[string]string }

func (n *normal) of(text string) string {
	ids := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	text = ids.ReplaceAllStringFunc(text, func(id string) string {
		if n.names[id] == "" {
			n.names[id] = fmt.Sprintf("id%d", len(n.names)+1)
		}
		return n.names[id]
	})
	text = regexp.MustCompile(`"00-[0-9a-f]{32}-[0-9a-f]{16}-01"`).ReplaceAllString(text, `"<span>"`)
	return regexp.MustCompile(`2000-01-01T[0-9:.]*Z`).ReplaceAllString(text, "<time>")
}

// golden compares what was written down with testdata/<name>.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wanted, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(wanted) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, wanted)
	}
}

// scribe writes down a whole conversation: what goes to the proxy, what comes from it, and
// what the chat receives.
type scribe struct {
	b strings.Builder
	n normal
}

func (s *scribe) down(list []down) {
	for _, d := range list {
		fmt.Fprintf(&s.b, "down  %s\n", s.n.of(d.raw))
	}
}

func (s *scribe) chat(events []string) {
	for _, e := range events {
		fmt.Fprintf(&s.b, "chat  %s\n", s.n.of(e))
	}
}

// up has the proxy say frames, and writes them and what the gateway answers down.
func (s *scribe) up(p *fakeProxy, frames ...wire.Frame) {
	for _, f := range frames {
		body, err := wire.Encode(f)
		p.h.must(err)
		fmt.Fprintf(&s.b, "up    %s\n", s.n.of(string(body)))
		p.send(f)
	}
	s.down(p.left())
}

// A whole conversation with an old proxy, frame by frame: acp_open, prompt_send,
// session_permission, session_cancel, acp_exit and init again, acp_close when it rests.
func TestConversation(t *testing.T) {
	inEnv(t, plan{
		agents: map[string]acpgateway.AgentConfig{"dev": {
			Cwd: "/workspace", Env: map[string]string{"SECRET": "s3cret"}, InitScript: "make setup", InitTimeout: 2 * time.Minute,
			Keepalive: time.Hour, SystemContext: "Be brief.",
			AgentInputs: &wire.AgentInputs{Version: 1, Items: []wire.AgentInput{{
				ID: "skill", Apply: "writeFile", Source: wire.InputSource{Type: "inlineText", Text: "x"}, Target: wire.InputTarget{Root: "WORKSPACE", Path: "SKILL.md"},
			}}},
		}},
		bridge: bridge.Limits{ApprovalTTL: time.Hour},
		broker: local.New(), // a lost ring would move what the script pins by two seconds
	}, func(h *acpEnv) {
		w := &scribe{n: normal{map[string]string{}}}
		p := oldProxy(h, "p1").link()
		conversation1(h, p, w)
		golden(t, "conversation_old", w.b.String())
		p.silent()
	})
}

// The same with a proxy that counts: only the numbers differ.
func TestConversationCounted(t *testing.T) {
	inEnv(t, plan{bridge: bridge.Limits{ApprovalTTL: time.Hour}, broker: local.New()}, func(h *acpEnv) {
		w := &scribe{n: normal{map[string]string{}}}
		p := newProxy(h, "p1").link()
		conversation1(h, p, w)
		golden(t, "conversation_counted", w.b.String())
		p.silent()
	})
}

func conversation1(h *acpEnv, p *fakeProxy, w *scribe) {
	s := h.post("t1", "hello")
	in := p.left()
	w.down(in)
	run := in[0].RunID
	w.up(p,
		signal(run, `{"type":"sandbox_instance_status","instance_name":"i","provider":"host_process","runtime":null,"status":"running","last_seen_at":"now","last_error":null}`),
		signal(run, `{"type":"init_step","stage":"setup","status":"start"}`), signal(run, `{"type":"text","text":"[init] making"}`),
		signal(run, `{"type":"init_step","stage":"setup","status":"done"}`), signal(run, `{"type":"init_result","ok":true,"exitCode":0}`),
		signal(run, `{"type":"transport_connected","instance_name":"i","at":"now"}`))
	p.send(&wire.Opened{RunID: run, OK: true})
	w.b.WriteString("up    acp_opened\n")
	in = p.left()
	w.down(in)
	c := &conversation{p: p, run: run, prompt: in[0].frame.(*wire.PromptSend).PromptID}
	u := func(raw string) wire.Frame { return update(run, c.prompt, raw) }
	w.up(p,
		u(`{"sessionUpdate":"session_created","content":{"type":"session_created"}}`),
		u(`{"sessionUpdate":"config_option_update","configOptions":[{"id":"mode","name":"Mode","type":"select","currentValue":"ask","options":[{"value":"ask","name":"Ask"}]}]}`),
		u(`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`),
		u(chunk("m1", "")), u(chunk("m1", "I will ")), u(chunk("m1", "look.")),
		u(tool("tool_call", "c1", `"title":"ls","kind":"execute","status":"pending","rawInput":{}`)),
		c.request("0", "c1"))
	w.chat(s.rest())
	s = h.answer("t1", h.asked("t1")[0], "allow_once")
	h.settle()
	w.down(p.left())
	w.up(p, u(tool("tool_call_update", "c1", `"status":"completed","rawOutput":"a b"`)), u(chunk("m2", "Two files.")), c.result())
	w.chat(s.rest())

	w.b.WriteString("-- a prompt that is cancelled while it asks\n")
	s = h.post("t1", "more")
	in = p.left()
	w.down(in)
	c.prompt = in[0].frame.(*wire.PromptSend).PromptID
	w.up(p, u(chunk("m3", "And")), c.request("2", "c2"))
	w.chat(s.rest())
	before := len(h.events("t1"))
	h.cancel("t1")
	h.settle()
	w.down(p.left())
	w.chat(h.events("t1")[before:])
	stop := "cancelled"
	w.up(p, &wire.PromptResult{RunID: run, PromptID: c.prompt, OK: true, SessionID: agentSession, StopReason: &stop})
	h.settle()

	w.b.WriteString("-- the agent's process has ended\n")
	code := 0
	w.up(p, exitOf(run, &code))
	s = h.post("t1", "again")
	in = p.left()
	w.down(in)
	p.send(&wire.Opened{RunID: run, OK: true})
	w.b.WriteString("up    acp_opened\n")
	in = p.left()
	w.down(in)
	c.prompt = in[0].frame.(*wire.PromptSend).PromptID
	w.up(p, c.result())
	w.chat(s.rest())

	w.b.WriteString("-- it rests\n")
	h.pass(61 * time.Minute)
	w.down(p.left())
	w.up(p, &wire.Closed{RunID: run, OK: true})
}
