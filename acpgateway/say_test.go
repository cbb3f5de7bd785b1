package acpgateway_test

import (
	"encoding/json"
	"fmt"
	"testing/synctest"

	"aqueduct/acpgateway/acp"
)

func (h *house) settleNow() { synctest.Wait() }

// agentSession is the agent's own id of its conversation.
const agentSession = "S1"

// conversation is one prompt of a thread, as its proxy has it.
type conversation struct {
	p      *double
	s      *stream
	run    string
	prompt string
	sent   *acp.PromptSend

	message string // the agent's id of what words are said in
}

// begin posts a message, opens the agent if the gateway asks for it, and takes the prompt.
func (p *double) begin(thread, text string) *conversation {
	p.h.t.Helper()
	s := p.h.post(thread, text)
	d := p.next()
	if open, ok := d.frame.(*acp.Open); ok {
		p.say(&acp.Opened{RunID: open.RunID, OK: true})
		d = p.next()
	}
	sent, ok := d.frame.(*acp.PromptSend)
	if !ok {
		p.h.t.Fatalf("wanted a prompt_send, got %s", d.raw)
	}
	return &conversation{p, s, sent.RunID, sent.PromptID, sent, "m"}
}

// update is one session/update of the prompt.
func (c *conversation) update(raw string) { c.p.say(update(c.run, c.prompt, raw)) }

// says is a piece of a message.
func (c *conversation) says(message, text string) { c.update(chunk(message, text)) }

// asks requests permission for a tool call.
func (c *conversation) asks(request, call string) { c.p.say(c.request(request, call)) }

func (c *conversation) request(request, call string) *acp.ProxyUpdate {
	return signal(c.run, fmt.Sprintf(`{"type":"permission_request","request_id":%q,"session_id":%q,"prompt_id":%q,
		"tool_call":{"toolCallId":%q,"title":"rm -rf x","kind":"execute","rawInput":{"cmd":%q}},
		"options":[{"optionId":"p-once","name":"Allow","kind":"allow_once"},{"optionId":"p-always","name":"Always","kind":"allow_always"},
			{"optionId":"p-no","name":"Reject","kind":"reject_once"}]}`, request, agentSession, c.prompt, call, call))
}

// ends answers the prompt.
func (c *conversation) ends() { c.p.say(c.result()) }

func (c *conversation) result() *acp.PromptResult {
	stop := "end_turn"
	return &acp.PromptResult{RunID: c.run, PromptID: c.prompt, OK: true, SessionID: agentSession, StopReason: &stop}
}

func (c *conversation) fails(why string) {
	c.p.say(&acp.PromptResult{RunID: c.run, PromptID: c.prompt, Error: why})
}

func update(run, prompt, raw string) *acp.ACPUpdate {
	session := agentSession
	u := &acp.ACPUpdate{RunID: run, SessionID: &session, Update: json.RawMessage(raw)}
	if prompt != "" {
		u.PromptID = &prompt
	}
	return u
}

func signal(run, content string) *acp.ProxyUpdate {
	return &acp.ProxyUpdate{RunID: run, Content: json.RawMessage(content)}
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

func exitOf(run string, code *int) *acp.Exit {
	return &acp.Exit{RunID: run, InstanceName: "tuixiu-run-" + run, Code: code}
}
