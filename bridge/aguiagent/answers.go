// This file gives the agent the answers to its questions, in the form in which it asked.

package aguiagent

import (
	"encoding/json"

	"github.com/google/uuid"

	"aqueduct/agui"
	"aqueduct/bridge/approval"
)

// answers holds the answers that a call brings: entries of resume for interrupts, tool messages for calls of the client's
// tools, and values of forwardedProps.command.resume for CUSTOM on_interrupt.
type answers struct {
	runID    string // the run that asked
	resume   []agui.ResumeEntry
	messages []agui.Message
	commands []approval.Delivery // that a person answered
	custom   int                 // answers to on_interrupt, cancelled ones too
}

// A cancelled or expired answer is sent as an entry of resume, whose status reports it. It must never be the value of
// forwardedProps.command.resume, because a graph takes any value there for a person's answer. An agent that accepts nothing
// else is not called, and its Turn ends as cancelled.

// answersOf sorts decisions by how the agent asked (asked.kind). If they belong to several runs of the agent, the last run is
// the parent.
func answersOf(deliveries []approval.Delivery) (a answers) {
	for _, d := range deliveries {
		is := parseAsked(d.UpstreamID)
		switch {
		case d.Repeated: // the interrupt is settled: naming it again would be an error of AG-UI
			continue
		case is.kind == "": // a call of a tool that waited when the agent's call was lost
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
		if is.kind == askedByCustom {
			a.custom++
			if d.Status == agui.ResumeResolved {
				d.UpstreamID, d.Payload = is.id, entry.Payload
				a.commands = append(a.commands, d)
			}
			entry.Payload = approval.Unwrapped(entry.Payload) // as the adapters read a text of command.resume
		}
		a.resume = append(a.resume, entry)
	}
	return a
}

// cancelled reports whether the call would bring only answers to on_interrupt that no person gave.
func (a answers) cancelled() bool {
	return a.custom > 0 && len(a.commands) == 0 && a.custom == len(a.resume) && len(a.messages) == 0
}

// command adds the answers to on_interrupt to forwardedProps, as CopilotKit's clients send them: {command: {resume,
// interruptEvent}}. Several answers are a map by the interrupts' ids, the form in which LangGraph resumes several.
func (a answers) command(props json.RawMessage) json.RawMessage {
	if len(a.commands) == 0 && len(a.resume)+len(a.messages) > 0 { // one that began the Turn has been read
		return withoutMember(props, "command")
	}
	if len(a.commands) == 0 {
		return props
	}
	command := memberOf(props, "command")
	one := a.commands[0]
	if len(a.commands) == 1 {
		command = withMember(withMember(command, "resume", one.Payload), "interruptEvent", one.Event)
	} else {
		var all json.RawMessage
		for _, d := range a.commands {
			all = withMember(all, d.UpstreamID, d.Payload)
		}
		command = withMember(command, "resume", all)
	}
	return withMember(props, "command", command)
}

// payloadOf returns the payload of an entry of resume. For a permission it is the answer under the names of the agent's
// schema, or only {"approved"}, AG-UI's convention, without a schema. For a client's tool it is the result itself.
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
		offer, ok := approval.OfferOf(d.Schema)
		if !ok {
			offer = approval.Offer{Approved: "approved"}
		}
		var edited json.RawMessage
		if d.Edited && decided.Approved {
			edited = d.Args
		}
		return offer.Answer(decided.Approved, edited, d.Args, d.Words)
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

func toolMessage(callID string, d approval.Delivery) agui.Message {
	content, failure := toolResult(d)
	return agui.Message{
		ID: uuid.Must(uuid.NewV7()).String(), Role: agui.RoleTool, ToolCallID: callID, Content: agui.Text(content), Error: failure,
	}
}

// toolResult returns the result of a client's tool as text, or the reason why there is none. A page that did not answer may
// have run its tool.
func toolResult(d approval.Delivery) (content, failure string) {
	var payload struct {
		Content *string `json:"content"`
	}
	switch {
	case d.Reason != "":
		return "No result came in time.", d.Reason
	case d.Status == agui.ResumeCancelled:
		return "The call was cancelled before a result came.", "cancelled"
	case json.Unmarshal(d.Payload, &payload) == nil && payload.Content != nil:
		return *payload.Content, ""
	}
	return string(d.Payload), "client_tool_failed"
}
