// This file is what the agent is called with, and how a part finds in it what it needs: the prompt, the state, and
// the answers to what it asked in an earlier call.

package demoagent

import (
	"encoding/json"
	"maps"
	"strings"
)

// invocation is the body of POST /invoke. Members the demo has no use for are not named.
type invocation struct {
	RunID        string    `json:"run_id"`
	InputMessage message   `json:"input_message"`
	Messages     []message `json:"messages"`
	Tools        []tool    `json:"tools"`
	Resume       []answer  `json:"resume"`
	// State is what the frontend and earlier runs left.
	State json.RawMessage `json:"state"`
}

// message is one of the conversation. Content is a text or a list of parts, as in AG-UI.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// tool is something the frontend declared that it can do.
type tool struct {
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
}

// answer is what came of one earlier ask or call_client_tool. ID is the agent's own, Status is resolved or cancelled,
// and the form of Payload is that of the question's kind.
type answer struct {
	ID      string          `json:"id"`
	Status  string          `json:"status"`
	Payload json.RawMessage `json:"payload"`
}

// prompt is what the person wrote. A resumed call carries no new message, so it is the
// same prompt as in the first call, and picks the same part.
func (c invocation) prompt() string {
	if c.InputMessage.Role == "user" {
		return c.InputMessage.text()
	}
	for i := len(c.Messages) - 1; i >= 0; i-- {
		if c.Messages[i].Role == "user" {
			return c.Messages[i].text()
		}
	}
	return c.InputMessage.text()
}

// stateWith is a snapshot with these keys. A snapshot replaces the whole state, so it repeats
// what others have put there.
func (c invocation) stateWith(own map[string]any) snapshotFrame {
	whole := make(map[string]any)
	var given map[string]json.RawMessage
	_ = json.Unmarshal(c.State, &given) // no state, or one that is no object: nothing to repeat
	for key, value := range given {
		whole[key] = value
	}
	maps.Copy(whole, own)
	return snapshotFrame{whole}
}

// argument is the prompt's second word.
func (c invocation) argument() string {
	if words := strings.Fields(c.prompt()); len(words) > 1 {
		return words[1]
	}
	return ""
}

// answered finds the answer to the question of that id. Without one the question is asked.
func (c invocation) answered(id string) (answer, bool) {
	for _, a := range c.Resume {
		if a.ID == id {
			return a, true
		}
	}
	return answer{}, false
}

// text is the content's words; of a list of parts, those that are text.
func (m message) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "text" {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// cancelled reports that there is no answer: the person declined, or the time was over.
func (a answer) cancelled() bool { return a.Status == "cancelled" }

// permission reads the payload of an answered permission.
func (a answer) permission() (p struct {
	OptionID string `json:"optionId"`
	Approved bool   `json:"approved"`
	Kind     string `json:"kind"`
}) {
	_ = json.Unmarshal(a.Payload, &p)
	return p
}

// words is a payload as a sentence can quote it: the text of a string, else the JSON.
func words(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
