package acpgateway_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"aqueduct/acpgateway/wire"
)

// story is what an agent may say to one prompt.
func (c *conversation) story() []wire.Frame {
	var all []wire.Frame
	add := func(raw string) { all = append(all, update(c.run, c.prompt, raw)) }
	for m := range 10 {
		add(`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`)
		for w := range 20 {
			add(chunk(fmt.Sprintf("m%d", m), fmt.Sprintf("%d.%d ", m, w)))
		}
		id := fmt.Sprintf("call-%d", m)
		add(tool("tool_call", id, `"title":"ls","kind":"execute","status":"in_progress","rawInput":{"cmd":"ls"}`))
		add(`{"sessionUpdate":"plan","entries":[{"content":"a","priority":"high","status":"pending"}]}`)
		add(tool("tool_call_update", id, fmt.Sprintf(`"status":"completed","rawOutput":"out %d"`, m)))
	}
	return append(all, c.result())
}

// Frames that are shuffled in a window of 20 and doubled give the transcript they give in
// order: their numbers count.
func TestShuffledAndDoubledFrames(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("ordered", "hi")
		p.send(c.story()...)
		c.s.rest()

		const window = 20
		c = p.begin("shuffled", "hi")
		story := c.story()
		p.number(story...)
		r := rand.New(rand.NewPCG(1, 2))
		var sent []wire.Frame
		for _, f := range story {
			if sent = append(sent, f); r.IntN(3) == 0 {
				sent = append(sent, f)
			}
		}
		for i := 0; i < len(sent); i += window {
			part := sent[i:min(i+window, len(sent))]
			r.Shuffle(len(part), func(a, b int) { part[a], part[b] = part[b], part[a] })
		}
		for _, f := range sent {
			p.write(f)
		}
		c.s.rest()
		h.settle()
		ordered := transcript(t, h.events("ordered"))
		h.reads("shuffled", ordered)
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
	})
}

// A run's frames in order do not wait for another run's that is missing.
func TestNumbersAreOfEachRun(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		a, b := p.begin("a", "hi"), p.begin("b", "hi")
		missing := update(a.run, a.prompt, chunk("m", "late "))
		p.number(missing)
		a.says("m", "early")
		b.says("m", "here")
		b.ends()
		b.s.rest()
		h.reads("b", "RUN", "says: here", "DONE success")
		h.reads("a", "RUN")
		p.write(missing)
		a.ends()
		a.s.rest()
		h.reads("a", "RUN", "says: late early", "DONE success")
	})
}

// A sender whose gap does not close must begin again: the link is ended, and all is well when
// it is back.
func TestGapThatDoesNotClose(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		missing := update(c.run, c.prompt, chunk("m", "first "))
		p.number(missing)
		words := "first "
		for i := range 1100 {
			word := fmt.Sprintf("w%d ", i)
			c.says("m", word)
			words += word
		}
		p.closed()
		h.settle()
		p.link()
		c.ends()
		c.s.rest()
		h.reads("t1", "RUN", "says: "+words, "DONE success")
	})
}

// The numbers of a proxy that is started anew begin again: a frame that comes twice before it is
// kept is not acknowledged for what the one before had sent.
func TestNumbersBeginAgainWithTheProxy(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := newProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		words := c.words(0, 50)
		c.ends()
		c.s.rest()
		h.settle()
		p.cut()
		p.reborn("e2")
		p.link()
		h.settle()
		// No Turn reads what is no more than state: it is not kept yet.
		state := update(c.run, "", `{"sessionUpdate":"available_commands_update","availableCommands":[]}`)
		p.send(state)
		p.write(state)
		h.settle()
		if n := p.unacknowledged(); n != 1 {
			t.Errorf("%d frames are not acknowledged", n)
		}
		c = p.begin("t1", "again")
		c.ends()
		c.s.rest()
		h.settle()
		h.reads("t1", "RUN", "says: "+words, "DONE success", "RUN", "DONE success")
		if n := p.unacknowledged(); n != 0 {
			t.Errorf("%d frames are not acknowledged", n)
		}
	})
}
