// This file makes the answer to a Question the result of the call that it was about, where the agent gives that call none: the
// interrupt tools of CopilotKit's agent only ask, and its pages keep the answer as the result.

package aguiagent

import (
	"encoding/json"
	"slices"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
	"aqueduct/internal/jsonequal"
)

// card is the call by which the log shows a Question.
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

// decided is an answer as a result, and its place in the history.
type decided struct {
	at     int
	result agui.Message
}

// note keeps which calls of the newest turn have no result. sent is the message of the log as the agent has it.
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

// decidedBy is the result of a card as the result of the call that the card was about: a permission's by the tool and its arguments, an
// input's where only one call waits.
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

// answer is what a card's result says to the agent: the answer itself where the client wrote it, else a permission's in the words of
// the agent's schema.
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

// withDecided puts answers into the history as results. The calls of open are about to get their own from the agent.
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
