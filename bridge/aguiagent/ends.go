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
	CodeCancelled = "agent_cancelled" // it ended its run as cancelled, which nobody had asked for
)

// calls are the tool calls that have no result, in the order in which they began. given are those among them that the
// run was given with the history.
type calls struct {
	open  []string
	given map[string]bool
}

// unanswered takes in the calls of a history.
func (c *calls) unanswered(history []agui.Message) {
	c.given = make(map[string]bool)
	for i := range history {
		for _, call := range history[i].ToolCalls {
			c.given[call.ID] = true
		}
	}
	for i := range history {
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
		c.open = append(c.open, e.ToolCallID)
	case *agui.ToolCallResult:
		delete(c.given, e.ToolCallID)
		c.open = slices.DeleteFunc(c.open, func(id string) bool { return id == e.ToolCallID })
	}
}

// finished is RUN_FINISHED. What the run waits for becomes Questions: its interrupts, and the calls of the client's tools
// that have no result.
func (t *Translator) finished(dst []bridge.Output, e *agui.RunFinished) []bridge.Output {
	t.ended = true
	end := &bridge.End{Usage: e.Usage, Result: e.Result}
	outcome := e.Outcome
	if outcome == nil {
		outcome = &agui.Outcome{Type: agui.OutcomeSuccess}
	}
	if outcome.Type == agui.OutcomeCancelled {
		end.Failure = fault.New(CodeCancelled, "The agent cancelled its run.")
		return append(dst, bridge.Output{End: end})
	}
	asked := make(map[string]bool) // ids of interrupts, and of the calls that they are about
	for _, i := range outcome.Interrupts {
		asked[i.ID], asked[i.ToolCallID] = true, true
		dst = append(dst, bridge.Output{Question: t.interrupt(i)})
		end.Pending = append(end.Pending, i.ID)
	}
	for _, id := range t.pending.open {
		call, _ := t.fold.Call(id)
		if asked[id] || !t.tools[call.Function.Name] && !slices.Contains(outcome.PendingToolCallIDs, id) {
			continue
		}
		dst = append(dst, bridge.Output{Question: &approval.Request{
			UpstreamID: id, CallID: t.names.call(id), Kind: approval.AskClientTool,
			ToolName: call.Function.Name, Args: argsOf(call),
		}})
		end.Pending = append(end.Pending, id)
	}
	return append(dst, bridge.Output{End: end})
}

// interrupt is an interrupt as a Question. One about a tool call asks for a permission and shows the call's arguments; one
// with a schema for its answer asks for an input. Any other is a permission too: people answer it with yes or no.
func (t *Translator) interrupt(i agui.Interrupt) *approval.Request {
	q := &approval.Request{UpstreamID: i.ID, CallID: t.names.question(i.ID), Kind: approval.AskPermission, Tool: i.Reason, Title: i.Message}
	if at, err := time.Parse(time.RFC3339, i.ExpiresAt); err == nil {
		q.ExpiresIn = max(time.Until(at), time.Millisecond)
	}
	call, isCall := t.fold.Call(i.ToolCallID)
	switch {
	case isCall && i.Reason != "input_required":
		q.Tool, q.Args = call.Function.Name, argsOf(call)
	case len(i.ResponseSchema) > 0 || i.Reason == "input_required":
		q.Kind, q.ToolName, q.Tool, q.Args, q.ResponseSchema = approval.AskInput, inputTool, "", i.Metadata, i.ResponseSchema
	default:
		q.Args = i.Metadata
	}
	q.Title = cmp.Or(q.Title, q.Tool, i.Reason)
	return q
}

// argsOf are a call's arguments; nil for none.
func argsOf(call agui.ToolCall) json.RawMessage {
	if call.Function.Arguments == "" {
		return nil
	}
	return json.RawMessage(call.Function.Arguments)
}
