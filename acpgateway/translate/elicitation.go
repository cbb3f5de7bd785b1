package translate

import (
	"encoding/json"

	"aqueduct/acpgateway/wire"
	"aqueduct/bridge/approval"
)

// elicitation appends the Question that an agent's request for input is: a form, by its schema, or
// a visit to an address, which a person confirms.
func (qs *questions) elicitation(dst []Out, s *wire.ElicitationRequest) []Out {
	q := &Question{Key: string(s.RequestID), SessionID: s.SessionID}
	q.Kind, q.Tool, q.Title = approval.AskInput, approval.InputTool, s.Message
	call := ""
	if c := qs.calls.byID[s.ToolCallID]; c != nil {
		call = c.id
	}
	if json.Valid(s.RequestedSchema) && s.Mode != wire.ElicitURL {
		q.ResponseSchema = s.RequestedSchema
	}
	q.Args = marshal(struct {
		Message    string `json:"message"`
		Mode       string `json:"mode"`
		URL        string `json:"url,omitempty"`
		ToolCallID string `json:"toolCallId,omitempty"`
	}{s.Message, s.Mode, s.URL, call})
	return append(qs.speech.close(dst), Out{Question: q})
}
