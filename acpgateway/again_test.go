package acpgateway_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"aqueduct/acpgateway/acp"
	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/inbox"
)

// words are the texts of a prompt.
func words(t *testing.T, sent *acp.PromptSend) string {
	t.Helper()
	var texts []string
	for _, raw := range sent.Prompt {
		var b acp.Block
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, b.Text)
	}
	return strings.Join(texts, "|")
}

// prompt_send: what was said to an earlier Turn has been sent, though the agent never answered
// it. It may be what killed the agent.
func TestAPromptWithoutAnAnswerIsNotSentWithTheNext(t *testing.T) {
	for name, unanswered := range map[string]func(c *conversation){
		"failed":    func(c *conversation) { c.fails("Error: model exploded") },
		"silent":    func(c *conversation) { c.ends() },
		"cancelled": func(c *conversation) { c.p.h.cancel("t1"); want[*acp.SessionCancel](c.p); c.ends() },
		"died": func(c *conversation) {
			c.p.say(exitOf(c.run, nil))
			c.fails("Error: agent closed")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, plan{}, func(h *house) {
				p := oldProxy(h, "p1").link()
				c := p.begin("t1", "first")
				unanswered(c)
				h.settle()
				if got := words(t, p.begin("t1", "second").sent); got != "second" {
					t.Errorf("prompt %q", got)
				}
			})
		})
	}
}

// prompt_send: a message that came with an answer is the next Turn's prompt, whatever the agent
// said between.
func TestAMessageThatCameWithAnAnswerIsPrompted(t *testing.T) {
	inHouse(t, plan{}, func(h *house) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "first")
		c.asks("0", "c1")
		c.s.rest()
		h.request(bridge.ChatRequest{
			ThreadID: "t1", Messages: []agui.Message{{ID: "u2", Role: "user", Content: agui.Text("second")}},
			Answers: []inbox.Answer{{QuestionID: h.asked("t1")[0], Payload: []byte(`{"optionId":"allow_once"}`)}},
		})
		want[*acp.SessionPermission](p)
		c.says("m", "done")
		c.ends()
		if got := words(t, want[*acp.PromptSend](p)); got != "second" {
			t.Errorf("prompt %q", got)
		}
	})
}

// What a prompt that has ended is still said to belong to opens a Run, which ends when nothing
// more comes: there is no second prompt_result to wait for.
func TestUpdatesAfterTheEndDoNotHoldTheSession(t *testing.T) {
	for name, late := range map[string]func(c *conversation){
		"words of the prompt": func(c *conversation) { c.says("late", "by the way") },
		"words of none, behind state of the prompt": func(c *conversation) {
			c.update(`{"sessionUpdate":"usage_update","used":1,"size":2}`)
			c.p.say(update(c.run, "", chunk("late", "by the way")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, plan{}, func(h *house) {
				p := oldProxy(h, "p1").link()
				c := p.begin("t1", "first")
				c.ends()
				h.settle()
				late(c)
				h.pass(5 * time.Second)
				h.reads("t1", "RUN", "DONE success", "RUN", "says: by the way", "DONE success")
				c = p.begin("t1", "second")
				c.ends()
				c.s.rest()
			})
		})
	}
}
