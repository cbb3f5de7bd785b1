// This file handles the ends of a run: RUN_FINISHED, and the calls and interrupts that a run waits for when it ends. The
// engine settles Questions; this package only gives them their form (interrupt.go).

package aguiagent

import (
	"encoding/json"
	"slices"

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

// calls holds the tool calls without a result, by key and in the order in which they began. given are the calls among them
// that came with the history; mine are all calls that this run has shown or answered. newest are the calls of the history
// since the newest user message: the run continues them, and may replace the result of one.
type calls struct {
	open    []string
	given   map[string]bool
	newest  map[string]bool
	settled map[string]bool // given ones that have their result
	mine    map[string]bool
}

// unanswered takes in the calls of a history.
func (c *calls) unanswered(history []agui.Message) {
	c.given, c.newest, c.settled, c.mine = make(map[string]bool), make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for i := range history { // in their order: a later call may have the id of one that has its result
		if history[i].Role == agui.RoleUser {
			clear(c.newest)
		}
		for _, call := range history[i].ToolCalls {
			c.given[call.ID], c.newest[call.ID] = true, true
		}
		if history[i].Role == agui.RoleTool {
			delete(c.given, history[i].ToolCallID)
		}
	}
}

func (c *calls) isGiven(id string) bool { return c.given[id] }

// takesResult reports whether a result belongs to the call of its id in the history. Agno first sends a result for a call
// that the page has confirmed.
func (c *calls) takesResult(id string) bool { return c.given[id] || c.newest[id] }

// note takes in an event of this run.
func (c *calls) note(ev agui.Event) {
	switch e := ev.(type) {
	case *agui.ToolCallStart:
		c.open, c.mine[e.ToolCallID] = append(c.open, e.ToolCallID), true
		delete(c.given, e.ToolCallID) // a result under this id is the new call's from now on
	case *agui.ToolCallResult:
		c.mine[e.ToolCallID] = true
		c.settled[e.ToolCallID] = c.settled[e.ToolCallID] || c.takesResult(e.ToolCallID)
		delete(c.given, e.ToolCallID)
		c.drop(e.ToolCallID)
	}
}

// drop removes a waiting call of this run.
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
	// An interrupt outcome lists everything that the run waits for, so CUSTOM on_interrupt only repeats it.
	if e.Outcome == nil {
		for _, i := range t.asks.custom {
			covered[i.ID], covered[i.ToolCallID] = true, true
			q := t.asks.question(i.Interrupt)
			if q.Kind != approval.AskClientTool {
				q.Event = i.value
			}
			dst = t.ask(dst, end, asked{t.runID, askedByCustom, i.ID}, q)
		}
	}
	for _, i := range outcome.Interrupts {
		covered[i.ID], covered[i.ToolCallID] = true, true
		dst = t.ask(dst, end, asked{t.runID, askedByInterrupt, i.ID}, t.asks.question(i))
	}
	for _, id := range t.pending.open {
		call, _ := t.call(id)
		if !covered[id] && (t.tools[call.Function.Name] || slices.Contains(outcome.PendingToolCallIDs, id)) {
			dst = t.ask(dst, end, asked{t.runID, askedByCall, id}, t.asks.clientTool(call))
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

// argsOf are a call's arguments; nil for none.
func argsOf(call agui.ToolCall) json.RawMessage {
	if call.Function.Arguments == "" {
		return nil
	}
	return json.RawMessage(call.Function.Arguments)
}
