package fromacp

import (
	"encoding/json"

	"aqueduct/acpgateway/acp"
)

// inputTool is what a request for input is called.
const inputTool = "request_input"

// elicitation appends the Question that an agent's request for input is: a form, by its schema, or
// a visit to an address, which a person confirms.
func (t *Translator) elicitation(dst []Out, s *acp.ElicitationRequest) []Out {
	q := &Question{Key: string(s.RequestID), SessionID: s.SessionID, Tool: inputTool, Title: s.Message, Input: true}
	if c := t.calls[s.ToolCallID]; c != nil {
		q.ToolCallID = c.id
	}
	if json.Valid(s.RequestedSchema) && s.Mode != acp.ElicitURL {
		q.Schema = s.RequestedSchema
	}
	q.Args = marshal(struct {
		Message    string `json:"message"`
		Mode       string `json:"mode"`
		URL        string `json:"url,omitempty"`
		ToolCallID string `json:"toolCallId,omitempty"`
	}{s.Message, s.Mode, s.URL, q.ToolCallID})
	return append(t.closeSpeech(dst), Out{Question: q})
}
