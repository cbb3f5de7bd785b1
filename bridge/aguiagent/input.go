// This file makes the RunAgentInput of a call. It is what an official client would send for the same conversation, so
// an agent needs nothing for us that it does not have for those.

package aguiagent

import (
	"encoding/json"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/bridge"
	"aqueduct/bridge/approval"
)

// Call is one call of the agent: what it is sent, and the Translator of what it answers.
type Call struct {
	Body       []byte // a RunAgentInput
	Translator *Translator
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
	history := given.answered(n.history(call.Messages, call.AgentID))
	fit := agui.Fit(history, call.Tools, given.open(history))
	n.functions = fit.Names
	in := agui.RunAgentInput{
		ThreadID: call.InstanceID, RunID: runID, ParentRunID: given.runID, ProtocolVersion: agui.Version, State: stateOf(call.State),
		Messages: fit.Messages, Tools: fit.Tools, Context: call.Context,
		ForwardedProps: call.ForwardedProps, Resume: given.resume,
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
	t.pending.unanswered(history) // a result that the agent has is taken in place of the one that was made up
	return Call{Body: in.AppendJSON(nil), Translator: t}
}

// open are the calls of the Turn that have no result while the agent gets answers: one of them may be what an interrupt is
// about, and the agent runs it then.
func (a answers) open(history []agui.Message) map[string]bool {
	if len(a.resume) == 0 {
		return nil
	}
	open := make(map[string]bool)
	for i := len(history) - 1; i >= 0 && history[i].Role != agui.RoleUser; i-- {
		for _, call := range history[i].ToolCalls {
			open[call.ID] = true
		}
	}
	return open
}

// stateOf is the shared state; {} for none, since agents read members of it.
func stateOf(state json.RawMessage) json.RawMessage {
	if len(state) == 0 || string(state) == "null" {
		return json.RawMessage("{}")
	}
	return state
}

// answers are what a call brings: entries of resume for interrupts, tool messages for calls of the client's tools.
type answers struct {
	runID    string // the run that asked
	resume   []agui.ResumeEntry
	messages []agui.Message
}

// A cancelled or expired answer goes out as an entry of resume, whose status reports it. It must never be the value of
// forwardedProps.command.resume: a graph takes any value of that for a person's answer. An agent that takes nothing else is
// not called for it; its Turn ends as cancelled.

// answersOf sorts what was decided by how the agent asked (asked.kind). Where they are of several runs of the agent,
// the last one's is the parent.
func answersOf(deliveries []approval.Delivery) (a answers) {
	for _, d := range deliveries {
		is := parseAsked(d.UpstreamID)
		switch {
		case d.Repeated: // the interrupt is settled: naming it again would be an error of AG-UI
			continue
		case is.kind == "": // a call of a tool, which waited when the agent's call was lost
			is = asked{a.runID, askedByInterrupt, d.UpstreamID}
		}
		a.runID = is.runID
		if is.kind == askedByCall {
			a.messages = append(a.messages, toolMessage(ownID(is.id), d))
			continue
		}
		entry := agui.ResumeEntry{InterruptID: is.id, Status: d.Status, Payload: payloadOf(d)}
		if d.Reason != "" {
			entry.Metadata, _ = json.Marshal(map[string]string{"reason": d.Reason}) // a map of strings always encodes
		}
		a.resume = append(a.resume, entry)
	}
	return a
}

// payloadOf is the payload of an entry of resume: for a permission {"approved"}, which is AG-UI's convention, and nothing
// more, as an agent's schema may allow no other member; for the result of a client's tool the result itself.
func payloadOf(d approval.Delivery) json.RawMessage {
	if d.Status == agui.ResumeCancelled {
		return nil
	}
	switch d.Kind {
	case approval.AskPermission:
		var decided struct {
			Approved bool `json:"approved"`
		}
		_ = json.Unmarshal(d.Payload, &decided) // one that cannot be read approves nothing
		payload, _ := json.Marshal(decided)     // a bool always encodes
		return payload
	case approval.AskClientTool:
		content, _ := toolResult(d)
		if json.Valid([]byte(content)) {
			return json.RawMessage(content)
		}
		text, _ := json.Marshal(content) // a string always encodes
		return text
	case approval.AskInput:
	}
	return d.Payload
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

func toolMessage(callID string, d approval.Delivery) agui.Message {
	content, failure := toolResult(d)
	return agui.Message{
		ID: uuid.Must(uuid.NewV7()).String(), Role: agui.RoleTool, ToolCallID: callID, Content: agui.Text(content), Error: failure,
	}
}

// toolResult is what a client's tool gave, as text, and why it gave nothing.
func toolResult(d approval.Delivery) (content, failure string) {
	var payload struct {
		Content *string `json:"content"`
	}
	switch {
	case d.Reason != "":
		return "The tool was not run in time.", d.Reason
	case d.Status == agui.ResumeCancelled:
		return "The tool was not run.", "cancelled"
	case json.Unmarshal(d.Payload, &payload) == nil && payload.Content != nil:
		return *payload.Content, ""
	}
	return string(d.Payload), "client_tool_failed"
}
