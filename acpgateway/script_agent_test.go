package acpgateway_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"aqueduct/acpgateway/wire"
)

// numbered are the words from one number to another.
func numbered(from, to string) string {
	a, _ := strconv.Atoi(from)
	b, _ := strconv.Atoi(to)
	var all strings.Builder
	for i := a; i < b; i++ {
		fmt.Fprintf(&all, "w%d ", i)
	}
	return all.String()
}

// agentVerbs are what the agent of a prompt does, as its proxy sends it. arg is what stands behind the verb's "/": the
// agent's id of a message, which is "m" without one and none at all as "-".
var agentVerbs = map[string]func(g *stage, c *conversation, arg, rest string){
	"opens": func(_ *stage, c *conversation, _, failure string) {
		c.p.send(&wire.Opened{RunID: c.run, OK: failure == "", Error: failure})
	},
	"says": func(_ *stage, c *conversation, message, text string) { c.says(messageID(message), text) },
	"words": func(_ *stage, c *conversation, message, span string) {
		from, to, _ := strings.Cut(span, "-")
		for word := range strings.FieldsSeq(numbered(from, to)) {
			c.says(messageID(message), word+" ")
		}
	},
	"thinks": func(_ *stage, c *conversation, message, text string) {
		c.update(strings.ReplaceAll(chunk(messageID(message), text), "message_chunk", "thought_chunk"))
	},
	"update": func(_ *stage, c *conversation, _, raw string) { c.update(raw) },
	"mode": func(_ *stage, c *conversation, _, mode string) {
		c.update(`{"sessionUpdate":"current_mode_update","currentModeId":"` + mode + `"}`)
	},
	"repeats": func(_ *stage, c *conversation, _, text string) { // the words of a person, as session/load repeats them
		c.update(`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"` + text + `"}}`)
	},
	"unprompted": func(_ *stage, c *conversation, message, text string) { // an update that names no prompt
		if !strings.HasPrefix(text, "{") {
			text = chunk(messageID(message), text)
		}
		c.p.send(update(c.run, "", text))
	},
	"calls": func(_ *stage, c *conversation, id, members string) { c.update(tool("tool_call", id, members)) },
	"call":  func(_ *stage, c *conversation, id, members string) { c.update(tool("tool_call_update", id, members)) },
	"asks": func(_ *stage, c *conversation, request, rest string) { // asks/REQUEST CALL [COMMAND]
		call, command, found := strings.Cut(rest, " ")
		if !found {
			c.asks(request, call)
			return
		}
		c.asksLike(request, call, command)
	},
	"asks-to-read": func(_ *stage, c *conversation, request, args string) {
		f := c.request(request, "call-1")
		f.Content = []byte(strings.NewReplacer(`"kind":"execute"`, `"kind":"read"`, "rm -rf x", "Read a.go", `{"cmd":"call-1"}`, args).Replace(string(f.Content)))
		c.p.send(f)
	},
	"asks-of": func(_ *stage, c *conversation, request, call string) { // a call that is known: no arguments
		f := c.request(request, call)
		f.Content = []byte(strings.ReplaceAll(string(f.Content), `,"rawInput":{"cmd":"`+call+`"}`, ""))
		c.p.send(f)
	},
	"elicits": func(_ *stage, c *conversation, request, members string) { c.elicits(request, members) },
	"signal":  func(_ *stage, c *conversation, _, raw string) { c.p.send(signal(c.run, raw)) },
	"stderr": func(_ *stage, c *conversation, _, line string) {
		c.p.send(signal(c.run, `{"type":"text","text":"[agent:stderr] `+line+`"}`))
	},
	"frame": func(g *stage, c *conversation, _, raw string) {
		_, f, err := wire.Decode([]byte(raw))
		g.h.must(err)
		c.p.send(f)
	},
	"ends":    func(_ *stage, c *conversation, _, _ string) { c.ends() },
	"stops":   func(_ *stage, c *conversation, _, _ string) { c.p.send(c.stopped()) },
	"fails":   func(_ *stage, c *conversation, _, why string) { c.fails(why) },
	"closes":  func(_ *stage, c *conversation, _, _ string) { c.p.send(&wire.Closed{RunID: c.run, OK: true}) },
	"obeys":   func(g *stage, c *conversation, _, _ string) { g.answer(c, "") },
	"refuses": func(g *stage, c *conversation, _, failure string) { g.answer(c, failure) },
	"exits": func(_ *stage, c *conversation, _, code string) {
		f := exitOf(c.run, nil)
		if n, err := strconv.Atoi(code); err == nil {
			f.Code = &n
		}
		c.p.send(f)
	},
}

func messageID(arg string) string {
	if arg == "-" {
		return ""
	}
	return orDefault(arg, "m")
}

// answer is the result of the control that the gateway sent last.
func (g *stage) answer(c *conversation, failure string) {
	c.p.send(&wire.SessionControlResult{RunID: c.run, ControlID: g.control, OK: failure == "", Error: failure})
}

// proxyVerbs are what a proxy does, and what it must have got.
var proxyVerbs = map[string]func(g *stage, p *fakeProxy, rest string){
	"links": func(_ *stage, p *fakeProxy, _ string) { p.link() },
	"cuts":  func(_ *stage, p *fakeProxy, _ string) { p.cut() },
	"reborn": func(_ *stage, p *fakeProxy, epoch string) { // its process is started anew, with a link or without
		p.reborn(epoch)
	},
	"deaf":    func(_ *stage, p *fakeProxy, _ string) { p.setDeaf(true) },
	"undeaf":  func(_ *stage, p *fakeProxy, _ string) { p.setDeaf(false) },
	"raw":     func(_ *stage, p *fakeProxy, body string) { p.raw(body) },
	"forgets": func(_ *stage, p *fakeProxy, _ string) { p.forget() },
	"silent":  func(_ *stage, p *fakeProxy, _ string) { p.silent() },
	"gets": func(g *stage, p *fakeProxy, rest string) {
		name, conditions, _ := strings.Cut(rest, " ")
		d := p.next()
		if d.Type != name {
			g.t.Fatalf("wanted a %s, got %s", name, d.raw)
		}
		g.take(p, d)
		m := members(d.raw)
		g.meets(m, conditions)
		if id := m["control_id"]; id != "" {
			g.control = id
		}
	},
	"acked": func(g *stage, p *fakeProxy, but string) { // all of its frames are acknowledged, but so many
		if n, _ := strconv.Atoi(but); p.unacknowledged() != n {
			g.t.Errorf("%d frames are not acknowledged", p.unacknowledged())
		}
	},
	"busy": func(g *stage, p *fakeProxy, wanted string) {
		if _, busy := g.h.gateway.Controller().Linked(p.id); strconv.Itoa(busy) != wanted {
			g.t.Errorf("%s is busy with %d", p.id, busy)
		}
	},
}

// members are those of a JSON object, as texts; what is null is left out.
func members(raw string) map[string]string {
	var object map[string]json.RawMessage
	_ = json.Unmarshal([]byte(raw), &object)
	texts := map[string]string{"raw": raw}
	for name, value := range object {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		if string(value) != "null" {
			texts[name] = text
		}
	}
	return texts
}
