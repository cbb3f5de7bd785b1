package acpgateway_test

import (
	"encoding/json"
	"fmt"
	"strconv"

	"aqueduct/acpgateway/wire"
	"aqueduct/internal/bubbletest"
)

func (h *acpEnv) settleNow() { bubbletest.Wait() }

// A call that runs, and how it ends.
const (
	running  = `"title":"ls","kind":"execute","status":"in_progress","rawInput":{"cmd":"ls"}`
	finished = `"status":"completed","rawOutput":"out"`
)

// agentSession is the agent's own id of its conversation.
const agentSession = "S1"

// conversation is one prompt of a thread, as its proxy has it.
type conversation struct {
	p      *fakeProxy
	s      *stream
	run    string
	prompt string
	sent   *wire.PromptSend

	message string // the agent's id of the message the text is in
}

// begin posts a message, opens the agent if the gateway asks for it, and takes the prompt.
func (p *fakeProxy) begin(thread, text string) *conversation {
	p.h.t.Helper()
	s := p.h.post(thread, text)
	d := p.next()
	if open, ok := d.frame.(*wire.Open); ok {
		p.send(&wire.Opened{RunID: open.RunID, OK: true})
		d = p.next()
	}
	sent, ok := d.frame.(*wire.PromptSend)
	if !ok {
		p.h.t.Fatalf("wanted a prompt_send, got %s", d.raw)
	}
	return &conversation{p, s, sent.RunID, sent.PromptID, sent, "m"}
}

// update is one session/update of the prompt.
func (c *conversation) update(raw string) { c.p.send(update(c.run, c.prompt, raw)) }

// It sends a piece of a message.
func (c *conversation) says(message, text string) { c.update(chunk(message, text)) }

// asks requests permission for a tool call.
func (c *conversation) asks(request, call string) { c.p.send(c.request(request, call)) }

func (c *conversation) request(request, call string) *wire.ProxyUpdate {
	return signal(c.run, fmt.Sprintf(`{"type":"permission_request","request_id":%q,"session_id":%q,"prompt_id":%q,
		"tool_call":{"toolCallId":%q,"title":"rm -rf x","kind":"execute","rawInput":{"cmd":%q}},
		"options":[{"optionId":"p-once","name":"Allow","kind":"allow_once"},{"optionId":"p-always","name":"Always","kind":"allow_always"},
			{"optionId":"p-no","name":"Reject","kind":"reject_once"}]}`, request, agentSession, c.prompt, call, call))
}

// ends answers the prompt.
func (c *conversation) ends() { c.p.send(c.result()) }

func (c *conversation) result() *wire.PromptResult {
	stop := "end_turn"
	return &wire.PromptResult{RunID: c.run, PromptID: c.prompt, OK: true, SessionID: agentSession, StopReason: &stop}
}

func (c *conversation) fails(why string) {
	c.p.send(&wire.PromptResult{RunID: c.run, PromptID: c.prompt, Error: why})
}

func update(run, prompt, raw string) *wire.ACPUpdate {
	session := agentSession
	u := &wire.ACPUpdate{RunID: run, SessionID: &session, Update: json.RawMessage(raw)}
	if prompt != "" {
		u.PromptID = &prompt
	}
	return u
}

func signal(run, content string) *wire.ProxyUpdate {
	return &wire.ProxyUpdate{RunID: run, Content: json.RawMessage(content)}
}

// chunk is a piece of a message; one without an id when message is "".
func chunk(message, text string) string {
	id := ""
	if message != "" {
		id = `"messageId":"` + message + `",`
	}
	said, _ := json.Marshal(text) // a string always can be written
	return `{"sessionUpdate":"agent_message_chunk",` + id + `"content":{"type":"text","text":` + string(said) + `}}`
}

// tool is a tool call, or news of one.
func tool(kind, id, rest string) string {
	return `{"sessionUpdate":"` + kind + `","toolCallId":"` + id + `",` + rest + `}`
}

func exitOf(run string, code *int) *wire.Exit {
	return &wire.Exit{RunID: run, InstanceName: "tuixiu-run-" + run, Code: code}
}

// words has the agent say numbered words, and gives them.
func (c *conversation) words(from, to int) string {
	for i := from; i < to; i++ {
		c.says(c.message, fmt.Sprintf("w%d ", i))
	}
	return numbered(strconv.Itoa(from), strconv.Itoa(to))
}

// elicits is a request for input, as our proxy passes it on.
func (c *conversation) elicits(request, rest string) {
	c.p.send(signal(c.run, `{"type":"elicitation_request","request_id":"`+request+`","session_id":"`+agentSession+`","prompt_id":"`+c.prompt+`",`+rest+`}`))
}
