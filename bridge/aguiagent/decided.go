// This file makes the answer to a Question the result of the call that it was about, if the agent gives that call no result.
// The interrupt tools of CopilotKit's agent only ask, and its pages keep the answer as the result.

package aguiagent

import (
	"encoding/json"
	"slices"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/internal/jsonequal"
)

// card is the call that represents a Question in the log.
type card struct {
	permission bool
	tool       string // of a permission
	args       json.RawMessage
	schema     json.RawMessage // of the answer
}

func cardIn(c agui.ToolCall) card {
	var shown struct {
		Tool   string          `json:"tool"`
		Args   json.RawMessage `json:"args"`
		Schema json.RawMessage `json:"response_schema"`
	}
	_ = json.Unmarshal([]byte(c.Function.Arguments), &shown) // the log's own writing, or nothing that is about a call
	return card{c.Function.Name == approval.PermissionTool, shown.Tool, shown.Args, shown.Schema}
}

// waitingCall is a call without a result.
type waitingCall struct {
	ours, theirs, name, args string
	client                   bool // of the client's tool
}

// decided is an answer in the form of a result, with its place in the history.
type decided struct {
	at     int
	result agui.Message
}

// note records the calls of the newest turn without a result. sent is the logged message in the form that the agent gets.
func (h *historian) note(logged, sent *agui.Message) {
	switch sent.Role {
	case agui.RoleUser:
		h.waiting = h.waiting[:0]
	case agui.RoleTool:
		h.waiting = slices.DeleteFunc(h.waiting, func(c waitingCall) bool { return c.ours == logged.ToolCallID })
	}
	kept := slices.DeleteFunc(slices.Clone(logged.ToolCalls), isCard)
	for i, call := range sent.ToolCalls {
		h.waiting = append(h.waiting, waitingCall{
			kept[i].ID, call.ID, call.Function.Name, call.Function.Arguments, h.clientTools[call.Function.Name],
		})
	}
}

// decidedBy converts the result of a card to the result of the call that the card was about. It finds the call of a
// permission by the tool and its arguments. It finds the call of an input only if one call waits.
func (h *historian) decidedBy(m agui.Message) (agui.Message, bool) {
	of, is := h.hidden[m.ToolCallID]
	if !is || m.Role != agui.RoleTool {
		return m, false
	}
	about := slices.DeleteFunc(slices.Clone(h.waiting), func(c waitingCall) bool {
		return c.client || of.permission && (c.name != of.tool || !jsonequal.Texts([]byte(c.args), of.args))
	})
	if len(about) == 0 || !of.permission && len(about) > 1 {
		return m, false
	}
	h.waiting = slices.DeleteFunc(h.waiting, func(c waitingCall) bool { return c == about[0] })
	return agui.Message{ID: m.ID, Role: agui.RoleTool, ToolCallID: about[0].theirs, Content: of.answer(m.Content)}, true
}

// answer returns a card's result in the form for the agent. An answer that the client wrote does not change; a permission's
// answer uses the names of the agent's schema.
func (c card) answer(result agui.Content) agui.Content {
	var settled struct {
		Status string `json:"status"`
	}
	if !c.permission || json.Unmarshal([]byte(result.String()), &settled) != nil || settled.Status != "approved" && settled.Status != "rejected" {
		return result
	}
	offer, ok := approval.OfferOf(c.schema)
	if !ok {
		offer = approval.Offer{Approved: "approved"}
	}
	return agui.Text(string(offer.Answer(settled.Status == "approved", nil, c.args, "")))
}

// withDecided inserts answers into the history as results. The calls of open are excepted, because the agent will send their
// results.
func withDecided(history []agui.Message, all []decided, open map[string]bool) []agui.Message {
	last := 0
	for i := range history {
		if history[i].Role == agui.RoleUser {
			last = i
		}
	}
	out := slices.Clone(history)
	for _, d := range slices.Backward(all) {
		if d.at <= last || !open[d.result.ToolCallID] {
			out = slices.Insert(out, d.at, d.result)
		}
	}
	return out
}
