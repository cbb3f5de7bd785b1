// This file puts each kind of event under our ids. It changes the event in place: an event belongs to the translator
// from its decoding on. A kind that is not named here is refused: it would stand in the log under the agent's own ids.

package aguiagent

import (
	"fmt"

	"aqueduct/agui"
	"aqueduct/bridge"
)

// unknownEventError reports a kind of event for which this file has no rule.
type unknownEventError struct{ is agui.Type }

func (e *unknownEventError) Error() string {
	return fmt.Sprintf("no rule maps the ids of %s to ours", e.is)
}

// event is an event of the agent under our ids. The types come in the order of how often they do, deltas first. A START
// keeps the agent's own id in its metadata: with the next prompt the agent gets it back (input.go).
func (n *names) event(ev agui.Event) error {
	switch e := ev.(type) {
	case *agui.TextMessageContent:
		e.Sub, e.MessageID = n.lane(e.Sub), n.message(e.MessageID)
	case *agui.ToolCallArgs:
		e.Sub, e.ToolCallID = n.lane(e.Sub), n.call(e.ToolCallID)
	case *agui.ReasoningMessageContent:
		e.Sub, e.MessageID = n.lane(e.Sub), n.reasoning(e.MessageID)
	case *agui.TextMessageStart:
		e.Sub, e.Metadata = n.lane(e.Sub), annotate(e.Metadata, n.ownMessage(e.MessageID))
		n.begun[e.MessageID] = true
		e.MessageID = n.newMessage(e.MessageID)
	case *agui.TextMessageEnd:
		e.Sub, e.MessageID = n.lane(e.Sub), n.message(e.MessageID)
	case *agui.ToolCallStart:
		n.toolCallStart(e)
	case *agui.ToolCallEnd:
		e.Sub, e.ToolCallID = n.lane(e.Sub), n.call(e.ToolCallID)
	case *agui.ToolCallResult:
		n.results[e.MessageID] = true
		e.Sub, e.Metadata = n.lane(e.Sub), annotate(e.Metadata, n.ownMessage(e.MessageID))
		e.MessageID, e.ToolCallID = n.result(e.ToolCallID, e.MessageID), n.call(e.ToolCallID)
	default:
		return n.rare(ev)
	}
	return nil
}

// toolCallStart returns the event for the START of a call. A message with only calls has no START of its own, so its calls
// carry its own id. Clients put a call without a message into one under the id of the call.
func (n *names) toolCallStart(e *agui.ToolCallStart) {
	ids := own{ToolCallID: ownID(e.ToolCallID), Agent: n.agent}
	switch {
	case e.ParentMessageID == "":
		ids.MessageID = ids.ToolCallID
	case !n.begun[e.ParentMessageID]:
		of := n.ownMessage(e.ParentMessageID)
		ids.MessageID, ids.Again = of.MessageID, of.Again
	}
	e.Sub, e.Metadata = n.lane(e.Sub), annotate(e.Metadata, ids)
	e.ToolCallID, e.ToolCallName = n.newCall(e.ToolCallID), shownTool(n.functions.Own(e.ToolCallName))
	if e.ParentMessageID != "" {
		e.ParentMessageID = n.message(e.ParentMessageID)
	}
}

// rare is event for the types that streams have few of. Those without an id of their own only change lanes.
func (n *names) rare(ev agui.Event) error {
	switch e := ev.(type) {
	case *agui.ReasoningStart:
		e.Sub, e.MessageID = n.lane(e.Sub), n.reasoning(e.MessageID)
	case *agui.ReasoningMessageStart:
		e.Sub, e.Metadata = n.lane(e.Sub), annotate(e.Metadata, n.ownMessage(e.MessageID))
		n.thoughts[e.MessageID] = true
		e.MessageID = n.reasoning(e.MessageID)
	case *agui.ReasoningMessageEnd:
		e.Sub, e.MessageID = n.lane(e.Sub), n.reasoning(e.MessageID)
	case *agui.ReasoningEnd:
		e.Sub, e.MessageID = n.lane(e.Sub), n.reasoning(e.MessageID)
	case *agui.ReasoningEncryptedValue:
		e.Sub, e.EntityID = n.lane(e.Sub), n.entity(e)
	case *agui.ActivitySnapshot:
		e.Sub, e.MessageID = n.lane(e.Sub), n.activity(e.MessageID)
	case *agui.ActivityDelta:
		e.Sub, e.MessageID = n.lane(e.Sub), n.activity(e.MessageID)
	case *agui.StepStarted:
		e.Sub = n.lane(e.Sub)
	case *agui.StepFinished:
		e.Sub = n.lane(e.Sub)
	case *agui.StateSnapshot:
		e.Sub = n.lane(e.Sub)
	case *agui.StateDelta:
		e.Sub = n.lane(e.Sub)
	case *agui.Raw:
		e.Sub = n.lane(e.Sub)
	case *agui.Custom:
		e.Sub, e.Name = n.lane(e.Sub), bridge.AgentsEvent(e.Name)
	case *agui.SubagentStarted:
		n.subagentStarted(e)
	case *agui.SubagentFinished:
		e.Sub = n.lane(e.Sub)
		if e.Outcome != nil {
			for i, id := range e.Outcome.InterruptIDs {
				e.Outcome.InterruptIDs[i] = n.question(id)
			}
		}
	case *agui.SubagentError:
		e.Sub = n.lane(e.Sub)
	default:
		return &unknownEventError{ev.EventType()}
	}
	return nil
}

// subagentStarted puts a subagent under our ids, with what it was started by.
func (n *names) subagentStarted(e *agui.SubagentStarted) {
	e.Sub = n.lane(e.Sub)
	e.ParentSubagentRunID = n.subagent(e.ParentSubagentRunID)
	if e.ParentToolCallID != "" {
		e.ParentToolCallID = n.call(e.ParentToolCallID)
	}
	if e.ParentMessageID != "" {
		e.ParentMessageID = n.message(e.ParentMessageID)
	}
}

// entity is what an encrypted value belongs to: a call, or a message, which mostly is a reasoning message of this run. Where
// a thought and the answer have one id, it is the thought's.
func (n *names) entity(e *agui.ReasoningEncryptedValue) string {
	if e.Subtype == "tool-call" {
		return n.call(e.EntityID)
	}
	if id, ok := n.messages[e.EntityID]; ok && !n.thoughts[e.EntityID] {
		return id
	}
	return n.reasoning(e.EntityID)
}
