package acpgateway_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/store"
)

// chatVerbs are what a person does in a thread, and what stands there then. p is the proxy whose agent it is for.
var chatVerbs = map[string]func(g *stage, th *thread, p *fakeProxy, rest string){
	"posts": func(g *stage, th *thread, _ *fakeProxy, text string) { th.stream = g.h.request(message(th, text)) },
	"prompts": func(g *stage, th *thread, p *fakeProxy, text string) {
		th.stream = g.h.request(message(th, text))
		d := p.next()
		if d.Type == "acp_open" {
			g.take(p, d)
			p.send(&wire.Opened{RunID: d.RunID, OK: true})
			d = p.next()
		}
		if g.take(p, d); d.Type != "prompt_send" {
			g.t.Fatalf("wanted a prompt_send, got %s", d.raw)
		}
	},
	"sent": func(g *stage, th *thread, _ *fakeProxy, conditions string) { // what the newest prompt_send must have
		th.sent["words"] = words(g.t, th.prompts[len(th.prompts)-1].sent)
		g.meets(th.sent, conditions)
	},
	"ends": func(_ *stage, th *thread, _ *fakeProxy, _ string) { th.events = th.stream.rest() },
	"answers": func(g *stage, th *thread, _ *fakeProxy, rest string) { // answers OPTION or JSON [of NAME] [with MESSAGE]
		rest, text, more := strings.Cut(rest, " with ")
		option, name, _ := strings.Cut(rest, " of ")
		a := approval.Answer{QuestionID: th.asked[name], Cancelled: option == "nothing"}
		if name == "" {
			a.QuestionID = g.h.asked(th.name)[0]
		}
		if a.Payload = []byte(`{"optionId":"` + option + `"}`); strings.HasPrefix(option, "{") {
			a.Payload = []byte(option)
		} else if a.Cancelled {
			a.Payload = nil
		}
		req := bridge.ChatRequest{ThreadID: th.name}
		if more {
			req = message(th, text)
		}
		req.Answers = []approval.Answer{a}
		th.stream = g.h.request(req)
	},
	"asked": func(g *stage, th *thread, _ *fakeProxy, rest string) { // the open Questions, each not one that has a name
		names, open := strings.Fields(rest), g.h.asked(th.name)
		if len(open) != len(names) {
			g.t.Fatalf("open: %v", open)
		}
		for i, name := range names {
			for before, id := range th.asked {
				if id == open[i] {
					g.t.Fatalf("%s is %s", name, before)
				}
			}
			th.asked[name] = open[i]
		}
	},
	"open": func(g *stage, th *thread, _ *fakeProxy, name string) { // it is the one that is open
		if open := g.h.asked(th.name); !slices.Equal(open, []string{th.asked[name]}) {
			g.t.Fatalf("open: %v", open)
		}
	},
	"cancels": func(g *stage, th *thread, _ *fakeProxy, _ string) { g.h.cancel(th.name) },
	"reads":   func(g *stage, th *thread, _ *fakeProxy, rest string) { g.h.reads(th.name, items(rest)...) },
	"joined":  func(g *stage, th *thread, _ *fakeProxy, rest string) { g.h.says(th.name, rest) },
	"legal":   func(g *stage, th *thread, _ *fakeProxy, _ string) { g.h.legal(th.name, g.h.events(th.name)) },
	"once":    func(g *stage, th *thread, _ *fakeProxy, rest string) { g.h.once(th.name, strings.Fields(rest)...) },
	"has": func(g *stage, th *thread, _ *fakeProxy, rest string) { // has N PART | PART: so many events have all parts
		n, parts, _ := strings.Cut(rest, " ")
		if got := g.h.count(th.name, items(parts)...); strconv.Itoa(got) != n {
			g.t.Errorf("%d events have %s:\n%s", got, parts, transcript(g.t, g.h.events(th.name)))
		}
	},
	"last": func(g *stage, th *thread, _ *fakeProxy, rest string) { // parts of the event that ended the Run
		for _, cause := range items(rest) {
			if last := th.events[len(th.events)-1]; !strings.Contains(last, cause) {
				g.t.Errorf("no %q in %s", cause, last)
			}
		}
	},
	"lacks": func(g *stage, th *thread, _ *fakeProxy, rest string) { // texts that the event that ended the Run must not contain
		for _, other := range items(rest) {
			if last := th.events[len(th.events)-1]; strings.Contains(last, other) {
				g.t.Errorf("%q in %s", other, last)
			}
		}
	},
	"state": func(g *stage, th *thread, _ *fakeProxy, rest string) {
		if got := string(g.h.session(th.name).State); got != rest {
			g.t.Errorf("state %s", got)
		}
	},
	"acp": func(g *stage, th *thread, _ *fakeProxy, conditions string) { // members of the state under /acp
		raw, err := json.Marshal(g.h.acp(th.name))
		g.h.must(err)
		g.meets(members(string(raw)), conditions)
	},
	"instance": func(g *stage, th *thread, _ *fakeProxy, conditions string) {
		row := g.h.instance(th.name)
		g.meets(map[string]string{
			"status": row.Status, "session": row.ACPSessionID, "error": row.LastError, "provider": row.Provider, "runtime": row.Runtime,
			"proxy": row.ProxyID, "name": row.InstanceName, "init": string(row.Init), "transport": string(row.Transport),
		}, conditions)
	},
	"grants": func(g *stage, th *thread, _ *fakeProxy, rest string) { // the tools of all grants, which are this thread's
		var tools []string
		for _, kept := range g.h.grants() {
			if tools = append(tools, kept.Tool); kept.SessionID != g.h.session(th.name).ID {
				g.t.Errorf("%+v", kept)
			}
		}
		if !slices.Equal(tools, strings.Fields(rest)) {
			g.t.Errorf("grants of %v", tools)
		}
	},
	"kind": func(g *stage, th *thread, _ *fakeProxy, conditions string) { // the open Question
		a, err := g.h.store.Approval(g.h.t.Context(), store.System(), g.h.asked(th.name)[0])
		g.h.must(err)
		g.meets(map[string]string{"kind": string(a.Kind), "title": a.Title, "schema": string(a.ResponseSchema)}, conditions)
	},
	"turn": func(g *stage, th *thread, _ *fakeProxy, status string) { // how the newest prompt's Turn stands
		turn, err := g.h.store.Turn(g.h.t.Context(), store.System(), th.prompts[len(th.prompts)-1].prompt)
		if err != nil || !strings.EqualFold(string(turn.Status), status) {
			g.t.Errorf("%+v %v", turn, err)
		}
	},
	"records": func(g *stage, th *thread, _ *fakeProxy, rest string) { // of the newest prompt; "a: b" is text b of message a
		want := items(rest)
		for i, record := range want {
			if id, text, found := strings.Cut(record, ": "); found {
				want[i] = merged(id, text)
			}
		}
		if got := g.h.records(th.prompts[len(th.prompts)-1].prompt); !slices.Equal(got, want) {
			g.t.Errorf("got\n%s\nwant\n%s", lines(got...), lines(want...))
		}
	},
}

// items are what " | " parts.
func items(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(list, " |"), " | ")
}

// message is a request with a person's text, under an id of its own unless the text begins with "#id ".
func message(th *thread, text string) bridge.ChatRequest {
	id := uuid.NewString()
	if named, found := strings.CutPrefix(text, "#"); found {
		id, text, _ = strings.Cut(named, " ")
	}
	return bridge.ChatRequest{ThreadID: th.name, Messages: []agui.Message{{ID: id, Role: "user", Content: agui.Text(text)}}}
}

var condition = regexp.MustCompile(`(\w+)(=|!=|~|!~)('[^']*'|\S*)`)

// meets compares members with conditions: a=x, a!=x, a~x for "has x in it", a!~x, each x in ” if it has spaces.
func (g *stage) meets(got map[string]string, conditions string) {
	g.t.Helper()
	for _, m := range condition.FindAllStringSubmatch(conditions, -1) {
		value, wanted := got[m[1]], strings.Trim(m[3], "'")
		is := value == wanted
		if strings.HasSuffix(m[2], "~") {
			is = strings.Contains(value, wanted)
		}
		if is == strings.HasPrefix(m[2], "!") {
			g.t.Errorf("%s is %q, wanted %s", m[1], value, m[0])
		}
	}
	if left := strings.TrimSpace(condition.ReplaceAllString(conditions, "")); left != "" {
		g.t.Errorf("no condition: %s", left)
	}
}

// stageVerbs are what no one in particular does.
var stageVerbs = map[string]func(g *stage, rest string){
	"new": func(g *stage, rest string) { g.enters(newProxy, rest) },
	"old": func(g *stage, rest string) { g.enters(oldProxy, rest) },
	"pass": func(g *stage, rest string) {
		d, err := time.ParseDuration(rest)
		g.h.must(err)
		g.h.pass(d)
	},
	"settle": func(g *stage, _ string) { g.h.settle() },
	"clock":  func(g *stage, _ string) { g.clock = time.Now() },
	"took": func(g *stage, rest string) { // took MIN..MAX since "clock"
		from, to, _ := strings.Cut(rest, "..")
		least, err := time.ParseDuration(from)
		g.h.must(err)
		most, err := time.ParseDuration(to)
		g.h.must(err)
		if took := time.Since(g.clock); took < least || took > most {
			g.t.Errorf("took %v, wanted %s", took, rest)
		}
	},
	"restart": func(g *stage, _ string) { // of the server; the linked proxies notice
		g.h.restart()
		for _, p := range g.proxies {
			if p.conn != nil {
				p.closed()
			}
		}
	},
	"deleting": func(g *stage, thread string) { // what it waits for comes later in the script: see "outcome"
		done := make(chan error, 1)
		go func() { done <- g.h.sessions.Threads().Delete(g.h.t.Context(), g.h.who, thread) }()
		g.outcome = done
	},
	"refused": func(g *stage, rest string) { // refused REASON N: so many frames were until now
		reason, n, _ := strings.Cut(rest, " ")
		count, err := strconv.Atoi(n)
		g.h.must(err)
		g.h.refusedSince(nil, reason, count)
	},
	"channels": func(g *stage, rest string) {
		if n := g.h.gateway.Channels(); strconv.Itoa(n) != rest {
			g.t.Errorf("%d channels are in memory", n)
		}
	},
	"control": func(g *stage, rest string) { // control ACTION RUN [VALUE], or set_config_option RUN OPTION VALUE
		words := append(strings.Fields(rest), "", "", "")
		c := bridge.Control{Action: bridge.ControlAction(words[0]), Value: json.RawMessage(words[2])}
		if c.Action == bridge.ControlSetOption {
			c.Option, c.Value = words[2], json.RawMessage(words[3])
		}
		g.outcome = g.h.controlled(words[1], c)
	},
	"outcome": func(g *stage, wanted string) { // the code of what "control" or "deleting" ended with
		if got := orDefault(code(g.t, <-g.outcome), "ok"); got != wanted {
			g.t.Errorf("outcome %s, wanted %s", got, wanted)
		}
	},
	"settings": func(g *stage, rest string) { // settings RUN CONDITIONS
		run, conditions, _ := strings.Cut(rest, " ")
		s := g.h.gateway.Controller().Settings(run)
		g.meets(map[string]string{"mode": s.ModeID, "model": s.ModelID, "options": string(s.ConfigOptions)}, conditions)
	},
}

// enters makes a proxy: NAME [most=N] [agent=ID] [marks] [unlinked].
func (g *stage) enters(kind func(*acpEnv, string) *fakeProxy, rest string) {
	fields := strings.Fields(rest)
	p := kind(g.h, fields[0])
	g.proxies[p.id] = p
	for _, option := range fields[1:] {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "most":
			p.most, _ = strconv.Atoi(value)
		case "agent":
			p.agent = value
		case "marks":
			p.marks = true
		case "unlinked":
			return
		default:
			g.t.Fatal(fmt.Sprint("no such option of a proxy: ", option))
		}
	}
	p.link()
}
