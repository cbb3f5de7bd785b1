package proxy

import (
	"context"
	"encoding/json"

	"aqueduct/acpgateway/wire"
)

// elicit passes on a request for input, in its place among the updates, and returns what waits.
func (as *asks) elicit(params json.RawMessage) func(context.Context) (any, error) {
	var q wire.ElicitationParams
	if err := json.Unmarshal(params, &q); err != nil {
		return func(context.Context) (any, error) { return nil, invalid(err) }
	}
	if q.Mode == "" {
		q.Mode = wire.ElicitForm
	}
	one := as.begin(q.SessionID, nil, wire.ElicitationResult{Action: wire.ElicitCancel})
	return as.asking(one, &wire.ElicitationRequest{
		RequestID: one.id, SessionID: q.SessionID, PromptID: as.prompts.in(q.SessionID), ToolCallID: q.ToolCallID,
		Mode: q.Mode, Message: q.Message, RequestedSchema: q.RequestedSchema, URL: q.URL,
	})
}
