package acpgateway_test

import (
	"testing"

	"aqueduct/acpgateway/acp"
)

// An agent behind an old proxy is started anew and repeats the conversation in pieces, unmarked
// and under the new prompt's id: the chat has each word once.
func TestUnmarkedReplayIsNotDoubled(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "what is in it?")
		c.message = ""
		told := c.words(0, 40)
		c.ends()
		c.s.rest()
		p.say(exitOf(c.run, nil))
		h.settle()
		again := p.begin("t1", "and else?")
		again.message = ""
		if again.sent.SessionID != agentSession {
			t.Fatalf("%+v", again.sent)
		}
		again.update(`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"what is in it?"}}`)
		again.words(0, 40)
		again.says("", "w0 is ")
		again.says("", "the first.")
		again.ends()
		again.s.rest()
		h.reads("t1", "RUN", "says: "+told, "DONE success", "RUN", "says: w0 is the first.", "DONE success")
	})
}

// A proxy of ours marks what is repeated: what it does not mark is new, also under an id that
// the agent's earlier process gave.
func TestResumedAgentNumbersAnew(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := newProxy(h, "p1")
		p.marks = true
		p.link()
		c := p.begin("t1", "hi")
		c.says("m1", "hello")
		c.ends()
		c.s.rest()
		p.say(exitOf(c.run, nil), &acp.Closed{RunID: c.run, OK: true})
		h.settle()
		again := p.begin("t1", "hi again")
		again.says("m1", "hello")
		again.ends()
		again.s.rest()
		h.reads("t1", "RUN", "says: hello", "DONE success", "RUN", "says: hello", "DONE success")
	})
}
