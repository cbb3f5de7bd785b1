package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"aqueduct/internal/fault"
	"aqueduct/internal/jsonequal"
	"aqueduct/internal/safetext"
	"aqueduct/store"
)

// A client whose person can be asked (elicitation) gets the question itself. It answers by making the same call again with
// the answer, which is how the revision of 2026 asks (input_required): nothing is held here meanwhile. The question is in the
// inbox as well, and the first decision counts.

// approvalKey names the question among those of a result.
const approvalKey = "approval"

// canAsk reports whether the client can ask its person, in the way that holds no request open.
func canAsk(req *mcp.CallToolRequest) bool {
	declared, ok := req.Params.Meta[mcp.MetaKeyClientCapabilities]
	if !ok {
		return false
	}
	raw, err := json.Marshal(declared)
	var caps struct {
		Elicitation *struct {
			Form *struct{}
			URL  *struct{}
		}
	}
	return err == nil && json.Unmarshal(raw, &caps) == nil && caps.Elicitation != nil && (caps.Elicitation.Form != nil || caps.Elicitation.URL == nil)
}

// askSchema is the form of the answer.
const askSchema = `{"type":"object","required":["decision"],"properties":{"decision":{"type":"string","title":"Decision","enum":["approve","reject"]},` +
	`"reason":{"type":"string","title":"Reason"}}}`

// askFor is the result that asks. Its state is the id of the call: what the client may do with one is checked when it comes back.
func askFor(made store.ToolCall) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Meta: mcp.Meta{metaCallID: made.ID}, RequestState: made.ID,
		InputRequests: mcp.InputRequestMap{approvalKey: &mcp.ElicitParams{
			Mode: "form", Message: "Run " + made.Name + "?\n" + safetext.OfArgs(made.Args).Text, RequestedSchema: json.RawMessage(askSchema),
		}},
	}
}

// goOn finds the call that a request was asked about. The answer is for that call alone: another tool, or other arguments while
// it waits, are another call, which is asked for anew.
func (h *call) goOn(ctx context.Context, name string, args json.RawMessage, id string) (store.ToolCall, error) {
	made, err := h.from.call(ctx, id)
	if err != nil {
		return made, err
	}
	if made.Name != name || made.Status == store.ToolWaitingApproval && !jsonequal.Texts(made.Args, args) {
		return store.ToolCall{}, store.ErrNotFound
	}
	return made, nil
}

// answered applies the answer of the person at the client. One who may not decide, or closed the question without an answer,
// leaves it in the inbox.
func (h *call) answered(ctx context.Context, req *mcp.CallToolRequest, made store.ToolCall) error {
	answer, ok := req.Params.InputResponses[approvalKey].(*mcp.ElicitResult)
	if !ok || answer.Action != "accept" && answer.Action != "decline" {
		return nil
	}
	decision, _ := answer.Content["decision"].(string)
	reason, _ := answer.Content["reason"].(string)
	approve := answer.Action == "accept" && decision == "approve"
	if answer.Action == "accept" && !approve && decision != "reject" {
		return nil
	}
	_, err := h.from.decide(ctx, made.ID, approve, reason)
	if fault.CodeOf(err) != "" { // decided elsewhere, or to be decided by another: the call waits for that
		return nil
	}
	return err
}
