// This file has the ends of a run: RUN_FINISHED, what a run waits for when it ends, and how an interrupt becomes a
// Question. The engine settles Questions; here they only get their form.

package aguiagent

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
	"aqueduct/internal/fault"
)

// Codes of RUN_ERROR for how a run of the agent ended.
const (
	CodeError     = "agent_error"     // it reported an error without a code
	CodeCancelled = "agent_cancelled" // it ended its run as cancelled by itself
)

// calls are the tool calls that have no result, by key and in the order in which they began. given are those among them that
// the run was given with the history; mine are all that this run has shown or answered.
type calls struct {
	open    []string
	given   map[string]bool
	settled map[string]bool // given ones that have their result
	mine    map[string]bool
}

// unanswered takes in the calls of a history.
func (c *calls) unanswered(history []agui.Message) {
	c.given, c.settled, c.mine = make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for i := range history { // in their order: a later call may have the id of one that has its result
		for _, call := range history[i].ToolCalls {
			c.given[call.ID] = true
		}
		if history[i].Role == agui.RoleTool {
			delete(c.given, history[i].ToolCallID)
		}
	}
}

func (c *calls) isGiven(id string) bool { return c.given[id] }

// note takes in an event of this run.
func (c *calls) note(ev agui.Event) {
	switch e := ev.(type) {
	case *agui.ToolCallStart:
		c.open, c.mine[e.ToolCallID] = append(c.open, e.ToolCallID), true
	case *agui.ToolCallResult:
		c.mine[e.ToolCallID] = true
		c.settled[e.ToolCallID] = c.settled[e.ToolCallID] || c.given[e.ToolCallID]
		delete(c.given, e.ToolCallID)
		c.drop(e.ToolCallID)
	}
}

// drop forgets a call of this run that waits.
func (c *calls) drop(key string) {
	c.open = slices.DeleteFunc(c.open, func(open string) bool { return open == key })
}

// finished is RUN_FINISHED. What the run waits for becomes Questions: its interrupts, and the calls of the client's tools
// that have no result.
func (t *Translator) finished(dst []bridge.Output, e *agui.RunFinished) []bridge.Output {
	t.ended = true
	end := &bridge.End{Usage: t.counted(e.Usage), Result: e.Result}
	outcome := e.Outcome
	if outcome == nil {
		outcome = &agui.Outcome{Type: agui.OutcomeSuccess}
	}
	if outcome.Type == agui.OutcomeCancelled {
		end.Failure = fault.New(CodeCancelled, "The agent cancelled its run.")
		return append(dst, bridge.Output{End: end})
	}
	covered := make(map[string]bool) // calls that an interrupt is about
	for _, i := range outcome.Interrupts {
		covered[i.ID], covered[i.ToolCallID] = true, true
		dst = t.ask(dst, end, asked{t.runID, askedByInterrupt, i.ID}, t.interrupt(i))
	}
	for _, id := range t.pending.open {
		call, _ := t.call(id)
		if !covered[id] && (t.tools[call.Function.Name] || slices.Contains(outcome.PendingToolCallIDs, id)) {
			dst = t.ask(dst, end, asked{t.runID, askedByCall, id}, t.clientTool(call))
		}
	}
	return append(dst, bridge.Output{End: end})
}

// ask asks a Question that the run waits for.
func (t *Translator) ask(dst []bridge.Output, end *bridge.End, is asked, q *approval.Request) []bridge.Output {
	q.UpstreamID = is.String()
	end.Pending = append(end.Pending, q.UpstreamID)
	return append(dst, bridge.Output{Question: q})
}

// clientTool is a call of the client's tool. It stands in the log already, under the id that the Question gets.
func (t *Translator) clientTool(call agui.ToolCall) *approval.Request {
	return &approval.Request{
		CallID: t.names.call(call.ID), Kind: approval.AskClientTool, ToolName: t.names.functions.Own(call.Function.Name), Args: argsOf(call),
	}
}

// reasonCall is the reason of interrupts that ask whether a tool may run (AG-UI, "Interrupts").
const reasonCall = "tool_call"

// interrupt is an interrupt as a Question. Some agents interrupt to have the client run its own tool; any other about a
// tool call asks for a permission and shows the call's arguments. One whose answer has a schema that knows no "approved"
// asks for an input. What is left people answer with yes or no.
func (t *Translator) interrupt(i agui.Interrupt) *approval.Request {
	call, isCall := t.call(i.ToolCallID)
	isCall = isCall && t.pending.waits(i.ToolCallID) // else it is another call of that id, long over
	if isCall && t.tools[call.Function.Name] && i.Reason != reasonCall {
		return t.clientTool(call)
	}
	q := &approval.Request{CallID: t.names.question(i.ID), Kind: approval.AskPermission, Tool: i.Reason, Title: i.Message}
	if at, err := time.Parse(time.RFC3339, i.ExpiresAt); err == nil {
		q.ExpiresIn = max(time.Until(at), time.Millisecond)
	}
	switch {
	case i.Reason == "input_required" || !takesApproval(i.ResponseSchema):
		q.Kind, q.ToolName, q.Tool, q.Args, q.ResponseSchema = approval.AskInput, inputTool, "", i.Metadata, i.ResponseSchema
	case isCall:
		q.Tool, q.Args = t.names.functions.Own(call.Function.Name), argsOf(call)
	default:
		q.Args = i.Metadata
	}
	q.Title = cmp.Or(q.Title, q.Tool, i.Reason)
	return q
}

// deepestChoice is how deep alternatives of a schema are looked into: each level is read once more by the one above.
const deepestChoice = 8

// takesApproval reports whether {"approved"} fits a schema, as far as its names go. Where it is nested deeper than is looked
// into, it does not.
func takesApproval(schema json.RawMessage) bool { return namesApproval(schema, deepestChoice) }

func namesApproval(schema json.RawMessage, depth int) bool {
	var is struct {
		Properties map[string]json.RawMessage `json:"properties"`
		AnyOf      []json.RawMessage          `json:"anyOf"`
		OneOf      []json.RawMessage          `json:"oneOf"`
	}
	if depth == 0 {
		return false
	}
	if len(schema) == 0 || json.Unmarshal(schema, &is) != nil {
		return true
	}
	if is.Properties["approved"] != nil {
		return true
	}
	return slices.ContainsFunc(append(is.AnyOf, is.OneOf...), func(one json.RawMessage) bool { return namesApproval(one, depth-1) })
}

// argsOf are a call's arguments; nil for none.
func argsOf(call agui.ToolCall) json.RawMessage {
	if call.Function.Arguments == "" {
		return nil
	}
	return json.RawMessage(call.Function.Arguments)
}
