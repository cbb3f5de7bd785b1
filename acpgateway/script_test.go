package acpgateway_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway/wire"
)

// script is one conversation of a table: what a chat, an agent, its proxy and the server do, in order, and what must come
// of it. A line holds steps with "; " between them, and a line that begins with "|" continues the one before.
//
// A step is an actor, a verb and the rest. The actor may be left out where it is that of the step before:
//
//	new p1; old p2 most=1           a proxy that numbers its frames, and one that does not; both link
//	chat prompts hi                 posts, opens the agent if the gateway asks for that, and takes prompt_send
//	chat posts hi                   posts and takes nothing
//	agent thinks hm; ends           frames of the prompt, of which the thread's proxy is the sender
//	p1 gets acp_close run_id=$run   the gateway's next frame, and what its members must be
//	chat ends                       waits for the end of the Run
//	chat reads RUN | thinks: hm | DONE success
//
// "chat/a" and "agent/a" are those of thread a instead of t1, "chat/a@p2" expects the prompt at p2, and "late" is the agent
// at the thread's prompt before. $run, $run/a, $prompt, $control, $running and $finished are replaced, {0-3} is "w0 w1 w2 ".
// "repeat 3" … "end" repeats what is between, with the round in $i. The tables of verbs are in the script_*_test.go files.
type script struct {
	name     string
	plan     plan
	variants map[string][]string // by name: what stands for $1, $2, … in the steps; none: as they are
	steps    string
}

// perform runs a table, each conversation in an environment of its own.
func perform(t *testing.T, table []script) {
	t.Parallel()
	for _, row := range table {
		variants := row.variants
		if variants == nil {
			variants = map[string][]string{"": nil}
		}
		for variant, args := range variants {
			t.Run(strings.TrimSuffix(row.name+"/"+variant, "/"), func(t *testing.T) {
				inEnv(t, row.plan, func(h *acpEnv) { newStage(h).run(parse(row.steps, args)) })
			})
		}
	}
}

// step is one of a script.
type step struct {
	text          string // all of it, for the report of a failure
	actor         string // chat, agent, late, the name of a proxy, or "" for the world
	thread, proxy string // behind the actor's "/" and "@"; "" for the usual ones
	verb, rest    string
}

var actors = regexp.MustCompile(`^(chat|agent|late|p\d)(?:/(\w+))?(?:@(\w+))?$`)

// parse reads a script.
func parse(text string, args []string) []step {
	for i, arg := range args {
		text = strings.ReplaceAll(text, "$"+strconv.Itoa(i+1), arg)
	}
	var steps []step
	for _, line := range unrolled(joined(text)) {
		actor := step{}
		for _, part := range strings.Split(line, "; ") {
			s := step{text: part, actor: actor.actor, thread: actor.thread, proxy: actor.proxy}
			word, rest, _ := strings.Cut(part, " ")
			if m := actors.FindStringSubmatch(word); m != nil {
				s.actor, s.thread, s.proxy = m[1], m[2], m[3]
				word, rest, _ = strings.Cut(rest, " ")
			} else if stageVerbs[word] != nil {
				s.actor = ""
			} else {
				s.text = strings.TrimSpace(s.actor + " " + part)
			}
			s.verb, s.rest = word, rest
			actor, steps = s, append(steps, s)
		}
	}
	return steps
}

// joined are a script's lines, those that continue put behind those they continue.
func joined(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "|"):
			lines[len(lines)-1] += " " + line
		default:
			lines = append(lines, line)
		}
	}
	return lines
}

// unrolled are the lines with what is repeated written out.
func unrolled(in []string) []string {
	var out, block []string
	rounds := -1
	for _, line := range in {
		switch n, found := strings.CutPrefix(line, "repeat "); {
		case found:
			rounds, _ = strconv.Atoi(n)
			block = nil
		case line == "end":
			for i := range rounds {
				for _, l := range block {
					out = append(out, strings.ReplaceAll(l, "$i", strconv.Itoa(i)))
				}
			}
			rounds = -1
		case rounds >= 0:
			block = append(block, line)
		default:
			out = append(out, line)
		}
	}
	return out
}

// stage is where a script is performed.
type stage struct {
	h       *acpEnv
	t       *testing.T
	proxies map[string]*fakeProxy
	threads map[string]*thread
	clock   time.Time
	control string       // the control_id that the gateway sent last
	outcome <-chan error // of the control that was started last
}

// thread is what a script knows of one.
type thread struct {
	name    string
	stream  *stream
	events  []string          // of the Run that ended last
	prompts []*conversation   // the newest is the last
	sent    map[string]string // members of the newest prompt_send
	asked   map[string]string // ids of Questions by the names the script gave them
}

func newStage(h *acpEnv) *stage {
	return &stage{h: h, t: h.t, proxies: map[string]*fakeProxy{}, threads: map[string]*thread{}}
}

// run performs the steps. What fails is reported with its step.
func (g *stage) run(steps []step) {
	at := step{}
	defer func() {
		if g.t.Failed() {
			g.t.Logf("the script ended at: %s", at.text)
		}
	}()
	for _, at = range steps {
		failed := g.t.Failed()
		g.step(at)
		if !failed && g.t.Failed() {
			g.t.Logf("the first step that failed: %s", at.text)
		}
	}
}

func (g *stage) step(s step) {
	th := g.thread(s.thread)
	rest := g.expand(th, s.rest)
	verb, arg, _ := strings.Cut(s.verb, "/")
	switch s.actor {
	case "chat":
		if v := chatVerbs[verb]; v != nil {
			v(g, th, g.proxies[orDefault(s.proxy, "p1")], rest)
			return
		}
	case "agent", "late":
		n := len(th.prompts) - 1
		if s.actor == "late" {
			n--
		}
		if v := agentVerbs[verb]; v != nil && n >= 0 {
			v(g, th.prompts[n], arg, rest)
			return
		}
	case "":
		if v := stageVerbs[verb]; v != nil {
			v(g, rest)
			return
		}
	default:
		if v, p := proxyVerbs[verb], g.proxies[s.actor]; v != nil && p != nil {
			v(g, p, rest)
			return
		}
	}
	g.t.Fatalf("no such step: %s", s.text)
}

func orDefault(word, usual string) string {
	if word == "" {
		return usual
	}
	return word
}

func (g *stage) thread(name string) *thread {
	name = orDefault(name, "t1")
	if g.threads[name] == nil {
		g.threads[name] = &thread{name: name, asked: map[string]string{}}
	}
	return g.threads[name]
}

// take makes the frame that opens a thread's agent, or that is its prompt, the thread's own.
func (g *stage) take(p *fakeProxy, d down) {
	var sent *wire.PromptSend
	switch f := d.frame.(type) {
	case *wire.Open:
		sent = &wire.PromptSend{RunID: f.RunID}
	case *wire.PromptSend:
		sent = f
	default:
		return
	}
	for _, th := range g.threads {
		if th.stream == nil || g.h.session(th.name).ID != sent.RunID {
			continue
		}
		th.sent = members(d.raw)
		if n := len(th.prompts); n > 0 && th.prompts[n-1].prompt == "" {
			th.prompts = th.prompts[:n-1] // its acp_open
		}
		th.prompts = append(th.prompts, &conversation{p, th.stream, sent.RunID, sent.PromptID, sent, "m"})
	}
}

var (
	variables = regexp.MustCompile(`\$(run|prompt|control|running|finished)\b(?:/(\w+))?`)
	counted   = regexp.MustCompile(`\{(\d+)-(\d+)\}`)
)

// expand replaces the variables of a step.
func (g *stage) expand(th *thread, text string) string {
	text = counted.ReplaceAllStringFunc(text, func(m string) string {
		ends := counted.FindStringSubmatch(m)
		return numbered(ends[1], ends[2])
	})
	return variables.ReplaceAllStringFunc(text, func(m string) string {
		v := variables.FindStringSubmatch(m)
		of := th
		if v[2] != "" {
			of = g.thread(v[2])
		}
		switch v[1] {
		case "control":
			return g.control
		case "running":
			return running
		case "finished":
			return finished
		}
		if len(of.prompts) == 0 {
			g.t.Fatalf("%s has no prompt: %s", of.name, text)
		}
		c := of.prompts[len(of.prompts)-1]
		if v[1] == "prompt" {
			return c.prompt
		}
		return c.run
	})
}
