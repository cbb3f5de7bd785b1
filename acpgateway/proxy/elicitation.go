package proxy

import (
	"context"
	"encoding/json"

	"aqueduct/acpgateway/acp"
)

// elicit passes on a request for input, in its place among the updates, and returns what waits.
func (a *agent) elicit(params json.RawMessage) func(context.Context) (any, error) {
	var q acp.ElicitationParams
	if err := json.Unmarshal(params, &q); err != nil {
		return func(context.Context) (any, error) { return nil, invalid(err) }
	}
	if q.Mode == "" {
		q.Mode = acp.ElicitForm
	}
	one := a.newAsk(q.SessionID)
	one.cancelled = acp.ElicitationResult{Action: acp.ElicitCancel}
	return a.asking(one, &acp.ElicitationRequest{
		RequestID: one.id, SessionID: q.SessionID, PromptID: a.run.promptOf(q.SessionID), ToolCallID: q.ToolCallID,
		Mode: q.Mode, Message: q.Message, RequestedSchema: q.RequestedSchema, URL: q.URL,
	})
}

// elicited takes the gateway's answer to a request for input.
func (p *Proxy) elicited(f *acp.SessionElicitation) {
	one, r := p.asked(f.RunID, f.SessionID, f.RequestID)
	if one == nil {
		return
	}
	switch f.Action {
	case acp.ElicitAccept, acp.ElicitDecline, acp.ElicitCancel:
		if _, form := one.cancelled.(acp.ElicitationResult); form {
			one.settle(acp.ElicitationResult{Action: f.Action, Content: f.Content})
			return
		}
	}
	r.text(acp.PrefixError + "request " + string(one.id) + ": the answer does not fit; it stays open")
}
