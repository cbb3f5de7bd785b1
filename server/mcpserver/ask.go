// This file has the person at the client decide, where the client can ask. The question is the Approval that there is
// anyway: what is asked here is another way to it, with the same rights and the same record as the others.

package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"

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

// askFor is the result that asks. What the client may do with the call is checked when it comes back.
func askFor(made store.ToolCall, args json.RawMessage) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Meta: mcp.Meta{metaCallID: made.ID}, RequestState: stateOf(made.ID, args),
		InputRequests: mcp.InputRequestMap{approvalKey: &mcp.ElicitParams{
			Mode: "form", Message: "Run " + made.Name + "?\n" + safetext.OfArgs(made.Args).Text, RequestedSchema: json.RawMessage(askSchema),
		}},
	}
}

// stateOf is what a client brings back with its answer: the id of the call, and a hash of the arguments that it made it with. The
// call's own may be others by then, which a person edited.
func stateOf(id string, args json.RawMessage) string {
	sum := sumOf(args)
	return id + "." + base64.RawURLEncoding.EncodeToString(sum[:])
}

// sumOf is the hash of arguments, the same however they are written.
func sumOf(args json.RawMessage) [sha256.Size]byte {
	if canonical, ok := jsonequal.Canonical(args); ok {
		args = canonical
	}
	return sha256.Sum256(args)
}

// goOn finds the call that a request was asked about. The answer is for that call alone: another tool, or other arguments, are
// another call, which is asked for anew, whatever has become of the first.
func (h *call) goOn(ctx context.Context, name string, args json.RawMessage, state string) (store.ToolCall, error) {
	id, _, _ := strings.Cut(state, ".")
	if state != stateOf(id, args) {
		return store.ToolCall{}, store.ErrNotFound
	}
	made, err := h.from.call(ctx, id)
	if err == nil && made.Name != name {
		return store.ToolCall{}, store.ErrNotFound
	}
	return made, err
}

// maxReason is how many characters a reason has at most, as over the other surfaces.
const maxReason = 2000

// answered applies the answer of the person at the client. One who may not decide, or closed the question without an answer,
// leaves it in the inbox.
func (h *call) answered(ctx context.Context, req *mcp.CallToolRequest, made store.ToolCall) error {
	answer, ok := req.Params.InputResponses[approvalKey].(*mcp.ElicitResult)
	if !ok || answer.Action != "accept" && answer.Action != "decline" {
		return nil
	}
	decision, _ := answer.Content["decision"].(string)
	reason, _ := answer.Content["reason"].(string)
	if long := []rune(reason); len(long) > maxReason {
		reason = string(long[:maxReason])
	}
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
