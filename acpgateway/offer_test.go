package acpgateway_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"

	"aqueduct/acpgateway"
	"aqueduct/acpgateway/wire"
	"aqueduct/agui"
	"aqueduct/bridge"
)

// A mode that the agent does not offer is refused before anybody is asked; where it is not known
// what it offers, the agent is asked.
func TestAModeThatIsNotOffered(t *testing.T) {
	inEnv(t, plan{}, func(h *acpEnv) {
		p := oldProxy(h, "p1").link()
		c := p.begin("t1", "hi")
		c.says("m", "x")
		h.settle()
		set := func(mode string) <-chan error {
			return h.controlled(c.run, bridge.Control{Action: bridge.ControlSetMode, Value: json.RawMessage(`"` + mode + `"`)})
		}
		accept := func(done <-chan error) {
			p.send(&wire.SessionControlResult{RunID: c.run, ControlID: want[*wire.SessionSetMode](p).ControlID, OK: true})
			h.must(<-done)
		}
		accept(set("anything"))
		c.update(`{"sessionUpdate":"x","content":{"type":"session_state","modes":{"currentModeId":"ask","availableModes":[{"id":"ask"},{"id":"code"}]}}}`)
		h.settle()
		if got := code(t, <-set("anything")); got != bridge.ControlNotOffered {
			t.Error(got)
		}
		accept(set("code"))
		c.update(`{"sessionUpdate":"config_option_update","configOptions":[{"id":"mode","type":"select","currentValue":"a","options":[{"group":"g","name":"G","options":[{"value":"a"},{"value":"b"}]}]}]}`)
		h.settle()
		if got := code(t, <-set("code")); got != bridge.ControlNotOffered {
			t.Error(got)
		}
		done := set("b")
		p.send(&wire.SessionControlResult{RunID: c.run, ControlID: want[*wire.SessionSetMode](p).ControlID, Error: `Error: the mode "b" ` + wire.NotOffered})
		if got := code(t, <-done); got != bridge.ControlNotOffered {
			t.Error(got)
		}
		p.silent()
	})
}

// picture is a message with an image.
func (h *acpEnv) picture(thread string) *stream {
	h.t.Helper()
	return h.request(bridge.ChatRequest{ThreadID: thread, Messages: []agui.Message{{ID: uuid.NewString(), Role: "user", Content: agui.Content{Parts: []agui.ContentPart{
		{Type: agui.PartText, Text: "what is this?"}, {Type: agui.PartImage, Source: &agui.Source{Type: agui.SourceData, Value: "aGk=", MimeType: "image/png"}},
	}}}}})
}

// Proxies of the contract do not declare what their agent takes: it is read from wherever one does
// after all, else from the agent's settings.
func TestImagesBehindOldProxies(t *testing.T) {
	for name, c := range map[string]struct {
		opened   string // members of acp_opened
		created  string // of the session_created update
		settings wire.PromptCapabilities
		first    bool // the first prompt has the image
		second   bool
	}{
		"nobody says":                {"", "", wire.PromptCapabilities{}, false, false},
		"acp_opened, as initialize":  {`,"agentCapabilities":{"promptCapabilities":{"image":true}}`, "", wire.PromptCapabilities{}, true, true},
		"acp_opened, in snake case":  {`,"agent":{"capabilities":{"prompt_capabilities":{"image":{}}}}`, "", wire.PromptCapabilities{}, true, true},
		"session_created":            {"", `,"promptCapabilities":{"image":true}`, wire.PromptCapabilities{}, false, true},
		"the settings":               {"", "", wire.PromptCapabilities{Image: true}, true, true},
		"the agent, not the setting": {`,"promptCapabilities":{"image":false}`, "", wire.PromptCapabilities{Image: true}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			inEnv(t, plan{agents: map[string]acpgateway.AgentConfig{"dev": {PromptCapabilities: c.settings}}}, func(h *acpEnv) {
				p := oldProxy(h, "p1").link()
				for i, has := range []bool{c.first, c.second} {
					s := h.picture("t1")
					if i == 0 {
						open := want[*wire.Open](p)
						p.raw(`{"type":"acp_opened","run_id":"` + open.RunID + `","ok":true` + c.opened + `}`)
					}
					sent := want[*wire.PromptSend](p)
					if len(sent.Prompt) == 2 != has {
						t.Errorf("prompt %d: %s", i, sent.Prompt)
					}
					one := &conversation{p, s, sent.RunID, sent.PromptID, sent, "m"}
					one.update(`{"sessionUpdate":"session_created","content":{"type":"session_created"` + c.created + `}}`)
					one.ends()
					s.rest()
					h.settle()
				}
			})
		})
	}
}
