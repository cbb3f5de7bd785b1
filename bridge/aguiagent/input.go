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
func Prompt(call bridge.Call, answers []approval.Delivery) Call {
	runID := call.TurnID
	if len(answers) > 0 {
		runID = uuid.Must(uuid.NewV7()).String()
	}
	n := newNames(call.TurnID, runID)
	in := agui.RunAgentInput{
		ThreadID: call.InstanceID, RunID: runID, ProtocolVersion: agui.Version, State: stateOf(call.State),
		Messages: answered(n.history(call.Messages, call.AgentID), answers), Tools: call.Tools, Context: call.Context,
		ForwardedProps: call.ForwardedProps, Resume: resumeOf(answers),
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
	return Call{Body: in.AppendJSON(nil), Translator: newTranslator(n, in.Messages, call.Tools)}
}

// stateOf is the shared state; {} for none, since agents read members of it.
func stateOf(state json.RawMessage) json.RawMessage {
	if len(state) == 0 || string(state) == "null" {
		return json.RawMessage("{}")
	}
	return state
}

// resumeOf are the answers to interrupts. What a client's tool gave is a tool message instead.
func resumeOf(answers []approval.Delivery) (list []agui.ResumeEntry) {
	for _, a := range answers {
		if a.Kind != approval.AskClientTool {
			list = append(list, agui.ResumeEntry{InterruptID: a.UpstreamID, Status: a.Status, Payload: a.Payload})
		}
	}
	return list
}

// answered puts what clients' tools gave behind the calls, where the transcript has it not yet.
func answered(history []agui.Message, answers []approval.Delivery) []agui.Message {
	has := make(map[string]bool)
	for i := range history {
		if history[i].Role == agui.RoleTool {
			has[history[i].ToolCallID] = true
		}
	}
	for _, a := range answers {
		if a.Kind != approval.AskClientTool || has[a.UpstreamID] {
			continue
		}
		m := agui.Message{ID: uuid.Must(uuid.NewV7()).String(), Role: agui.RoleTool, ToolCallID: a.UpstreamID}
		m.Content, m.Error = toolAnswer(a)
		history = append(history, m)
	}
	return agui.OrderResults(history)
}

// toolAnswer is a client's result as the content of a tool message.
func toolAnswer(a approval.Delivery) (content agui.Content, failure string) {
	var payload struct {
		Content *string `json:"content"`
	}
	switch {
	case a.Status == agui.ResumeCancelled:
		return agui.Text("The tool was not run."), "cancelled"
	case json.Unmarshal(a.Payload, &payload) == nil && payload.Content != nil:
		return agui.Text(*payload.Content), ""
	}
	return agui.Text(string(a.Payload)), "client_tool_failed"
}
