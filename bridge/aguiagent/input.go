// This file makes the RunAgentInput of a call. It is what an official client would send for the same conversation, so
// an agent needs nothing for us that it does not have for those.

package aguiagent

import (
	"encoding/json"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// Call is one call of the agent: what it is sent, and the Translator of what it answers.
type Call struct {
	Body       []byte // a RunAgentInput
	Translator *Translator
	// Cancelled is set if the agent must not be called: no person answered its question, and it accepts nothing else.
	Cancelled bool
}

// Prompt calls the agent for a new Turn, or again with the answers to what it asked.
//
// threadId is the Session as this agent knows it, which stays the same whatever a client calls the thread. The conversation
// is sent whole, as the official clients send it.
func Prompt(call bridge.Call, deliveries []approval.Delivery) Call {
	runID := call.TurnID
	if len(deliveries) > 0 {
		runID = bridge.NewCallID(call.TurnID)
	}
	n := newNames(call.TurnID, runID)
	if call.InstanceID != call.SessionID {
		n.agent = call.AgentID
	}
	given := answersOf(deliveries)
	history, decided := n.history(call.Messages, call.AgentID, call.Tools)
	history = given.answered(history)
	var open map[string]bool
	if len(deliveries) > 0 || call.Input().Role == agui.RoleTool { // a tool message may answer an agent that asks by a call of its own
		open = agui.CallsOfTurn(history)
	}
	fit := agui.Fit(withDecided(history, decided, open), call.Tools, open)
	n.functions = fit.Names
	in := agui.RunAgentInput{
		ThreadID: call.InstanceID, RunID: runID, ParentRunID: given.runID, ProtocolVersion: agui.Version, State: stateOf(call.State),
		Messages: fit.Messages, Tools: fit.Tools, Context: call.Context,
		ForwardedProps: given.command(call.ForwardedProps), Resume: given.resume,
	}
	if in.Tools == nil {
		in.Tools = []agui.Tool{} // both lists are required before 1.0
	}
	if in.Context == nil {
		in.Context = []agui.Context{}
	}
	if in.ForwardedProps == nil {
		in.ForwardedProps = json.RawMessage("{}")
	}
	t := newTranslator(n, runID, in.Messages, in.Tools)
	t.pending.unanswered(history) // the agent's result replaces the one that was made up
	return Call{Body: in.AppendJSON(nil), Translator: t, Cancelled: given.cancelled()}
}

// stateOf is the shared state; {} for none, since agents read members of it.
func stateOf(state json.RawMessage) json.RawMessage {
	if len(state) == 0 || string(state) == "null" {
		return json.RawMessage("{}")
	}
	return state
}

// answered puts what the client's tools gave behind the calls, where the transcript has it not yet.
func (a answers) answered(history []agui.Message) []agui.Message {
	has := make(map[string]bool)
	for i := range history {
		if history[i].Role == agui.RoleTool {
			has[history[i].ToolCallID] = true
		}
	}
	for _, m := range a.messages {
		if !has[m.ToolCallID] {
			history = append(history, m)
		}
	}
	return history
}
